"""Statistics, and functions between points, in NumPy's steps with torch's functions.

In: torch._numpy's arrays, of fake tensors, and literals. Out: such arrays. What they assume of
values they say to `OperationRecorder.expect`. They raise TypeError for arguments that stay NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .operation_recorder import OperationRecorder
from .torch_numpy import torch_numpy

Limits = tuple[torch.Tensor, torch.Tensor]


def cov(
    recorder: OperationRecorder,
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
) -> Any:
    return torch_numpy().ndarray(covariances(m, y, rowvar, (not bias) if ddof is None else ddof))


def corrcoef(recorder: OperationRecorder, x: Any, y: Any = None, rowvar: bool = True) -> Any:
    found = covariances(x, y, rowvar, 1)
    if not found.dim():
        return torch_numpy().ndarray(found / found)
    if found.is_complex():
        raise TypeError("not of complex numbers")
    deviations = torch.sqrt(torch.diagonal(found))
    scaled = found / deviations[:, None] / deviations[None, :]
    return torch_numpy().ndarray(torch.clip(scaled, -1, 1))


def covariances(m: Any, y: Any, rowvar: bool, ddof: float) -> torch.Tensor:
    rows = torch.cat([rows_of(one, rowvar) for one in (m, y) if one is not None])
    freedom = rows.shape[1] - ddof
    if not rows.numel() or not freedom > 0:
        raise TypeError("not of so few observations")
    rows = rows - torch.mean(rows, dim=1)[:, None]
    return torch.squeeze(rows @ rows.T.conj() * (1 / freedom))


def rows_of(array: Any, rowvar: bool) -> torch.Tensor:
    tensor: torch.Tensor = array.tensor
    if tensor.dim() > 2 or not tensor.dim():
        raise TypeError("not of these dimensions")
    tensor = tensor.to(torch.promote_types(tensor.dtype, torch.float64))
    if tensor.dim() == 1:
        return tensor[None]
    return tensor if rowvar else tensor.T


def histogram(
    recorder: OperationRecorder,
    a: Any,
    bins: Any = 10,
    range: Any = None,  # noqa: A002 - NumPy's name
    density: bool | None = None,
    weights: None = None,
) -> Any:
    """Counts elements between edges, of bins of one width or of any."""
    elements: torch.Tensor = a.tensor.reshape(-1)
    if weights is not None or elements.is_complex() or elements.dtype is torch.bool:
        raise TypeError("not of these arguments")
    if type(bins) is int and bins > 0:
        counts, edges = counts_of_one_width(recorder, elements, bins, range)
    else:
        given = tensor_of(bins)
        if given.dim() != 1 or range is not None:
            raise TypeError("not of these bins")
        counts, edges = counts_between(recorder, elements, given), given
    if density:
        width = torch.diff(edges).to(torch.float64)
        counts = counts / width / torch.sum(counts)
    return torch_numpy().ndarray(counts), torch_numpy().ndarray(edges)


def counts_of_one_width(
    recorder: OperationRecorder, elements: torch.Tensor, count: int, limits: Any
) -> Limits:
    """The counts, and the edges."""
    if not elements.is_floating_point():
        elements = elements.to(torch.float64)
    if limits is None:
        low, high = torch.min(elements), torch.max(elements)
        recorder.expect(
            torch.isfinite(low) & torch.isfinite(high), "of numbers that are not finite"
        )
        same = low == high
        low, high = torch.where(same, low - 0.5, low), torch.where(same, high + 0.5, high)
    else:
        first, last = limits
        if not all(isinstance(one, int | float) for one in limits) or not first < last:
            raise TypeError("not of this range")
        # NumPy's edges are of a dtype that has these numbers, too
        if elements.dtype is not torch.float64:
            raise TypeError("not of this dtype with a range")
        low, high = (torch.scalar_tensor(one, dtype=elements.dtype) for one in limits)
    steps = torch.arange(count, dtype=elements.dtype) * ((high - low) / count) + low
    edges = torch.cat([steps, high[None]])
    inside = (elements >= low) & (elements <= high)
    # NumPy divides by the width, and then corrects the bin by the edges
    position = torch.searchsorted(edges[1:-1], elements.contiguous(), right=True)
    counts = torch.zeros(count, dtype=torch.int64)
    return torch.scatter_add(counts, 0, position, inside.to(torch.int64)), edges


def counts_between(
    recorder: OperationRecorder, elements: torch.Tensor, edges: torch.Tensor
) -> torch.Tensor:
    expect_increasing(recorder, edges)
    elements, edges = of_one_dtype(elements, edges)
    if elements.is_floating_point():
        recorder.expect(torch.all(elements == elements), "of NaN")
    ordered = torch.sort(elements).values
    before = torch.searchsorted(ordered, edges[:-1], right=False)
    last = torch.searchsorted(ordered, edges[-1:], right=True)
    return torch.diff(torch.cat([before, last]))


def of_one_dtype(left: torch.Tensor, right: torch.Tensor) -> Limits:
    """Both in the dtype in which NumPy compares them, and contiguous: torch.searchsorted warns of
    others."""
    if left.dtype != right.dtype:
        floats = left.is_floating_point() or right.is_floating_point()
        common = torch.float64 if floats else torch.promote_types(left.dtype, right.dtype)
        left, right = left.to(common), right.to(common)
    return left.contiguous(), right.contiguous()


def expect_increasing(recorder: OperationRecorder, numbers: torch.Tensor) -> None:
    recorder.expect(torch.all(numbers[1:] >= numbers[:-1]), "of numbers that decrease")


def digitize(recorder: OperationRecorder, x: Any, bins: Any, right: bool = False) -> Any:
    edges, elements = tensor_of(bins), x.tensor
    if edges.dim() != 1 or elements.is_complex() or edges.is_complex():
        raise TypeError("not of these arguments")
    expect_increasing(recorder, edges)
    edges, elements = of_one_dtype(edges, elements)
    return torch_numpy().ndarray(torch.searchsorted(edges, elements, right=not right))


def search_in_order(
    recorder: OperationRecorder, a: Any, v: Any, side: str = "left", sorter: Any = None
) -> Any:
    """torch._numpy's searchsorted of contiguous tensors: torch warns of others."""
    given = [
        torch_numpy().ndarray(one.tensor.contiguous())
        if isinstance(one, torch_numpy().ndarray)
        else one
        for one in (a, v)
    ]
    return torch_numpy().searchsorted(*given, side, sorter)


def interp(
    recorder: OperationRecorder,
    x: Any,
    xp: Any,
    fp: Any,
    left: float | None = None,
    right: float | None = None,
    period: None = None,
) -> Any:
    """Between two points, their slope from the one before; the ends beyond the first and last."""
    places, values = (tensor_of(one).to(torch.float64).contiguous() for one in (xp, fp))
    if period is not None or places.dim() != 1 or values.shape != places.shape:
        raise TypeError("not of these arguments")
    if not isinstance(x, torch_numpy().ndarray) or tensor_of(fp).is_complex() or len(places) < 2:
        raise TypeError("not of these arguments")
    at = x.tensor.to(torch.float64).contiguous()
    finite = torch.isfinite(at.sum() + places.sum() + values.sum())
    recorder.expect(finite, "of numbers that are not finite")
    # NumPy looks for intervals from the one before, which is another one if points are not in order
    recorder.expect(torch.all(places[1:] > places[:-1]), "of points that are not in order")
    position = torch.clamp(torch.searchsorted(places, at, right=True) - 1, 0, len(places) - 2)
    slopes = (values[1:] - values[:-1]) / (places[1:] - places[:-1])
    between = slopes[position] * (at - places[position]) + values[position]
    exact = torch.where(at == places[-1], values[-1], between)
    below = values[0] if left is None else torch.full_like(values[0], left)
    above = values[-1] if right is None else torch.full_like(values[-1], right)
    found = torch.where(at < places[0], below, torch.where(at > places[-1], above, exact))
    return torch_numpy().ndarray(found)


def trapezoid(
    recorder: OperationRecorder, y: Any, x: Any = None, dx: float = 1.0, axis: int = -1
) -> Any:
    """numpy.trapezoid, in the order of NumPy's operations, so that it rounds alike. Raises
    TypeError for arguments that are left to NumPy."""
    heights = y.tensor
    if not heights.dim() or heights.dtype is torch.bool:
        raise TypeError("not of these arguments")
    widths: Any = dx
    if x is not None:
        places = tensor_of(x)
        if places.dim() != 1 or places.dtype != heights.dtype:
            raise TypeError("not of these arguments")
        sizes = [1] * heights.dim()
        sizes[axis] = -1
        widths = torch.diff(places).reshape(sizes)
    count = heights.shape[axis]
    both = torch.narrow(heights, axis, 1, count - 1) + torch.narrow(heights, axis, 0, count - 1)
    whole = not both.is_floating_point() and not both.is_complex()
    if whole and x is None:
        both = both.to(torch.float64)  # as a number of Python's times integers is one
    areas = widths * both
    if whole:
        areas = areas.to(torch.float64)
    return torch_numpy().ndarray(torch.sum(areas / 2.0, dim=axis))


def polyval(recorder: OperationRecorder, p: Any, x: Any) -> Any:
    """Horner's rule."""
    coefficients = tensor_of(p)
    if not isinstance(x, torch_numpy().ndarray) or coefficients.dim() != 1:
        raise TypeError("not of these arguments")
    at, coefficients = x.tensor, coefficients.contiguous()
    if at.dtype != coefficients.dtype:
        at, coefficients = of_one_dtype(at, coefficients)
    total = torch.zeros_like(at)
    for coefficient in coefficients.unbind():
        total = total * at + coefficient
    return torch_numpy().ndarray(total)


def tensor_of(given: Any) -> torch.Tensor:
    """An array, or a list of numbers as NumPy makes an array of it."""
    if isinstance(given, torch_numpy().ndarray):
        tensor: torch.Tensor = given.tensor
        return tensor
    if not isinstance(given, list | tuple) or not all(type(one) in (int, float) for one in given):
        raise TypeError("not of these arguments")
    whole = all(type(one) is int for one in given)
    return torch.tensor(list(given), dtype=torch.int64 if whole else torch.float64)


STATISTICS: dict[str, Callable[..., Any]] = {
    "cov": cov, "corrcoef": corrcoef, "histogram": histogram, "digitize": digitize,
    "interp": interp, "searchsorted": search_in_order, "trapezoid": trapezoid, "trapz": trapezoid,
    "polyval": polyval,
}  # fmt: skip
