"""A frame without tensor work. It is captured again, at growing intervals."""

from __future__ import annotations

IDLE_CAPTURES = 4  # of one frame, before calls are passed over
IDLE_ENDS = 2  # the same, of what follows one break if the frame ends there
IDLE_RESTS = 12  # the same, of all that follows breaks in a frame


class IdleFrame:
    """Counts captures of a frame that found no tensor work. After the first ones (`free`), which
    find out what varies, each following capture comes after four times as many calls that no entry
    serves."""

    def __init__(self, free: int = IDLE_CAPTURES) -> None:
        self._free = free
        self._captures = self._passed = 0
        self._has_work = self._told = False

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
        """Whether to report that calls are passed over. True once."""
        tells, self._told = not self._told, True
        return tells


NO_WORK = (
    "what follows its breaks has no tensor operations, as far as its captures show; it runs in "
    "eager with all that it calls, and is captured again after four times as many calls"
)
