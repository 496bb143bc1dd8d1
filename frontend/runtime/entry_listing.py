"""Live entries as text: guards and code of each as a Python function. linecache has the text under
the entry's name."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...generated_source import file_name, keep_source
from ...guards.kinds.registry import kind_of
from ...guards.program import GuardProgram
from ...records import record
from ..pycode.readable import plain_name, readable
from ._hook import ContinuationMaker, Entry, Quiet, Site

if TYPE_CHECKING:
    from .cache import Cache

_files: weakref.WeakKeyDictionary[GuardProgram, str] = weakref.WeakKeyDictionary()


@record
class Listing:
    """The text of one entry. `file`: the name under which linecache has it."""

    file: str
    text: str


def listings(cache: Cache) -> Iterator[Listing]:
    """The listings of all live entries."""
    for site in cache.sites():
        yield from (listing(site, entry) for entry in site.entries)


def listing(site: Site, entry: Entry) -> Listing:
    """The text of an entry. linecache keeps it as long as the entry lives."""
    program: GuardProgram | None = entry.data
    text = guards_text(site, program) + "\n\n\n" + code_text(site, entry)
    if program is None:
        return Listing("", text)
    name = _files.get(program)
    if name is None:
        name = _files[program] = file_name(site.data.name)
        keep_source(name, text, program)
    return Listing(name, text)


def text_of_arguments(site: Site) -> str:
    unit = site.data
    return "state" if unit.frames else ", ".join(unit.decoded.slots[: unit.decoded.nargs])


def guards_text(site: Site, program: GuardProgram | None) -> str:
    """All guards as one function, in the order in which C checks them, each with the user's line
    that needed it."""
    checks = []
    for guard in program.guards if program is not None else ():
        line = f"  # {guard.line}" if guard.line else ""
        checks.append(f"        {parse_expression(kind_of(guard).expression(guard))} and{line}\n")
    body = "".join(checks)
    return f"def may_run({text_of_arguments(site)}):\n    return (\n{body}        True\n    )"


def parse_expression(expression: str) -> str:
    """The expression, with names that are not valid Python replaced."""
    try:
        ast.parse(expression, mode="eval")
    except SyntaxError:
        return f"holds({expression!r})"
    return expression


def code_text(site: Site, entry: Entry) -> str:
    """The code that runs instead of the function."""
    name = site.data.decoded.code.co_name
    head = f"def {name if name.isidentifier() else 'rest'}({text_of_arguments(site)}):"
    if site.data.frames and entry.code is not None:
        first = entry.code.co_varnames[0]
        head = (
            head.replace("(state)", f"({first})")
            + f"  # what is left of it: {first} is the state at the break"
        )
    if entry.code is None or entry.code is site.data.decoded.code:
        return f"{head}\n    ...  # as it stands: nothing in it was worth compiling\n"
    body = readable(entry.code, constant_name)
    return "\n".join([head, *(f"    {line}" for line in body.splitlines())]) + "\n"


def constant_name(constant: Any) -> str:
    """How constants of generated code are written."""
    if isinstance(constant, ContinuationMaker):
        return "in_eager" if constant.eager else "rest"
    if isinstance(constant, Quiet) or type(constant).__module__.startswith("framejit.backends"):
        return "graph"
    if (
        callable(constant)
        and getattr(constant, "__name__", "") in ("forward", "call")
        and not isinstance(constant, type)
    ):
        return "graph"
    return plain_name(constant)
