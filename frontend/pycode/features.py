"""Probes of the running CPython: differences between versions other than opcodes."""

from __future__ import annotations

from collections.abc import Generator


def _close_returns_value() -> bool:
    def body() -> Generator[None, None, bool]:
        try:
            yield
        except GeneratorExit:
            return True
        return False

    generator = body()
    next(generator)
    return generator.close() is True  # type: ignore[func-returns-value]


class _Slotted:
    __slots__ = ("empty",)


def _slot_errors_name_the_module() -> bool:
    try:
        _ = _Slotted().empty  # type: ignore[attr-defined]
    except AttributeError as error:
        return __name__ in str(error)
    return False


# Whether generator.close() returns what the generator returns (3.13's does).
CLOSE_RETURNS_VALUE = _close_returns_value()
# Whether the error about an empty slot names the class with its module (3.13's does).
SLOT_ERRORS_NAME_THE_MODULE = _slot_errors_name_the_module()
