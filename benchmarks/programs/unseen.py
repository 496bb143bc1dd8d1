"""Programs that were written when framejit was done with the others, and ran once: what people meet whose program nobody looked at."""
from __future__ import annotations

import random
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from .program import Compile, Step, make_generator, program


@program("unseen: sequence to sequence with attention and teacher forcing by chance")
def translation(compile: Compile) -> Step:
    chance = random.Random(1)

    class Translator(nn.Module):
        def __init__(self, words: int = 60, width: int = 48) -> None:
            super().__init__()
            self.source, self.target = nn.Embedding(words, width), nn.Embedding(words, width)
            self.encoder, self.decoder = nn.GRU(width, width, batch_first=True), nn.GRUCell(2 * width, width)
            self.head = nn.Linear(2 * width, words)

        def forward(self, source: torch.Tensor, target: torch.Tensor, forcing: float) -> torch.Tensor:
            memory, state = self.encoder(self.source(source))
            state, token, scores = state[0], target[:, 0], []
            for place in range(1, target.shape[1]):
                weights = torch.bmm(memory, state[:, :, None]).squeeze(-1).softmax(-1)
                context = (weights[:, :, None] * memory).sum(1)
                state = self.decoder(torch.cat([self.target(token), context], -1), state)
                logits = self.head(torch.cat([state, context], -1))
                scores.append(logits)
                token = target[:, place] if chance.random() < forcing else logits.argmax(-1)
            return torch.stack(scores, 1)

    model = compile(Translator())
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)

    def step(number: int) -> Any:
        generator = make_generator(number)
        source = torch.randint(1, 60, (8, 5 + number % 4), generator=generator)
        target = torch.cat([torch.zeros(8, 1, dtype=torch.long), source.flip(1)], 1)
        loss = F.cross_entropy(model(source, target, max(0.2, 1 - number / 40)).flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


@program("unseen: soft actor-critic on Pendulum", "gymnasium")
def soft_actor_critic(compile: Compile) -> Step:
    import gymnasium  # noqa: PLC0415 - may not be installed

    world = gymnasium.make("Pendulum-v1")

    def network(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))

    actor, critics, targets = network(3, 2), [network(4, 1) for _ in range(2)], [network(4, 1) for _ in range(2)]
    for critic, target in zip(critics, targets, strict=True):
        target.load_state_dict(critic.state_dict())
    of_actor = torch.optim.Adam(actor.parameters(), 3e-4)
    of_critics = torch.optim.Adam([p for critic in critics for p in critic.parameters()], 3e-4)
    memory: list[Any] = []
    chance = random.Random(0)
    seen, _ = world.reset(seed=0)

    def act(states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log = actor(states).chunk(2, -1)
        normal = torch.distributions.Normal(mean, log.clamp(-5, 2).exp())
        raw = normal.rsample()
        action = torch.tanh(raw)
        return action, (normal.log_prob(raw) - torch.log(1 - action.square() + 1e-6)).sum(-1)

    @compile
    def critics_loss(states: Any, actions: Any, rewards: Any, following: Any) -> torch.Tensor:
        with torch.no_grad():
            action, log = act(following)
            joined = torch.cat([following, action], -1)
            wanted = rewards + 0.99 * (torch.min(*(target(joined) for target in targets)).squeeze(-1) - 0.2 * log)
        joined = torch.cat([states, actions], -1)
        return sum(F.mse_loss(critic(joined).squeeze(-1), wanted) for critic in critics)  # type: ignore[return-value]

    @compile
    def actor_loss(states: Any) -> torch.Tensor:
        action, log = act(states)
        joined = torch.cat([states, action], -1)
        return (0.2 * log - torch.min(*(critic(joined) for critic in critics)).squeeze(-1)).mean()

    def step(number: int) -> Any:
        nonlocal seen
        torch.manual_seed(number)
        for _ in range(5):
            with torch.no_grad():
                action, _ = act(torch.as_tensor(seen)[None])
            following, reward, _, cut, _ = world.step(2 * action[0].cpu().numpy())
            memory.append((torch.as_tensor(seen), action[0], float(reward), torch.as_tensor(following)))
            seen = world.reset(seed=number)[0] if cut else following
        states, actions, rewards, followings = zip(*chance.sample(memory, min(len(memory), 32)), strict=True)
        batch = torch.stack(states), torch.stack(actions), torch.tensor(rewards), torch.stack(followings)
        loss = critics_loss(*batch)
        of_critics.zero_grad()
        loss.backward()
        of_critics.step()
        other = actor_loss(batch[0])
        of_actor.zero_grad()
        other.backward()
        of_actor.step()
        with torch.no_grad():
            for critic, target in zip(critics, targets, strict=True):
                for mine, its in zip(critic.parameters(), target.parameters(), strict=True):
                    its.lerp_(mine, 0.005)
        return loss.item(), other.item()

    return step


@program("unseen: style transfer with L-BFGS")
def style(compile: Compile) -> Step:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1),
    ).requires_grad_(False)  # fmt: skip

    def gram(x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(2)
        return flat @ flat.transpose(1, 2) / flat.shape[-1]

    @compile
    def difference(image: torch.Tensor, content: torch.Tensor, pattern: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(())
        for layer in net:
            image, content, pattern = layer(image), layer(content), layer(pattern)
            if isinstance(layer, nn.ReLU):
                total = total + F.mse_loss(gram(image), gram(pattern))
        return 1e4 * (total + 0.1 * F.mse_loss(image, content))

    generator = make_generator(0)
    content, pattern = torch.rand(2, 1, 3, 24, 24, generator=generator)
    image = content.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([image], lr=0.2, max_iter=4)

    def step(number: int) -> Any:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = difference(image, content, pattern)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        with torch.no_grad():
            image.clamp_(0, 1)
        return float(loss)

    return step


@program("unseen: Hamiltonian Monte Carlo written in Python")
def monte_carlo(compile: Compile) -> Step:
    x = torch.randn(60, 3, generator=make_generator(3))
    y = (x @ torch.tensor([1.0, -2.0, 0.5]) > 0).float()

    @compile
    def energy(place: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy_with_logits(x @ place, y, reduction="sum") + 0.5 * place.square().sum()

    @compile
    def slope(place: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(energy_of)(place)

    def energy_of(place: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy_with_logits(x @ place, y, reduction="sum") + 0.5 * place.square().sum()

    place, size, taken = torch.zeros(3), 0.1, 0

    def step(number: int) -> Any:
        nonlocal place, size, taken
        generator = make_generator(number)
        momentum = torch.randn(3, generator=generator)
        new, now = place, momentum - size / 2 * slope(place)
        for _ in range(5 + number % 3):
            new = new + size * now
            now = now - size * slope(new)
        now = now + size / 2 * slope(new)
        change = energy(place) + momentum.square().sum() / 2 - energy(new) - now.square().sum() / 2
        if torch.rand((), generator=generator).log() < change:
            place, taken = new, taken + 1
        size = size * (1.02 if taken > 0.8 * (number + 1) else 0.98)
        return place.clone(), taken, size

    return step


@program("unseen: recommender with bags of varying sizes and a ranking metric")
def recommender(compile: Compile) -> Step:
    class Ranker(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag, self.items = nn.EmbeddingBag(200, 32, mode="mean"), nn.Embedding(200, 32)
            self.mix = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Dropout(0.0), nn.Linear(64, 1))

        def forward(self, history: torch.Tensor, offsets: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
            user, seen = self.bag(history, offsets), self.items(item)
            return self.mix(torch.cat([user, seen, user * seen], -1)).squeeze(-1)

    model = compile(Ranker())
    optimizer = torch.optim.Adagrad(model.parameters(), 0.05)
    found: dict[str, list[float]] = {}

    def step(number: int) -> Any:
        generator = make_generator(number)
        sizes = torch.randint(1, 9, (16,), generator=generator)
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)[:-1]])
        history = torch.randint(0, 200, (int(sizes.sum()),), generator=generator)
        item, label = torch.randint(0, 200, (16,), generator=generator), torch.randint(0, 2, (16,), generator=generator)
        scores = model(history, offsets, item)
        loss = F.binary_cross_entropy_with_logits(scores, label.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        order = scores.detach().argsort(descending=True).tolist()
        gain = sum(label[place].item() / (rank + 1) for rank, place in enumerate(order[:5]))
        found.setdefault("gain", []).append(gain)
        return loss.item(), round(sum(found["gain"]) / len(found["gain"]), 6)

    return step
