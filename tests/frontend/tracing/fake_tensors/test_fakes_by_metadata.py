"""Fakes that are made from metadata, beside those that torch makes."""

import framejit
import pytest
import torch
from framejit.frontend.tracing.fake_tensors.fake_execution import CaptureFakeMode
from framejit.frontend.tracing.fake_tensors.fakes_by_metadata import follows_from_metadata
from framejit.frontend.tracing.sizes import shapes
from framejit.guards.source import SlotSource
from framejit.options import Options
from torch._subclasses.fake_tensor import FakeTensorMode


def parameter(*sizes, **settings):
    return torch.nn.Parameter(torch.ones(*sizes), **settings)


def with_gradient(gradient):
    made = parameter(2)
    made.grad = gradient
    return made


def with_retained_gradient():
    made = parameter(2) * 2
    made.retain_grad()
    return made


def with_attribute():
    made = parameter(2)
    made.sharded = True
    return made


def properties_of(fake):
    """All properties of a fake that a program or torch may ask for."""
    return (
        dict(vars(fake)), str(fake.shape), str(fake.stride()), fake.storage_offset(), fake.dtype,
        fake.fake_device, fake.device, fake.requires_grad, fake.is_leaf, fake.is_leaf and fake.grad is None,
        fake._is_view(), fake._version, fake.is_inference(), str(fake.untyped_storage().nbytes()),
        torch._C._dispatch_keys(fake).raw_repr(),
    )  # fmt: skip


DTYPES = sorted(
    {item for item in vars(torch).values() if isinstance(item, torch.dtype)}
    - {torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4},
    key=str,
)


@pytest.mark.parametrize(
    "make",
    [
        lambda: parameter(2, 3),
        lambda: parameter(2, 3, requires_grad=False),
        lambda: parameter(0, 3),
        lambda: parameter(()),
        lambda: torch.nn.Parameter(torch.ones(2, dtype=torch.complex64)),
        lambda: torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16)),
        lambda: torch.ones(2, 3),
        lambda: torch.arange(3),
        lambda: torch.tensor(1.0),
        lambda: torch.ones(2, requires_grad=True),
        lambda: with_gradient(torch.ones(2)),
        lambda: torch.ones(2, requires_grad=True) * 2,
        lambda: parameter(3, 2).sin(),
        *(lambda dtype=dtype: torch.empty(2, 3, dtype=dtype) for dtype in DTYPES),
    ],
)
def test_a_fake_has_the_properties_of_torchs(make):
    mode, real = CaptureFakeMode(), make()
    assert follows_from_metadata(real)
    torchs = FakeTensorMode.from_tensor(mode, make(), static_shapes=True)
    fake = mode.from_tensor(real, static_shapes=True)
    assert properties_of(fake) == properties_of(torchs) and type(fake) is type(torchs)
    assert type(fake.grad_fn) is type(torchs.grad_fn)
    if real.is_leaf and real.grad is not None:
        assert mode.from_tensor(real.grad, static_shapes=True) is fake.grad is not torchs.grad
    assert mode.from_tensor(real, static_shapes=True) is fake
    view = mode.from_tensor(real.detach()[:1] if real.dim() else real.detach())
    assert view.untyped_storage()._cdata == fake.untyped_storage()._cdata


@pytest.mark.parametrize(
    "make", [torch.ones, lambda sizes: parameter(*sizes) * 2], ids=["leaf", "with a history"]
)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    ("sizes", "dims"),
    [
        ((4,), [0]),
        ((4, 5, 6), [0]),
        ((4, 5, 6), [1]),
        ((4, 5, 6), [2]),
        ((4, 5, 4), [0, 2]),
        ((4, 1, 6), [0, 2]),
        ((0, 5, 6), [1]),
    ],
)
def test_a_fake_with_symbols_has_the_properties_of_torchs(monkeypatch, sizes, dims, dynamic, make):
    def fake():
        mode = CaptureFakeMode()
        symbols = shapes.Shapes(Options(dynamic=dynamic), mode, lambda: "", lambda source: False)
        made = symbols.fake(mode, make(sizes), SlotSource(0, "x"), dict.fromkeys(dims))
        facts = [(fact.source.name, str(fact.sym)) for fact in symbols.relied_on.facts]
        return properties_of(made)[1:], facts

    ours = fake()
    if 0 in sizes and make is not torch.ones:
        return  # torch raises
    monkeypatch.setattr(shapes, "follows_from_metadata", lambda real: False)
    assert ours == fake()


@pytest.mark.parametrize(
    "make",
    [
        with_attribute,
        lambda: with_gradient(torch.ones(4)[:2]),
        with_retained_gradient,
        lambda: torch.ones(3, dtype=torch.complex64).conj(),
        lambda: torch.ones(3).expand(2, 3),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        lambda: torch.nn.Parameter(torch.ones(4)[1:3]),
        lambda: torch.nn.Parameter(torch.ones(3, 2).t()),
        lambda: torch.nn.Parameter(torch.ones(4)[:2]),
        lambda: torch.nn.Parameter(torch.eye(2).to_sparse()),
        lambda: torch.nn.Buffer(torch.ones(2)),
        lambda: torch.ones(2, device="meta"),
    ],
)
def test_others_are_left_to_torch(make):
    assert not follows_from_metadata(make())


def test_parameters_on_one_memory_have_fakes_on_one_memory():
    mode, memory = CaptureFakeMode(), torch.ones(2)
    mode.from_tensor(parameter(2), static_shapes=True)
    one, other = (
        mode.from_tensor(torch.nn.Parameter(memory), static_shapes=True) for _ in range(2)
    )
    assert one is not other and one.untyped_storage()._cdata == other.untyped_storage()._cdata


def test_a_gradient_on_the_memory_of_its_tensor():
    def shared():
        made = torch.ones(2, requires_grad=True)
        made.grad = made.detach()
        return made

    mode = CaptureFakeMode()
    mode.from_tensor(shared(), static_shapes=True)
    fake = mode.from_tensor(shared(), static_shapes=True)
    assert fake.untyped_storage()._cdata == fake.grad.untyped_storage()._cdata


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_blocks_of_equal_parameters(backend):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(4)))
    model[2].weight = model[0].weight  # tied
    x = torch.randn(3, 4)
    model(x).sum().backward()
    expected = [item.grad.clone() for item in model.parameters()]
    model.zero_grad()
    framejit.compile(model, backend=backend)(x).sum().backward()
    for item, grad in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(item.grad, grad)


PROGRAM = """
import sys, warnings
import framejit, torch

warnings.simplefilter("error", UserWarning)

model = framejit.compile(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()))
model(torch.ones(2, 4)).sum().backward()
assert "sympy" not in sys.modules
for rows in (3, 4):
    model(torch.ones(rows, 4)).sum().backward()
assert model.framejit.compiles == 2
assert not {"torch._dynamo", "torch._inductor", "torch._functorch.aot_autograd"} & {*sys.modules}
"""


def test_capturing_imports_no_other_compiler(torch_server, tmp_path):
    """Importing TorchDynamo takes a second of each process."""
    done = torch_server.run(PROGRAM, tmp_path)
    assert done.returncode == 0, done.stderr
