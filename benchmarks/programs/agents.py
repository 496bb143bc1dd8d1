"""Reinforcement learning."""
from __future__ import annotations

import random
from itertools import accumulate
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from .program import Compile, Step, program


@program("DQN with a replay buffer", "gymnasium")
def dqn(compile: Compile) -> Step:
    import gymnasium  # noqa: PLC0415 - may not be installed

    world = gymnasium.make("CartPole-v1")
    net, target = (nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2)) for _ in range(2))
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    net, target = compile(net), compile(target)
    replay: list[Any] = []
    chance = random.Random(0)
    state, _ = world.reset(seed=0)

    def step(number: int) -> Any:
        nonlocal state
        for _ in range(10):
            with torch.no_grad():
                action = int(net(torch.as_tensor(state)).argmax()) if chance.random() > 0.2 else chance.randrange(2)
            following, reward, ended, cut, _ = world.step(action)
            replay.append((torch.as_tensor(state), action, float(reward), torch.as_tensor(following), float(ended)))
            state = world.reset(seed=number)[0] if ended or cut else following
        states, actions, rewards, followings, ends = zip(*chance.sample(replay, min(32, len(replay))), strict=True)
        with torch.no_grad():
            wanted = torch.tensor(rewards) + 0.99 * target(torch.stack(followings)).max(1).values * (1 - torch.tensor(ends))
        values = net(torch.stack(states)).gather(1, torch.tensor(actions)[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(values, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % 10 == 9:
            target.load_state_dict(net.state_dict())
        return loss.detach()

    return step


@program("PPO on CartPole", "gymnasium")
def ppo(compile: Compile) -> Step:
    import gymnasium  # noqa: PLC0415 - may not be installed

    world = gymnasium.make("CartPole-v1")
    actor, critic = (nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, size)) for size in (2, 1))
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], 3e-3)
    state, _ = world.reset(seed=0)

    @compile
    def loss_of(states: torch.Tensor, actions: torch.Tensor, old: torch.Tensor, returns: torch.Tensor) -> torch.Tensor:
        chances = torch.distributions.Categorical(logits=actor(states))
        values = critic(states).squeeze(-1)
        gains = returns - values.detach()
        ratio = (chances.log_prob(actions) - old).exp()
        clipped = torch.min(ratio * gains, ratio.clamp(0.8, 1.2) * gains)
        return -clipped.mean() + 0.5 * F.mse_loss(values, returns) - 0.01 * chances.entropy().mean()

    def step(number: int) -> Any:
        nonlocal state
        torch.manual_seed(number)
        states, actions, logs, rewards = [], [], [], []
        for _ in range(20):
            seen = torch.as_tensor(state)
            with torch.no_grad():
                chances = torch.distributions.Categorical(logits=actor(seen))
                action = chances.sample()
            state, reward, ended, cut, _ = world.step(int(action))
            states.append(seen)
            actions.append(action)
            logs.append(chances.log_prob(action))
            rewards.append(float(reward))
            if ended or cut:
                state, _ = world.reset(seed=number)
        returns = list(accumulate(reversed(rewards), lambda total, reward: reward + 0.99 * total))[::-1]
        for _ in range(2):
            loss = loss_of(torch.stack(states), torch.stack(actions), torch.stack(logs), torch.tensor(returns))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.detach()

    return step
