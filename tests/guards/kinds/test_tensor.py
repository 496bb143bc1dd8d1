"""TENSOR: of some forty tensors each meets its own spec and no other's, at each level of reading
them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from framejit.guards import source as s
from framejit.guards.guard import Guard, Kind, TensorSpec
from framejit.guards.native import layout
from framejit.guards.program import GuardProgram
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

X = s.SlotSource(0, "x")


class Sub(torch.Tensor):
    pass


class Loud(torch.Tensor):
    """Any function on it raises."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise AssertionError(f"{function} was called")


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, shape):
        return torch.Tensor._make_wrapper_subclass(cls, shape)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise AssertionError(f"{function} was called")


def inference():
    with torch.inference_mode():
        return torch.ones(4, 6)


def non_leaf():
    return torch.ones(4, 6, requires_grad=True) * 2


def view_that_got_grad():
    """Its base turned into one that requires grad in place; the view has no flag and maybe no
    grad_fn of its own."""
    base = torch.ones(8, 6)
    view = base[:4]
    base.mul_(torch.ones(8, 6, requires_grad=True))
    return view


def captured(transform, *args):
    """The tensor as functorch wraps it."""
    seen = []

    def function(x):
        seen.append(x)
        return x.sum()

    transform(function)(*args)
    return seen[0]


VARIANTS = {
    "plain": lambda: torch.ones(4, 6),
    "requires grad": lambda: torch.ones(4, 6, requires_grad=True),
    "parameter": lambda: torch.nn.Parameter(torch.ones(4, 6)),
    "parameter without grad": lambda: torch.nn.Parameter(torch.ones(4, 6), requires_grad=False),
    "buffer subclass": lambda: torch.ones(4, 6).as_subclass(Sub),
    "loud subclass": lambda: torch.ones(4, 6).as_subclass(Loud),
    "wrapper subclass": lambda: Wrapper((4, 6)),
    "float64": lambda: torch.ones(4, 6, dtype=torch.float64),
    "bfloat16": lambda: torch.ones(4, 6, dtype=torch.bfloat16),
    "float16": lambda: torch.ones(4, 6, dtype=torch.float16),
    "int32": lambda: torch.ones(4, 6, dtype=torch.int32),
    "bool": lambda: torch.ones(4, 6, dtype=torch.bool),
    "float8": lambda: torch.ones(4, 6).to(torch.float8_e4m3fn),
    "complex": lambda: torch.ones(4, 6, dtype=torch.complex64),
    "conj": lambda: torch.ones(4, 6, dtype=torch.complex64).conj(),
    "negative": lambda: torch.ones(4, 6, dtype=torch.complex64).conj().imag,
    "meta": lambda: torch.ones(4, 6, device="meta"),
    "inference": inference,
    "transposed": lambda: torch.ones(6, 4).t(),
    "strided": lambda: torch.ones(4, 12)[:, ::2],
    "other size": lambda: torch.ones(4, 7)[:, :6].clone().resize_(4, 7),
    "one dim": lambda: torch.ones(24),
    "three dims": lambda: torch.ones(4, 6, 1),
    "five dims": lambda: torch.ones(1, 2, 3, 4, 5),
    "six dims": lambda: torch.ones(1, 2, 3, 4, 5, 6),
    "six dims, other stride": lambda: torch.ones(1, 2, 3, 4, 6, 5).transpose(4, 5),
    "nine dims": lambda: torch.ones((1, 2) * 4 + (3,)),
    "zero dim": lambda: torch.tensor(1.0),
    "empty": lambda: torch.ones(0, 6),
    "expanded": lambda: torch.ones(1, 6).expand(4, 6),
    "sparse": lambda: torch.ones(4, 6).to_sparse(),
    "sparse csr": lambda: torch.ones(4, 6).to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "fake": lambda: FakeTensorMode().from_tensor(torch.ones(4, 6)),
    "vmapped": lambda: captured(torch.vmap, torch.ones(3, 4, 6)),
    "grad wrapped": lambda: captured(torch.func.grad, torch.ones(4, 6)),
    "zero": lambda: torch._efficientzerotensor((4, 6)),
}
# Not every build of torch has these.
if torch.backends.quantized.supported_engines != ["none"]:
    VARIANTS["quantized"] = lambda: torch.quantize_per_tensor(torch.ones(4, 6), 0.1, 0, torch.qint8)
if torch.backends.mkldnn.is_available():
    VARIANTS["mkldnn"] = lambda: torch.ones(4, 6).to_mkldnn()

# What the guard need not tell apart: another way to the same facts.
TWINS = {
    "non leaf": ("requires grad", non_leaf),
    "view of non leaf": ("requires grad", lambda: torch.ones(8, 6, requires_grad=True)[:4]),
    "view that got grad": ("requires grad", view_that_got_grad),
    "detached": ("plain", lambda: torch.ones(4, 6, requires_grad=True).detach()),
    "view": ("plain", lambda: torch.ones(8, 6)[2:6]),
    "used in autograd": ("plain", lambda: torch.ones(4, 6).requires_grad_().requires_grad_(False)),
}

OTHERS = {
    "none": None,
    "number": 3,
    "list": [1],
    "type": torch.Tensor,
    "uninitialised": torch.Tensor.__new__(torch.Tensor),
}


@pytest.fixture(scope="module")
def variants():
    return {name: make() for name, make in VARIANTS.items()}


@pytest.mark.parametrize("name", VARIANTS)
def test_each_meets_its_own_spec_only(name, variants, level, holds):
    guard = Guard(X, Kind.TENSOR, TensorSpec.of(variants[name]))
    for other, tensor in variants.items():
        assert holds(guard, tensor) is (other == name), other


@pytest.mark.parametrize("name", TWINS)
def test_twins(name, variants, level, holds):
    twin, make = TWINS[name]
    for one, other in ((make(), variants[twin]), (variants[twin], make())):
        assert holds(Guard(X, Kind.TENSOR, TensorSpec.of(one)), other)


@pytest.mark.parametrize("name", OTHERS)
def test_no_tensors(name, level, holds):
    assert not holds(Guard(X, Kind.TENSOR, TensorSpec.of(torch.ones(2))), OTHERS[name])


def test_changes_in_place(level, holds):
    linear = torch.nn.Linear(3, 2)
    guard = Guard(X, Kind.TENSOR, TensorSpec.of(linear.weight))
    assert holds(guard, linear.weight)
    linear.weight.requires_grad_(False)
    assert not holds(guard, linear.weight)
    linear.weight.requires_grad_(True)
    assert holds(guard, linear.weight)
    linear.weight.data = torch.ones(3, 2)
    assert not holds(guard, linear.weight)
    linear.weight.data = torch.ones(3, 2).t()
    assert not holds(guard, linear.weight)
    linear.weight.data = torch.ones(2, 3)
    assert holds(guard, linear.weight)
    linear.double()
    assert not holds(guard, linear.weight)


@pytest.mark.parametrize("dims", [1, 2, 5, 6, 8])
def test_symbolic_sizes(dims, level, holds):
    tensor = torch.ones(tuple(range(2, 2 + dims)))
    spec = TensorSpec.of(tensor)
    first = replace(spec, sizes=(None, *spec.sizes[1:]))
    assert holds(Guard(X, Kind.TENSOR, first), torch.ones((9, *tensor.shape[1:])))
    assert not holds(Guard(X, Kind.TENSOR, first), torch.ones((9, 9, *tensor.shape[1:])))
    assert not holds(Guard(X, Kind.TENSOR, first), torch.ones((1,) * (dims + 1)))
    anything = replace(spec, sizes=(None,) * dims, strides=(None,) * dims)
    assert holds(Guard(X, Kind.TENSOR, anything), torch.ones((3,) * dims).transpose(0, -1))
    assert not holds(Guard(X, Kind.TENSOR, anything), torch.ones((3,) * (dims + 1)))


def test_cuda_spec_on_a_cpu_tensor(level, holds):
    spec = replace(TensorSpec.of(torch.ones(2)), device=torch.device("cuda", 0))
    assert not holds(Guard(X, Kind.TENSOR, spec), torch.ones(2))


@pytest.mark.gpu
def test_cuda_tensors(level, holds):
    tensors = [torch.ones(4, 6, device=f"cuda:{i}") for i in range(torch.cuda.device_count())]
    tensors += [
        torch.ones(4, 6),
        torch.ones(4, 6, device="meta"),
        torch.ones(4, 6, device="cuda", requires_grad=True),
    ]
    for one in tensors:
        guard = Guard(X, Kind.TENSOR, TensorSpec.of(one))
        assert [holds(guard, other) for other in tensors] == [one is other for other in tensors]
        assert GuardProgram.build([guard]).steps[-1].op == (
            "TENSOR" if level == "offsets" else "PYTHON"
        )


class Counting(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "mode",
    [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.device("meta"),
        FakeTensorMode,
        Counting,
        lambda: torch.autocast("cpu"),
    ],
)
def test_guards_are_built_and_checked_under_any_mode(mode, level, holds):
    """The probes that tell dtype and device codes must not be caught by the mode."""
    tensor, other = torch.ones(2, dtype=torch.int16), torch.ones(2, dtype=torch.int8)
    spec = TensorSpec.of(tensor)
    layout.dtype_code.cache_clear()
    layout.device_code.cache_clear()
    with mode():
        guard = Guard(X, Kind.TENSOR, spec)
        assert holds(guard, tensor)
        assert not holds(guard, other)


def test_calibration_is_unique_and_all_dtypes_differ():
    found = layout.layout()
    assert found is not None, "this torch gives no unique offsets: guards on tensors will be slow"
    dtypes = {dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
    codes = {}
    for dtype in dtypes:
        try:
            codes[dtype] = layout.dtype_code(dtype, found)
        except (RuntimeError, NotImplementedError):
            continue
    assert len(set(codes.values())) == len(codes) > 12


def test_an_ambiguous_calibration_is_none(monkeypatch):
    monkeypatch.setattr(layout, "samples", lambda: [torch.ones(2, 2)])
    with pytest.raises(layout.Ambiguous):
        layout.calibrate()
    layout.hand_over(layout.layout())


def test_the_fast_path_is_taken():
    def op(tensor):
        return GuardProgram.build([Guard(X, Kind.TENSOR, TensorSpec.of(tensor))]).steps[-1].op

    assert op(torch.ones(2)) == op(torch.nn.Parameter(torch.ones(2))) == op(inference()) == "TENSOR"
    assert (
        op(torch.ones(2).to_sparse())
        == op(VARIANTS["vmapped"]())
        == op(VARIANTS["fake"]())
        == "PYTHON"
    )


def test_the_scan_for_a_field_asks_each_tensor_once():
    """It is in the first call of every process."""
    asked = []
    images = [("a", b"\0\1\7"), ("b", b"\0\2\7"), ("a", b"\0\1\7")]
    assert list(layout.names(images, 3, 1, lambda name: asked.append(name) or name)) == [1]
    assert asked == ["a", "b", "a"]
