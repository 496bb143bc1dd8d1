"""What a tuning may do and how much it may cost: compile()'s mode and options, checked."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ...records import record

PATIENT = 60.0  # seconds for trials under max-autotune
CUDAGRAPHS = ("allow", "require", "never")


@record
class TuningPlan:
    """How a graph is tuned. mode: as for compile(). The other fields are the options of the backend
    `autotune`."""

    mode: str = "default"
    # seconds of trying and measuring a graph; what compiles when they are over is finished
    tune_budget_s: float = 3.0
    # names of backends to choose among, beside eager; None: those of the mode
    candidates: tuple[str, ...] | None = None
    # the first calls run in eager while the candidates compile and run in a thread
    background: bool = False
    # "require" raises RequirementError for a graph that cannot be recorded
    cudagraphs: str = "allow"
    # first runs of compiled code happen in a forked process (graphs on the CPU)
    isolate: bool = True
    trial_limit_s: float = 20.0  # an isolated first run that takes longer counts as hanging
    remember: bool = True  # decisions are read from and written to the cache directory
    # a graph runs as captured until that has taken so many times the seconds that trying is likely
    # to take (patience.py); 0: tried at its first call
    patience: float = 0.15

    @classmethod
    def from_arguments(cls, mode: str, options: dict[str, Any] | None) -> TuningPlan:
        """A plan of compile()'s arguments. Raises ValueError for a value that makes no sense."""
        asked = dict(options or {})
        if asked.get("candidates") is not None:
            asked["candidates"] = tuple(asked["candidates"])
        if asked.get("cudagraphs", "allow") not in CUDAGRAPHS:
            raise ValueError(
                f"option cudagraphs must be one of {', '.join(CUDAGRAPHS)}, not "
                f"{asked['cudagraphs']!r}"
            )
        patience = asked.get("patience", 0.0)
        if not isinstance(patience, int | float) or patience < 0:
            raise ValueError(f"option patience must be a number of at least 0, not {patience!r}")
        if mode.startswith("max-autotune"):
            asked.setdefault("tune_budget_s", PATIENT)
        return cls(mode, **asked)

    @property
    def waits(self) -> bool:
        """Whether a graph may first run as captured; not if the user named a mode or candidates."""
        return (
            self.patience > 0
            and self.mode == "default"
            and not self.graphs_forced
            and self.candidates is None
        )

    @property
    def graphs_forced(self) -> bool:
        """Whether recording wins wherever it is possible."""
        return self.mode == "reduce-overhead" or self.cudagraphs == "require"

    @property
    def graphs_allowed(self) -> bool:
        return self.graphs_forced or (
            self.mode != "max-autotune-no-cudagraphs" and self.cudagraphs != "never"
        )


def option_names() -> list[str]:
    return [one.name for one in fields(TuningPlan) if one.name != "mode"]
