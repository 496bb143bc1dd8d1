"""Wrapper subclasses for tests, and what can be seen of a tensor that may be one."""

from __future__ import annotations

import torch
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_map

from ...semantics.harness import vec


class Int8Weight(torch.Tensor):
    """A matrix of bytes and a scale for each row, which products multiply out."""

    @staticmethod
    def __new__(cls, stored, scale, dtype):
        return torch.Tensor._make_wrapper_subclass(
            cls, stored.shape, dtype=dtype, device=stored.device
        )

    def __init__(self, stored, scale, dtype):
        self.stored, self.scale = stored, scale

    @classmethod
    def quantize(cls, weight):
        scale = weight.abs().amax(1) / 127
        return cls((weight / scale[:, None]).round().to(torch.int8), scale, weight.dtype)

    def dequantize(self):
        return self.stored.to(self.dtype) * self.scale[:, None]

    @property
    def bits(self):
        return self.stored.element_size() * 8

    def __repr__(self):
        return f"Int8Weight({self.stored}, {self.scale})"

    def __tensor_flatten__(self):
        return ["stored", "scale"], self.dtype

    @classmethod
    def __tensor_unflatten__(cls, inner, dtype, size, stride):
        return cls(inner["stored"], inner["scale"], dtype)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        if func is torch.ops.aten.detach.default:
            return cls(args[0].stored, args[0].scale, args[0].dtype)
        args, kwargs = tree_map(
            lambda item: item.dequantize() if isinstance(item, cls) else item, (args, kwargs or {})
        )
        return func(*args, **kwargs)


class Tagged(torch.Tensor):
    """A tensor with a factor beside it, which is metadata."""

    @staticmethod
    def __new__(cls, inner, factor):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=inner.device,
            requires_grad=inner.requires_grad,
        )

    def __init__(self, inner, factor):
        self.inner, self.factor = inner, factor

    def __repr__(self):
        return f"Tagged({self.inner}, {self.factor})"

    def __tensor_flatten__(self):
        return ["inner"], {"factor": self.factor}

    @classmethod
    def __tensor_unflatten__(cls, inner, metadata, size, stride):
        return cls(inner["inner"], metadata["factor"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        factor = next(arg.factor for arg in args if isinstance(arg, cls))
        args, kwargs = tree_map(
            lambda item: item.inner if isinstance(item, cls) else item, (args, kwargs or {})
        )
        return tree_map(
            lambda item: cls(item, factor) if isinstance(item, torch.Tensor) else item,
            func(*args, **kwargs),
        )


def pair(*shape, grad=False):
    return TwoTensor(vec(*shape), -vec(*shape) * 2, requires_grad=grad)


def nested_pair(*shape, grad=False):
    return TwoTensor(pair(*shape), pair(*shape), requires_grad=grad)


def visible(value):
    """What a program can see of a result: classes, layouts, gradients and the inner tensors."""
    if is_traceable_wrapper_subclass(value):
        names, metadata = value.__tensor_flatten__()
        # autograd sees the wrapper, whose inner tensors may or may not require gradients
        inner = {name: visible(getattr(value, name).detach()) for name in names}
        return (type(value), layout(value), metadata, inner)
    if isinstance(value, torch.Tensor):
        return type(value), layout(value), value.detach().clone()
    if isinstance(value, list | tuple):
        return [visible(item) for item in value]
    return value


def layout(tensor):
    numbers = [
        size if type(size) is int else "ragged" for size in (*tensor.shape, *tensor.stride())
    ]
    return numbers, tensor.dtype, tensor.requires_grad
