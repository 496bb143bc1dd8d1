"""What torch imports to make the fakes of tensors that do not follow from their metadata: views,
transposed and channels-last tensors.

It names every tensor by a source of TorchDynamo, for the symbols of its sizes, and imports that
package and SymPy, which takes two seconds. Where no size is a symbol nothing reads the sources.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorConverter, FakeTensorMode
from torch._subclasses.meta_utils import MetaConverter

from ....skipped_imports import without_dynamo_sources

META_TENSOR: Callable[..., Any] = without_dynamo_sources(MetaConverter.meta_tensor)
FROM_REAL_TENSOR: Callable[..., Any] = without_dynamo_sources(FakeTensorConverter.from_real_tensor)


def skip_imports(mode: FakeTensorMode) -> None:
    """Makes a mode import nothing for plain tensors of static sizes."""
    converter = mode.fake_tensor_converter
    meta_converter = converter.meta_converter

    def from_real_tensor(mode: FakeTensorMode, real: torch.Tensor, **named: Any) -> Any:
        is_static = named.get("shape_env") is None and named.get("source") is None
        convert = FROM_REAL_TENSOR if is_static else FakeTensorConverter.from_real_tensor
        return convert(converter, mode, real, **named)

    def meta_tensor(description: Any, shape_env: Any, *arguments: Any) -> Any:
        if shape_env is not None or not is_plain(description):
            return MetaConverter.meta_tensor(meta_converter, description, shape_env, *arguments)
        # without a mode, torch loads its classes of distributed tensors to compare the base
        with mode if description.is_view else nullcontext():
            return META_TENSOR(meta_converter, description, shape_env, *arguments)

    vars(converter)["from_real_tensor"] = from_real_tensor
    vars(meta_converter)["meta_tensor"] = meta_tensor


def is_plain(description: Any) -> bool:
    """Whether a tensor is a strided one, of no wrapper subclass and in no transform, and so are
    what it is a view of and its gradient."""
    return (
        description.layout is torch.strided
        and not description.is_traceable_wrapper_subclass
        and not description.is_nested
        and not description.is_functorch_wrapped
        and not description.is_functional
        and all(is_plain(one) for one in (description.base, description.grad) if one is not None)
    )
