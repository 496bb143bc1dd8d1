"""numpy beside tensors: its scalars and functions of them are captured, its arrays are clean
breaks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ...semantics.harness import check, strict_compile, vec


def operands(x, a):
    return (
        x * a,
        a * x,
        x - a,
        a / x,
        x**a,
        x < a,
        x.add(a),
        torch.mul(x, a),
        x.clamp(max=a),
        x.half() * a,
        torch.where(x > 1, x, a),
    )


def arithmetic(x, a):
    numbers = [
        a + 1,
        a * 2.5,
        -a,
        abs(a),
        a > 1,
        round(a),
        int(a),
        float(a),
        a == 3,
        str(a),
        f"{a:.2f}",
        a.item(),
        {a: 1}[a],
        a // 2,
    ]
    return (
        x + 1,
        [(type(number).__name__, repr(number)) for number in numbers],
        isinstance(a, np.floating | np.integer),
        type(a).__name__,
    )


@pytest.mark.parametrize("number", [np.float64(2), np.float32(0.1), np.float16(3), np.int64(1), np.int32(-1), np.float64("nan"), np.float64(-0.0)],
                         ids=lambda number: f"{type(number).__name__} {number}")  # fmt: skip
def test_scalars(number):
    check(operands, vec(2), number, fullgraph=True)
    if number == number:
        check(arithmetic, vec(2), number, fullgraph=True)


def sizes(x, n):
    return (
        x.reshape(n, 2),
        x[n - 1 :],
        torch.zeros(n) + x,
        [x, x * 2][n - 1],
        x.sum(n - 1),
        x.repeat(n, 2),
        list(range(n)),
    )


def test_sizes():
    check(sizes, vec(2), np.int64(1), fullgraph=True)


def functions(x):
    return (
        x / np.sqrt(x.shape[-1]) * np.pi,
        x.reshape(int(np.prod(x.shape))),
        x + np.float32(0.1),
        np.maximum(3, 4),
        np.log2(8),
        np.clip(5, 0, 3),
    )


def test_functions_of_literals():
    eager, compiled = functions(vec(2)), strict_compile(functions, fullgraph=True)(vec(2))
    assert all(torch.equal(a, b) for a, b in zip(eager[:3], compiled[:3], strict=True))
    assert [(type(a), a) for a in eager[3:]] == [(type(a), a) for a in compiled[3:]]


def test_another_number_is_another_entry():
    def f(x, a):
        return x / a

    compiled = strict_compile(f)
    for number in (
        np.float64(0.0),
        np.float64(-0.0),
        np.float32(0.0),
        0.0,
        np.int64(0),
        np.float64(0.0),
    ):
        assert torch.equal(compiled(vec(2), number), f(vec(2), number))
    for step in range(20):  # one that is another each time stays Python's
        assert torch.equal(
            compiled(vec(2), np.float64(step + 0.5)), f(vec(2), np.float64(step + 0.5))
        )


class Schedule:
    step, rate = 0, 0.0


def schedule(x, state):
    state.step += 1
    state.rate = 0.1 * np.sqrt(state.step)
    return x * state.rate


# of a tensor and a number that is another in each call: programs, captures and breaks
VARYING = {
    "operand": (lambda x, v: (x * v, v / x, x.clamp(max=v), v), 2, 0),
    "half precision": (lambda x, v: x.half() * v, 2, 0),
    "ints": (lambda x, v: x.to(torch.int64) * v, 2, 0),
    "class": (lambda x, v: (x * v, isinstance(v, np.floating), type(v).__name__), 2, 0),
    "None or not": (lambda x, v: x if v is None else x * v, 2, 0),
    "truth": (lambda x, v: x * v if v else x, 2, 0),
    "float": (lambda x, v: (x * float(v), float(v)), 2, 0),
    "int": (lambda x, v: (x * int(v), int(v)), 2, 0),
    "item": (lambda x, v: (x * v.item(), v.item()), 2, 0),
    "in a list": (lambda x, v: [x, v], 2, 0),
    "arithmetic": (lambda x, v: (x * (v * 2), v + 1, 3 - v, v / 2, -v, v**2, v // 2, v % 2), 2, 0),
    "comparison": (lambda x, v: x * 2 if v > 3 else x, 3, 0),
    "two that vary": (lambda x, v: x * (v * np.float32(v)), None, None),
    "functions": (lambda x, v: (x * np.sqrt(v), np.exp(-v) * 2, np.maximum(v, 3), np.ceil(v / 2)), 2, 0),
    "text": (lambda x, v: (x * v, f"{v:.2f}", str(v)), None, None),
    "data": (lambda x, v: (torch.tensor(v), torch.full((2,), v), x * 2), 2, 0),
    "a list of data": (lambda x, v: (torch.tensor([v, v]) + x, torch.as_tensor([[v], [v]])), 2, 0),
    "mixed data": (lambda x, v: torch.tensor([v, 1.0]) + x, None, None),
    "identity": (lambda x, v: (x * v, [v][0] is v), 2, 0),
}  # fmt: skip


def described(found):
    if isinstance(found, tuple | list):
        return tuple(map(described, found))
    if isinstance(found, torch.Tensor):
        return found.dtype, found.tolist()
    return type(found), repr(found)


@pytest.mark.parametrize("cls", [np.float64, np.float32, np.float16, np.int64, np.int32])
@pytest.mark.parametrize("program, captures, breaks", VARYING.values(), ids=VARYING)
def test_a_scalar_that_varies(program, captures, breaks, cls):
    compiled, x = strict_compile(program), vec(2)
    for step in range(8):
        number = cls(step + 1.5)
        assert described(compiled(x, number)) == described(program(x, number))
    if captures is not None:
        report = compiled.framejit.explain()
        assert (len(report.captures), len(report.breaks)) == (captures, breaks)


@pytest.mark.parametrize(
    "special", [np.float64("nan"), np.float64("inf"), np.float64(-0.0), np.float64(0.0), 2.5, None]
)
def test_what_is_no_such_scalar_after_all(special):
    def program(x, v):
        return (x, v) if v is None else (x / v, v)

    compiled, x = strict_compile(program), vec(2)
    for number in (np.float64(1.5), np.float64(2.5), np.float64(3.5), special, np.float64(4.5)):
        assert repr(compiled(x, number)) == repr(program(x, number))


def test_gradients_through_a_scalar_that_varies():
    compiled = strict_compile(lambda x, v: (x * v).sin().sum())
    for step in range(4):
        x, other = vec(2).requires_grad_(), vec(2).requires_grad_()
        compiled(x, np.float32(step + 0.5)).backward()
        (other * np.float32(step + 0.5)).sin().sum().backward()
        assert torch.equal(x.grad, other.grad)


NUMBERS = (1.5, 2.5, 3.5, 4.5, 0.25)
SIZES = (2, 3, 5, 7, 1)
# of a tensor and a number
OF_NUMBERS = {
    "log": (lambda x, v: x * np.log(v), NUMBERS), "root": (lambda x, v: x / np.sqrt(v), SIZES),
    "exp": (lambda x, v: x.expand(2, 2) * np.exp(-v), NUMBERS),
    "schedule": (lambda x, v: x * (0.5 * (1 + np.cos(np.pi * v / 20))), SIZES),
    "rounded up": (lambda x, v: x.repeat(int(np.ceil(v / 2))), SIZES),
    "rounded down": (lambda x, v: x.repeat(1 + int(np.floor(v * 0.7))), SIZES),
    "clipped": (lambda x, v: x * np.clip(v, 1, 4), NUMBERS),
    "class": (lambda x, v: (x * np.float32(v), np.float32(v) * 2, np.int64(v) + 1), SIZES),
    "as data": (lambda x, v: torch.tensor([np.float32(v), np.float32(v) / 3]), NUMBERS),
}  # fmt: skip


@pytest.mark.parametrize("program, numbers", OF_NUMBERS.values(), ids=OF_NUMBERS)
def test_functions_of_a_number_that_varies(program, numbers):
    compiled, x = strict_compile(program), vec(2)
    for number in numbers:
        assert described(compiled(x, number)) == described(program(x, number))
    report = compiled.framejit.explain()
    assert (len(report.captures), len(report.breaks)) == (2, 0)


# of a tensor whose sizes differ
OF_SIZES = {
    "root": lambda x: x / np.sqrt(x.shape[-1]),
    "product": lambda x: x.reshape(np.prod(x.shape)),
    "product as an int": lambda x: x.reshape(-1, int(np.prod(x.shape[1:]))),
    "mean": lambda x: x.sum() / np.prod(x.shape),
    "product returned": lambda x: (np.prod(x.shape), np.prod([x.shape[0], 2]) * 3),
    "array of sizes": lambda x: x * torch.from_numpy(np.array(x.shape)).sum(),
    "array of fractions": lambda x: torch.tensor(np.array([1.0 / x.shape[0], 2.0])),
}


@pytest.mark.parametrize("program", OF_SIZES.values(), ids=OF_SIZES)
def test_functions_of_sizes(program):
    compiled = strict_compile(program)
    for size in (3, 4, 6):
        x = torch.ones(size, 2, 2)
        assert described(compiled(x)) == described(program(x))
    report = compiled.framejit.explain()
    assert (len(report.captures), len(report.breaks)) == (2, 0)


def test_a_function_that_warns_of_a_number_is_left_to_numpy():
    def program(x, v):
        return x * np.log(v)

    compiled = strict_compile(program)
    for number in (1.5, 2.5, 3.5):
        compiled(vec(2), number)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        assert torch.equal(compiled(vec(2), 0.0), vec(2) * -np.inf)


def test_a_schedule_kept_in_an_object():
    compiled, x = strict_compile(schedule), vec(2)
    one, other = Schedule(), Schedule()
    for _ in range(10):
        assert torch.equal(compiled(x, one), schedule(x, other))
        assert (type(one.rate), one.rate) == (type(other.rate), other.rate)
    assert len(compiled.framejit.explain().captures) <= 8  # 10 calls; 12 before


def truth_as_number(x, flag):
    return x * flag + 1, x + (2 if flag else 3)


def as_data(x, number):
    return torch.asarray(number) + x, x * 2


def array_made(x, number):
    return x + 1, np.arange(3).tolist(), (np.array([1.0]) * number).tolist()


def from_and_to(x, number):
    made = (x + 1).numpy() * number
    return torch.from_numpy(made) + 1


@pytest.mark.parametrize(
    "function, number",
    [
        (truth_as_number, np.bool_(True)),
        (as_data, np.float64(3)),
        (array_made, 2),
        (from_and_to, 2),
    ],
)
def test_what_is_left_to_python(function, number):
    check(function, vec(2), number, graphs=None, breaks=None)


def test_warnings_come_with_each_call():
    def f(x):
        return x + 1, float(np.log(0.0))

    compiled = strict_compile(f)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            assert compiled(vec(2))[1] == -np.inf


SCALARS = (
    np.float64(2.5),
    np.float32(2.5),
    np.float16(2.5),
    np.int64(3),
    np.int32(3),
    np.int16(3),
    np.uint8(3),
    np.bool_(True),
)
OF_SCALARS = {
    "computed in a list": lambda x, s: torch.tensor([1 - (s - j) / 40 for j in range(3)]),
    "in a list": lambda x, s: torch.tensor([s, s]), "nested": lambda x, s: torch.tensor([[s, s], [s, s]]),
    "in a tuple": lambda x, s: torch.tensor((s, 2.0)), "alone": lambda x, s: torch.tensor(s), "by keyword": lambda x, s: torch.tensor(data=[s]),
    "as_tensor": lambda x, s: torch.as_tensor([[s], [s]]), "full": lambda x, s: torch.full((2,), s),
    "new_tensor": lambda x, s: (x.new_tensor([s, s]), x.new_tensor(s)), "Tensor": lambda x, s: torch.Tensor([s, 1]),
    "operators": lambda x, s: (x * s, s + x, x / s, x > s, torch.where(x > 2, x, s)), "stored": lambda x, s: x.clone().fill_(s),
    "numbers": lambda x, s: (s * 2, s / 3, 1 - s / 40, s + 1), "ints": lambda x, s: x.to(torch.int32) * s,
    "comprehension": lambda x, s: torch.tensor([q * 2 for q in (s, s)]), "default": lambda x, s: torch.asarray([s, 1.5]),
}  # fmt: skip


def without_last_digits(found):
    if isinstance(found, list):
        return [without_last_digits(item) for item in found]
    return repr(float(f"{found:.13g}")) if isinstance(found, float) else repr(found)


def kinds(found):
    """Types and numbers; of floats in tensors 13 digits: the roots of libraries differ in the last bit."""
    if isinstance(found, torch.Tensor):
        return found.dtype, without_last_digits(found.tolist())
    return tuple(map(kinds, found)) if isinstance(found, tuple) else (type(found), found)


@pytest.mark.parametrize("scalar", SCALARS, ids=lambda scalar: type(scalar).__name__)
@pytest.mark.parametrize("program", OF_SCALARS.values(), ids=OF_SCALARS)
def test_scalars_keep_their_types(program, scalar):
    handle, x = strict_compile(program), torch.tensor([3.0, 2.0, 5.0])
    expected = kinds(program(x, scalar))
    assert kinds(handle(x, scalar)) == expected == kinds(handle(x, scalar))


def captured(program, *args):
    """Whether a program is one graph, with eager's results."""
    handle = strict_compile(program)
    assert kinds(handle(*args)) == kinds(program(*args)) == kinds(handle(*args))
    report = handle.framejit.explain()
    return (len(report.captures), len(report.breaks)) == (1, 0)


@pytest.mark.parametrize("scalar", SCALARS[:-1], ids=lambda scalar: type(scalar).__name__)
@pytest.mark.parametrize("name", ["in a list", "nested", "alone", "as_tensor", "full", "operators"])
def test_scalars_as_data_are_captured(name, scalar):
    assert captured(OF_SCALARS[name], vec(3), scalar)


@pytest.mark.parametrize("scalar", SCALARS, ids=lambda scalar: type(scalar).__name__)
def test_scalars_stored_in_tensors(scalar):
    def f(x):
        y = x.clone()
        y[0] = scalar
        return y

    def outcome(call):
        try:
            return kinds(call(torch.ones(3)))
        except TypeError as error:
            return str(error)

    handle = strict_compile(f)
    assert outcome(handle) == outcome(f) == outcome(handle)
