"""`onnxruntime`: a graph without gradients, exported by torch.onnx and run by ONNX Runtime on the
CPU or a CUDA device."""

from __future__ import annotations

import importlib
import importlib.util
import io
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from .graph.memory import memory_of
from .graph.random_draws import draws_random_numbers
from .graph.wrappers import has_wrappers
from .registry import register_backend

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


def not_installed() -> str:
    lacking = [name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
    return f"{' and '.join(lacking)} not installed" if lacking else ""


@register_backend("onnxruntime", devices=("cpu", "cuda"), training=False, missing=not_installed)
def onnxruntime(
    gm: torch.fx.GraphModule, example_inputs: list[Any], *, report: Callable[[str], Any] = print
) -> Callable[..., Any]:
    """Exports with the sizes of the example inputs; a graph that ONNX cannot express runs in
    eager."""
    reason = why_not_expressible(gm, example_inputs)
    if reason:
        report(f"runs in eager: {reason}")
        return gm.forward
    inputs = [item.detach() for item in example_inputs]
    names = [f"input_{index}" for index in range(len(inputs))]
    results: Any = gm.graph.output_node().args[0]
    outputs = [f"output_{index}" for index in range(len(results))]
    device = "cuda" if any(item.is_cuda for item in inputs) else "cpu"
    file: Any = io.BytesIO()  # torch.onnx accepts this, though its documentation does not say so
    with warnings.catch_warnings(), torch.no_grad():
        # this exporter warns that it is old; the newer one needs a capture of its own
        warnings.simplefilter("ignore")
        torch.onnx.export(
            FunctionModule(gm.forward),
            tuple(inputs),
            file,
            input_names=names,
            output_names=outputs,
            dynamo=False,
            export_params=False,
            do_constant_folding=False,
            keep_initializers_as_inputs=False,
        )
    return Session(
        file.getvalue(), device, names, outputs, [node.meta["example_value"] for node in results]
    )


class FunctionModule(torch.nn.Module):
    """A function as a module without parameters, as the exporter wants it."""

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.run = run

    def forward(self, *args: Any) -> Any:
        return self.run(*args)


def why_not_expressible(gm: torch.fx.GraphModule, inputs: list[Any]) -> str:
    """Why ONNX cannot express a graph; "" if it may."""
    if has_wrappers(gm):
        return "ONNX has no wrapper subclasses"
    if not all(map(is_real, inputs)):
        return "torch.onnx traces with real tensors, and sizes of this graph are symbols"
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    if any(node.meta.get("mutated") for node in placeholders):
        return "the graph writes into an input"
    if draws_random_numbers(list(gm.graph.nodes)):
        return "it draws torch's random numbers"
    homes = {memory_of(node.meta["example_value"]) for node in placeholders}
    results: Any = gm.graph.output_node().args[0]
    for node in results:
        home = memory_of(node.meta["example_value"])
        if home in homes:
            return "a result shares memory with an input or with another result"
        homes.add(home)
    return ""


class Session:
    """Runs an exported model on tensors without copying them."""

    def __init__(
        self,
        model: bytes,
        device: str,
        names: list[str],
        outputs: list[str],
        fakes: list[torch.Tensor],
    ) -> None:
        runtime = importlib.import_module("onnxruntime")
        provider = PROVIDERS[device]
        if provider not in runtime.get_available_providers():
            raise ValueError(f"this onnxruntime has no {provider}")
        options = runtime.SessionOptions()
        options.log_severity_level = 3  # errors
        options.intra_op_num_threads = torch.get_num_threads()
        self.session = runtime.InferenceSession(model, options, providers=[provider])
        self.device, self.outputs = device, outputs
        self.kinds = [
            (fake.dtype, tuple(fake.shape), tuple(fake.stride()), fake.is_contiguous())
            for fake in fakes
        ]
        used = {item.name for item in self.session.get_inputs()}
        self.inputs = [(index, name) for index, name in enumerate(names) if name in used]

    def __call__(self, *args: Any) -> Any:
        """Runs the session on the memory of the inputs, or of contiguous copies, and gives the
        results eager's strides."""
        binding = self.session.io_binding()
        held = []
        for index, name in self.inputs:
            tensor = args[index].detach().contiguous()
            held.append(tensor)
            binding.bind_input(
                name,
                self.device,
                tensor.device.index or 0,
                element_type(tensor.dtype),
                tuple(tensor.shape),
                tensor.data_ptr(),
            )
        results = []
        for name, (dtype, shape, _, _) in zip(self.outputs, self.kinds, strict=True):
            result = torch.empty(shape, dtype=dtype, device=self.device)
            binding.bind_output(
                name,
                self.device,
                result.device.index or 0,
                element_type(dtype),
                shape,
                result.data_ptr(),
            )
            results.append(result)
        if self.device == "cuda":
            torch.cuda.current_stream().synchronize()  # the session uses its own stream
        self.session.run_with_iobinding(binding)
        laid_out = zip(results, self.kinds, strict=True)
        return tuple(
            one
            if dense
            else torch.empty_strided(shape, stride, dtype=dtype, device=one.device).copy_(one)
            for one, (dtype, shape, stride, dense) in laid_out
        )


def is_real(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and not isinstance(item, FakeTensor)


def element_type(dtype: torch.dtype) -> Any:
    """The type of elements, as ONNX Runtime wants it: numpy's. Raises TypeError for one that numpy
    lacks."""
    return torch.empty(0, dtype=dtype).numpy().dtype.type
