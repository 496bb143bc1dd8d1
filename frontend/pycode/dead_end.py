"""Whether every path from an instruction ends in an exception that leaves the frame. Independent of
versions."""

from __future__ import annotations

from collections.abc import Iterator

from .instr import DecodedCode, Op

LONGEST = 200  # instructions of a path that are examined
GOES_ON = frozenset({Op.RETURN_VALUE, Op.YIELD_VALUE, Op.SEND, Op.UNSUPPORTED})
RAISES = frozenset({Op.RAISE, Op.RERAISE})
ASKS = frozenset({Op.CHECK_EXC_MATCH, Op.CHECK_EG_MATCH})


def always_raises(decoded: DecodedCode, index: int) -> bool:
    """Whether code that continues at `index` raises on every path, and no except clause of the
    frame may catch that."""
    ends = list(ends_of(decoded, index))
    return all(decoded.instrs[end].op in RAISES and not may_catch(decoded, end) for end in ends)


def may_catch(decoded: DecodedCode, index: int) -> bool:
    """Whether an except clause in the frame may catch what the instruction at `index` raises. A
    with statement is assumed not to."""
    handler = decoded.handlers[index]
    if handler is None:
        return False
    return any(
        decoded.instrs[end].op not in RAISES or may_catch(decoded, end)
        for end in ends_of(decoded, handler.target)
    )


def ends_of(decoded: DecodedCode, index: int) -> Iterator[int]:
    """Where the paths from `index` end: instructions that raise, or that a raising path does not
    contain. Exceptions on the way are ignored."""
    seen: set[int] = set()
    ways = [index]
    while ways:
        at = ways.pop()
        if at in seen:
            continue
        seen.add(at)
        instr = decoded.instrs[at]
        goes_back = 0 <= instr.target < at
        if (
            instr.op in GOES_ON
            or instr.op in ASKS
            or instr.op in RAISES
            or goes_back
            or len(seen) > LONGEST
        ):
            yield at
        elif instr.op is Op.WITH_EXCEPT_START:
            ways.append(at + 2)  # past the jump for managers that swallow exceptions
        else:
            ways += [at + 1] if instr.op is not Op.JUMP else []
            ways += [instr.target] if instr.target >= 0 else []
