"""The decision graph over replayed traffic: hits by route, wrong answers per hit, staleness, latency, memory.

    python benches/graph.py [--requests 50000] [--questions 4000] [--entries 100000]

Traffic and upstream are those of `graph_traffic.py`: Zipf with exponent 1 over questions whose truth is
known. The clock is a simulated one: a request each half second. All figures are of one process; the graph is
in memory for the replays and on disk for latency and memory.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from graph_traffic import Ask, Faults, Question, Upstream, request, says, traffic
from report import Figure, write_report

from zlrs.graph import DecisionGraph, GraphSettings

HEAD = [(b"content-type", b"application/json")]
START_MS = 1_800_000_000_000
STEP_MS = 500
STALE_SHARE = 0.03
CONFIDENCE = 0.95
OK = 200
Mode = Literal["off", "shadow", "bounded"]
Preset = Literal["strict", "standard", "trial"]


@dataclass
class Outcome:
    """What a replay came to. The last two lists hold an item for each stale answer that was served."""

    requests: int = 0
    hits: dict[str, int] = field(default_factory=lambda: {"same": 0, "canonical": 0})
    wrong: dict[str, int] = field(default_factory=lambda: {"same": 0, "canonical": 0})
    not_upstreams: int = 0
    late_hits: int = 0
    late_possible: int = 0
    calls: int = 0
    rechecks: int = 0
    pools: list[str] = field(default_factory=list)
    trials: int = 0
    trials_wrong: int = 0
    seconds: float = 0.0
    stale_serves: list[int] = field(default_factory=list)
    stale_seconds: list[float] = field(default_factory=list)


def replay(  # noqa: C901 - one loop, told in its order
    asks: list[Ask], upstream: Upstream, mode: Mode, preset: Preset, *, go_stale: bool = False
) -> Outcome:
    """Send every ask through a new graph in memory; halfway, some truths may change."""
    outcome = Outcome(requests=len(asks))
    said: dict[str, set[str]] = {}
    known: set[tuple[Question, str]] = set()
    stale: set[Question] = set()
    wrong_ms: dict[str, list[int]] = {}
    half = len(asks) // 2
    began = time.perf_counter()
    with DecisionGraph(None, GraphSettings(canonical=mode, preset=preset)) as graph:
        for index, ask in enumerate(asks):
            now_ms = START_MS + index * STEP_MS
            if go_stale and index == half:
                stale = _age(asks[:index], upstream)
            decision = graph.decide(*request(ask), now_ms)
            if index >= half:
                # What an oracle with the same routes could serve: this wording or form was asked before.
                of_form = mode == "bounded" and (ask.question, ask.form) in known
                outcome.late_possible += ask.text in said or of_form
                outcome.late_hits += decision.kind == "hit"
            known.add((ask.question, ask.form))
            if decision.kind == "hit":
                text = json.loads(b"".join(decision.replay()))["content"][0]["text"]
                outcome.hits[decision.route] += 1
                if decision.route == "same":
                    outcome.not_upstreams += text not in said[ask.text]
                if not says(text, upstream.truth(ask.question)):
                    outcome.wrong[decision.route] += 1
                    if ask.question in stale:
                        wrong_ms.setdefault(ask.text, []).append(now_ms)
                if not decision.recheck:
                    continue
                outcome.rechecks += 1
            status, body = upstream.answer(ask.question)
            if status == OK:
                said.setdefault(ask.text, set()).add(json.loads(body)["content"][0]["text"])
            graph.settle(decision, status, HEAD, body, True, now_ms + 100)
        outcome.seconds = time.perf_counter() - began
        stats = graph.stats()
        outcome.trials, outcome.trials_wrong = stats["trials"], stats["trials_wrong"]
        for pool in graph.pools():
            seen, about = pool.evidence, pool.class_
            outcome.pools.append(
                f"{about.kind}/{about.language}: {seen.progress.step}, U={pool.bound:.5f}, n={seen.trials}, "
                f"s={seen.wrong}, ever {seen.total_trials}/{sum(seen.causes)}"
            )
    outcome.calls = upstream.calls
    outcome.stale_serves = [len(times) for times in wrong_ms.values()]
    outcome.stale_seconds = [(times[-1] - times[0]) / 1000 for times in wrong_ms.values()]
    return outcome


def _age(asked: list[Ask], upstream: Upstream) -> set[Question]:
    """Change the truth of a share of the questions that were asked."""
    chosen = sorted({ask.question for ask in asked})[:: round(1 / STALE_SHARE)]
    for question in chosen:
        upstream.epochs[question] = upstream.epochs.get(question, 0) + 1
    return set(chosen)


def upper(wrong: int, hits: int) -> float:
    """Exact one-sided 95 % upper limit of a rate (Clopper and Pearson)."""
    if hits == 0 or wrong >= hits:
        return 1.0
    low, high = wrong / hits, 1.0
    for _ in range(60):
        p = (low + high) / 2
        below = sum(
            math.exp(
                math.lgamma(hits + 1) - math.lgamma(k + 1) - math.lgamma(hits - k + 1)
                + k * math.log(p) + (hits - k) * math.log1p(-p)
            )
            for k in range(wrong + 1)
        )  # fmt: skip
        low, high = (p, high) if below > 1 - CONFIDENCE else (low, p)
    return high


def _limit(wrong: int, hits: int) -> str:
    return f"{wrong} of {hits}; 95 % upper limit {100 * upper(wrong, hits):.4f} %"


def figures_of(name: str, outcome: Outcome, *, is_bounded: bool) -> list[Figure]:
    """What is reported of a replay."""
    hits, wrong = sum(outcome.hits.values()), sum(outcome.wrong.values())
    canonical, bad = outcome.hits["canonical"], outcome.wrong["canonical"]
    count, other = outcome.requests, outcome.not_upstreams
    pools = "; ".join(outcome.pools) if is_bounded else "shadow serves none"
    late = outcome.late_hits / max(1, outcome.late_possible)

    def figure(
        what: str, unit: str, value: float, note: str = "", target: str = "", *, met: bool | None = None
    ) -> Figure:
        return Figure(f"{name}: {what}", unit, value, target=target, met=met, note=note)

    found = [
        figure("hits", "%", 100 * hits / count, f"{count} requests"),
        figure("hits over same", "%", 100 * outcome.hits["same"] / count),
        figure("hits over canonical", "%", 100 * canonical / count, pools),
        figure("hits after warm-up / an oracle's", "ratio", late, "same routes", ">= 0.95", met=late >= 0.95),
        figure("wrong per hit", "%", 100 * wrong / max(1, hits), _limit(wrong, hits)),
        figure("wrong per canonical hit", "%", 100 * bad / max(1, canonical), _limit(bad, canonical)),
        figure("same hits the upstream never gave", "count", other, target="0", met=other == 0),
        figure("upstream calls per request", "ratio", outcome.calls / count, f"{outcome.rechecks} re-checks"),
        figure("trials", "count", outcome.trials, f"{outcome.trials_wrong} counted as wrong"),
    ]
    if outcome.stale_serves:
        median, longest = statistics.median(outcome.stale_serves), max(outcome.stale_seconds)
        note = f"{len(outcome.stale_serves)} stale answers were served, one {max(outcome.stale_serves)} times"
        found += [
            figure("wrong serves per stale answer, median", "count", median, note, "<= 3", met=median <= 3),
            figure("longest from first to last", "s", longest, target="<= 3600", met=longest <= 3600),
        ]
    return found


def latency(folder: Path, entries: int, samples: int) -> tuple[list[Figure], int, int]:
    """Time of a decision over a store on disk, asked one at a time; entries, and bytes a process grows by."""
    settings = GraphSettings(canonical="shadow", audit=False, read_deadline_ms=1000)
    upstream = Upstream(1, Faults(truncated=0, failing=0, reworded=0))
    asks = [
        Ask(Question(0, number), f"When was order {number} shipped?", "")
        for number in range(10_000, 10_000 + entries // 2)
    ]
    with DecisionGraph(folder, settings) as graph:
        for index, ask in enumerate(asks):
            decision = graph.decide(*request(ask), START_MS + index)
            graph.settle(decision, OK, HEAD, upstream.answer(ask.question)[1], True, START_MS + index)
        graph.flush()
    with DecisionGraph(folder, settings) as graph:
        now_ms = START_MS + entries + 10
        # The upstream has accepted the credential, so hits are allowed.
        first = graph.decide(*request(asks[0]), now_ms)
        graph.settle(first, OK, HEAD, upstream.answer(asks[0].question)[1], True, now_ms)
        count = graph.stats()["entries"]
        sample = asks[:: max(1, len(asks) // samples)][:samples]
        other = [ask._replace(text=ask.text.removesuffix("?")) for ask in sample]
        new = [ask._replace(text=ask.text.replace("order", "parcel")) for ask in sample]
        measured = (
            ("same, hit", _times(graph, sample, now_ms + 10, "hit"), (50, 200)),
            ("canonical, compared", _times(graph, other, now_ms + 20, "miss"), (150, None)),
            ("nothing known", _times(graph, new, now_ms + 30, "miss"), (None, None)),
        )
    label = f"{count // 1000}k entries on disk"
    found = []
    for name, times, targets in measured:
        for percent, most in zip((50, 99), targets, strict=True):
            value = statistics.quantiles(times, n=100)[percent - 1]
            target, met = (f"<= {most}", value <= most) if most is not None else ("", None)
            figure = f"decide, {name}, p{percent}, {label}"
            found.append(Figure(figure, "us", value, target=target, met=met, note="from Python, rendered"))
    return found, count, _opening_bytes(folder)


def _times(graph: DecisionGraph, asks: list[Ask], now_ms: int, kind: str) -> list[float]:
    times = []
    for each in [request(ask) for ask in asks]:
        began = time.perf_counter_ns()
        decision = graph.decide(*each, now_ms)
        times.append((time.perf_counter_ns() - began) / 1000)
        if decision.kind != kind:
            raise SystemExit(f"expected a {kind}, got {decision.header}")
    return times


def _opening_bytes(folder: Path) -> int:
    """How much a new process grows by opening the store."""
    program = (
        "import sys; from zlrs.graph import DecisionGraph, GraphSettings\n"
        "size = lambda: int(open('/proc/self/statm').read().split()[1]) * 4096\n"
        "DecisionGraph(None).close(); before = size()\n"
        "graph = DecisionGraph(sys.argv[1], GraphSettings(audit=False)); print(size() - before)"
    )
    command = [sys.executable, "-c", program, str(folder)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Run everything and write docs/benchmarks/graph.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--questions", type=int, default=4000)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--no-report", action="store_true", help="print only")
    options = parser.parse_args()
    asks = traffic(options.requests, options.questions, options.seed)
    figures: list[Figure] = []
    faulty = Faults(wrong=0.001, refusing=0.002)
    runs: list[tuple[str, Faults, Mode, Preset, bool]] = [
        ("shadow", Faults(), "shadow", "strict", False),
        ("bounded at 0.1 %", Faults(), "bounded", "strict", False),
        ("bounded at 1 %", Faults(), "bounded", "trial", False),
        ("bounded at 1 %, upstream wrong 1 in 1000 and refusing 2", faulty, "bounded", "trial", False),
        ("bounded at 1 %, 3 % go stale midway", Faults(), "bounded", "trial", True),
    ]
    for name, faults, mode, preset, go_stale in runs:
        outcome = replay(asks, Upstream(options.seed + 1, faults), mode, preset, go_stale=go_stale)
        print(f"{name}: {outcome.seconds:.0f} s")
        figures += figures_of(name, outcome, is_bounded=mode == "bounded")
    with tempfile.TemporaryDirectory(prefix="zlrs-bench-") as folder:
        sizes = []
        for entries in (1000, options.entries):
            found, count, grown = latency(Path(folder) / str(entries), entries, min(entries // 2, 5000))
            figures += found
            sizes.append((count, grown))
        (few, small), (many, large) = sizes
        per_entry = (large - small) / max(1, many - few)
        note = (
            f"growth of a process that opens {many} entries against {few}; SQLite's page cache is part of it"
        )
        figures.append(Figure("resident memory per entry", "bytes", per_entry, note=note))
    if not options.no_report:
        write_report("graph", figures)
        return
    for figure in figures:
        print(
            f"{figure.figure}: {figure.value:.4f} {figure.unit} [{figure.target}] {figure.met} {figure.note}"
        )


if __name__ == "__main__":
    main()
