"""Solvers, processes and probabilistic programs."""
from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .program import Compile, Step, make_generator, program


@program("neural ODE, solver compiled whole", "torchdiffeq")
def neural_ode(compile: Compile) -> Step:
    from torchdiffeq import odeint  # noqa: PLC0415 - may not be installed

    field = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(field.parameters(), 1e-2)
    times = torch.linspace(0, 1, 5)

    @compile
    def solve(start: torch.Tensor) -> torch.Tensor:
        return odeint(lambda t, y: field(y), start, times, method="dopri5", rtol=1e-3, atol=1e-4)

    def step(number: int) -> Any:
        start = torch.randn(16, 2, generator=make_generator(number))
        loss = (solve(start)[-1] - start.flip(-1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@program("Gaussian process regression", "gpytorch")
def gaussian_process(compile: Compile) -> Step:
    import gpytorch  # noqa: PLC0415 - may not be installed

    class Process(gpytorch.models.ExactGP):
        def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x = torch.linspace(0, 1, 40)
    y = torch.sin(6 * x)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Process(x, y, likelihood).train()
    model.forward = compile(model.forward)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)

    def step(number: int) -> Any:
        optimizer.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@program("variational inference with Pyro", "pyro")
def pyro_svi(compile: Compile) -> Step:
    import pyro  # noqa: PLC0415 - may not be installed
    import pyro.distributions as dist  # noqa: PLC0415 - may not be installed

    pyro.clear_param_store()
    net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    net = compile(net)

    def model(x: torch.Tensor, y: torch.Tensor) -> None:
        noise = pyro.sample("noise", dist.LogNormal(0.0, 1.0))
        with pyro.plate("data", len(x)):
            pyro.sample("y", dist.Normal(net(x).squeeze(-1), noise), obs=y)

    def guide(x: torch.Tensor, y: torch.Tensor) -> None:
        place = pyro.param("place", torch.tensor(0.0))
        pyro.sample("noise", dist.LogNormal(place, 0.1))

    inference = pyro.infer.SVI(model, guide, pyro.optim.Adam({"lr": 0.01}), pyro.infer.Trace_ELBO())

    def step(number: int) -> Any:
        torch.manual_seed(number)
        x = torch.randn(20, 3)
        return inference.step(x, x.sum(-1))

    return step


@program("physics-informed network: derivatives of its output in the loss")
def physics(compile: Compile) -> Step:
    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    net = compile(net)

    def step(number: int) -> Any:
        """The heat equation on random points."""
        points = torch.rand(64, 2, generator=make_generator(number)).requires_grad_()
        u = net(points)
        slopes = torch.autograd.grad(u.sum(), points, create_graph=True)[0]
        second = torch.autograd.grad(slopes[:, 0].sum(), points, create_graph=True)[0][:, 0]
        start = torch.cat([points[:, :1].detach(), torch.zeros(64, 1)], 1)
        loss = (slopes[:, 1] - 0.1 * second).square().mean() + (net(start).squeeze(-1) - (3 * start[:, 0]).sin()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
