"""Generates the listings of docs/architecture.md: one small function through every stage.

Run it with Python 3.11, whose bytecode the page shows:

    python docs/worked_example.py            # exits with 1 if the page is not up to date
    python docs/worked_example.py --update
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from pathlib import Path

import framejit
import torch
from framejit.events import Break, Captured, Recorder
from framejit.frontend.pycode.decode import decode
from framejit.frontend.pycode.instr import DecodedCode

PAGE = Path(__file__).with_name("architecture.md")
BLOCK = re.compile(r"(<!-- made: (\w+) -->\n```\w+\n)(.*?)(```\n)", re.DOTALL)


def total(x, kept):
    y = x.sin()
    for factor in (1, 2):
        kept.append(y * factor)
    print("half way")
    return y.sum()


def listings() -> dict[str, str]:
    """The text of each block by its name."""
    handle = framejit.compile(total, backend="eager")
    told = Recorder()
    handle.framejit.cache.sinks.append(told)
    handle(torch.ones(3), [])
    first, second = (site for site in handle.framejit.cache.sites() if site.entries)
    graphs = [
        event.graph.python_code("self").src.strip()
        for event in told.events
        if isinstance(event, Captured)
    ]
    (broke,) = (event for event in told.events if isinstance(event, Break))
    entry, rest = (site.entries[0] for site in (first, second))
    texts = [one.text.partition("\n\n\n")[2] for one in handle.framejit.generated_code()]
    return {
        "source": inspect.getsource(total),
        "decoded": decoded_text(decode(total.__code__)),
        "graph": graphs[0],
        "broke": f"{broke.reason_id} at {short(broke.where)}: {broke.sentence}",
        "guards": short(str(entry.data)),
        "generated": texts[0],
        "rest_guards": short(str(rest.data)),
        "rest_graph": graphs[1],
        "rest": texts[1],
    }


def decoded_text(code: DecodedCode) -> str:
    """A line an instruction: its number, canonical operation, argument and target."""
    lines = []
    line = None
    for number, instr in enumerate(code.instrs):
        argument = (
            code.slots[instr.arg]
            if instr.op.name.endswith("_FAST")
            else ""
            if instr.arg is None
            else repr(instr.arg)
        )
        target = f"-> {instr.target}" if instr.target >= 0 else ""
        where = (
            f"line {instr.line - total.__code__.co_firstlineno + 1}"
            if instr.line is not None and instr.line != line
            else ""
        )
        line = instr.line
        lines.append(f"{where:8}{number:3}  {instr.op.name:12} {argument} {target}".rstrip())
    return "\n".join(lines)


def short(text: str) -> str:
    """Lines counted from the function's first, without the folder."""
    first = total.__code__.co_firstlineno
    return re.sub(
        rf"{re.escape(__file__)}:(\d+)", lambda found: f"line {int(found[1]) - first + 1}", text
    )


def update_page(page: str) -> str:
    """A page with its blocks made anew. Raises KeyError for a block that nothing makes."""
    made = listings()
    return BLOCK.sub(lambda found: f"{found[1]}{made[found[2]].rstrip()}\n{found[4]}", page)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--update", action="store_true", help="write the page")
    page = PAGE.read_text()
    fresh = update_page(page)
    if parser.parse_args().update:
        PAGE.write_text(fresh)
        return 0
    return 0 if fresh == page else 1


if __name__ == "__main__":
    sys.exit(main())
