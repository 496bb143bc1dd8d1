"""`native`, framejit's own compiler: graph -> functional ATen graph -> loops -> fused loops -> C or
Triton, and the Python function that launches them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode

from ...clock import Clock
from ...errors import warn_once
from ...events import Reporter
from ...garbage_collection import no_collections, permanent_objects
from ...records import record
from ..autograd.divergent_operators import diverges
from ..graph.copies import Copies
from ..graph.data_dependent_sizes import (
    Uncheckable,
    gives_data_dependent_size,
    has_data_dependent_sizes,
    with_checked_sizes,
)
from ..graph.fake_values import fake_of
from ..graph.gradient_history import wants_gradients
from ..graph.graph_structure import shared_results
from ..graph.node_targets import name_of
from ..graph.number_arguments import takes_varying_length
from ..graph.passes.attention import join_attention
from ..graph.passes.batch_norms import fold_batch_norms
from ..graph.passes.constants import take_out_constants
from ..graph.passes.convolution_biases import take_out_biases
from ..graph.passes.functional import fakes, functional, needs_wrappers
from ..graph.wrappers import has_wrappers
from ..subgraphs.host_numbers import compile_by_device
from ..subgraphs.uncompiled_nodes import compile_between
from .bounds import require
from .channels_last import to_channels_last
from .compile_report import CompileReport, kernel_records
from .convolutions import rewrite_convolutions
from .decompositions import decompositions
from .frozen_graph import FrozenGraph
from .fuse.fuse import fuse
from .fuse.horizontal import fuse_horizontally
from .fuse.in_place import reuse_memory
from .fuse.input_writes import store_into_inputs
from .fuse.padded_rows import pad_rows_in_place
from .fuse.split import split_long_rows
from .ir.patterns import Patterns
from .ir.program import AnyKernel, Bound, Call, Program, with_buffers, writes
from .loaded_host import load_cpu_host, load_host, make_boxed, taking_a_list, without_gradients
from .lower.build import lower
from .printers.base import Parameters
from .printers.c.kernel import print_c
from .printers.c.scalars import preamble
from .printers.host import Host, Launch, Namespace
from .toolchain._launch import run
from .toolchain.compile_c import NoCompiler, compiler, functions

if TYPE_CHECKING:
    from ..autograd.graph_parts import GraphPart
    from .gpu_jobs import Choice

Around = Callable[["GraphPart", Callable[..., Any]], Callable[..., Any]]


@record
class CompileSettings:
    """The options with which a graph is compiled."""

    around: Around | None
    report: Reporter
    freezing: bool
    channels_last: bool
    tune: bool

    def of_shared_subgraphs(self) -> Hashable:
        """What subgraphs of equal structure must agree in to share kernels; None if they never do:
        `around` gets each."""
        return None if self.around is not None else ("native", self.tune, self.channels_last)


def compile_or_run_captured(
    gm: torch.fx.GraphModule, example_inputs: list[Any], wanted: CompileSettings
) -> Callable[..., Any]:
    """Compiles a graph; the captured graph where no kernels can be made for it."""
    if is_left_to_torch(gm, wanted.report):
        return gm.forward
    parts = compile_by_device(gm, example_inputs, partial(compile_or_run_captured, wanted=wanted))
    if parts is not None:
        return parts
    if has_data_dependent_sizes(gm) or any(map(takes_varying_length, gm.graph.nodes)):
        compile_part = partial(compile_or_run_captured, wanted=wanted)
        return compile_between(gm, example_inputs, runs_by_torch, compile_part)
    if "cuda" in usable_devices() and any(
        isinstance(fake, FakeTensor) and fake.device.type == "cuda" for fake in fakes(gm)
    ):
        gpu().prepare()
    try:
        return with_checked_sizes(gm, compile_captured(gm, example_inputs, wanted))
    except Uncheckable:
        reason = "sizes that depend on values have to agree"
    except SyntaxError:  # of random_'s overload "from"
        reason = "torch.fx cannot write them as Python"
    except Exception as error:
        if not is_data_dependent(error):
            raise
        reason = "numbers depend on values"
    wanted.report(f"runs torch's operators: {reason}")
    return gm.forward


def runs_by_torch(node: torch.fx.Node) -> bool:
    """Whether torch runs a node, between the subgraphs that are compiled."""
    return gives_data_dependent_size(node) or takes_varying_length(node)


def is_left_to_torch(gm: torch.fx.GraphModule, report: Reporter) -> bool:
    """Whether a graph has an operator that only torch runs as eager does, or no tensors."""
    if any(map(diverges, gm.graph.nodes)):
        return True
    if not has_wrappers(gm) and not any(isinstance(fake, FakeTensor) for fake in fakes(gm)):
        return True
    if not any(map(is_transform_on_cpu, gm.graph.nodes)) or (
        fake_transforms_have_the_real_strides()
    ):
        return False
    report(
        "runs torch's operators: this torch does not say beforehand which strides the result "
        "of a Fourier transform has"
    )
    return True


def is_transform_on_cpu(node: torch.fx.Node) -> bool:
    """Whether it is a torch.fft transform on the CPU."""
    fake = fake_of(node)
    return (
        isinstance(fake, FakeTensor)
        and fake.device.type == "cpu"
        and name_of(node).startswith("fft_")
    )


@lru_cache(1)
def fake_transforms_have_the_real_strides() -> bool:
    """Whether FakeTensor gives the real strides of Fourier transforms on the CPU, determined by
    trying one (torch 2.11 does not)."""
    real = torch.zeros(6, 7, 12)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(real)
        promised = torch.fft.rfft(fake, 10, dim=0).stride()
    return promised == torch.fft.rfft(real, 10, dim=0).stride()


def is_data_dependent(error: Exception) -> bool:
    """Whether the error says that a number depends on a tensor's values."""
    if isinstance(error, DataDependentOutputException):
        return True
    return isinstance(
        error,
        importlib.import_module(
            "torch.fx.experimental.symbolic_shapes"
        ).GuardOnDataDependentSymNode,
    )


def compile_captured(
    gm: torch.fx.GraphModule, example_inputs: list[Any], wanted: CompileSettings
) -> Callable[..., Any]:
    """Kernels for a captured graph that has tensors."""
    report = wanted.report
    if wants_gradients(gm) or needs_wrappers(gm) or has_wrappers(gm):
        return compile_with_gradients(gm, example_inputs, wanted)
    known = {} if wanted.freezing else shared_results(gm)
    key = "native inference", wanted.channels_last, wanted.tune
    if key not in known:
        compile_report = CompileReport(report.clock)
        try:
            with report.phase("lowering"), no_collections():
                known[key] = compile_inference(gm, example_inputs, wanted, compile_report)
        except NotImplementedError:
            return compile_with_gradients(gm, example_inputs, wanted)
        report(f"compiled: {compile_report}")
        compile_report.send_to(report, "graph")
    compiled = known[key]
    if any(getattr(example, "requires_grad", False) for example in example_inputs):
        return without_gradients(compiled)
    return compiled


def compile_inference(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    wanted: CompileSettings,
    compile_report: CompileReport,
) -> Callable[..., Any]:
    """Compiles a graph without gradients by way of a functional graph."""
    aten_graph = functional(join_attention(gm), decompositions())
    divided = None
    if wanted.freezing:
        captured, placeholders = (
            graph.find_nodes(op="placeholder") for graph in (gm.graph, aten_graph.graph)
        )
        every = zip(captured, placeholders, example_inputs, strict=True)
        parameters = {node for source, node, example in every if is_parameter(source, example)}
        fold_batch_norms(aten_graph.graph, parameters)
    take_out_biases(aten_graph.graph)
    if wanted.channels_last:
        to_channels_last(aten_graph.graph)
    if wanted.freezing:
        divided = take_out_constants(aten_graph, parameters)
    compiled = compile_aten(aten_graph, compile_report, tune=wanted.tune)
    if divided is None:
        return compiled
    return FrozenGraph(
        divided.once.forward,
        divided.positions,
        compiled,
        lambda: compile_captured(gm, example_inputs, replace(wanted, freezing=False)),
    )


def is_parameter(node: torch.fx.Node, example: Any) -> bool:
    """Whether an input can be assumed constant: a parameter or an attribute that the graph does not
    write."""
    if not isinstance(example, torch.Tensor) or example.is_inference() or node.meta.get("mutated"):
        return False
    return isinstance(example, torch.nn.Parameter) or "." in node.meta.get("path", "")


def gpu() -> Any:
    """The module for the GPU. It needs Triton, which torch for the CPU does not include. Raises
    ImportError."""
    return importlib.import_module(".gpu", __package__)


@lru_cache(1)
def usable_devices() -> frozenset[str]:
    """Device types for which kernels can be compiled here. Warns once about a missing tool."""
    found = set()
    try:
        compiler()
        found.add("cpu")
    except NoCompiler as error:
        warn_once(
            f"no C compiler works here, so the CPU runs torch's own operators ({error}); install "
            "gcc or clang, or set CC"
        )
    if torch.cuda.is_available():
        try:
            gpu().check_compiler()
            found.add("cuda")
        except (ImportError, RuntimeError) as error:
            warn_once(
                f"Triton cannot be used here, so the GPU runs torch's own operators ({error}); "
                "install triton for this version of torch"
            )
    return frozenset(found)


def processors() -> dict[str, int]:
    """The least number of rows of a kernel that keeps each device type busy."""
    found = {"cpu": torch.get_num_threads()}
    if "cuda" in usable_devices():
        found["cuda"] = (
            2 * torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
        )
    return found


class PendingKernels:
    """Waits for kernels that are being compiled: for each at once or, while `together`, for all at
    the end, so that the next graph is lowered meanwhile. clock: measures the waiting."""

    def __init__(self, clock: Clock, together: bool = False) -> None:
        self.clock, self.together = clock, together
        self.left: list[Callable[[], None]] = []

    def add(self, finish: Callable[[], None]) -> None:
        self.left.append(finish)
        if not self.together:
            self.end()

    def end(self) -> None:
        self.together = False
        with self.clock.phase("triton_compile"):
            while self.left:
                self.left.pop(0)()


def compile_with_gradients(
    gm: torch.fx.GraphModule, example_inputs: list[Any], wanted: CompileSettings
) -> Callable[..., Any]:
    """Compiles the forward and the backward graph."""
    report = wanted.report
    waits = PendingKernels(report.clock, together=True)
    with report.phase("imports"), permanent_objects():
        # Both take long to load. torch.autograd.grad imports the first when it is traced.
        importlib.import_module("torch.fx.experimental.symbolic_shapes")
        parts = importlib.import_module("..autograd.graph_parts", __package__)
    try:
        with no_collections():
            made: Callable[..., Any] = parts.compile_forward_and_backward(
                gm,
                example_inputs,
                partial(compile_pass, wanted=wanted, waits=waits),
                random_like_eager=True,
                keep_writes=not wants_gradients(gm),
                decompositions=decompositions(),
                settings=wanted.of_shared_subgraphs(),
                rewrite=partial(rewrite_convolutions, channels_last=wanted.channels_last),
                note=lambda reason: report(f"runs torch's operators: {reason}"),
            )
    finally:  # even now, equal subgraphs may share what was compiled
        waits.end()
    return made


def compile_pass(
    part: GraphPart, wanted: CompileSettings, waits: PendingKernels
) -> Callable[..., Any]:
    """Compiles a forward or a backward graph into kernels; a backward graph that has none runs
    torch's operators."""
    around, report = wanted.around, wanted.report
    compile_report = CompileReport(report.clock)
    direction = "backward" if part.backward else "forward"
    boxed = part.backward and around is None
    try:
        with report.phase("lowering"), no_collections():
            compiled = compile_aten(
                part.graph, compile_report, boxed=boxed, tune=wanted.tune, waits=waits
            )
    except NotImplementedError as error:
        if not part.backward:
            raise
        compiled = run_by_operators(part, boxed)
        report(f"backward runs torch's operators: {error}")
    else:
        report(f"compiled {direction}: {compile_report}")
        compile_report.send_to(report, direction)
    return compiled if around is None else around(part, compiled)


def run_by_operators(part: GraphPart, boxed: bool) -> Callable[..., Any]:
    """A graph run by torch's operators."""
    run = part.module().forward
    return taking_a_list(run) if boxed else run


def compile_aten(
    gm: torch.fx.GraphModule | Copies,
    report: CompileReport | None = None,
    *,
    boxed: bool = False,
    tune: bool = False,
    waits: PendingKernels | None = None,
) -> Callable[..., Any]:
    """Compiles a functional ATen graph, whose nodes have fake results in meta["val"]. boxed: the
    function takes one list of inputs. tune: measures kernels for the GPU. waits: before its `end`,
    nothing may be called."""
    report = report or CompileReport()
    program, choices = plan_program(gm, report, tune)
    namespace = Namespace({"run": run})
    on_cpu, on_gpu = kernels_by_device(program)
    launches = cpu_launches(program, on_cpu, namespace, report)
    first: list[str] = []
    finish: Callable[[], None] | None = None
    if on_gpu:
        launched = gpu().launches(program, on_gpu, namespace, choices)
        launches |= launched.calls
        finish = launched.finish
        report.kernels += kernel_records(
            "triton", ((launched.texts[n], kernel) for n, kernel in on_gpu.items()), "gpu_kernel_{}"
        )
        first = gpu().prologue(
            program, namespace, partial(compile_aten, gm, boxed=boxed), boxed=boxed
        )
    namespace.objects |= program.constants
    report.host = Host(program, launches, namespace, first, boxed=boxed).text()
    if finish is None:
        return load_cpu_host(report.host, namespace.objects, namespace.functions, boxed)
    namespace.objects |= {name: one.address() for name, one in namespace.functions.items()}
    call = load_host(report.host, namespace.objects)
    (waits or PendingKernels(report.clock)).add(finish)
    return make_boxed(call) if boxed else call


def plan_program(
    gm: torch.fx.GraphModule | Copies, report: CompileReport, tune: bool
) -> tuple[Program, dict[int, Choice]]:
    """The steps of a graph, fused, with as little memory as they need, and measured tiles for the
    GPU by the positions of their kernels."""
    program, report.apart = fuse(lower(gm, usable_devices()))
    pad_rows_in_place(program)
    report.called = [
        step.origin
        for step in program.steps
        if isinstance(step, Call) and step.function is not require
    ]
    program = fuse_horizontally(split_long_rows(program, processors()))
    choices = tune_kernels(program, report) if tune else {}
    store_into_inputs(program)
    reuse_memory(program)
    return program, choices


def tune_kernels(program: Program, report: CompileReport) -> dict[int, Choice]:
    """The tiles of a program's kernels on the GPU, by measuring; none without a GPU."""
    devices = {buffer.device.type for buffer in program.buffers.values()}
    if "cuda" not in devices or "cuda" not in usable_devices():
        return {}
    program.write_out()
    with report.clock.phase("tuning"):
        choices: dict[int, Choice] = gpu().tune_program(program)
    return choices


def kernels_by_device(program: Program) -> tuple[dict[int, AnyKernel], dict[int, AnyKernel]]:
    """The kernels that do something, by their positions: on the CPU, and on the GPU."""
    on_cpu: dict[int, AnyKernel] = {}
    on_gpu: dict[int, AnyKernel] = {}
    for position, step in enumerate(program.steps):
        if isinstance(step, AnyKernel) and step.rows != 0:
            device = program.buffers[writes(step)[0]].device.type
            (on_gpu if device == "cuda" else on_cpu)[position] = step
    return on_cpu, on_gpu


def cpu_launches(
    program: Program, kernels: Mapping[int, AnyKernel], namespace: Namespace, report: CompileReport
) -> dict[int, Launch]:
    """Prints and compiles kernels as C; equal ones once."""
    if not kernels:
        return {}
    threads = torch.get_num_threads()
    patterns = Patterns()
    once: dict[Any, tuple[tuple[str, ...], str, Parameters]] = {}
    printed = {}
    for position, step in kernels.items():
        bound = step if isinstance(step, Bound) else patterns.bind(step)
        if bound.alike not in once:
            once[bound.alike] = bound.names, *print_c(with_buffers(step), program.buffers, threads)
        buffers, text, parameters = once[bound.alike]
        printed[position] = text, parameters.on(dict(zip(buffers, bound.names, strict=True)))
    texts = list(dict.fromkeys(text for text, _ in printed.values()))
    report.kernels = kernel_records(
        "c", ((text, kernels[position]) for position, (text, _) in printed.items()), "kernel_{}"
    )
    _, _, vector = compiler()
    with report.clock.phase("c_compile"):
        symbols = functions(preamble(vector), texts, 2)
    called = {text: f"kernel_{number}" for number, text in enumerate(texts)}
    namespace.functions |= dict(zip(called.values(), symbols, strict=True))
    return {
        position: Launch(f"run({called[text]}, ", parameters)
        for position, (text, parameters) in printed.items()
    }
