"""Entries as bytes, with pickle. What an entry holds of the program is replaced by the number of a
description; what it holds of its own site by a name.

Loading imports nothing but torch, NumPy and the standard library, and finds no class or function of
another module by name, so it runs no code but ours.
"""

from __future__ import annotations

import functools
import io
import marshal
import pickle
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from ....backends.graph.graph_constant import with_constants
from ....backends.graph.wrappers import WrapperDescription
from ....backends.native.toolchain.compile_c import Symbol
from ....factory_call import factory_call_of
from ....garbage_collection import import_permanently
from ....generated_source import file_name, keep_source
from ....guards import native
from ....guards.kinds.containers import is_constant
from ....guards.source import DictItem, FrameView, Source
from ...pycode import call_completion
from ...pycode.call_completion import CallCompletion
from ...pycode.code_builder import dummy_closure
from ...pycode.decode import decode
from ...pycode.instr import DecodedCode
from ...pycode.resume import SuspendedFrame
from .. import _hook
from .._hook import ContinuationMaker, Quiet, Site
from ..sites import HandleSites
from .content import LITERALS, root_of
from .distributions import arguments_of, is_distribution, make_distribution
from .guard_table import PLAIN
from .live_code import with_live_code
from .object_descriptions import AtSource, Description, NotStorable, describe, describe_globals
from .operators import is_users_operator
from .wrapper_metadata import reduce_wrapper_description

OURS = "framejit"
SENTINELS = {"unbound": native.UNBOUND, "unbound slot": _hook.UNBOUND, "...": ...}
WORLD = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType,
         types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType,
         types.MemberDescriptorType, types.ClassMethodDescriptorType)  # fmt: skip
# made by code generation or by a backend, unless a path of the program leads there
COPIED = (tuple, list, dict, set, frozenset, slice, range, types.CodeType, types.MethodType,
          types.MethodWrapperType,
          functools.partial, torch._ops.OpOverload, torch._ops.OpOverloadPacket,
          torch._C._functionalization.ViewMeta,
          torch._C._functionalization.InverseReturnMode)  # type: ignore[attr-defined]  # fmt: skip
Reduced = tuple[Callable[..., Any], tuple[Any, ...]]


class ProgramObjects:
    """The objects of the program that an entry names, by number, with their descriptions. sources:
    objects, each with the path that leads to it."""

    def __init__(self, sources: Sequence[tuple[Any, Source]] = ()) -> None:
        self.sources = {id(obj): source for obj, source in sources}
        self.descriptions: list[Description] = []
        self.kernels: dict[str, None] = {}  # the keys of the compiled libraries that it calls
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no id is used twice

    def number(self, obj: Any) -> int:
        """The number of an object, which is described once. Raises NotStorable."""
        number = self._numbers.get(id(obj))
        if number is None:
            description = (
                describe_globals(obj)
                if isinstance(obj, dict)
                else describe(obj, self.sources.get(id(obj)))
            )
            if isinstance(description, AtSource):
                for key in objects_named_by(description.source):
                    self.number(key)  # it is found first
            number = self._numbers[id(obj)] = len(self.descriptions)
            self._kept.append(obj)
            self.descriptions.append(description)
        return number


def objects_named_by(source: Source) -> list[Any]:
    """The keys on a path that are objects."""
    found: list[Any] = []
    step: Source | None = source
    while step is not None:
        if isinstance(step, DictItem) and not is_constant(step.key):
            found.append(step.key)
        step = step.base
    return found


def pickle_of_descriptions(objects: ProgramObjects) -> bytes:
    """The descriptions one after the other. A path in one may name the objects of those before.
    Raises NotStorable."""
    file = io.BytesIO()
    pickler = DescriptionPickler(file, {}, objects)
    for description in objects.descriptions:
        pickler.dump(description)
        pickler.described += 1
    return file.getvalue()


def find_described(data: bytes, frame: FrameView) -> list[Any]:
    """The objects of the program, by number. Raises NotFound."""
    found: list[Any] = []
    unpickler = EntryUnpickler(data, {}, found)
    while True:
        try:
            description = unpickler.load()
        except EOFError:
            return found
        found.append(description.find(frame))


def pickle_of(value: Any, own: dict[str, Any], objects: ProgramObjects) -> bytes:
    """A value as bytes. own: objects of the entry's site by name. objects: takes those of the
    program."""
    file = io.BytesIO()
    EntryPickler(file, own, objects).dump(value)
    return file.getvalue()


class EntryPickler(pickle.Pickler):
    """Writes one value. own, objects: see pickle_of."""

    def __init__(self, file: io.BytesIO, own: dict[str, Any], objects: ProgramObjects) -> None:
        super().__init__(file, protocol=5)
        self.own = {id(obj): name for name, obj in (own | SENTINELS).items()}
        self.objects, self.sources = objects, objects.sources
        self.sites = own.get("sites")
        self._copied: set[type] = set()  # types whose objects are copied, met so far
        # by the id of their object: Python makes a method anew each time that it is read
        self._methods: dict[tuple[int, str], types.MethodType] = {}
        self._reducers: dict[type, Callable[[Any], Any] | None] = {}  # by type, used so far

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) in PLAIN and obj is not ...:
            return None
        name = self.own.get(id(obj))
        if name is not None:
            return name
        if self._belongs_to_program(obj):
            return self.objects.number(obj)
        return None

    def _belongs_to_program(self, obj: Any) -> bool:
        """Whether it is an object that the program has, of which a copy would be another one."""
        if type(obj) in self._copied:
            return id(obj) in self.sources
        if isinstance(obj, LITERALS):
            return False
        if id(obj) in self.sources:
            return True
        if isinstance(obj, types.FunctionType):
            return (
                factory_call_of(obj) is None
                and not is_generated(obj)
                and not belongs_to_framejit(obj)
            )
        if isinstance(obj, dict):
            return "__name__" in obj and "__builtins__" in obj
        if isinstance(obj, WORLD):
            return not belongs_to_framejit(obj)
        if is_users_operator(obj):
            return True
        is_ours = root_of(type(obj).__module__) == OURS
        if is_ours or isinstance(obj, COPIED) or is_distribution(obj):
            self._copied.add(type(obj))
            return False
        return True

    def reducer_override(self, obj: Any) -> Any:
        """How an object of an entry is pickled: sites, kernels and methods by themselves, others by
        the reducer of their class."""
        if isinstance(obj, Site):
            if obj.data.forbidden is not None:
                raise NotStorable("a break that fullgraph forbids")
            return site_after, (self.sites, obj.data.frames)
        if isinstance(obj, Symbol):
            self.objects.kernels[obj.library] = None
        if isinstance(obj, types.MethodType):
            first = self._methods.setdefault((id(obj.__self__), obj.__name__), obj)
            if first is not obj:
                return written_before, (first,)
        cls = type(obj)
        if cls not in self._reducers:
            self._reducers[cls] = next(
                (reduce for kind, reduce in REDUCERS.items() if issubclass(cls, kind)), None
            )
        reduce = self._reducers[cls]
        if reduce is None:
            return reduce_distribution(obj) if is_distribution(obj) else NotImplemented
        return reduce(obj)


class DescriptionPickler(EntryPickler):
    """Writes descriptions one after the other."""

    described = 0  # so far

    def persistent_id(self, obj: Any) -> Any:
        number = super().persistent_id(obj)
        if type(number) is int and number >= self.described:
            raise NotStorable("a path that names an object of the program")
        return number


class EntryUnpickler(pickle.Unpickler):
    """Reads one value. own: objects of the entry's site by name. found: objects of the program by
    number."""

    def __init__(self, data: bytes, own: dict[str, Any], found: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(data))
        self.own, self.found = own | SENTINELS, found

    def persistent_load(self, pid: Any) -> Any:
        return self.own[pid] if isinstance(pid, str) else self.found[pid]

    def find_class(self, module: str, name: str) -> Any:
        if root_of(module) != OURS:
            raise pickle.UnpicklingError(f"{module}.{name} is not framejit's")
        import_permanently(module, OURS)
        return super().find_class(module, name)


def belongs_to_framejit(obj: Any) -> bool:
    return root_of(getattr(obj, "__module__", None)) == OURS and "<" not in obj.__qualname__


def is_generated(function: types.FunctionType) -> bool:
    """Whether code generation has made the function."""
    return hasattr(function, "_framejit_skip")


# how objects are taken apart


def reduce_code(code: types.CodeType) -> Reduced:
    return join_code, (marshal.dumps(code.replace(co_consts=())), code.co_consts)


def join_code(data: bytes, consts: tuple[Any, ...]) -> types.CodeType:
    code: types.CodeType = marshal.loads(data)
    return code.replace(co_consts=consts)


def reduce_function(function: types.FunctionType) -> Any:
    call = factory_call_of(function)
    if call is not None:
        return call.factory, call.arguments
    if is_generated(function):
        return join_function, (function.__code__, function.__globals__)
    if belongs_to_framejit(function):
        return NotImplemented
    raise NotStorable(f"function {function.__qualname__}")


def join_function(code: types.CodeType, globals_: dict[str, Any]) -> types.FunctionType:
    made = types.FunctionType(code, globals_, code.co_name, None, dummy_closure(code))
    made._framejit_skip = True  # type: ignore[attr-defined]
    return made


def reduce_method(method: types.MethodType) -> Any:
    """Pickles a graph's `forward` as its text, its constants, and the operators of the program that
    it calls."""
    graph_module = method.__self__
    if not isinstance(graph_module, torch.fx.GraphModule):
        return NotImplemented
    if method.__name__ != "forward":
        raise NotStorable(f"method {method.__name__} of a graph")
    attributes = {
        str(node.target): getattr(graph_module, str(node.target), None)
        for node in graph_module.graph.find_nodes(op="get_attr")
    }
    if not all(isinstance(attribute, torch.Tensor) for attribute in attributes.values()):
        raise NotStorable("a graph with attributes that are no tensors")
    # the text finds them in torch.ops, and another process has to compare them
    operators = {node.target for node in graph_module.graph.nodes if is_users_operator(node.target)}
    names = {
        name: item for name, item in method.__func__.__globals__.items() if name != "__builtins__"
    }
    constants = with_constants(attributes)
    return join_forward, (graph_module.code, names, constants, tuple(operators))


def join_forward(
    text: str, names: dict[str, Any], constants: dict[str, Any], operators: tuple[Any, ...]
) -> Callable[..., Any]:
    """The function of a graph's Python text, as torch.fx writes it. constants: the attributes of
    its `self`. operators: those of the program that it calls."""
    name = file_name("graph")
    namespace = dict(names)
    exec(compile(text, name, "exec"), namespace)
    forward = namespace["forward"]
    keep_source(name, text, forward)
    return types.MethodType(forward, types.SimpleNamespace(**constants))


def written_before(obj: Any) -> Any:
    """The object itself, of which a file has one copy."""
    return obj


def reduce_maker(maker: ContinuationMaker) -> Reduced:
    return ContinuationMaker, (maker.site, maker.eager)


def reduce_quiet(quiet: Quiet) -> Reduced:
    return Quiet, (quiet.wrapped,)


def reduce_overload(operator: Any) -> Reduced:
    return find_torchs_operator, (str(operator),)


def find_torchs_operator(name: str) -> Any:
    """torch's operator by its dotted name, with or without an overload."""
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part)
    return found


def site_after(sites: HandleSites, frames: tuple[SuspendedFrame, ...]) -> Site:
    return sites.site_after_break(tuple(with_live_code(frame, sites) for frame in frames))


def reduce_decoded(decoded: DecodedCode) -> Reduced:
    return decode, (decoded.code,)


def reduce_completion(completion: CallCompletion) -> str:
    """The name of one of the module's constants."""
    for name, known in vars(call_completion).items():
        if known is completion:
            return name
    raise NotStorable("a break inside a call whose result an instruction goes on with")


def reduce_torch_value(value: Any) -> Any:
    """A dtype, layout or memory format by its name in torch."""
    return find_in_torch, (str(value).removeprefix("torch."),)


def find_in_torch(name: str) -> Any:
    return getattr(torch, name)


def reduce_method_wrapper(method: Any) -> Reduced:
    """A method in C of an object, such as `torch.Tensor.T.__get__`."""
    return method_of, (method.__self__, method.__name__)


def method_of(obj: Any, name: str) -> Any:
    return getattr(obj, name)


def reduce_view_step(step: Any) -> Reduced:
    return view_step, (type(step).__name__, step.as_tuple())


def reduce_distribution(obj: Any) -> Reduced:
    return make_distribution, arguments_of(obj)


def view_step(name: str, arguments: tuple[Any, ...]) -> Any:
    """A view in C++, of a class of torch's."""
    return getattr(torch._C._functionalization, name)(arguments)


RETURN_MODE: Any = torch._C._functionalization.InverseReturnMode  # type: ignore[attr-defined]


def reduce_return_mode(mode: Any) -> Reduced:
    return return_mode, (mode.name,)


def return_mode(name: str) -> Any:
    return getattr(RETURN_MODE, name)


REDUCERS: dict[type, Callable[[Any], Any]] = {
    torch._C._functionalization.ViewMeta: reduce_view_step, RETURN_MODE: reduce_return_mode,
    types.CodeType: reduce_code, types.FunctionType: reduce_function,
    types.MethodType: reduce_method, types.MethodWrapperType: reduce_method_wrapper,
    ContinuationMaker: reduce_maker, Quiet: reduce_quiet, DecodedCode: reduce_decoded,
    CallCompletion: reduce_completion, torch._ops.OpOverload: reduce_overload,
    torch._ops.OpOverloadPacket: reduce_overload, torch.dtype: reduce_torch_value,
    torch.layout: reduce_torch_value, torch.memory_format: reduce_torch_value,
    WrapperDescription: reduce_wrapper_description,
}  # fmt: skip
