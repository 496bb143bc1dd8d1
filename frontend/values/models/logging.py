"""logging: loggers found by name, and what a logger leaves out. What it writes is a break."""
from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import AttrSource, DictItem, InstanceDict, ModuleSource
from ..base import Value
from ..constant import Constant
from ..registry import models
from ..user_object import UserObject

if TYPE_CHECKING:
    from ..context import TraceContext

LEVELS = {
    logging.Logger.debug: logging.DEBUG, logging.Logger.info: logging.INFO, logging.Logger.warning: logging.WARNING,
    logging.Logger.error: logging.ERROR, logging.Logger.exception: logging.ERROR, logging.Logger.critical: logging.CRITICAL,
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
    return Constant(enabled(tx, logger, level.constant()))


def enabled(tx: TraceContext, logger: Value, level: int) -> bool:
    """Whether the logger writes at a level; relied on."""
    if not isinstance(logger, UserObject) or logger.real is None or logger.attrs:
        raise GraphBreak("output", f"{logger.describe()}")
    answer = logger.real.isEnabledFor(level)
    tx.guard(logger.source, Kind.PYTHON, (f"isEnabledFor({level}) is {answer}", answers(level, answer)))
    return answer


def answers(level: int, expected: bool) -> Callable[[Any], bool]:
    return lambda logger: logger.isEnabledFor(level) is expected


def _writes(method: Any, level: int) -> None:
    @models(method)
    def write(tx: TraceContext, logger: Value, *args: Value, **kwargs: Value) -> Value:
        if enabled(tx, logger, level):
            raise GraphBreak("output", f"logging.Logger.{method.__name__}")
        return Constant(None)


for _method, _level in LEVELS.items():
    _writes(_method, _level)
