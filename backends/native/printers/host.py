"""A program's steps as a Python function: buffers allocated, kernels run, operators called, in
order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch._C._dynamo import guards as allocation  # empty_strided with less to parse
from torch.autograd.graph import increment_version

from ....records import record
from ..ir.index import Index, product
from ..ir.program import (
    AliasedOutput,
    AnyKernel,
    Buffer,
    Call,
    InputOutput,
    Program,
    View,
    contiguous_strides,
    reads,
    views_in,
    writes,
)
from ..loaded_host import restride
from ..toolchain.compile_c import Symbol
from .base import Parameters
from .scratch import Scratch, plan

aten = torch.ops.aten

# Operators whose results have exactly the layout of their fake results.
EXACT = (aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default)


@dataclass
class Namespace:
    """Names of the objects that the text refers to, and of the compiled C functions among them."""

    objects: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, Symbol] = field(default_factory=dict)

    def name(self, value: Any, prefix: str) -> str:
        for known, other in self.objects.items():
            if other is value:
                return known
        name = f"{prefix}_{len(self.objects)}"
        self.objects[name] = value
        return name


@record
class Launch:
    """How a kernel is called: the text around its arguments, and what they are."""

    call: str
    parameters: Parameters
    end: str = ")"


class Host:
    """Writes the function. `launches`: by position of a step, its kernel's Launch; a kernel without
    one has nothing to compute. boxed: it takes one list of the inputs and empties it, so that each
    input's memory is free once it was read for the last time."""

    def __init__(
        self,
        program: Program,
        launches: Mapping[int, Launch],
        namespace: Namespace,
        first: Sequence[str] = (),
        *,
        boxed: bool = False,
    ) -> None:
        self.program = program
        self.launches = launches
        self.namespace = namespace
        self.first = first
        self.boxed = boxed
        self.lines: list[str] = []
        self.ours: set[str] = set()  # buffers that begin where their tensor begins
        self.scratch = Scratch()
        self.inputs = frozenset(program.inputs)
        # inputs that kernels store to, until their versions were incremented
        self.stored = [
            name
            for step in program.steps
            if isinstance(step, AnyKernel)
            for name in writes(step)
            if name in self.inputs
        ]
        self.read = {
            view.buffer
            for view in views_in([program.outputs, [list(pair) for pair in program.writes]])
        }
        self.read = self.read.union(*(reads(step) for step in program.steps))
        namespace.objects |= {
            "empty_cpu": allocation._empty_strided_cpu,  # type: ignore[attr-defined]
            "empty_cuda": allocation._empty_strided_cuda,  # type: ignore[attr-defined]
            # no operator has these names, as variables have
            "windowed": torch.as_strided,
            "restride": restride,
            "count_writes": increment_version,
            "autocasts": torch._C._is_any_autocast_enabled,
            "no_autocast": torch._C._DisableAutocast,
        }

    def text(self) -> str:
        """The source of the host function: checks, sizes, one or more lines for each step, writes
        to inputs, results. Buffers are dropped after their last use."""
        inputs = self.program.inputs
        given = "args" if self.boxed else ", ".join(inputs)
        # what the caller's autocast would cast is cast in the graph already
        self.lines = ["if autocasts():", f"    with no_autocast(): return call({given})"]
        if self.boxed and inputs:
            self.lines += [f"{', '.join(inputs)}, = args", "args.clear()"]
        self.lines += self.first
        self.lines += [f"{name} = {expression}" for name, expression in self.program.sizes.items()]
        dead = self.last_uses()
        self.open_scratch(dead)
        self.drop(dead.get(-1, []))
        for position, step in enumerate(self.program.steps):
            if isinstance(step, AnyKernel):
                self.kernel(step, self.launches.get(position))
            elif isinstance(step, Call):
                self.call(step)
            self.drop(dead.get(position, []))
        for target, source in self.program.writes:
            self.lines.append(f"{self.tensor(target)}.copy_({self.tensor(source)})")
        self.lines.append(
            f"return ({''.join(self.output(item) + ', ' for item in self.program.outputs)})"
        )
        imports = [f"import {module}" for module in sorted(self.program.imports())]
        lines = [*imports, f"def call({given}):", *(f"    {line}" for line in self.lines), ""]
        return "\n".join(lines)

    def drop(self, names: Sequence[str]) -> None:
        tensors = [name for name in names if name not in self.scratch.places]
        if tensors:
            self.lines.append(f"del {', '.join(tensors)}")

    def kept_buffers(self) -> set[str]:
        """The buffers that are still needed after the last step."""
        program = self.program
        return (
            program.kept_buffers()
            | {item.name for item in program.outputs if isinstance(item, InputOutput)}
            | set(program.constants)
        )

    def last_uses(self) -> dict[int, list[str]]:
        """The names that nothing needs after a step, by the step's position (-1: before the
        first)."""
        last = dict.fromkeys(self.program.inputs, -1) if self.boxed else {}
        for position, step in enumerate(self.program.steps):
            last |= {
                name: position
                for name in (*writes(step), *reads(step))
                if name in self.read or isinstance(step, AnyKernel)
            }
        program = self.program
        kept = self.kept_buffers() if self.boxed else self.kept_buffers().union(program.inputs)
        dead: dict[int, list[str]] = {}
        for name, position in last.items():
            if name not in kept and name not in program.sizes:
                dead.setdefault(position, []).append(name)
        return dead

    def open_scratch(self, dead: Mapping[int, Sequence[str]]) -> None:
        """Memory for the buffers that are in one piece, where there is one device."""
        devices = {buffer.device.type for buffer in self.program.buffers.values()}
        if len(devices) > 1:
            return
        self.scratch = plan(self.program, dead, self.kept_buffers().union(self.program.inputs))
        if self.scratch.size:
            dtype = self.namespace.name(torch.uint8, "dtype")
            self.lines += [
                f"scratch = empty_{devices.pop()}(({self.scratch.size}, ), (1, ), {dtype})",
                "place = scratch.data_ptr()",
            ]

    # --- steps ---

    def kernel(self, step: AnyKernel, launch: Launch | None) -> None:
        """Prints the allocation of what a kernel stores, and its launch."""
        operands = reads(step) | self.inputs
        for name in writes(step):
            if name not in operands and name not in self.scratch.places:
                self.allocate(self.program.buffers[name])
        if launch is None:
            return
        if not self.inputs.isdisjoint(writes(step)):
            self.count_writes()
        places = self.scratch.places
        buffers = [
            f"place + {places[name]}" if name in places else name
            for name in launch.parameters.buffers
        ]
        arguments = [*buffers, *launch.parameters.sizes]
        self.lines.append(
            f"{launch.call}{', '.join(arguments)}{launch.end}  # "
            f"{', '.join(dict.fromkeys(step.origins))}"
        )

    def count_writes(self) -> None:
        """Increments the versions of the inputs that kernels store to, before the first store: a
        step that fails after it cannot be taken back."""
        if self.stored:
            self.lines.append(f"count_writes(({', '.join(self.stored)}, ))")
            self.stored = []

    def allocate(self, buffer: Buffer) -> None:
        self.ours.add(buffer.name)
        dtype = self.namespace.name(buffer.dtype, "dtype")
        self.lines.append(
            f"{buffer.name} = empty_{buffer.device.type}({_tuple(buffer.size)}, "
            f"{_tuple(buffer.stride)}, {dtype})"
        )

    def call(self, step: Call) -> None:
        """Prints a call of an operator. Results with other strides than expected are copied."""
        linear = self.linear(step)
        function, args = (
            (function_to_call(step), step.args) if linear is None else (F.linear, linear)
        )
        arguments = [self.argument(arg) for arg in args] + [
            f"{name}={self.argument(arg)}" for name, arg in step.kwargs.items()
        ]
        called = f"{self.namespace.name(function, 'op')}({', '.join(arguments)})"
        if step.single:
            self.lines.append(f"{step.results[0]} = {called}" if step.results[0] else called)
        else:
            # what nothing reads may not be there at all
            names = [name if name in self.read else "_" for name in step.results]
            self.lines.append(f"{', '.join(names)}{',' if len(names) == 1 else ''} = {called}")
            if "_" in names:
                self.lines.append("del _")
        if step.function in EXACT:
            self.ours |= {name for name in step.results if name}
            return
        for name in step.results:
            if name in self.read and self.program.buffers[name].size:
                buffer = self.program.buffers[name]
                stride = _tuple(buffer.stride)
                self.lines.append(
                    f"if {name}.stride() != {stride}: {name} = restride({name}, {stride})"
                )

    def linear(self, step: Call) -> tuple[View, ...] | None:
        """The arguments of torch's linear where a product is one: it turns the weight itself, which
        costs less than a call of t()."""
        if step.kwargs or step.function not in (aten.mm.default, aten.addmm.default):
            return None
        *bias, left, right = step.args
        buffer = self.program.buffers[right.buffer]
        if (
            right.offset != 0
            or (right.size[::-1], right.stride[::-1]) != (buffer.size, buffer.stride)
            or any(len(v.size) != 1 for v in bias)
        ):
            return None
        return (
            left,
            View(buffer.name, buffer.size, buffer.stride, right.offset, right.dtype, right.device),
            *bias,
        )

    # --- values ---

    def argument(self, value: Any) -> str:
        if isinstance(value, View):
            return self.tensor(value)
        if isinstance(value, Index):
            return f"({value})" if value.value is None else str(value.value)
        if isinstance(value, (list, tuple)):
            inside = "".join(self.argument(item) + ", " for item in value)
            return f"[{inside}]" if isinstance(value, list) else f"({inside})"
        if value is None or isinstance(value, (bool, int, str)):
            return repr(value)
        return self.namespace.name(value, "value")

    def tensor(self, view: View) -> str:
        """A tensor that is the view: the buffer's own where that is the same window."""
        buffer = self.program.buffers[view.buffer]
        if (view.size, view.stride) == (buffer.size, buffer.stride) and view.offset == 0:
            return buffer.name
        return self.window(view)

    def window(self, view: View) -> str:
        """The expression of a view: a method of torch's where one gives it, otherwise sizes,
        strides and offset."""
        buffer = self.program.buffers[view.buffer]
        if (
            view.offset == 0
            and len(view.size) == 2
            and (view.size[::-1], view.stride[::-1]) == (buffer.size, buffer.stride)
        ):
            return f"{buffer.name}.t()"
        whole = view.offset == 0 and product(view.size) == product(buffer.size)
        if whole and not buffer.size and all(step == 1 for step in view.stride):
            return f"{buffer.name}.view({_tuple(view.size)})"
        if (
            whole
            and view.stride == contiguous_strides(view.size)
            and buffer.stride == contiguous_strides(buffer.size)
        ):
            return f"{buffer.name}.view({_tuple(view.size)})"
        start = (
            f"{view.offset}"
            if buffer.name in self.ours
            else f"{buffer.name}.storage_offset() + ({view.offset})"
        )
        return f"windowed({buffer.name}, {_tuple(view.size)}, {_tuple(view.stride)}, {start})"

    def output(self, item: Any) -> str:
        if isinstance(item, InputOutput):
            return item.name
        if isinstance(item, AliasedOutput) or isinstance(item, View) and item.buffer in self.inputs:
            return self.window(item)  # a new tensor on memory that another shows, as eager's is
        return self.argument(item)


def function_to_call(step: Call) -> Callable[..., Any]:
    """The function of an operator in torch itself, where there is one that takes these arguments:
    it costs less to call."""
    operator = step.function
    if (
        not isinstance(operator, torch._ops.OpOverload)
        or operator.namespace != "aten"
        or operator._overloadname != "default"
    ):
        return operator
    if any(isinstance(arg, list) and None in arg for arg in step.args):
        return operator
    return getattr(
        torch._C._VariableFunctions, operator._schema.name.removeprefix("aten::"), operator
    )


def _tuple(items: Sequence[Index]) -> str:
    return _text(tuple(items))


@lru_cache(4096)
def _text(items: tuple[Index, ...]) -> str:
    return f"({''.join(f'{item}, ' for item in items)})"
