"""When a frame without tensor work is captured again: at growing intervals."""

from __future__ import annotations

# Captures without tensor work before calls run in eager: of a whole frame, of the code after one
# break if the frame ends there, and of all code after breaks in a frame.
IDLE_CAPTURES, IDLE_ENDS, IDLE_RESTS = 4, 2, 12


class IdleFrame:
    """Counts captures of a frame that found no tensor work. After the first ones (`free`), which
    find out what varies, each following capture comes after four times as many calls that no entry
    serves."""

    def __init__(self, free: int = IDLE_CAPTURES) -> None:
        self._free = free
        self._captures = self._passed = 0
        self._has_work = self._has_reported = False

    def found_work(self) -> None:
        self._has_work = True

    def found_nothing(self) -> None:
        self._captures += 1
        self._passed = 0

    def may_capture(self) -> bool:
        """Whether a call that no entry serves is captured now."""
        self._passed += 1
        return self._has_work or self._passed >= 4 ** max(0, self._captures - self._free + 1)

    def reports_now(self) -> bool:
        """Whether to report that calls run in eager. True once."""
        first, self._has_reported = not self._has_reported, True
        return first


NO_WORK = (
    "what follows its breaks has no tensor operations, as far as its captures show; it runs in "
    "eager with all that it calls, and is captured again after four times as many calls"
)
