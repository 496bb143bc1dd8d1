"""Results to plots, where matplotlib is installed."""
from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .measure import Result

Models = Mapping[str, Mapping[str, Result]]
Draw = Callable[[Any], None]  # on one of matplotlib's axes


@dataclass(frozen=True)
class Picture:
    """A plot that may be drawn."""

    name: str  # of its file
    title: str
    draw: Draw


def write(pictures: Sequence[Picture], folder: Path) -> list[str]:
    """Draws into a folder; returns markdown that shows the plots, or says why there are none."""
    if not pictures:
        return []
    if importlib.util.find_spec("matplotlib") is None:
        return ["No plots: matplotlib is not installed (`pip install 'framejit[bench]'`)."]
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot = importlib.import_module("matplotlib.pyplot")
    folder.mkdir(parents=True, exist_ok=True)
    shown = []
    for picture in pictures:
        figure, axes = pyplot.subplots(figsize=(9, 4.5), layout="constrained")
        axes.set_title(picture.title)
        picture.draw(axes)
        figure.savefig(folder / f"{picture.name}.svg")
        pyplot.close(figure)
        shown.append(f"![{picture.title}]({picture.name}.svg)")
    return shown


def bars(groups: Sequence[str], series: Mapping[str, Sequence[float]], what: str) -> Draw:
    """A group of bars a model, a bar a system."""

    def draw(axes: Any) -> None:
        width = 0.8 / max(1, len(series))
        for number, (label, heights) in enumerate(series.items()):
            axes.bar([place + (number + 0.5) * width - 0.4 for place in range(len(groups))], heights, width, label=label)
        axes.set_xticks(range(len(groups)), groups, rotation=45, ha="right")
        axes.set_ylabel(what)
        axes.legend(fontsize="small")

    return draw


def speed_ups(models: Models, wanted: Sequence[str]) -> Picture:
    """Speed-up over eager."""

    def ratio(row: Mapping[str, Result], system: str) -> float:
        mine, eager = row[system].steady_ms, row["eager"].steady_ms
        return eager / mine if mine and eager else 0.0

    series = {system: [ratio(row, system) for row in models.values()] for system in wanted if system != "eager"}
    drawn = bars(list(models), series, "times as fast as eager")

    def draw(axes: Any) -> None:
        drawn(axes)
        axes.axhline(1, color="black", linewidth=0.8)

    return Picture("speed", "Speed in steady state", draw)


def first_calls(models: Models, wanted: Sequence[str]) -> Picture:
    series = {system: [row[system].first_s or 0.0 for row in models.values()] for system in wanted if not system.startswith("eager")}
    return Picture("first_call", "First call, imports included", bars(list(models), series, "seconds"))


def dispatch(cases: Mapping[str, Mapping[str, float | str]], wanted: Sequence[str]) -> Picture:
    def added_us(times: Mapping[str, float | str], system: str) -> float:
        mine, plain = times[system], times["eager"]
        return mine - plain if isinstance(mine, float) and isinstance(plain, float) else 0.0

    series = {system: [added_us(times, system) for times in cases.values()] for system in wanted if system != "eager"}
    drawn = bars([case.replace("_", " ") for case in cases], series, "microseconds more than the plain call")

    def draw(axes: Any) -> None:
        drawn(axes)
        axes.set_yscale("symlog", linthresh=1)

    return Picture("dispatch", "Cost of a call", draw)


def phases(models: Mapping[str, Mapping[str, Mapping[str, float] | str]]) -> Picture:
    """framejit's first call by phase, as stacked bars."""

    def draw(axes: Any) -> None:
        rows = {name: found for name, row in models.items() if not isinstance(found := row.get("framejit", ""), str)}
        names = dict.fromkeys(phase for found in rows.values() for phase in found if phase not in ("first call", "ops"))
        base = [0.0] * len(rows)
        for phase in names:
            heights = [found.get(phase, 0.0) for found in rows.values()]
            axes.bar(range(len(rows)), heights, bottom=base, label=phase)
            base = [low + more for low, more in zip(base, heights, strict=True)]
        axes.set_xticks(range(len(rows)), rows, rotation=45, ha="right")
        axes.set_ylabel("seconds")
        axes.legend(fontsize="small")

    return Picture("phases", "framejit's first call by phase", draw)
