"""Reports of a candidate, which reach the user if it is chosen."""

from __future__ import annotations

from ...events import Event, Recorded, Reporter, Sink


class HeldReports(Reporter):
    """A candidate's reports, held back until it is chosen."""

    def __init__(self, report: Reporter) -> None:
        self.kept: list[Event] = []
        self._to: Sink = self.kept.append
        super().__init__(
            report.function,
            report.where,
            lambda event: self._to(event),
            report.clock,
            report.number,
        )

    def release(self, to: Reporter) -> None:
        self._to = to.send
        for event in self.kept:
            to.send(event)

    def refusal(self) -> str:
        """Why the candidate records nothing, if it reported that."""
        return next(
            (
                event.text
                for event in self.kept
                if isinstance(event, Recorded) and not event.recorded
            ),
            "",
        )
