"""Fakes of tensors that torch has to describe, made without TorchDynamo, beside torch's own."""

import pytest
import torch
from framejit.frontend.tracing.fake_tensors.fake_execution import CaptureFakeMode
from framejit.frontend.tracing.fake_tensors.fakes_by_metadata import follows_from_metadata
from framejit.frontend.tracing.fake_tensors.meta_converter import is_plain
from torch._subclasses.fake_tensor import FakeTensorMode


def with_history():
    return torch.ones(6, 8, requires_grad=True) * 2


def in_storage(sizes, strides, offset):
    return torch.empty(0).set_(torch.arange(40.0).untyped_storage(), offset, sizes, strides)


def leaf_view_with_gradient():
    return torch.ones(6, 8)[1:].requires_grad_()


def view_of_leaf_view():
    return torch.ones(6, 8).view(8, 6).requires_grad_().view(2, 4, 6)


def made_without_gradient():
    base = with_history()
    with torch.no_grad():
        return base[1:]


def one_of_several():
    return with_history().unbind(0)[2]


def with_gradient_that_is_a_view():
    made = torch.ones(6, requires_grad=True)
    made.grad = torch.ones(6, 2)[:, 0]
    return made


REALS = {
    "slice": lambda: torch.ones(6, 8)[1:4, ::2],
    "transposed": lambda: torch.ones(6, 8).t(),
    "transposed copy": lambda: torch.ones(6, 8).t().clone(),
    "row": lambda: torch.ones(6, 8)[2],
    "element": lambda: torch.ones(6, 8)[2, 3],
    "expanded": lambda: torch.ones(1, 8).expand(6, 8),
    "empty": lambda: torch.ones(6, 8)[6:],
    "channels last": lambda: torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "channels last, history": lambda: torch.ones(2, 3, 4, 5, requires_grad=True).to(
        memory_format=torch.channels_last
    ),
    "offset": lambda: in_storage((3, 2), (2, 1), 2),
    "overlapping": lambda: in_storage((3, 4), (1, 1), 1),
    "part of a storage": lambda: in_storage((3, 4), (4, 1), 0),
    "other dtype": lambda: torch.ones(6, 8).view(torch.int32)[1:],
    "real part": lambda: torch.ones(6, 8, dtype=torch.complex64).real,
    "as complex": lambda: torch.view_as_complex(torch.ones(6, 2)),
    "integers": lambda: torch.arange(12).view(3, 4)[:, 1],
    "history": lambda: with_history()[1:4],
    "view of a leaf": lambda: torch.ones(6, 8, requires_grad=True)[1:4],
    "of a parameter": lambda: torch.nn.Parameter(torch.ones(6, 8)).t(),
    "detached": lambda: with_history()[1:].detach(),
    "leaf view": leaf_view_with_gradient,
    "view of a leaf view": view_of_leaf_view,
    "without gradient": made_without_gradient,
    "one of several": one_of_several,
    "gradient": with_gradient_that_is_a_view,
    "parameter": lambda: torch.nn.Parameter(torch.ones(6, 8).t()),
}


def properties_of(fake):
    """All properties of a fake that a program or torch may ask for."""
    attributes = {name: value for name, value in vars(fake).items() if name != "fake_mode"}
    found = (
        type(fake), attributes, fake.shape, fake.stride(), fake.storage_offset(), fake.dtype,
        fake.fake_device, fake.device, fake.requires_grad, fake.is_leaf, type(fake.grad_fn),
        fake._version, fake.is_inference(), fake.untyped_storage().nbytes(), fake._is_view(),
        torch._C._dispatch_keys(fake).raw_repr(),
    )  # fmt: skip
    if not fake._is_view():
        return found
    same_memory = fake.untyped_storage()._cdata == fake._base.untyped_storage()._cdata
    creation = str(torch._C._autograd._get_creation_meta(fake))
    return found, creation, same_memory, properties_of(fake._base)


def torchs_fake(mode, real):
    """As a plain mode of torch's makes it."""
    vars(mode.fake_tensor_converter).pop("from_real_tensor")
    vars(mode.fake_tensor_converter.meta_converter).pop("meta_tensor")
    return FakeTensorMode.from_tensor(mode, real, static_shapes=True)


@pytest.mark.parametrize("make", REALS.values(), ids=REALS)
def test_a_fake_has_the_properties_of_torchs(make):
    real = make()
    assert not follows_from_metadata(real)
    mode = CaptureFakeMode()
    fake = mode.from_tensor(real, static_shapes=True)
    torchs = torchs_fake(CaptureFakeMode(), make())
    ours, theirs = properties_of(fake), properties_of(torchs)
    assert repr(ours) == repr(theirs)
    assert mode.from_tensor(real, static_shapes=True) is fake


def test_views_share_the_memory_of_their_base():
    base = torch.ones(6, 8)
    mode = CaptureFakeMode()
    first, whole, second = (
        mode.from_tensor(real, static_shapes=True) for real in (base[1:], base, base.t())
    )
    assert first._base is whole is second._base
    assert len({one.untyped_storage()._cdata for one in (first, whole, second)}) == 1
    before = second._version
    with mode:
        first.add_(1)
    assert second._version == whole._version == before + 1


def test_others_are_left_to_torch():
    description = CaptureFakeMode().fake_tensor_converter.meta_converter.describer.describe_tensor
    assert is_plain(description(torch.ones(4)[1:]))
    assert not is_plain(description(torch.ones(4).to_sparse()))
    jagged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    assert not is_plain(description(jagged))


PROGRAM = """
import sys
import framejit, torch

def f(x, y, z):
    return x.sin() + y.t() * 2, z + 1

base = torch.ones(4, 6)
images = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)
framejit.compile(f, backend="eager")(base[1:4, :3], base.t()[:3, 1:], images)
assert not {"torch._dynamo", "sympy", "torch.distributed.tensor"} & {*sys.modules}
"""


def test_views_and_channels_last_tensors_load_no_compiler(torch_server, tmp_path):
    """Importing TorchDynamo and SymPy takes two seconds of each process."""
    done = torch_server.run(PROGRAM, tmp_path)
    assert done.returncode == 0, done.stderr
