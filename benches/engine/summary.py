"""Medians, quartiles and ratios, and the Markdown table."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from report import Figure

if TYPE_CHECKING:
    from collections.abc import Iterable

# Ratio to llama.cpp's better setting that is aimed at, by model (a part of its name) and test.
TARGETS = {
    ("0.5b", "pp"): 3.0,
    ("1.5b", "pp"): 3.0,
    ("135m", "pp"): 3.5,
    ("0.5b", "tg@0"): 1.7,
    ("1.5b", "tg@0"): 1.45,
    ("135m", "tg@0"): 1.5,
    ("", "tg@4096"): 2.0,
    ("", "tg@8192"): 2.2,
    ("", "b8"): 2.0,
}


@dataclass(frozen=True)
class Spread:
    """The middle and the middle half of some values."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Of at least one value."""
        ordered = sorted(values)
        if len(ordered) < 2:
            return cls(ordered[0], ordered[0], ordered[0], len(ordered))
        low, _, high = statistics.quantiles(ordered, n=4, method="inclusive")
        return cls(statistics.median(ordered), low, high, len(ordered))

    def __str__(self) -> str:
        return f"{self.median:.1f} ({self.low:.1f} to {self.high:.1f}, {self.count} rounds)"


def target_of(model: str, test: str) -> float | None:
    """The ratio aimed at, if there is one."""
    kind = test.split(":", maxsplit=1)[0]
    kind = "pp" if kind.startswith("pp") else kind
    if kind.startswith("tg"):
        kind = "tg@" + kind.split("@")[1]
    for (part, wanted), ratio in TARGETS.items():
        if part in model.lower() and wanted == kind:
            return ratio
    return None


def compare(model: str, test: str, ours: list[float], peer: str, theirs: list[float]) -> Figure:
    """One figure; without rounds of the peer there is no ratio."""
    mine = Spread.of(ours)
    note = f"middle half {mine.low:.1f} to {mine.high:.1f} of {mine.count} rounds"
    if not theirs:
        return Figure(f"{test}, {model}", "tok/s", mine.median, note=note)
    other = Spread.of(theirs)
    ratio = mine.median / other.median
    goal = target_of(model, test) if peer == "llama.cpp" else None
    return Figure(
        f"{test}, {model}",
        "tok/s",
        mine.median,
        peer=peer,
        peer_value=other.median,
        ratio=ratio,
        target=f">= {goal} x" if goal else "",
        met=ratio >= goal if goal else None,
        note=f"{note}; peer's {other.low:.1f} to {other.high:.1f}",
    )


def markdown(figures: list[Figure], heading: str, remarks: list[str]) -> str:
    """The table for docs."""
    lines = [f"# {heading}", "", *(f"{remark}\n" for remark in remarks)]
    lines += [
        "| figure | zlrs | peer | ratio | target | spread | why missed |",
        "|---|---|---|---|---|---|---|",
    ]
    for figure in figures:
        peer = f"{figure.peer} {figure.peer_value:.2f}" if figure.peer_value is not None else ""
        ratio = f"{figure.ratio:.2f}" if figure.ratio is not None else ""
        met = {None: "", True: " met", False: " missed"}[figure.met]
        value = f"{figure.value:.2f} {figure.unit}"
        cells = [figure.figure, value, peer, ratio, f"{figure.target}{met}", figure.note, figure.reason]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
