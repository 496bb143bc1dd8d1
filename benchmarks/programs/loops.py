"""Loops as people write them around a model: progress bars, meters, logs, schedulers, routing."""
from __future__ import annotations

import io
import logging
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from .program import Compile, Step, make_generator, program
from .training import batch


class Meter:
    """A running mean, as in torch's examples."""

    def __init__(self, name: str) -> None:
        self.name, self.sum, self.count, self.avg, self.val = name, 0.0, 0, 0.0, 0.0

    def update(self, value: float, n: int = 1) -> None:
        self.val = value
        self.sum += value * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self) -> str:
        return f"{self.name} {self.val:.4f} ({self.avg:.4f})"


@program("an epoch with tqdm, a meter and a logger, compiled whole", "tqdm")
def epoch(compile: Compile) -> Step:
    from tqdm import tqdm  # noqa: PLC0415 - may not be installed

    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    log = logging.getLogger("benchmarks.programs")

    @compile
    def train_one_epoch(batches: list[Any], number: int) -> float:
        model.train()
        losses = Meter("loss")
        for index, (x, y) in enumerate(tqdm(batches, file=io.StringIO())):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.update(loss.item(), x.size(0))
            if index % 2 == 0:
                log.info("epoch %d [%d/%d] %s", number, index, len(batches), losses)
        return losses.avg

    def step(number: int) -> Any:
        return train_one_epoch([batch(10 * number + index) for index in range(5)], number)

    return step


@program("mixture of experts, routed by value")
def experts(compile: Compile) -> Step:
    class Routed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(32, 4)
            self.experts = nn.ModuleList(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weights, chosen = self.gate(x).softmax(-1).topk(2)
            result = torch.zeros_like(x)
            for number, expert in enumerate(self.experts):
                rows, place = torch.where(chosen == number)
                result.index_add_(0, rows, weights[rows, place, None] * expert(x[rows]))
            return result

    model = compile(Routed())
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def step(number: int) -> Any:
        x = torch.randn(64, 32, generator=make_generator(number))
        loss = (model(x) - x.flip(-1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@program("diffusion: denoising loop with a scheduler", "diffusers")
def diffusion(compile: Compile) -> Step:
    from diffusers import DDIMScheduler, UNet2DModel  # noqa: PLC0415 - may not be installed

    net = compile(UNet2DModel(
        sample_size=16, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ).eval())  # fmt: skip
    scheduler = DDIMScheduler(num_train_timesteps=100)

    @torch.no_grad()
    def step(number: int) -> Any:
        x = torch.randn(1, 1, 16, 16, generator=make_generator(number))
        scheduler.set_timesteps(4)
        for time in scheduler.timesteps:
            x = scheduler.step(net(x, time).sample, time, x).prev_sample
        return x

    return step


@program("diffusion: a pipeline of the library", "diffusers")
def pipeline(compile: Compile) -> Step:
    from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel  # noqa: PLC0415 - may not be installed

    net = UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
    ).eval()  # fmt: skip
    net.forward = compile(net.forward)
    made = DDPMPipeline(net, DDPMScheduler(num_train_timesteps=50))
    made.set_progress_bar_config(disable=True)

    def step(number: int) -> Any:
        generator = make_generator(number)
        images = made(batch_size=1 + number % 2, num_inference_steps=4, output_type="np", generator=generator).images
        return torch.as_tensor(images)

    return step


@program("scheduler compiled with its loop", "diffusers")
def scheduler_loop(compile: Compile) -> Step:
    from diffusers import EulerDiscreteScheduler  # noqa: PLC0415 - may not be installed

    net, scheduler = nn.Sequential(nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 8)), EulerDiscreteScheduler()

    @compile
    @torch.no_grad()
    def sample(x: torch.Tensor) -> torch.Tensor:
        scheduler.set_timesteps(5)
        x = x * scheduler.init_noise_sigma
        for time in scheduler.timesteps:
            x = scheduler.step(net(scheduler.scale_model_input(x, time)), time, x).prev_sample
        return x

    def step(number: int) -> Any:
        return sample(torch.randn(4, 8, generator=make_generator(number)))

    return step


@program("detection: boxes of varying numbers, matching and non-maximum suppression in Python")
def detection(compile: Compile) -> Step:
    class Detector(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 5, 3, 2, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x).flatten(2).transpose(1, 2)

    def overlap(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        low, high = torch.max(one[:, None, :2], other[:, :2]), torch.min(one[:, None, 2:], other[:, 2:])
        common = (high - low).clamp(min=0).prod(-1)
        areas = [(boxes[:, 2:] - boxes[:, :2]).clamp(min=0).prod(-1) for boxes in (one, other)]
        return common / (areas[0][:, None] + areas[1] - common + 1e-6)

    model = compile(Detector())
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)

    @compile
    def loss_of(found: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        centre = found[:, :4].sigmoid()
        made = torch.cat([centre[:, :2] - 0.1, centre[:, 2:] + 0.1], -1)
        quality, match = overlap(made, boxes).max(1)
        good = quality > 0.05
        score = F.binary_cross_entropy_with_logits(found[:, 4], good.float())
        if good.any():
            score = score + F.l1_loss(made[good], boxes[match[good]])
        return score

    def step(number: int) -> Any:
        generator = make_generator(number)
        image = torch.randn(1, 3, 32, 32, generator=generator)
        low = torch.rand(1 + number % 6, 2, generator=generator) / 2
        loss = loss_of(model(image)[0], torch.cat([low, low + 0.4], -1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@program("convolutional network over images of varying sizes")
def varying_images(compile: Compile) -> Step:
    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
            self.norm = nn.BatchNorm2d(width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.relu(x + self.norm(self.second(F.relu(self.first(x)))))

    net = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), *(Block(16) for _ in range(3)), nn.Conv2d(16, 8, 1)).eval()
    model = compile(net)

    @torch.no_grad()
    def step(number: int) -> Any:
        generator = make_generator(number)
        height, width = (8 * int(size) for size in torch.randint(3, 9, (2,), generator=generator))
        found = model(torch.randn(1, 3, height, width, generator=generator))
        return F.interpolate(found, size=(height, width), mode="bilinear").mean((2, 3))

    return step
