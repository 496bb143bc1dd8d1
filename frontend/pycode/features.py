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


# Whether generator.close() returns what the generator returns (3.13's does).
CLOSE_RETURNS_VALUE = _close_returns_value()
