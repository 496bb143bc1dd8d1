"""Marks that users set on tensors: which dimensions vary, which never do. They are stored on the
tensor, under a name of framejit's."""

from __future__ import annotations

import torch

from ....records import record
from ..torch_directives import dimensions_marked, marked_range

ATTRIBUTE = "_framejit_marks"


@record
class Mark:
    """A mark of one dimension: "dynamic" (with an inclusive range), "maybe" or "static"."""

    kind: str
    min: int | None = None
    max: int | None = None


def mark_dynamic(
    tensor: torch.Tensor,
    dim: int | tuple[int, ...] | list[int],
    *,
    min: int | None = None,
    max: int | None = None,
) -> None:
    """Declares that the size of a dimension varies between calls, between `min` and `max`
    inclusive.

    Where the code needs one certain size, there is a warning with the line (with `strict`, torch's
    ConstraintViolationError), and other sizes compile again.

    Raises:
        TypeError: `tensor` is not a tensor.
        IndexError: the tensor has no such dimension.
        ValueError: the range is empty, or the present size is outside of it.
    """
    if min is not None and max is not None and min > max:
        raise ValueError(f"mark_dynamic: min ({min}) is greater than max ({max})")
    for one in _dims("mark_dynamic", tensor, dim):
        size = tensor.shape[one]
        if (min is not None and size < min) or (max is not None and size > max):
            raise ValueError(
                f"mark_dynamic: dimension {one} has size {size}, outside [{min}, {max}]"
            )
        _put(tensor, one, Mark("dynamic", min, max))


def maybe_mark_dynamic(tensor: torch.Tensor, dim: int | tuple[int, ...] | list[int]) -> None:
    """Declares that the size of a dimension may vary; code that specialises it raises no
    warning."""
    for one in _dims("maybe_mark_dynamic", tensor, dim):
        _put(tensor, one, Mark("maybe"))


def mark_static(tensor: torch.Tensor, dim: int | tuple[int, ...] | list[int] | None = None) -> None:
    """Declares that the size of a dimension (None: of all) never becomes dynamic."""
    for one in range(tensor.dim()) if dim is None else _dims("mark_static", tensor, dim):
        _put(tensor, one, Mark("static"))


def marks_of(tensor: torch.Tensor) -> dict[int, Mark]:
    """The marks of a tensor by dimension; framejit's count before torch._dynamo's."""
    return marks_by_torch(tensor) | getattr(tensor, ATTRIBUTE, {})


def marks_by_torch(tensor: torch.Tensor) -> dict[int, Mark]:
    """The marks that torch._dynamo has put on a tensor."""
    maybe = dimensions_marked(tensor, "weak_dynamic") | dimensions_marked(tensor, "unbacked")
    dynamic = dimensions_marked(tensor, "dynamic")
    return {
        **dict.fromkeys(dimensions_marked(tensor, "static"), Mark("static")),
        **dict.fromkeys(maybe, Mark("maybe")),
        **{dim: Mark("dynamic", *marked_range(tensor, dim)) for dim in dynamic},
    }


def _dims(function: str, tensor: torch.Tensor, dim: int | tuple[int, ...] | list[int]) -> list[int]:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{function} takes a tensor, not a {type(tensor).__name__}")
    dims = list(dim) if isinstance(dim, tuple | list) else [dim]
    for one in dims:
        if not -tensor.dim() <= one < tensor.dim():
            raise IndexError(
                f"{function}: dimension {one} is out of range for a tensor of {tensor.dim()} "
                "dimensions"
            )
    return [one % tensor.dim() for one in dims]


def _put(tensor: torch.Tensor, dim: int, mark: Mark) -> None:
    setattr(tensor, ATTRIBUTE, {**getattr(tensor, ATTRIBUTE, {}), dim: mark})
