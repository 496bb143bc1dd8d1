"""What the nodes of a captured graph may do when they run: raise because of the numbers they meet (shapes and dtypes were seen
at capture), write into an argument, draw random numbers, switch modes."""
from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import lru_cache
from types import FunctionType
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor
from torch._library.custom_ops import CustomOpDef

# Words in an operator's name. INDEX: it raises for an integer out of range, on the CPU (CUDA tells later, by an assertion).
INDEX = (
    "index", "embedding", "gather", "scatter", "take", "put", "one_hot", "nll_loss", "cross_entropy", "bincount", "getitem", "setitem",
    "repeat_interleave", "ctc_loss", "max_unpool", "div", "remainder", "mod", "pow", "margin_loss", "searchsorted", "tensor_split",
    "narrow",
)  # fmt: skip
ALWAYS = (
    "assert", "bernoulli", "multinomial", "normal", "poisson", "binomial", "cholesky", "inv", "solve", "svd", "eig", "qr", "lstsq", "det",
    "matrix_rank", "pinv", "grid_sampler", "histc", "linalg", "binary_cross_entropy", "masked_scatter", "segment_reduce", "quantile",
    "histogram", "fake_quantize", "istft", "cov", "gaussian_nll",
)  # fmt: skip

TORCHS_OPERATORS = ("aten", "prims", "prim", "higher_order")  # namespaces
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64)
OPERATORS = frozenset("add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split())  # `x += y` is operator.iadd
KEYWORDS = frozenset({"and_", "or_", "not_", "is_"})  # functions of Python's operator module, which write nothing
PYTHONS = ("_operator", "builtins", "math")  # modules whose functions stand in graphs
RANDOM = (
    "rand", "dropout", "bernoulli", "multinomial", "normal", "rrelu", "gumbel", "poisson", "exponential", "uniform", "scaled_dot_product",
    "cauchy", "geometric", "binomial", "dirichlet", "gamma", "lowrank", "lobpcg", "fractional_max_pool", "attention", "lstm", "gru", "rnn",
)  # fmt: skip


NORMS = ("batch_norm", "instance_norm")  # what they write, while training, are statistics
STATISTICS = ("running_mean", "running_var")
TRAINS = ("training", "train", "use_input_stats")
READS_STATISTICS = ("no_training", "backward")  # in the names of norms that write none

GRAD_MODE = "_set_grad_enabled"
ENTER_AUTOCAST, EXIT_AUTOCAST = "_enter_autocast", "_exit_autocast"
MODES = (
    GRAD_MODE, ENTER_AUTOCAST, "_enter_inference_mode", "_vmap_increment_nesting", "_grad_increment_nesting", "_jvp_increment_nesting",
)  # fmt: skip


def name_of(node: torch.fx.Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))


def named_as_writer(name: str) -> bool:
    """Whether an operator is called as torch calls those that write into their first argument."""
    return name.endswith("_") and not name.endswith("__") and name not in KEYWORDS


def may_raise(node: torch.fx.Node) -> bool:
    """Whether running a node may raise although its shapes fit."""
    name = name_of(node)
    known = any(word in name for word in ALWAYS) or (any(word in name for word in INDEX) and takes_integers(node))
    return known or is_users(node) or is_foreign(node)


def is_users(node: torch.fx.Node) -> bool:
    """Whether a node calls an operator that somebody registered with torch, or a user's autograd.Function: it may raise what it likes."""
    target: Any = node.target
    if isinstance(target, CustomOpDef):
        return True
    if isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return str(target).split(".")[0] not in TORCHS_OPERATORS
    owner = getattr(target, "__self__", None)
    return isinstance(owner, type) and issubclass(owner, torch.autograd.Function)


def takes_integers(node: torch.fx.Node) -> bool:
    """Whether one of its arguments is an integer tensor on the CPU."""
    examples = [argument.meta.get("example_value") for argument in node.all_input_nodes]
    return any(isinstance(example, torch.Tensor) and example.device.type == "cpu" and example.dtype in INTEGERS for example in examples)


def may_write(node: torch.fx.Node) -> bool:
    """Whether a node may write into an argument: in-place methods, in-place operators, out=."""
    name = name_of(node)
    in_place = name == "setitem" or (name.endswith(("_", "_.")) and name not in KEYWORDS)
    operator = name.startswith("i") and name[1:] in OPERATORS
    asked_to = "out" in node.kwargs or node.kwargs.get("inplace") is True or last_in_place(node) or "batch_norm" in name
    return in_place or operator or asked_to or is_foreign(node)


def is_strided(node: torch.fx.Node) -> bool:
    """Whether a node is a tensor laid out by strides."""
    fake = node.meta.get("example_value")
    return isinstance(fake, torch.Tensor) and fake.layout == torch.strided


def is_written(node: torch.fx.Node, *, for_sure: bool = False) -> bool:
    """Whether another node may write into the memory of one, seen through views, too. for_sure: whether torch says that one does, or may
    do so through `.data`. Tensors' versions do not tell of all that."""
    memory = memory_under(node.meta["example_value"])
    seen, todo = {node}, [(node, not for_sure)]
    while todo:
        one, asked = todo.pop()
        for user in one.users:
            if one in written_by(user):
                return True
            if asked and not is_norm(user) and may_write(user) and (user.op != "call_method" or user.args[0] is one):
                return True
            if user not in seen and may_show(user, memory):
                seen.add(user)
                todo.append((user, asked or is_data(user)))
    return False


def is_data(node: torch.fx.Node) -> bool:
    """Whether a node is `.data` of a tensor."""
    return node.target is getattr and node.args[1] == "data"


def is_norm(node: torch.fx.Node) -> bool:
    return any(norm in name_of(node) for norm in NORMS)


def written_by(node: torch.fx.Node) -> list[Any]:
    """The arguments that a call writes into by the schema of torch's operator, or as running statistics of a norm that trains."""
    if node.op == "call_function" and is_norm(node):
        return statistics_of(node)
    schema = schema_of(node)
    if schema is None or not schema.is_mutable:
        return []
    parameters = {argument.name: argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments}
    given = {**dict(zip(parameters, node.args, strict=False)), **node.kwargs}
    return [leaf for name, argument in given.items() if parameters.get(name) for leaf in pytree.tree_leaves(argument)]


def statistics_of(norm: torch.fx.Node) -> list[Any]:
    if any(word in name_of(norm) for word in READS_STATISTICS):
        return []
    schema, given = schema_of(norm), dict[str, Any]()
    if isinstance(norm.target, FunctionType):
        given = {parameter.name: parameter.default for parameter in inspect.signature(norm.target).parameters.values()}
    elif schema is not None:
        given = {argument.name: argument.default_value for argument in schema.arguments}
    if not given:
        return norm.all_input_nodes
    given |= {**dict(zip(given, norm.args, strict=False)), **norm.kwargs}
    trains = not any(given.get(name, True) is False for name in TRAINS)
    return [given[name] for name in STATISTICS if given.get(name) is not None] if trains else []


def schema_of(node: torch.fx.Node) -> Any:
    """The schema of torch's operator of a call's name; None for a function that is written in Python, and where there is none."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema
    if isinstance(node.target, torch._ops.OpOverloadPacket):
        return first_schema(node.target)
    return None if isinstance(node.target, FunctionType) or is_foreign(node) else schema_named(name_of(node))


@lru_cache(1024)
def schema_named(name: str) -> Any:
    packet = getattr(torch.ops.aten, name, None)
    return first_schema(packet) if isinstance(packet, torch._ops.OpOverloadPacket) else None


def first_schema(packet: torch._ops.OpOverloadPacket) -> Any:
    return getattr(packet, packet.overloads()[0])._schema


def may_show(node: torch.fx.Node, memory: int) -> bool:
    """Whether a node's result may lie in a memory; of several results, each has a node of its own behind this one."""
    fake = node.meta.get("example_value")
    if not isinstance(fake, torch.Tensor):
        return node.op != "output"
    return fake.layout == torch.strided and memory_under(fake) == memory


def memory_under(fake: torch.Tensor) -> int:
    """Equal for fake tensors on one storage, seen through the levels of torch.func that wrap them."""
    while is_functorch_wrapped_tensor(fake):
        fake = get_unwrapped(fake)
    return fake.untyped_storage()._cdata


def last_in_place(node: torch.fx.Node) -> bool:
    """Whether a function's parameter `inplace` is given by position: it is the last where there is one."""
    if node.op != "call_function" or not node.args or node.args[-1] is not True or not isinstance(node.target, FunctionType):
        return False
    code = node.target.__code__
    return code.co_varnames[: code.co_argcount][len(node.args) - 1 : len(node.args)] == ("inplace",)


def is_foreign(node: torch.fx.Node) -> bool:
    """Whether a node calls something that is neither torch's nor Python's: nothing is known of it."""
    home = "torch" if isinstance(node.target, str) else str(getattr(node.target, "__module__", "torch"))
    return "torch" not in home and home not in PYTHONS


def raises_after_writing(nodes: Sequence[torch.fx.Node]) -> bool:
    """Whether a node that may raise comes behind (or is) one that writes."""
    writes = next((position for position, node in enumerate(nodes) if may_write(node)), len(nodes))
    return any(may_raise(node) for node in nodes[writes:])


def switches_modes(node: torch.fx.Node) -> bool:
    """Whether a node switches one of torch's modes for those behind it."""
    return name_of(node) in MODES


def draws_random_numbers(nodes: Sequence[torch.fx.Node]) -> bool:
    """Whether the graph may draw from torch's generators."""
    return any(map(_draws, nodes))


def draws_unread(graph: torch.fx.Graph) -> bool:
    """Whether a graph draws numbers on which nothing that it returns or writes depends; tracers drop such draws."""
    read: set[torch.fx.Node] = set()
    todo = [graph.output_node(), *(node for node in graph.nodes if may_write(node) and not _draws(node))]
    while todo:
        node = todo.pop()
        if node not in read:
            read.add(node)
            todo += [*node.all_input_nodes, *(user for user in node.users if may_write(user))]
    return any(_draws(node) and node not in read for node in graph.nodes)


def may_draw(node: torch.fx.Node) -> bool:
    """Whether a node may draw from torch's generators; one of which nothing is known may."""
    return _draws(node) or is_foreign(node)


def _draws(node: torch.fx.Node) -> bool:
    return node.op.startswith("call_") and any(word in name_of(node) for word in RANDOM) and not _drops_nothing(node)


def _drops_nothing(node: torch.fx.Node) -> bool:
    """Whether a node is one of torch's dropouts, or its attention, switched off: they draw no numbers then."""
    name = name_of(node).strip("_")
    if is_users(node) or is_foreign(node):
        return False
    if name == "scaled_dot_product_attention":
        return _argument(node, 4, "dropout_p", otherwise=0.0) == 0
    if "dropout" not in name:
        return False
    kernel = name.startswith(("native", "fused"))  # these draw for a chance of 0, too
    chance = 0.5 if kernel else _argument(node, 1, "p", otherwise=0.5)
    return chance == 0 or _argument(node, 2, "training", "train", otherwise=True) is False


def _argument(node: torch.fx.Node, position: int, *names: str, otherwise: Any) -> Any:
    if len(node.args) > position:
        return node.args[position]
    return next((node.kwargs[name] for name in names if name in node.kwargs), otherwise)
