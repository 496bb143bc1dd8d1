"""A function of one score, such as score_mod, mask_mod or score_mod's derivative, as Scalars over
the loops b, h, i, j: image, head, query, key.

It is lowered as a graph of tensors without dimensions, in which fusion leaves one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

from ....records import record
from ..decompositions import decompositions
from ..fuse.fuse import fuse
from ..fuse.simplify import fold
from ..ir.index import ZERO, Index, Var, atom, index, nonnegative
from ..ir.program import Buffer, Call, InputOutput, Kernel, Program, Store, View, with_buffers
from ..ir.scalar import CONST, INDEX, LOAD, Access, Scalar, load, position, rewrite, share
from ..lower.build import lower
from ..lower.sizes import Sizes

SCORE, SLOPE, RESULT = "score", "slope", "result"  # a score, and the gradient of what became of it
POSITIONS = "bhij"
COMBINED: Mapping[str, Callable[[Index, Index], Index]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
}
SAME_NUMBER = torch.ops.aten.alias.default, torch.ops.aten.detach.default
DIVISIONS = "floordiv", "remainder"


class IndexByTensors(TorchFunctionMode):
    """Elements that tensors choose are read by an operator; elsewhere a tensor without dimensions
    is taken for a number."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> torch.Tensor:
        if func is torch.Tensor.__getitem__:
            tensor, chosen = args
            positions = list(chosen) if isinstance(chosen, tuple) else [chosen]
            if all(isinstance(one, torch.Tensor) for one in positions):
                func, args = torch.ops.aten.index.Tensor, (tensor, positions)
        found: torch.Tensor = func(*args, **(kwargs or {}))
        return found


class Untranslatable(Exception):
    """The function is not elementwise, or reads elements that are perhaps not there."""


@record
class Modification:
    """A kernel that stores the function's result, and its buffers. Its loads of SCORE and SLOPE
    read the numbers that it is given. captured: the buffers of the tensors that the function
    captures, in their order."""

    kernel: Kernel
    buffers: Mapping[str, Buffer]
    captured: tuple[str, ...]

    @property
    def value(self) -> Scalar:
        return self.kernel.stores[0].value

    @property
    def read(self) -> tuple[int, ...]:
        """Positions among the captured tensors of those that it reads."""
        return tuple(
            number for number, name in enumerate(self.captured) if name in self.kernel.read
        )

    @property
    def is_identity(self) -> bool:
        """Whether the result is the score, or the gradient that it is given."""
        return self.value.op == LOAD and self.value.attr.buffer in (SCORE, SLOPE)

    @property
    def is_true(self) -> bool:
        """Whether it is a mask that lets everything through."""
        return self.value.op == CONST and bool(self.value.attr)


def translate(
    function: Callable[..., Any],
    given: Sequence[str],
    captured: Sequence[torch.Tensor],
    sizes: Sequence[Any],
    like: FakeTensor,
    prefix: str,
) -> Modification:
    """The function as a kernel.

    Args:
        given: names of its arguments: SCORE, SLOPE, and letters of POSITIONS.
        captured: fakes of the tensors that it takes after these.
        sizes: how many images, heads, queries and keys there are.
        like: a fake of the queries.
        prefix: of the names of the captured tensors' buffers.

    Raises:
        Untranslatable: it is no such function.
    """
    program = scalar_program(function, given, captured, like)
    names = [*given, *(f"{prefix}{number}" for number in range(len(captured)))]
    renamed = dict(zip(program.inputs, names, strict=True))
    every = Sizes()
    loops = {
        letter: Var(letter, every(size)) for letter, size in zip(POSITIONS, sizes, strict=True)
    }

    def change(node: Scalar) -> Scalar:
        if node.op == LOAD:
            name = renamed[node.attr.buffer]
            if name in loops:
                return position(atom(loops[name]))
            return replace(node, attr=replace(node.attr, buffer=name))
        return combine_positions(node) or fold(node)

    (value,) = rewrite(share(rewrite([computed_value(program)], change)), drop_check)
    buffers = {
        name: replace(program.buffers[own], name=name)
        for own, name in renamed.items()
        if name not in loops
    }
    buffers[RESULT] = Buffer(RESULT, (), (), value.dtype, like.device)
    kernel = Kernel(tuple(loops.values()), (), (Store(RESULT, ZERO, value),))
    return Modification(kernel, buffers, tuple(names[len(given) :]))


def combine_positions(node: Scalar) -> Scalar | None:
    """Arithmetic on positions as one expression, of which the bounds are known."""
    if node.op not in COMBINED or not all(
        arg.op in (INDEX, CONST) and arg.dtype == torch.int64 for arg in node.args
    ):
        return None
    left, right = (index(arg.attr) for arg in node.args)
    if node.op in DIVISIONS and not (nonnegative(left) and (right.value or 0) > 0):
        return None
    return position(COMBINED[node.op](left, right))


def drop_check(node: Scalar) -> Scalar:
    """An element that was found to be there is read unchecked. Raises Untranslatable for others."""
    if node.op != LOAD or not node.attr.checked:
        return node
    check = node.args[-1]
    if check.op != CONST or not check.attr:
        raise Untranslatable("positions that are perhaps out of range")
    return Scalar(LOAD, node.args[:-1], node.dtype, Access(node.attr.buffer, node.attr.index))


def scalar_program(
    function: Callable[..., Any],
    given: Sequence[str],
    captured: Sequence[torch.Tensor],
    like: FakeTensor,
) -> Program:
    """The function's program on tensors without dimensions. Raises Untranslatable."""
    with like.fake_mode, torch.no_grad(), IndexByTensors():
        numbers = [
            torch.zeros((), dtype=torch.float32 if name in (SCORE, SLOPE) else torch.int64)
            for name in given
        ]
        # on the CPU, where autograd traces derivatives without a GPU
        tensors = [on_device(tensor, torch.device("cpu")) for tensor in captured]
        traced = make_fx(
            lambda *arguments: (function(*arguments),), decomposition_table=decompositions()
        )(*numbers, *tensors)
        for node in traced.graph.nodes:
            if node.target in SAME_NUMBER:
                node.replace_all_uses_with(node.args[0])
            elif isinstance(node.meta.get("val"), torch.Tensor):
                node.meta["val"] = on_device(node.meta["val"], like.device)
        traced.graph.eliminate_dead_code()
    try:
        program, _ = fuse(lower(traced, (like.device.type,)))
    except NotImplementedError as error:
        raise Untranslatable(str(error)) from error
    if program.constants:
        raise Untranslatable("a tensor that the function makes")
    return program


def on_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A fake like another one, on a device."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)


def computed_value(program: Program) -> Scalar:
    """What the program returns, as one Scalar. Raises Untranslatable."""
    (result,) = program.outputs
    if isinstance(result, InputOutput):
        buffer = program.buffers[result.name]
        return load(buffer.name, ZERO, buffer.dtype)
    if len(program.steps) != 1 or isinstance(program.steps[0], Call):
        raise Untranslatable("more than one kernel")
    kernel = with_buffers(program.steps[0])
    if not isinstance(result, View) or kernel.variables or len(kernel.stores) != 1:
        raise Untranslatable("sums")
    return kernel.stores[0].value
