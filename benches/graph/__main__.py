"""The decision graph: what it serves, what is wrong of it, what it costs, beside peers on the same traffic.

    cd benches && ../.venv/bin/python -m graph [--requests 200000] [--peer-requests 50000]
    cd benches && ../.venv/bin/python -m graph --state FOLDER --part replays   # the others as they were

Writes docs/benchmarks/graph.json and graph.md. `differ.py` says which parts need `ZLRS_DATA`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from report import Figure, write_report

from graph import differ, peers, sizes, whole
from graph.replay import Outcome, Plan, Replay, figures_of, limit
from graph.summary import targets, write_page
from graph.traffic import Faults, Upstream, traffic

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTIONS = 4000
PARTS = ("replays", "differ", "peers", "sizes", "whole")
FAULTY = Faults(wrong=0.001, refusing=0.002, slow=0.02)
PLANS = (
    (Plan("default (canonical in shadow)", mode="shadow"), Faults()),
    (Plan("strict, 0.1 %"), Faults()),
    (Plan("trial, 1 %", preset="trial"), Faults()),
    (Plan("trial, without domain patterns", preset="trial", has_patterns=False), Faults()),
    (Plan("trial, with edges", preset="trial", edge="bounded"), Faults()),
    (Plan("trial, prewarmed with 1000 questions", preset="trial", prewarm=1000), Faults()),
    (Plan("trial, upstream wrong 1 in 1000, refusing 2", preset="trial"), FAULTY),
    (Plan("trial, 3 % go stale midway", preset="trial", go_stale=True), Faults()),
)


def replays(requests: int, seed: int) -> list[Figure]:
    """Every plan over the same traffic."""
    asks = traffic(requests, QUESTIONS, seed)
    figures, outcomes = [], []
    for plan, faults in PLANS:
        outcome = Replay(plan, asks, Upstream(seed + 1, faults)).run()
        print(f"{plan.name}: {outcome.seconds:.0f} s", file=sys.stderr)
        figures += figures_of(outcome)
        outcomes.append(outcome)
    return [*figures, pooled(outcomes)]


def pooled(outcomes: list[Outcome]) -> Figure:
    """Wrong per hit at the strict preset over both routes, where the upstream itself is right."""
    chosen = [outcome for outcome in outcomes if outcome.plan.preset == "strict"]
    hits = sum(sum(outcome.hits.values()) for outcome in chosen)
    wrong = sum(sum(outcome.wrong.values()) for outcome in chosen)
    return Figure(
        "wrong per hit, same and canonical, strict", "%", 100 * wrong / max(1, hits),
        target="0 in >= 3232", met=wrong == 0 and hits >= 3232, note=limit(wrong, hits),
    )  # fmt: skip


def beside(requests: int, seed: int, folder: Path | None) -> list[Figure]:
    """The peers on traffic of the same generator and seed."""
    sentences = folder / "pairs" / "gptcache_999.json" if folder else None
    try:
        return peers.figures_of(peers.results(requests, QUESTIONS, seed, sentences))
    except RuntimeError as error:
        return [Figure("peers: not measured", "count", 0, note=str(error))]


def at_size(most: int, stores: Path | None, *, fill_only: bool) -> list[Figure]:
    """Latency and memory at three sizes, and what else is measured on disk."""
    figures, grown = [], []
    chosen = [entries for entries in (1000, 100_000, 1_000_000) if entries <= most]
    with tempfile.TemporaryDirectory(prefix="zlrs-bench-") as name:
        folder = Path(name) if stores is None else stores
        folder.mkdir(parents=True, exist_ok=True)
        for entries in chosen:
            sizes.fill(folder / str(entries), entries)
        if fill_only:
            return []
        for entries in chosen:
            began = time.perf_counter()
            found, count, bytes_ = sizes.latency(folder / str(entries), entries)
            print(f"{entries} entries: {time.perf_counter() - began:.0f} s", file=sys.stderr)
            figures += found
            grown.append((count, bytes_))
        figures += sizes.verify(folder / str(min(100_000, most)))
        figures += sizes.two_processes(Path(name) / "two")
        figures += sizes.cost_of_a_fill(Path(name) / "fill")
        figures += sizes.verify_chain(Path(name) / "chain")
    (few, small), (many, large) = grown[0], grown[-1]
    per_entry = (large - small) / max(1, many - few)
    note = f"growth of a process that opens {many} entries against {few}; SQLite's page cache is part of it"
    figures.append(
        Figure(
            "resident memory per entry", "bytes", per_entry, target="<= 40", met=per_entry <= 40, note=note
        )
    )
    return figures


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--peer-requests", type=int, default=50_000)
    parser.add_argument("--entries", type=int, default=1_000_000, help="largest store")
    parser.add_argument("--stores", type=Path, help="where the stores of --entries are kept between runs")
    parser.add_argument("--fill-only", action="store_true", help="make the stores and measure nothing")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; the others from --state")
    parser.add_argument("--state", type=Path, help="where the figures of each part are kept between runs")
    parser.add_argument("--no-report", action="store_true", help="print only")
    options = parser.parse_args()
    folder = differ.data()
    parts: dict[str, Callable[[], list[Figure]]] = {
        "replays": lambda: replays(options.requests, options.seed),
        "differ": lambda: differ.flips() + differ.intents(folder) + differ.sentences(folder),
        "peers": lambda: beside(options.peer_requests, options.seed, folder),
        "sizes": lambda: at_size(options.entries, options.stores, fill_only=options.fill_only),
        "whole": lambda: whole.figures(len(os.sched_getaffinity(0))),
    }
    figures: list[Figure] = []
    for name, part in parts.items():
        kept = options.state / f"{name}.json" if options.state else None
        if options.part and name not in options.part:
            if kept is not None and kept.exists():
                figures += [Figure(**values) for values in json.loads(kept.read_text(encoding="utf-8"))]
            continue
        began = time.perf_counter()
        found = part()
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps([asdict(figure) for figure in found]), encoding="utf-8")
        figures += found
    table = targets(figures)
    print(table)
    if options.no_report:
        for figure in figures:
            print(f"{figure.figure}: {figure.value:.4f} {figure.unit} ({figure.note})")
        return
    write_report("graph", figures)
    write_page(figures, table)


if __name__ == "__main__":
    main()
