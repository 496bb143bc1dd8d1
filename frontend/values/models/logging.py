"""logging: loggers found by name. Their output is recorded and written after the graph, or breaks
it."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import AttrSource, DictItem, InstanceDict, ModuleSource
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..objects.user_object import UserObject
from ..program_output import write_record, written_by_handlers
from ..registry import models
from ..tensor.symbolic_number import SymbolicNumber

LEVELS = {
    logging.Logger.debug: logging.DEBUG, logging.Logger.info: logging.INFO,
    logging.Logger.warning: logging.WARNING, logging.Logger.error: logging.ERROR,
    logging.Logger.exception: logging.ERROR, logging.Logger.critical: logging.CRITICAL,
}  # fmt: skip


@models(logging.getLogger)
def get_logger(tx: TraceContext, name: Value | None = None) -> Value:
    root = DictItem(InstanceDict(ModuleSource("logging")), "root")
    wanted = None if name is None else name.constant()
    if not wanted:
        return tx.wrap(logging.root, root)
    found = logging.root.manager.loggerDict.get(wanted)
    if not isinstance(found, logging.Logger):
        raise GraphBreak("unknown-call", f"the first logging.getLogger({wanted!r})")
    return tx.wrap(found, DictItem(AttrSource(AttrSource(root, "manager"), "loggerDict"), wanted))


@models(logging.Logger.isEnabledFor)
def is_enabled_for(tx: TraceContext, logger: Value, level: Value) -> Value:
    return Constant(is_enabled(tx, logger, level.constant()))


def is_enabled(tx: TraceContext, logger: Value, level: int) -> bool:
    """Whether the logger writes at a level; guarded."""
    if not isinstance(logger, UserObject) or logger.real is None or logger.attrs:
        raise GraphBreak("output", f"{logger.describe()}")
    answer = logger.real.isEnabledFor(level)
    tx.guards.add(
        logger.source,
        Kind.PYTHON,
        (f"isEnabledFor({level}) is {answer}", partial(answers_enabled, level, answer)),
    )
    return answer


def answers_enabled(level: int, expected: bool, logger: logging.Logger) -> bool:
    return logger.isEnabledFor(level) is expected


def record_message(
    tx: TraceContext,
    logger: Value,
    level: int,
    message: Value,
    args: tuple[Value, ...],
    kwargs: dict[str, Value],
) -> Value:
    """logger.log(level, message, *args, **kwargs)."""
    if not is_enabled(tx, logger, level):
        return Constant(None)
    assert isinstance(logger, UserObject)
    if kwargs or not message.is_constant() or not written_by_handlers(logger.real):
        raise GraphBreak("output", f"the logger {logger.real.name}")
    tx.guards.add(logger.source, Kind.PYTHON, ("written_by_handlers", written_by_handlers))
    if not all(arg.is_constant() or isinstance(arg, SymbolicNumber) for arg in args):
        message, args = Constant(record_text(tx, message.constant(), args)), ()
    line, code = tx.frames.line()
    where = (Constant(level), Constant(code.co_filename), Constant(line), Constant(code.co_name))
    tx.effects.output(write_record, (logger, *where, message, *args), tx.frames.break_position())
    return Constant(None)


def record_text(tx: TraceContext, message: Any, args: tuple[Value, ...]) -> str:
    """The text of a record, with nothing left to format."""
    try:
        given = tuple(arg.literal(tx) for arg in args)
        return str(message) % (
            given[0] if len(given) == 1 and isinstance(given[0], dict) and given[0] else given
        )
    except Exception as error:
        raise GraphBreak("output", "a message with values that are not known yet") from error


def _writes(method: Any, of_module: Any, level: int) -> None:
    @models(method)
    def write(tx: TraceContext, logger: Value, msg: Value, *args: Value, **kwargs: Value) -> Value:
        if method is logging.Logger.exception:
            raise GraphBreak("output", "logging.Logger.exception")
        return record_message(tx, logger, level, msg, args, kwargs)

    @models(of_module)
    def write_to_root(tx: TraceContext, msg: Value, *args: Value, **kwargs: Value) -> Value:
        if not logging.root.handlers or of_module is logging.exception:
            raise GraphBreak("output", f"logging.{of_module.__name__}")
        root = get_logger(tx)
        tx.guards.add(AttrSource(root.source, "handlers"), Kind.PYTHON, ("is not empty", bool))
        return record_message(tx, root, level, msg, args, kwargs)


for _method, _level in LEVELS.items():
    _writes(_method, getattr(logging, _method.__name__), _level)


@models(logging.Logger.log)
def log(
    tx: TraceContext, logger: Value, level: Value, msg: Value, *args: Value, **kwargs: Value
) -> Value:
    return record_message(tx, logger, level.constant(), msg, args, kwargs)
