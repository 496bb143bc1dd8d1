"""framejit's own functions, and directives to torch.compile, called inside a capture."""

from __future__ import annotations

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..directives import graph_break, is_compiling
from ..registry import models


@models(graph_break)
def break_here(tx: TraceContext, message: Value | None = None) -> Value:
    text = message.constant() if message is not None and message.is_constant() else ""
    raise GraphBreak("requested", f": {text}" if text else "")


@models(("torch._dynamo.decorators", "graph_break"))
def not_here(tx: TraceContext) -> Value:
    """torch._dynamo.graph_break(), which torch's optimizers call: does nothing, as in eager."""
    return Constant(None)


@models(is_compiling, ("torch._dynamo.external_utils", "is_compiling"))
def return_true(tx: TraceContext) -> Value:
    tx.frames.note_is_compiling()
    return Constant(True)
