"""Emits code that applies the traced program's side effects to the real objects, once, after the
graph has run. What a changed object needs is its family's `emit_changes`."""

from __future__ import annotations

from ..tracing.effect_log import EffectLog
from .reconstruct import Reconstructor


def emit_side_effects(emit: Reconstructor, effects: EffectLog) -> None:
    """Emits all changes, each object's in the order of first changes, then global variables and
    output. Objects made in the trace carry their changes with them."""
    for value in effects.changed:
        if value.is_real():
            value.emit_changes(emit)
    for (_, name), (where, stored) in effects.globals.items():
        if isinstance(where, type):
            emit.run(setattr, [emit.const(where), emit.const(name), stored])
        else:
            emit.push(stored)
            emit.builder.load_const(where)
            emit.builder.load_const(name)
            emit.builder.store_subscr()
    for output in effects.outputs:
        emit.run(output.function, output.args)
