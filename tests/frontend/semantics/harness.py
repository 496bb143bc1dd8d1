"""One question to eager and to compiled code: everything that a program can see of a call must be
the same.

In: a function, its inputs, the expected graphs and breaks. Out: an AssertionError that names the
first difference.
"""

from __future__ import annotations

import collections
import copy
import io
import itertools
import random
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import framejit
import torch
from framejit import events
from framejit.frontend.runtime import _hook

ATOMS = (type(None), bool, int, float, complex, str, bytes, type, types.ModuleType, types.BuiltinFunctionType, torch.dtype, torch.device,
         torch.layout, torch.memory_format, range, slice, type(Ellipsis), type(NotImplemented), torch.Generator, types.CodeType)  # fmt: skip


class World:
    """All that one run may touch: inputs, cells and named globals, copied together so that what
    they share stays shared."""

    def __init__(
        self,
        fn: types.FunctionType,
        inputs: tuple[Any, ...],
        kwargs: dict[str, Any],
        global_names: tuple[str, ...],
    ) -> None:
        self.fn, self.inputs, self.kwargs = fn, inputs, kwargs
        self.cells = reachable_cells(fn)
        self.globals = {
            name: fn.__globals__[name] for name in global_names if name in fn.__globals__
        }
        self.names = global_names
        self.contents = [cell.cell_contents for cell in self.cells]

    def fresh(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """New copies of everything; cells and globals are set to theirs, the inputs come back."""
        inputs, kwargs, contents, globals_ = copy.deepcopy(
            (self.inputs, self.kwargs, self.contents, self.globals)
        )
        for cell, obj in zip(self.cells, contents, strict=True):
            cell.cell_contents = obj
        for name in self.names:
            self.fn.__globals__.pop(name, None)
        self.fn.__globals__.update(globals_)
        return inputs, kwargs

    def restore(self) -> None:
        for cell, obj in zip(self.cells, self.contents, strict=True):
            cell.cell_contents = obj
        for name in self.names:
            self.fn.__globals__.pop(name, None)
        self.fn.__globals__.update(self.globals)

    def now(self) -> Any:
        """What cells and globals hold."""
        unbound = "(unbound)"
        contents = [contents_of(cell, unbound) for cell in self.cells]
        return contents, {name: self.fn.__globals__.get(name, unbound) for name in self.names}


def contents_of(cell: types.CellType, otherwise: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return otherwise


def reachable_cells(fn: Any) -> list[types.CellType]:
    """The cells of a function and of the functions in them, those that hold data."""
    found: dict[int, types.CellType] = {}
    todo = [fn]
    seen: set[int] = set()
    while todo:
        function = todo.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        for cell in function.__closure__ or ():
            held = contents_of(cell, None)
            if isinstance(held, types.FunctionType):
                todo.append(held)
            elif not isinstance(held, type | types.ModuleType | _hook.Handle):
                found[id(cell)] = cell
    return list(found.values())


@dataclass
class Outcome:
    """One call, as its caller sees it."""

    value: Any = None
    error: BaseException | None = None
    lines: list[tuple[str, int, str]] = field(
        default_factory=list
    )  # file, line, function: the user's frames, outermost first
    printed: str = ""


@dataclass
class Run:
    """What a run left behind."""

    outcomes: list[Outcome]
    inputs: Any
    kwargs: Any
    outside: Any
    rng: Any
    modes: Any
    grads: Any = None


def one_call(fn: Callable[..., Any], inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Outcome:
    outcome = Outcome()
    printed = io.StringIO()
    with redirect_stdout(printed):
        try:
            outcome.value = fn(*inputs, **kwargs)
        except Exception as error:
            outcome.error = error
            frames = [
                frame
                for frame in traceback.extract_tb(error.__traceback__)
                if frame.filename != __file__
            ]
            outcome.lines = [(frame.filename, frame.lineno, frame.name) for frame in frames]
    outcome.printed = printed.getvalue()
    return outcome


def modes() -> tuple[Any, ...]:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
    )


def seed_generators() -> None:
    """Like torch.manual_seed(0), which without a GPU formats the stack for each kind of one."""
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(0)
    torch.default_generator.manual_seed(0)
    random.seed(0)


def run(fn: Callable[..., Any], world: World, calls: int, backward: bool) -> Run:
    inputs, kwargs = world.fresh()
    seed_generators()
    outcomes = [one_call(fn, inputs, kwargs) for _ in range(calls)]
    assert sys.exc_info() == (None, None, None), "an exception is still being handled"
    left = Run(
        outcomes, inputs, kwargs, world.now(), (torch.get_rng_state(), random.getstate()), modes()
    )
    if backward:
        left.grads = gradients(left)
    return left


def gradients(left: Run) -> Any:
    """Gradients of the sum of all outputs by all leaves among inputs and outputs."""
    tensors = list(tensors_in((left.inputs, left.kwargs, left.outside), set()))
    leaves = [t for t in tensors if t.requires_grad and t.is_leaf]
    outputs = [t for t in tensors_in([o.value for o in left.outcomes], set()) if t.requires_grad]
    assert leaves and outputs, "a test of gradients without any"
    total = sum(
        (
            t.double()
            * torch.linspace(0.5, 1.5, max(1, t.numel()), dtype=torch.double)[: t.numel()].reshape(
                t.shape
            )
        ).sum()
        for t in outputs
    )
    return torch.autograd.grad(total, leaves, allow_unused=True)


def tensors_in(obj: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    if id(obj) in seen:
        return
    seen.add(id(obj))
    if isinstance(obj, torch.Tensor):
        yield obj
    elif isinstance(obj, Mapping):
        for item in obj.values():
            yield from tensors_in(item, seen)
    elif isinstance(obj, list | tuple | set):
        for item in obj:
            yield from tensors_in(item, seen)
    elif isinstance(obj, torch.nn.Module):
        yield from obj.parameters()
        yield from obj.buffers()
    elif hasattr(obj, "__dict__") and not isinstance(obj, ATOMS):
        yield from tensors_in(vars(obj), seen)


# comparing


_rests: dict[int, tuple[Any, list[Any]]] = {}


def rest_of(iterator: Iterator[Any]) -> list[Any]:
    """What an iterator still gives, with the error that ends it, if one does; asked again, the
    same."""
    if id(iterator) not in _rests:
        given: list[Any] = []
        try:
            given.extend(itertools.islice(iterator, 256))
        except Exception as error:  # what it walks over has changed since
            given.append((type(error).__name__, str(error)))
        _rests[id(iterator)] = (iterator, given)
    return _rests[id(iterator)][1]


def asked(tensor: torch.Tensor, name: str) -> Any:
    """What a tensor has under a name, or the error that it gives: a view that was written to past
    autograd has no history to tell."""
    try:
        return getattr(tensor, name)
    except RuntimeError as error:
        return type(error), str(error)


def history(grad_fn: Any) -> Any:
    """What must be equal of a grad_fn: that there is one, or the error."""
    return grad_fn if isinstance(grad_fn, tuple) else grad_fn is not None


def significant_strides(tensor: torch.Tensor) -> list[int]:
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


EXACT, ROUNDED = {"rtol": 1e-6, "atol": 1e-6}, {"rtol": 2e-5, "atol": 1e-5}
HALF = (torch.float16, torch.bfloat16)
HALVES = {"rtol": 2e-2, "atol": 2e-2}  # eager rounds what compilers keep in float32


class Comparison:
    """Walks two object graphs side by side. Objects with an identity must pair up one to one,
    tensors' storages too."""

    def __init__(self, exact: bool = True) -> None:
        """exact: graphs run torch's own operators in the program's order; else sums may be rounded
        otherwise, and nobody sees how far apart the elements of a dimension of one lie."""
        self.exact = exact
        self.pairs: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self.storages: dict[int, int] = {}
        self.storages_back: dict[int, int] = {}
        self.keep: list[Any] = []

    def pair(self, left: Any, right: Any, path: str) -> bool:
        """Records that two objects correspond; False when that was known. Fails when either has
        another partner."""
        self.keep += [left, right]
        known = self.pairs.setdefault(id(left), id(right))
        assert known == id(right), (
            f"{path}: eager has one object where compiled has two ({type(left).__name__})"
        )
        known = self.back.setdefault(id(right), id(left))
        assert known == id(left), (
            f"{path}: compiled has one object where eager has two ({type(left).__name__})"
        )
        return True

    def same(self, left: Any, right: Any, path: str) -> None:
        same_type = type(left) is type(right) or self.made_alike(type(left), type(right))
        assert same_type, (
            f"{path}: {type(left)} in eager, {type(right)} compiled ({left!r} / {right!r})"
        )
        if isinstance(left, type) and self.made_alike(left, right):
            return
        if isinstance(left, float):
            assert left == right or (left != left and right != right), (
                f"{path}: {left!r} != {right!r}"
            )
            return
        if isinstance(left, ATOMS) or isinstance(left, frozenset):
            assert left == right, f"{path}: {left!r} in eager, {right!r} compiled"
            return
        if id(left) in self.pairs and self.pairs[id(left)] == id(right):
            return
        if not isinstance(
            left, tuple
        ):  # whether equal tuples are one object is the implementation's affair
            self.pair(left, right, path)
        self.contents(left, right, path)

    def made_alike(self, left: type, right: type) -> bool:
        """Whether two classes come of one class statement in a function, each of another call."""
        if (
            left is right
            or "<locals>" not in left.__qualname__
            or left.__qualname__ != right.__qualname__
        ):
            return False
        bases = zip(left.__bases__, right.__bases__, strict=True)
        alike = len(left.__bases__) == len(right.__bases__) and all(
            a is b or self.made_alike(a, b) for a, b in bases
        )
        return (
            alike
            and self.pair(left, right, left.__qualname__)
            and list(vars(left)) == list(vars(right))
        )

    def contents(self, left: Any, right: Any, path: str) -> None:
        if isinstance(left, torch.Tensor):
            self.tensors(left, right, path)
        elif isinstance(left, Mapping):
            self.mappings(left, right, path)
            self.attributes(left, right, path)
        elif isinstance(left, list | tuple | collections.deque):
            assert len(left) == len(right), (
                f"{path}: {len(left)} items in eager, {len(right)} compiled"
            )
            for index, (a, b) in enumerate(
                zip(
                    list.__iter__(left) if isinstance(left, list) else iter(left),
                    right,
                    strict=True,
                )
            ):
                self.same(a, b, f"{path}[{index}]")
            assert getattr(left, "maxlen", None) == getattr(right, "maxlen", None), (
                f"{path}.maxlen differs"
            )
            self.attributes(left, right, path)
        elif isinstance(left, set):
            if all(isinstance(item, (*ATOMS, tuple)) for item in left):
                assert left == right, f"{path}: {left!r} in eager, {right!r} compiled"
                assert {(type(item), item) for item in left} == {
                    (type(item), item) for item in right
                }, f"{path}: {left!r} / {right!r}"
            else:
                self.same(list(left), list(right), f"list({path})")
        elif isinstance(left, types.FunctionType):
            self.functions(left, right, path)
        elif isinstance(left, types.MethodType):
            self.same(left.__func__, right.__func__, f"{path}.__func__")
            self.same(left.__self__, right.__self__, f"{path}.__self__")
        elif isinstance(left, types.CellType):
            self.same(
                contents_of(left, "(unbound)"),
                contents_of(right, "(unbound)"),
                f"{path}.cell_contents",
            )
        elif isinstance(left, BaseException):
            self.errors(left, right, path)
        elif isinstance(left, Iterator) and type(left).__module__ in ("builtins", "itertools"):
            self.same(rest_of(left), rest_of(right), f"list({path})")
        else:
            self.attributes(left, right, path)

    def attributes(self, left: Any, right: Any, path: str) -> None:
        slots = [vars(cls).get("__slots__", ()) for cls in type(left).__mro__]
        for name in (
            name for names in slots for name in ([names] if isinstance(names, str) else names)
        ):
            if not name.startswith("__"):
                self.same(
                    getattr(left, name, "(unset)"),
                    getattr(right, name, "(unset)"),
                    f"{path}.{name}",
                )
        if getattr(left, "__dict__", None) is not None and type(left).__module__ not in (
            "builtins",
            "collections",
        ):
            skip = ("_compiled_call_impl", "framejit")
            mine, yours = (
                {k: v for k, v in object.__getattribute__(obj, "__dict__").items() if k not in skip}
                for obj in (left, right)
            )
            self.mappings(mine, yours, f"vars({path})")

    def mappings(self, left: Any, right: Any, path: str) -> None:
        if isinstance(left, dict):
            base = (
                collections.OrderedDict if isinstance(left, collections.OrderedDict) else dict
            )  # past a subclass's own items()
            left, right = dict(base.items(left)), dict(base.items(right))
        assert len(left) == len(right), (
            f"{path}: keys {list(left)} in eager, {list(right)} compiled"
        )
        for index, ((a, mine), (b, yours)) in enumerate(
            zip(left.items(), right.items(), strict=True)
        ):
            self.same(a, b, f"{path}: key number {index}")
            self.same(mine, yours, f"{path}[{a!r}]")

    def functions(self, left: Any, right: Any, path: str) -> None:
        assert left.__code__ is right.__code__, f"{path}: {left} in eager, {right} compiled"
        for name in (
            "__name__",
            "__qualname__",
            "__defaults__",
            "__kwdefaults__",
            "__closure__",
            "__dict__",
        ):
            self.same(getattr(left, name), getattr(right, name), f"{path}.{name}")

    def tensors(self, left: Any, right: Any, path: str) -> None:
        for name in ("dtype", "device", "layout", "requires_grad", "is_leaf"):
            mine, yours = asked(left, name), asked(right, name)
            assert mine == yours, f"{path}.{name}: {mine} in eager, {yours} compiled"
        assert left.is_inference() == right.is_inference(), f"{path}: is_inference() differs"
        assert left.shape == right.shape, (
            f"{path}: shape {tuple(left.shape)} in eager, {tuple(right.shape)} compiled"
        )
        mine, yours = (
            tensor.stride() if self.exact else significant_strides(tensor)
            for tensor in (left, right)
        )
        assert mine == yours, f"{path}: stride {left.stride()} in eager, {right.stride()} compiled"
        assert left.storage_offset() == right.storage_offset(), f"{path}: storage_offset differs"
        mine, yours = asked(left, "grad_fn"), asked(right, "grad_fn")
        assert history(mine) == history(yours), f"{path}.grad_fn: {mine} in eager, {yours} compiled"
        a, b = left.untyped_storage().data_ptr(), right.untyped_storage().data_ptr()
        if a and b:
            assert self.storages.setdefault(a, b) == b, (
                f"{path}: shares memory with something in eager, not compiled"
            )
            assert self.storages_back.setdefault(b, a) == a, (
                f"{path}: shares memory with something compiled, not in eager"
            )
        torch.testing.assert_close(
            right.detach(),
            left.detach(),
            **(EXACT if self.exact else HALVES if left.dtype in HALF else ROUNDED),
            equal_nan=True,
            msg=lambda text: f"{path}: {text}",
        )
        if asked(left, "is_leaf") is True:
            self.same(left.grad, right.grad, f"{path}.grad")
        if left.__dict__ or right.__dict__:
            self.mappings(left.__dict__, right.__dict__, f"vars({path})")

    def errors(self, left: BaseException, right: BaseException, path: str) -> None:
        assert str(left) == str(right), f"{path}: {left!r} in eager, {right!r} compiled"
        self.same(left.args, right.args, f"{path}.args")
        for name in ("__cause__", "__context__", "__suppress_context__"):
            self.same(getattr(left, name), getattr(right, name), f"{path}.{name}")

    def outcomes(self, left: Outcome, right: Outcome, path: str, lines: bool) -> None:
        if (left.error is None) != (right.error is None):
            error = left.error or right.error
            shown = "".join(traceback.format_exception(error))
            raise AssertionError(
                f"{path}: {'eager' if left.error else 'compiled'} raises, the other does not:\n{shown}"
            )
        if right.error is not None:
            shown = "".join(traceback.format_exception(right.error))
            assert type(left.error) is type(right.error), (
                f"{path}: {left.error!r} in eager; compiled:\n{shown}"
            )
            self.same(left.error, right.error, f"{path} raised")
            if lines:
                assert left.lines == right.lines, (
                    f"{path}: traceback\n{left.lines} in eager\n{right.lines} compiled"
                )
        self.same(left.value, right.value, f"{path} returned")
        assert left.printed == right.printed, (
            f"{path}: printed {left.printed!r} in eager, {right.printed!r} compiled"
        )


def compare(left: Run, right: Run, what: str, lines: bool, exact: bool = True) -> None:
    comparison = Comparison(exact)
    comparison.same(left.inputs, right.inputs, f"{what}: inputs")
    comparison.same(left.kwargs, right.kwargs, f"{what}: keyword inputs")
    comparison.same(left.outside, right.outside, f"{what}: cells and globals")
    for number, (a, b) in enumerate(zip(left.outcomes, right.outcomes, strict=True), 1):
        comparison.outcomes(a, b, f"{what}: call {number}", lines)
    assert torch.equal(left.rng[0], right.rng[0]), f"{what}: torch's random state differs"
    assert left.rng[1] == right.rng[1], f"{what}: random's state differs"
    assert left.modes == right.modes, (
        f"{what}: modes {left.modes} after eager, {right.modes} after compiled"
    )
    if left.grads is not None:
        for number, (a, b) in enumerate(zip(left.grads, right.grads, strict=True)):
            assert (a is None) == (b is None), (
                f"{what}: gradient {number} is {a} in eager, {b} compiled"
            )
            if a is not None:
                tolerance = {"rtol": 1e-5, "atol": 1e-6} if exact else {"rtol": 5e-4, "atol": 1e-5}
                torch.testing.assert_close(
                    b, a, **tolerance, msg=lambda text: f"{what}: gradient {number}: {text}"
                )  # noqa: B023


class Counting:
    """The eager backend, counting the operations that its graphs run."""

    def __init__(self) -> None:
        self.ran = 0

    def __call__(
        self, gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]
    ) -> Callable[..., Any]:
        size = sum(node.op.startswith("call_") for node in gm.graph.nodes)

        def run_graph(*args: Any) -> Any:
            self.ran += size
            return gm.forward(*args)

        return run_graph


def check(
    fn: types.FunctionType,
    *inputs: Any,
    graphs: int | None = 1,
    breaks: tuple[str, ...] | int | None = (),
    ran: int | None = None,
    kwargs: dict[str, Any] | None = None,
    globals: tuple[str, ...] = (),  # noqa: A002 - that is what they are
    backend: Any = None,
    skipped: bool = False,
    lines: bool = True,
    again: bool = True,
    backward: bool = False,
    fullgraph: bool = False,
) -> Any:
    """Asserts that `fn(*inputs, **kwargs)` does compiled what it does in eager; the compiled handle
    comes back.

    graphs: graphs made by the first call. breaks: reason ids of its breaks in order, or their
    number. ran: operations that the first call runs in graphs. None: not asked. globals: names of
    globals that the function changes. skipped: frames may be left to Python. again: the second
    call, on new copies, compiles nothing. backward: gradients are compared. backend: where the test
    is about one; else that of this run of the tests (FRAMEJIT_BACKEND).
    """
    backend = backend or framejit.config.backend
    exact = backend not in ("native", "autotune")
    world, counter = World(fn, inputs, kwargs or {}, globals), Counting()
    _rests.clear()
    try:
        eager, twice = run(fn, world, 1, backward), run(fn, world, 2, False)
        chosen = counter if backend == "eager" else backend
        # by default, what is compiled early depends on the time that the program has taken
        options = {"compile_budget": float("inf")} if backend == "autotune" else {}
        with framejit.config.patch(strict=True):
            handle = framejit.compile(fn, backend=chosen, fullgraph=fullgraph, options=options)
        recorder = events.Recorder()
        handle.framejit.cache.sinks.append(recorder)
        compare(eager, run(handle, world, 1, backward), "first call", lines, exact)
        compiles, seen, ran_first = handle.framejit.compiles, list(recorder.events), counter.ran
        compare(eager, run(handle, world, 1, backward), "second call", lines, exact)
        if again:
            misses = [event.failures for event in recorder.events if isinstance(event, events.Miss)]
            assert handle.framejit.compiles == compiles, f"the second call compiled again: {misses}"
        compare(twice, run(handle, world, 2, False), "two calls on one set of inputs", lines, exact)
    finally:
        world.restore()
    expect(seen, graphs, breaks, skipped)
    assert ran is None or backend != "eager" or ran_first == ran, (
        f"{ran_first} operations ran in graphs, expected {ran}"
    )
    return handle


def expect(
    seen: list[Any], graphs: int | None, breaks: tuple[str, ...] | int | None, skipped: bool
) -> None:
    left_out = [
        f"{event.function}: {event.reason}" for event in seen if isinstance(event, events.Skipped)
    ]
    assert skipped or not left_out, f"left to Python: {left_out}"
    captured = [event for event in seen if isinstance(event, events.Captured)]
    broken = [event for event in seen if isinstance(event, events.Break)]
    if breaks is not None:
        reasons = tuple(event.reason_id for event in broken)
        told = [f"{event.sentence} ({event.where.rpartition('/')[2]})" for event in broken]
        assert (reasons if isinstance(breaks, tuple) else len(reasons)) == breaks, (
            f"breaks {reasons}, expected {breaks}: {told}"
        )
    if graphs is not None:
        made = [event.where.rpartition("/")[2] for event in captured if event.graph is not None]
        assert len(made) == graphs, f"{len(made)} graphs ({made}), expected {graphs}"


def capture_events(handle: Any) -> list[Any]:
    """The list that grows with what happens to a handle."""
    recorder = events.Recorder()
    handle.framejit.cache.sinks.append(recorder)
    return recorder.events


def strict_compile(fn: Any, **options: Any) -> Any:
    """framejit.compile under strict."""
    with framejit.config.patch(strict=True):
        return framejit.compile(fn, **options)


def vec(*shape: int, grad: bool = False, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor of distinct numbers, the same every time."""
    n = 1
    for size in shape:
        n *= size
    made = (torch.arange(n, dtype=torch.float32) / max(1, n) + 0.25).reshape(shape).to(dtype)
    return made.requires_grad_() if grad else made


PYTHON = sys.version_info[:2]
