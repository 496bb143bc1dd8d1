"""torch.distributions with their checks of arguments: one graph each; what the checks refuse is
refused as in eager."""

from __future__ import annotations

import pytest
import torch
from torch import distributions

from ...semantics.harness import check, vec

ONES = torch.ones(2)
MAKERS = {
    "normal": (lambda x: distributions.Normal(x, ONES), lambda x: x),
    "scalar normal": (lambda x: distributions.Normal(0.5, 1.0), lambda x: x),
    "categorical": (lambda x: distributions.Categorical(logits=x), lambda x: torch.tensor(1)),
    "bernoulli": (lambda x: distributions.Bernoulli(probs=x.sigmoid()), lambda x: ONES),
    "uniform": (lambda x: distributions.Uniform(0 * x, x + 1), lambda x: x / 2),
    "beta": (lambda x: distributions.Beta(x + 1, x + 1), lambda x: x / 4),
    "independent": (
        lambda x: distributions.Independent(distributions.Laplace(x, ONES), 1),
        lambda x: x,
    ),
    "mixture": (
        lambda x: distributions.MixtureSameFamily(
            distributions.Categorical(ONES), distributions.Normal(x, ONES)
        ),
        lambda x: x.sum(),
    ),
    "exponential": (lambda x: distributions.Exponential(x), lambda x: x),
    "multivariate": (lambda x: distributions.MultivariateNormal(x, torch.diag(x + 1)), lambda x: x),
    "multivariate by precision": (
        lambda x: distributions.MultivariateNormal(
            x, precision_matrix=torch.eye(2).expand(3, 2, 2)
        ),
        lambda x: x,
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_one_graph(name):
    make, value = MAKERS[name]

    def f(x):
        made = make(x)
        drawn = made.rsample() if made.has_rsample else made.sample()
        return drawn, made.sample((3,)), made.log_prob(value(x)), made.mean, made.variance

    check(f, vec(2), fullgraph=True)


def test_policy_gradient():
    def f(logits, advantage):
        policy = distributions.Categorical(logits=logits)
        action = policy.sample()
        return (
            action,
            -(policy.log_prob(action) * advantage).mean() - 0.01 * policy.entropy().mean(),
            policy.probs,
        )

    check(f, vec(3, 4, grad=True), vec(3), fullgraph=True, backward=True)


def test_divergences():
    def f(x):
        normal = distributions.kl_divergence(
            distributions.Normal(x, ONES), distributions.Normal(0 * x, ONES)
        )
        several = [distributions.MultivariateNormal(y, torch.eye(2) * 2) for y in (x, -x)]
        bernoulli = distributions.kl_divergence(
            distributions.Bernoulli(logits=x), distributions.Bernoulli(logits=-x)
        )
        return normal, bernoulli, distributions.kl_divergence(*several)

    check(f, vec(2), fullgraph=True)


def test_transformed():
    def f(x):
        made = distributions.TransformedDistribution(
            distributions.Normal(x, ONES), [distributions.TanhTransform()]
        )
        drawn = made.rsample()
        return drawn, made.log_prob(drawn.detach() * 0.5)

    check(f, vec(2), graphs=None, breaks=None)  # older ones make a weak reference


@pytest.mark.parametrize("make", [
    lambda x: distributions.Normal(x, -ONES).sample(),
    lambda x: distributions.Uniform(0 * x, 0 * x + 0.5).log_prob(x * 9),
    lambda x: distributions.Categorical(probs=x - 9).sample(),
    lambda x: distributions.kl_divergence(distributions.Normal(x, ONES), distributions.Categorical(logits=x)),
    lambda x: distributions.MultivariateNormal(x, torch.tensor([[1.0, 2.0], [3.0, 4.0]])),
    lambda x: distributions.MultivariateNormal(x, -torch.eye(2)),
    lambda x: distributions.MultivariateNormal(x, torch.ones(2, 3)),
])  # fmt: skip
def test_refused(make):
    check(lambda x: make(x), vec(2), graphs=None, breaks=None)


def test_new_tensors_by_size():
    def f(x):
        return x.new(2, 3).fill_(1), x.new(x.shape).zero_() + x, x.new().shape

    check(f, vec(2), fullgraph=True)


@pytest.mark.parametrize("scale", [1.0, -1.0])
def test_refused_and_caught(scale):
    def f(x, scale):
        try:
            made = distributions.Normal(x, ONES * scale)
        except ValueError as error:
            return str(error).partition(" ")[0], x
        try:
            spread = made.entropy()
        except NotImplementedError:
            spread = None
        return made.log_prob(x * 2), spread

    fine = scale > 0
    check(f, vec(2), scale, graphs=1 if fine else None, breaks=() if fine else None, again=fine)
