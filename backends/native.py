"""`native`: framejit's own compiler. Graph -> functional ATen graph -> loops -> fused loops -> C or Triton, and Python that calls it."""
from __future__ import annotations

import importlib
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch._decomp import core_aten_decompositions
from torch._subclasses.fake_tensor import FakeTensor

from ..generated import file_name, keep
from .eager_gradients import needs_gradient
from .loops.ir import Call, Kernel, Program
from .lower.build import lower
from .lower.lowerings import LOWERINGS
from .optimize.fuse import fuse
from .optimize.simplify import simplify
from .optimize.split import split_long_rows
from .passes.attention import join_attention
from .passes.epilogues import join_epilogues
from .passes.functional import fakes, functional, needs_wrappers
from .printers.c import preamble, print_c
from .printers.host import Host, Launch, Namespace
from .registry import register_backend
from .toolchain._launch import run
from .toolchain.compile_c import NoCompiler, compiler, functions

if TYPE_CHECKING:
    from .training import Part

Around = Callable[["Part", Callable[..., Any]], Callable[..., Any]]

# Called as they are though torch knows how to decompose them: what they become would be slower than they are.
WHOLE = (
    "_scaled_dot_product", "upsample_", "grid_sampler", "im2col", "col2im", "unfold_backward", "index_add", "index_copy", "index_fill",
    "addmm", "baddbmm", "_unsafe_view", "pixel_", "renorm", "bernoulli", "multi_margin", "multilabel", "reflection_pad", "replication_pad",
    "_unsafe_index", "embedding_dense_backward", "take", "_chunk_cat", "unfold", "max_pool", "avg_pool", "native_dropout",
)  # fmt: skip


@lru_cache(1)
def decompositions() -> dict[Any, Callable[..., Any]]:
    """torch's decompositions of operators that have no lowering here."""
    known = core_aten_decompositions().items()
    return {operator: rule for operator, rule in known if operator not in LOWERINGS and not any(word in str(operator) for word in WHOLE)}


@dataclass
class Report:
    """What became of a graph: the host program, the kernels' texts, operators that are called, why neighbours stayed apart."""

    host: str = ""
    kernels: list[str] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    apart: dict[tuple[str, str], str] = field(default_factory=dict)

    def __str__(self) -> str:
        """One sentence for explain."""
        names = Counter(name.removeprefix("aten.").removesuffix(".default") for name in self.called)
        calls = ", ".join(f"{name} x{count}" if count > 1 else name for name, count in names.most_common())
        return f"{len(self.kernels)} different kernels; torch's own operators for {calls or 'nothing'}"


def unreported(text: str) -> None:
    """For a graph that nobody explains."""


@register_backend("native")
def native(
    gm: torch.fx.GraphModule, example_inputs: list[Any], *, around: Around | None = None, report: Callable[[str], None] = unreported
) -> Callable[..., Any]:
    """Compiles a captured graph; what has no kernel of ours runs by torch's own operators. around: gets the parts of a graph with
    gradients and the callables made of them, and returns what is called instead."""
    if not any(isinstance(fake, FakeTensor) for fake in fakes(gm)):
        return gm.forward
    if "cuda" in usable() and any(isinstance(fake, FakeTensor) and fake.device.type == "cuda" for fake in fakes(gm)):
        gpu().prepare()
    try:
        return compile_captured(gm, example_inputs, around, report)
    except Exception as error:
        if type(error).__name__ != "GuardOnDataDependentSymNode":
            raise
    report("runs torch's operators: sizes depend on values")
    return gm.forward


def compile_captured(
    gm: torch.fx.GraphModule, example_inputs: list[Any], around: Around | None, report: Callable[[str], None]
) -> Callable[..., Any]:
    """Kernels for a captured graph that has tensors."""
    outputs = gm.graph.output_node().all_input_nodes
    if any(map(needs_gradient, outputs)) or needs_wrappers(gm):
        return differentiable(gm, example_inputs, around, report)
    told = Report()
    try:
        aten_graph = functional(join_attention(gm), decompositions())
        join_epilogues(aten_graph)
        compiled = compile_aten(aten_graph, told)
    except NotImplementedError:
        return differentiable(gm, example_inputs, around, report)
    report(f"compiled: {told}")
    return without_gradients(compiled) if any(getattr(example, "requires_grad", False) for example in example_inputs) else compiled


def gpu() -> Any:
    """The part for the GPU: it needs Triton, which torch for the CPU comes without. Raises ImportError."""
    return importlib.import_module(".gpu", __package__)


@lru_cache(1)
def usable() -> frozenset[str]:
    """Types of devices for which kernels can be compiled here; what is missing is told once, in a warning."""
    found = set()
    try:
        compiler()
        found.add("cpu")
    except NoCompiler as error:
        warn(f"no C compiler works here, so the CPU runs torch's own operators ({error}); install gcc or clang, or set CC")
    if torch.cuda.is_available():
        try:
            gpu().check()
            found.add("cuda")
        except (ImportError, RuntimeError) as error:
            warn(f"Triton cannot be used here, so the GPU runs torch's own operators ({error}); install triton for this version of torch")
    return frozenset(found)


def processors() -> dict[str, int]:
    """By type of device, how many rows a kernel should have at least to keep it busy."""
    found = {"cpu": torch.get_num_threads()}
    if "cuda" in usable():
        found["cuda"] = 2 * torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    return found


def warn(text: str) -> None:
    warnings.warn(f"framejit: {text}", RuntimeWarning, stacklevel=2)


def without_gradients(compiled: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        with torch.no_grad():
            return compiled(*args)

    return call


def differentiable(
    gm: torch.fx.GraphModule, example_inputs: list[Any], around: Around | None, report: Callable[[str], None]
) -> Callable[..., Any]:
    """Forward and backward, both compiled."""

    def compile_part(part: Part) -> Callable[..., Any]:
        told = Report()
        compiled = compile_aten(part.gm, told, boxed=part.backward and around is None)
        report(f"compiled {'backward' if part.backward else 'forward'}: {told}")
        return compiled if around is None else around(part, compiled)

    training = importlib.import_module(".training", __package__)  # it loads aot_autograd, which takes a second or more
    made: Callable[..., Any] = training.by_parts(gm, example_inputs, compile_part, random_like_eager=True, decompositions=decompositions())
    return made


def compile_aten(gm: torch.fx.GraphModule, report: Report | None = None, *, boxed: bool = False) -> Callable[..., Any]:
    """A functional ATen graph, its nodes with fake results in meta["val"], as a function of its inputs (boxed: of one list)."""
    report = report or Report()
    program, report.apart = fuse(lower(gm, usable()))
    report.called = [step.origin for step in program.steps if isinstance(step, Call)]
    program.steps = [simplify(step) if isinstance(step, Kernel) else step for step in program.steps]
    program = split_long_rows(program, processors())
    namespace = Namespace({"run": run})
    steps = enumerate(program.steps)
    kernels = {position: step for position, step in steps if isinstance(step, Kernel) and step.rows != 0}
    on_gpu = {position for position, step in kernels.items() if program.buffers[step.stores[0].buffer].device.type == "cuda"}
    launches = cpu_launches(program, {n: step for n, step in kernels.items() if n not in on_gpu}, namespace, report)
    first = []
    if on_gpu:
        launches |= gpu().launches(program, {n: kernels[n] for n in on_gpu}, namespace, report.kernels)
        first = gpu().prologue(program, namespace)
    namespace.objects |= program.constants
    report.host = Host(program, launches, namespace, first, boxed=boxed).text()
    name = file_name("native")
    exec(compile(report.host, name, "exec"), namespace.objects)
    call: Callable[..., Any] = namespace.objects["call"]
    keep(name, report.host, call)
    return make_boxed(call) if boxed else call


def make_boxed(call: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function that takes a list of its arguments, as aot_autograd's callers look for it."""
    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def cpu_launches(program: Program, kernels: Mapping[int, Kernel], namespace: Namespace, report: Report) -> dict[int, Launch]:
    """Prints and compiles kernels as C; equal ones once."""
    if not kernels:
        return {}
    threads = torch.get_num_threads()
    printed = {position: print_c(step, program.buffers, threads) for position, step in kernels.items()}
    report.kernels = list(dict.fromkeys(text for text, _ in printed.values()))
    _, _, vector = compiler()
    addresses = dict(zip(report.kernels, functions(preamble(vector), report.kernels, 2), strict=True))
    launches = {}
    for position, (text, parameters) in printed.items():
        name = f"kernel_{report.kernels.index(text)}"
        namespace.objects[name] = addresses[text]
        launches[position] = Launch(f"run({name}, ", parameters)
    return launches
