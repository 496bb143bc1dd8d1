"""`parameter.data = tensor` is captured: the graph runs on the new data, and the attribute is stored
after it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ...semantics.harness import strict_compile


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)
        self.register_buffer("kept", torch.ones(3, 3))

    def pairs(self):
        return zip(self.one.parameters(), self.other.parameters(), strict=True)


def average(m, x):
    for p, q in m.pairs():
        q.data = q.data * 0.9 + p.data * 0.1
    return x * 2


def average_without_gradients(m, x):
    with torch.no_grad():
        for p, q in m.pairs():
            q.data = q * 0.9 + p * 0.1
        return m.other(x)


def average_in_place(m, x):
    for p, q in m.pairs():
        q.data.mul_(0.9).add_(p.data, alpha=0.1)
    return m.other(x)


def subtract(m, x):
    for p in m.one.parameters():
        p.data -= 0.1 * p.data.sin()
        p.data *= 2
    return m.one(x)


def share(m, x):
    m.other.weight.data = m.one.weight.data
    m.one.weight.data.add_(1)
    return x, m.other.weight.data


def keep_old(m, x):
    old = m.one.weight.data
    m.one.weight.data = old * 2
    old.add_(5)
    return old, m.one.weight.data * 1


def twice(m, x):
    m.one.weight.data = m.one.weight.data + 1
    m.one.weight.data = m.one.weight.data * 3
    return m.one.weight.data.sum()


def transposed(m, x):
    m.kept.data = x.t().contiguous().t()
    return m.kept.stride(), m.kept + 1


def argument(m, x):
    m.kept.data = x
    return m.kept + 1, m.kept.data


def normalized_power(m, x):
    v = nn.functional.normalize(m.kept.data.t() @ m.one.bias.data, dim=0)
    m.kept.data = torch.outer(v, v)
    return m.kept @ v


def same_object(m, x):
    m.kept.data = x * 2
    return m.kept, m.kept is m._buffers["kept"], m.kept.shape, m.kept.dtype


def itself(m, x):
    m.kept.data = m.kept
    return m.kept.data + x


def taken_by_a_function(m, x):
    m.kept.data = x * 2
    return torch.utils.checkpoint.checkpoint(lambda k: k * m.one(x), m.kept, use_reentrant=False)


CAPTURED = [
    average, average_without_gradients, average_in_place, subtract, share, keep_old, twice,
    argument, normalized_power, same_object, itself, taken_by_a_function,
]  # fmt: skip


def used_with_gradients(m, x):
    m.one.weight.data = m.one.weight.data.clamp(-0.1, 0.1)
    return m.one(x)


def written_afterwards(m, x):
    m.kept.data = x * 2
    found = m.kept.add_(1)
    return found is m.kept, m.kept + 1


def other_shape(m, x):
    m.kept.data = torch.ones(2, 2) * x.sum()
    return m.kept + 1


def other_dtype(m, x):
    m.kept.data = x.double()
    return m.kept + 1


def made_inside(m, x):
    y = x * 2
    y.data = x + 1
    return y


def followed_by_a_break(m, x):
    m.kept.data = x * 2
    print(end="")
    return m.kept + 1


def stored_before_an_error(m, x):
    m.kept.data = x * 2
    try:
        x @ torch.ones(7)
    except RuntimeError:
        return m.kept + 1


BREAKING = [
    used_with_gradients, written_afterwards, other_shape, other_dtype, made_inside,
    followed_by_a_break, transposed, stored_before_an_error,
]  # fmt: skip


def tensors_in(found):
    parts = found if isinstance(found, tuple | list) else [found]
    return [part.detach().clone() if isinstance(part, torch.Tensor) else part for part in parts]


def outcome(program, call, calls):
    """Results, state, gradients, and which tensors share memory."""
    m, seen = Pair(), []
    for _ in range(calls):
        x = torch.arange(9.0).view(3, 3).requires_grad_(program in (used_with_gradients,))
        m.zero_grad()
        found = call(m, x)
        parts = [p for p in (found if isinstance(found, tuple) else [found])]
        tensors = [*parts, *m.state_dict(keep_vars=True).values(), x]
        tensors = [one for one in tensors if isinstance(one, torch.Tensor)]
        memory = [one.untyped_storage().data_ptr() for one in tensors]
        seen.append([memory.index(place) for place in memory])
        seen.append([(one.requires_grad, one.stride(), type(one)) for one in tensors])
        for part in parts:
            if isinstance(part, torch.Tensor) and part.requires_grad and part.grad_fn is not None:
                part.sum().backward(retain_graph=True)
        seen.append([None if p.grad is None else p.grad.clone() for p in (*m.parameters(), x)])
        seen.append(tensors_in(found) + tensors_in(list(m.state_dict().values())))
    return seen


def is_equal(one, other):
    """Equal, but for the last digits of what the native backend adds in another order."""
    if isinstance(one, torch.Tensor):
        return torch.allclose(one, other, rtol=1e-5, atol=1e-6)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    return one == other


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", [*CAPTURED, *BREAKING], ids=lambda f: f.__name__)
def test_results_state_and_gradients(program, backend):
    compiled = strict_compile(program, backend=backend)
    ours, eagers = outcome(program, compiled, 3), outcome(program, program, 3)
    assert all(map(is_equal, ours, eagers)), [
        pair for pair in zip(ours, eagers, strict=True) if not is_equal(*pair)
    ]
    breaks = compiled.framejit.explain().breaks
    assert bool(breaks) == (program in BREAKING)
