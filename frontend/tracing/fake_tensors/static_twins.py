"""Fake results of operators whose sizes are products of their operands' sizes: elementwise ones,
lookups, reductions, products of matrices.

The operator runs on static tensors of the same dtypes and layouts, the twins, whose results are
cached for the whole process. In their sizes, a prime stands for each factor that varies, so that
the factors of a result's sizes and strides are found again in the twin's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise, zip_longest
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ....backends.graph.memory import memory_of
from ....backends.graph.passes.symbolic_sizes import has_known_hints
from .fake_results import KERNELS, LITERALS, NewTensor, is_cacheable, writes_first
from .fake_rules import FakeRules
from .size_products import Size, factors_of, is_same_size
from .torch_log import WithoutTorchLog

aten = torch.ops.aten
WITHOUT_LOG = WithoutTorchLog()
PRIMES = (1009, 1013, 1019, 1021)  # a size is seldom a multiple of one
LIKE_THEIR_FIRST = frozenset({
    aten._softmax.default, aten._log_softmax.default, aten._softmax_backward_data.default,
    aten._log_softmax_backward_data.default, aten.native_dropout.default, aten.fill.Scalar,
    aten._to_copy.default, aten.copy_.default, aten.empty_like.default, aten.zeros_like.default,
    aten.ones_like.default, aten.full_like.default, aten.rand_like.default,
    aten.randn_like.default, aten.clone.default,
})  # fmt: skip
OF_PRODUCTS = LIKE_THEIR_FIRST | KERNELS - {aten.cat.default, aten.unsafe_split.Tensor} | {
    aten.index.Tensor, aten.new_zeros.default, aten.new_ones.default, aten.new_full.default,
    aten.zeros.default, aten.ones.default, aten.full.default, aten.scalar_tensor.default,
    aten.scatter_add_.default,
}  # fmt: skip
USUAL_FORMATS = (None, torch.preserve_format, torch.contiguous_format)
INDICES = (torch.int64, torch.int32)


class NoTwin(Exception):  # noqa: N818 - it steers: torch's operator has to run
    """An operand has no static twin, or its layout may depend on its sizes."""


class Twins:
    """The static twins of the operands of one call."""

    def __init__(self, rules: FakeRules) -> None:
        self._rules = rules
        self._primes: dict[Any, int] = {}  # by factor
        self._sizes: dict[int, Size] = {}  # that vary, by their twins
        self.tensors: list[tuple[FakeTensor, FakeTensor]] = []  # each with its twin

    @property
    def vary(self) -> bool:
        return bool(self._primes)

    def of(self, operand: Any) -> Any:
        """The twin of an operand. Raises NoTwin."""
        if isinstance(operand, torch.Tensor):
            return self._of_tensor(operand)
        if isinstance(operand, list | tuple):
            return type(operand)(map(self.of, operand))
        if type(operand) is torch.SymInt:
            if not self._rules.are_nonnegative([operand]):
                raise NoTwin
            return self._of_size(operand)
        if type(operand) not in LITERALS:
            raise NoTwin
        return self._of_size(operand) if type(operand) is int else operand

    def _of_tensor(self, tensor: Any) -> FakeTensor:
        if not self._rules.is_strided(tensor):
            raise NoTwin
        sizes = tuple(map(self._of_size, tensor.shape))
        strides = tuple(map(self._of_size, tensor.stride()))
        if not is_ordered(sizes, strides):
            raise NoTwin
        recipe = NewTensor(sizes, strides, tensor.dtype, tensor.fake_device)
        twin: FakeTensor = recipe.make(self._rules.mode, ())
        self.tensors.append((tensor, twin))
        return twin

    def _of_size(self, size: Size) -> int:
        """The twin of a size: a prime for each factor that varies. A static size, or a symbol that
        is known to be equal to one, stands for itself. Raises NoTwin."""
        known = size if isinstance(size, int) else size.node.maybe_as_int()
        if known is not None:
            if known >= PRIMES[0] and not all(known % prime for prime in PRIMES):
                raise NoTwin
            return known
        number, factors = factors_of(size.node.expr)  # type: ignore[union-attr]
        for factor in factors:
            if factor not in self._primes:
                if len(self._primes) == len(PRIMES):
                    raise NoTwin
                self._primes[factor] = PRIMES[len(self._primes)]
            number *= self._primes[factor]
        self._sizes.setdefault(number, size)
        return number

    def original(self, number: int) -> Size:
        """The size of a twin. Raises NoTwin where it has a factor that no operand's size is."""
        if number < PRIMES[0] or all(number % prime for prime in self._primes.values()):
            return number
        if number not in self._sizes:
            part = max((one for one in self._sizes if number % one == 0), default=1)
            if part == 1:
                raise NoTwin
            self._sizes[number] = self.original(number // part) * self._sizes[part]
        return self._sizes[number]

    def result(self, made: Any) -> Any:
        """The result of the call, given that for the twins."""
        for tensor, twin in self.tensors:
            if made is twin:
                return tensor
        if made is None:
            return None
        shared = {memory_of(twin) for _, twin in self.tensors}
        if type(made) is not FakeTensor or made.storage_offset() or memory_of(made) in shared:
            raise NoTwin
        sizes, strides = map(self.original, made.shape), map(self.original, made.stride())
        return self._rules.make_strided([*sizes], [*strides], made.dtype, made.fake_device)


def results_by_twins(
    rules: FakeRules, func: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """The results of an operator on operands with symbols; None where torch's operator has to
    run."""
    if not has_sizes_of_products(func) or kwargs.get("memory_format") not in USUAL_FORMATS:
        return None
    try:
        if broadcasts(func):
            make_sizes_equal([arg for arg in args if isinstance(arg, torch.Tensor)])
        twins = Twins(rules)
        given = [twins.of(arg) for arg in args]
        named = {name: twins.of(arg) for name, arg in kwargs.items()}
        if not twins.vary or not are_usual(func, twins.tensors):
            return None
        with WITHOUT_LOG:
            made = rules.mode.dispatch(func, (), given, named)
        if isinstance(made, tuple | list):
            return type(made)(map(twins.result, made))
        return twins.result(made)
    except NoTwin:
        return None
    except Exception:  # torch's operator raises it with the sizes of the program
        return None


@cache
def has_sizes_of_products(func: Any) -> bool:
    """Whether the sizes and strides of an operator's results are products of sizes of its operands
    and of numbers, in an order that follows from that of their strides."""
    if func in OF_PRODUCTS:
        return True
    return (
        is_cacheable(func)
        and not func.is_view
        and torch.Tag.pointwise in func.tags
        and (not func._schema.is_mutable or writes_first(func))
    )


def are_usual(func: Any, tensors: Sequence[tuple[FakeTensor, FakeTensor]]) -> bool:
    """Whether the operands are on one device and, if they broadcast, certainly do so. A tensor
    without dimensions has to have the dtype of the others: it may be a number of the program, which
    counts less in type promotion."""
    if not tensors:
        return True
    device, dtype = tensors[0][0].fake_device, tensors[0][0].dtype
    if not all(tensor.fake_device == device for tensor, _ in tensors):
        return False
    if func is aten.index.Tensor:
        return all(tensor.dtype in INDICES for tensor, _ in tensors[1:])
    if not broadcasts(func):
        return True
    return all(
        len({*sizes} - {1}) < 2 for sizes in broadcast_sizes([twin for _, twin in tensors])
    ) and all(tensor.dim() or tensor.dtype == dtype for tensor, _ in tensors)


def broadcasts(func: Any) -> bool:
    """Whether the operands broadcast."""
    return torch.Tag.pointwise in func.tags or func is aten.copy_.default


def broadcast_sizes(tensors: Sequence[torch.Tensor]) -> Iterable[tuple[Size, ...]]:
    """For each dimension of a result, the sizes that broadcast to its."""
    return zip_longest(*(reversed(tensor.shape) for tensor in tensors), fillvalue=1)


def make_sizes_equal(tensors: Sequence[torch.Tensor]) -> None:
    """Guards that different symbols of sizes that broadcast are equal, as torch's operators do."""
    for sizes in broadcast_sizes(tensors):
        vary = [size for size in sizes if isinstance(size, torch.SymInt)]
        for size in vary[1:]:
            if not is_same_size(size, vary[0]) and has_known_hints(size):
                bool(size == vary[0])


def is_ordered(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the order of a twin's strides is that of the strides that it stands for: each is a
    multiple of the one before."""
    steps = sorted((stride, size) for size, stride in zip(sizes, strides, strict=True) if stride)
    return all(
        later % stride == 0 and (later > stride or 1 in (size, other))
        for (stride, size), (later, other) in pairwise(steps)
    )
