"""What every benchmark shares: facts about machine and code, and the two forms of a report.

A table for people on standard output, `docs/benchmarks/NAME.json` for programs.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import zlrs

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Figure:
    """One measured value; peer and target are empty where there is none yet, `reason` unless it is missed."""

    figure: str
    unit: str
    value: float
    peer: str = ""
    peer_value: float | None = None
    ratio: float | None = None
    target: str = ""
    met: bool | None = None
    note: str = ""
    reason: str = ""


def versus(
    name: str, unit: str, value: float, peer: str, base: float, target: str = "", note: str = ""
) -> Figure:
    """A figure beside a peer's, with the ratio's target `>= N x` or `<= N x`."""
    ratio = value / base if base else 0.0
    met = None
    if target:
        sign, bound, _ = target.split()
        met = ratio >= float(bound) if sign == ">=" else ratio <= float(bound)
    return Figure(name, unit, value, peer, base, ratio, target, met, note)


def _machine() -> str:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {platform.system()} {platform.release()}"


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def read_figures(name: str) -> list[Figure]:
    """The figures of the last report of that name."""
    path = ROOT / "docs" / "benchmarks" / f"{name}.json"
    if not path.exists():
        return []
    return [Figure(**figure) for figure in json.loads(path.read_text(encoding="utf-8"))["figures"]]


def _markdown(name: str, about: str, report: dict[str, object], figures: list[Figure]) -> str:
    """The page for people."""
    lines = [f"# {name}", "", about, f"Commit {report['commit']}, {report['date']}, {report['machine']}.", ""]
    lines += ["| figure | value | beside | ratio | target | met | note |", "|---|---|---|---|---|---|---|"]
    for figure in figures:
        beside = f"{figure.peer}: {figure.peer_value:.2f}" if figure.peer_value is not None else ""
        ratio = f"{figure.ratio:.2f}" if figure.ratio is not None else ""
        met = {True: "yes", False: "no", None: ""}[figure.met]
        cells = (
            figure.figure,
            f"{figure.value:.2f} {figure.unit}",
            beside,
            ratio,
            figure.target,
            met,
            figure.note,
        )
        lines.append("| " + " | ".join(cell.replace("|", "/").strip() for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def show(name: str, figures: list[Figure]) -> None:
    """Print the figures."""
    table = Table(title=name)
    for heading in ("figure", "value", "peer", "ratio", "target", "met", "note"):
        table.add_column(heading)
    for figure in figures:
        table.add_row(
            figure.figure,
            f"{figure.value:.2f} {figure.unit}",
            f"{figure.peer} {figure.peer_value:.2f}" if figure.peer_value is not None else "",
            f"{figure.ratio:.2f}" if figure.ratio is not None else "",
            figure.target,
            {True: "yes", False: "no", None: ""}[figure.met],
            figure.note,
        )
    Console().print(table)


def write_report(name: str, figures: list[Figure], *, about: str | None = None) -> None:
    """Print the figures and write docs/benchmarks/NAME.json; with a sentence about them also NAME.md."""
    show(name, figures)
    load = os.getloadavg()[0]
    report = {
        "commit": _commit(),
        "date": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
        "machine": _machine(),
        "load_at_end": round(load, 2),
        "versions": {"zlrs": zlrs.__version__, "python": platform.python_version(), **zlrs.build_info()},
        "figures": [asdict(figure) for figure in figures],
    }
    path = ROOT / "docs" / "benchmarks" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"written: {path.relative_to(ROOT)}")
    if about is not None:
        path.with_suffix(".md").write_text(_markdown(name, about, report, figures), encoding="utf-8")
