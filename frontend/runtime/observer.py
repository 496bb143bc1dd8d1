"""Observer: passes the events of one compile on to logs, reports and statistics."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...clock import Clock
from ...events import Event, Reporter, Sink, TimeSpent, new_number
from ...tier import Tier
from .probe import Probe, SegmentMarks


@dataclass
class Observer:
    """Collects the records and times of one compile, and passes them on. probe: measures the
    compiled code, if anybody asked for that."""

    function: str
    where: str
    send: Sink
    probe: Probe | None
    continues: bool
    number: int = field(default_factory=new_number)

    def __post_init__(self) -> None:
        self.clock = Clock(self._send_late_time)
        self.records: list[Event] = []  # so far
        self._sink, self.send = self.send, self._record_and_send

    def _record_and_send(self, event: Event) -> None:
        if not self.clock.over:
            self.records.append(event)
        self._sink(event)

    def reporter(self, tier: Tier) -> Reporter:
        return Reporter(self.function, self.where, self.send, self.clock, self.number, tier)

    def marks(self) -> SegmentMarks | None:
        return None if self.probe is None else self.probe.segment(self.number, self.continues)

    def send_times(self) -> None:
        """Ends the compile: sends how long its phases took."""
        self.clock.over = True
        self.records.clear()
        self.send(
            TimeSpent(
                self.function,
                self.where,
                dict(self.clock.seconds),
                tuple(self.clock.spans),
                self.number,
            )
        )

    def _send_late_time(self, phase: str, seconds: float) -> None:
        self.send(
            TimeSpent(self.function, self.where, {phase: seconds}, (), self.number, late=True)
        )
