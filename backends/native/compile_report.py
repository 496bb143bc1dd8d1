"""CompileReport: the facts about a compiled graph that explain() shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

from ...clock import Clock
from ...events import KernelRecord, Reporter
from .ir.program import AnyKernel
from .printers.base import short_name


@dataclass
class CompileReport:
    """The result of compiling a graph: the host program, its distinct kernels, the operators that
    it calls, and why neighbouring kernels were not fused. `clock`: measures the phases."""

    clock: Clock = field(default_factory=Clock)
    host: str = ""
    kernels: list[KernelRecord] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    apart: dict[tuple[str, str], str] = field(default_factory=dict)

    def __str__(self) -> str:
        """One sentence for explain."""
        calls = ", ".join(f"{name} x{count}" if count > 1 else name for name, count in self.calls())
        return (
            f"{len(self.kernels)} different kernels; torch's own operators for {calls or 'nothing'}"
        )

    def calls(self) -> list[tuple[str, int]]:
        """The called operators, and how often each is called."""
        return Counter(map(short_name, self.called)).most_common()

    def send_to(self, report: Reporter, part: str) -> None:
        apart = tuple((first, second, reason) for (first, second), reason in self.apart.items())
        report.kernels(part, tuple(self.kernels), tuple(self.calls()), apart, self.host)


def kernel_records(
    language: str, texts: Iterable[tuple[str, AnyKernel]], names: str
) -> list[KernelRecord]:
    """One record for each distinct text, with the operators of the first kernel with that text."""
    first: dict[str, AnyKernel] = {}
    for text, kernel in texts:
        first.setdefault(text, kernel)
    made = []
    for number, (text, kernel) in enumerate(first.items()):
        name = names.format(number)
        ops = tuple(op for op, _ in groupby(map(short_name, kernel.origins)))
        made.append(KernelRecord(name, language, ops, text.replace("NAME", name)))
    return made
