"""Results to markdown."""
from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .distributed import Training, difference
from .measure import Result
from .warm import FirstCall

Models = Mapping[str, Mapping[str, Result]]  # model, system
Figures = Mapping[str, Mapping[str, Mapping[str, float] | str]]  # model, system: figures, or why there are none
TOLERATED = 1e-3  # of a nested tensor's gradient, relative; the products round to tf32


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["--"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def models_table(models: Models, wanted: Sequence[str]) -> str:
    """A row a model: eager's ms, then for each system its speed-up, first call, graphs and ops, and error."""
    others = [system for system in wanted if system != "eager"]
    rows = [[name, ms(row["eager"]), *(cell(row[system], row["eager"]) for system in others)] for name, row in models.items()]
    return table(["model", "eager ms", *others], rows)


def ms(result: Result) -> str:
    return result.failure or ("" if result.steady_ms is None else f"{result.steady_ms:.2f}")


def cell(result: Result, eager: Result) -> str:
    """x1.20, 0.3 s, 1 graph(s) / 65 ops, error 0"""
    if result.failure:
        return result.failure.replace("|", "/")
    parts = []
    if result.steady_ms and eager.steady_ms:
        parts.append(f"x{eager.steady_ms / result.steady_ms:.2f}")
    if result.first_s is not None:
        parts.append(f"{result.first_s:.2f} s")
    if result.graphs is not None:
        parts.append(f"{result.graphs} / {result.ops}" + (f" (+{result.later} later)" if result.later else ""))
    if result.error is not None:
        parts.append(f"err {result.error:.0e}" if result.error else "equal")
    return ", ".join(parts)


def summary_table(models: Models, wanted: Sequence[str]) -> str:
    """Over all models: how many ran, speed-up, seconds of a first call and until calls are steady, graphs and ops."""
    rows = []
    for system in wanted:
        results = [(row["eager"], row[system]) for row in models.values()]
        speed = [eager.steady_ms / mine.steady_ms for eager, mine in results if eager.steady_ms and mine.steady_ms]
        first = [mine.first_s for _, mine in results if mine.first_s is not None]
        equal = sum(not mine.failure and mine.error is not None and mine.error < 1e-3 for _, mine in results)
        ratios = (statistics.geometric_mean(speed), min(speed), fifth_percentile(speed)) if speed else ()
        settled = [mine.settled_s for _, mine in results if mine.settled_s is not None]
        seconds = [f"{statistics.mean(found):.2f} s" if found else "" for found in (first, settled)]
        captured = [total([getattr(mine, what) for _, mine in results]) for what in ("graphs", "ops")]
        rows.append([system, f"{equal} of {len(results)}", *([f"x{ratio:.3f}" for ratio in ratios] or [""] * 3), *seconds, *captured])
    return table(["system", "ran, equal", "geomean", "worst", "5th percentile", "mean first call", "until steady", "graphs", "ops"], rows)


def trace_table(models: Figures) -> str:
    """A row a model: milliseconds to capture an operator, and how many were captured; last the geometric mean."""

    def text_of(found: Mapping[str, float]) -> str:
        return f"{found['ms']:.2f} ms, {found['graphs']:.0f} / {found['ops']:.0f}"

    means = means_row(models, "ms", lambda found: f"{statistics.geometric_mean(found):.2f} ms")
    return figures_table("capture", models, text_of, [["geometric mean", *means]])


def phases_table(models: Figures) -> str:
    """A row a model: the first call less an eager one, milliseconds of that an operator where they are counted, and seconds by phase."""

    def text_of(found: Mapping[str, float]) -> str:
        an_op = f" ({found['first call'] * 1e3 / found['ops']:.2f} ms an op)" if found.get("ops") else ""
        parts = [f"{phase} {spent:.2f}" for phase, spent in found.items() if phase not in ("first call", "ops") and spent >= 0.005]
        return f"{found['first call']:.2f} s{an_op}: {', '.join(parts)}"

    return figures_table("first call", models, text_of)


def graphs_table(models: Figures) -> str:
    """A row a model: graphs, operations in them, and how many of the operators of a call run in graphs; last the mean share."""

    def text_of(found: Mapping[str, float]) -> str:
        return f"{found['graphs']:.0f} / {found['ops']:.0f}, {100 * found['share']:.1f} % of {found['called']:.0f}"

    means = means_row(models, "share", lambda found: f"{100 * statistics.mean(found):.1f} %")
    return figures_table("captured", models, text_of, [["mean share", *means]])


def warm_table(models: Mapping[str, Mapping[str, Sequence[FirstCall] | str]]) -> str:
    """A row a model: seconds of the first call of a first and of a second process; in the second, what was captured, what was taken from
    disk, and the compilers that it imported."""

    def text_of(found: Sequence[FirstCall]) -> str:
        first, second = found
        parts = [f"{first.seconds:.2f}, {second.seconds:.2f} s"]
        if first.captured:
            parts.append(f"{second.captured} captured, {second.taken} taken")
        return "; ".join([*parts, *second.imported])

    return figures_table("first and second process", models, text_of)


def memory_table(models: Figures) -> str:
    """A row a model: bytes that a call takes at its peak, and what models that are gone have left."""

    def text_of(found: Mapping[str, float]) -> str:
        left = f"{found['tensors left']:+.0f} tensors, {found['bytes left'] / 1e6:+.1f} MB left"
        return f"peak {found['peak'] / 1e6:.1f} MB; {left}"

    return figures_table("memory", models, text_of)


def background_table(models: Figures) -> str:
    """A row a model: its first call, calls while candidates are tried, and calls after."""

    def text_of(found: Mapping[str, float]) -> str:
        calls = f"{found['calls']:.0f} calls of {found['call']:.2f} ms, the longest {found['longest']:.0f} ms"
        first = f"eager {found['eager']:.2f} ms, first {found['first']:.0f} ms"
        return f"{first}, then {calls}, in {found['done']:.1f} s; after x{found['speed-up']:.2f}"

    return figures_table("tried in the background", models, text_of)


def launches_table(found: Mapping[str, Mapping[str, float] | str]) -> str:
    """Microseconds of a link in a chain of small kernels, and of a call without any."""

    def text_of(figures: Mapping[str, float]) -> str:
        return f"{figures['link']:.2f} us, {figures['call']:.1f} us a call"

    return figures_table("launches", {"a small kernel": found}, text_of)


def kernels_table(cases: Mapping[str, Mapping[str, float] | str], wanted: Sequence[str]) -> str:
    """A row a case: the megabytes it moves, and by system microseconds and the share of a copy's speed; at the end the worst and
    the geometric mean of the last system's speed over the one before it."""
    found = {name: row for name, row in cases.items() if not isinstance(row, str)}
    rows = []
    for name, row in cases.items():
        if isinstance(row, str):
            rows.append([name, row.replace("|", "/"), *[""] * len(wanted)])
            continue
        cells = [f"{row[system]:.0f} us, {row['copy'] / row[system]:.0%}" for system in wanted]
        rows.append([name, f"{row['bytes'] / 1e6:.0f}, {row['bytes'] / row['copy'] / 1e3:.0f} GB/s", *cells])
    other, ours = wanted[-2:]
    ratios = [row[other] / row[ours] for row in found.values()]
    if ratios:
        summary = f"x{statistics.geometric_mean(ratios):.2f}, worst x{min(ratios):.2f}"
        rows.append([f"{ours} beside {other}", *[""] * len(wanted), summary])
    return table(["kernel", "MB moved, a copy's speed", *wanted], rows)


def nested_table(cases: Mapping[str, Mapping[str, tuple[float, float] | str]]) -> str:
    """A row a case: by system milliseconds a step, and the gradient's error where it is more than rounding."""

    def text_of(found: tuple[float, float]) -> str:
        milliseconds, error = found
        return f"{milliseconds:.2f}" + (f", error {error:.1e}" if not error < TOLERATED else "")

    return figures_table("units, ms a step", cases, text_of)


def distributed_table(cases: Mapping[str, Mapping[str, Training | str]]) -> str:
    """A row a case: by system milliseconds a step and how many times as fast as eager that is, the first step, GPU memory, and the
    largest difference of a loss to eager's."""

    def text_of(mine: Training | str, eager: Training | str) -> str:
        if isinstance(mine, str):
            return mine
        ratio, loss = "", ""
        if isinstance(eager, Training):
            ratio, loss = f"x{eager.step_ms / mine.step_ms:.2f}", f"loss {difference(mine, eager):.0e}"
        peak = f"{mine.peak_mib:.0f} MiB" if mine.peak_mib else ""
        return ", ".join(filter(None, [f"{mine.step_ms:.1f} ms", ratio, f"first {mine.first_s:.1f} s", peak, loss]))

    rows = {name: {system: text_of(one, found["eager"]) for system, one in found.items()} for name, found in cases.items()}
    return figures_table("model, layout", rows, str)


def figures_table(
    what: str, models: Mapping[str, Mapping[str, Any]], text_of: Callable[[Any], str], more: Sequence[Sequence[str]] = ()
) -> str:
    """A row a model with a cell a system; a cell without figures says why there are none."""
    columns = list(next(iter(models.values()), ()))

    def cell(found: Any) -> str:
        return found.replace("|", "/") if isinstance(found, str) else text_of(found)

    return table([what, *columns], [*([name, *(cell(row[column]) for column in columns)] for name, row in models.items()), *more])


def means_row(models: Figures, figure: str, mean: Callable[[Sequence[float]], str]) -> list[str]:
    """By system the mean of a figure over all models that have it."""
    every = zip(*(row.values() for row in models.values()), strict=True)
    found = [[cell[figure] for cell in column if not isinstance(cell, str)] for column in every]
    return [mean(figures) if figures else "" for figures in found]


def fifth_percentile(values: Sequence[float]) -> float:
    return min(values) if len(values) < 2 else statistics.quantiles(values, n=20, method="inclusive")[0]


def total(numbers: Sequence[int | None]) -> str:
    known = [number for number in numbers if number is not None]
    return str(sum(known)) if known else ""


def dispatch_table(cases: Mapping[str, Mapping[str, float | str]], wanted: Sequence[str]) -> str:
    """A row a case: the plain call's microseconds, then what each system adds."""
    others = [system for system in wanted if system != "eager"]
    rows = []
    for case, times in cases.items():
        plain = times["eager"]
        assert isinstance(plain, float)
        added = [f"{value - plain:+.2f}" if isinstance(value, float) else value for value in (times[system] for system in others)]
        rows.append([case.replace("_", " "), f"{plain:.2f}", *added])
    return table(["case", "eager us", *(f"{system}, us more" for system in others)], rows)


def guards_table(counts: Mapping[int, Mapping[str, float]]) -> str:
    """A row a number of guards: nanoseconds of a run, and guards checked in a microsecond."""
    rows = [
        [str(count), *(f"{times[how]:.0f} ns, {count * 1000 / times[how]:.0f} a us" for how in ("shared", "not shared"))]
        for count, times in counts.items()
    ]
    return table(["guards", "paths shared", "paths not shared"], rows)


def hits_table(models: Mapping[str, Mapping[str, float] | str], ways: Sequence[str]) -> str:
    """A row a model: what there is to guard, and microseconds of a check that hits."""
    rows = []
    for name, row in models.items():
        if isinstance(row, str):
            rows.append([name, row, *[""] * (2 + len(ways))])
            continue
        cells = [f"{row[way] / 1e3:.2f} us" for way in ways]
        rows.append([name, *(f"{row[what]:.0f}" for what in ("modules", "parameters", "guards")), *cells])
    return table(["hit of", "modules", "parameters", "guards", *ways], rows)


def growth_table(found: Mapping[str, Mapping[int, float] | str], sizes: Sequence[int]) -> str:
    """A row a thing that models have many of: nanoseconds of a check that hits by their number, and what one more costs."""
    rows = []
    for name, row in found.items():
        if isinstance(row, str):
            rows.append([name, row, *[""] * len(sizes)])
            continue
        more = (row[sizes[-1]] - row[sizes[0]]) / (sizes[-1] - sizes[0])
        rows.append([name, *(f"{row[size]:.0f} ns" for size in sizes), f"{more:.1f} ns"])
    return table(["a hit grows with", *map(str, sizes), "one more"], rows)
