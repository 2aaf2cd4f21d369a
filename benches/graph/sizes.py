"""Latency and memory of a graph on disk at several sizes, two processes on one store, the cost of a fill."""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median, quantiles
from typing import TYPE_CHECKING

from report import ROOT, Figure

from graph.replay import HEAD, OK, START_MS
from graph.traffic import Ask, Faults, Question, Upstream, request
from zlrs.graph import DecisionGraph, GraphSettings

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES = 3000
UPSTREAM_MS = 100.0
SETTINGS = GraphSettings(
    canonical="shadow", audit=False, read_deadline_ms=1000, max_entries=100_000_000, max_bytes=1 << 40
)


def fill(folder: Path, entries: int) -> list[Ask]:
    """A store of so many entries, of which some answer the returned asks; made once."""
    asks = [
        Ask(Question(0, number), f"When was order {number} shipped?", "")
        for number in range(100_000, 100_000 + min(SAMPLES, entries // 4))
    ]
    done = folder.with_suffix(".filled")
    if done.exists():
        return asks
    upstream = Upstream(1, Faults(truncated=0, failing=0, reworded=0))
    with DecisionGraph(folder, SETTINGS) as graph:
        for index, ask in enumerate(asks):
            decision = graph.decide(*request(ask), START_MS + index)
            graph.settle(decision, OK, HEAD, upstream.answer(ask.question)[1], True, START_MS + index)
        graph.flush()
    command = [
        "cargo",
        "run",
        "--release",
        "--locked",
        "--quiet",
        "-p",
        "zlrs-store",
        "--example",
        "fill_store",
        "--",
    ]
    subprocess.run([*command, folder, str(entries - 2 * len(asks))], cwd=ROOT, check=True)
    done.touch()
    return asks


def latency(folder: Path, entries: int) -> tuple[list[Figure], int, int]:
    """Time of a decision, asked one at a time; entries, and bytes a process grows by."""
    asks = fill(folder, entries)
    upstream = Upstream(1, Faults())
    grown = _opening_bytes(folder)
    with DecisionGraph(folder, SETTINGS) as graph:
        now_ms = START_MS + len(asks) + 10
        # The upstream has accepted the credential, so hits are allowed.
        first = graph.decide(*request(asks[0]), now_ms)
        graph.settle(first, OK, HEAD, upstream.answer(asks[0].question)[1], True, now_ms)
        count = graph.stats()["entries"]
        other = [ask._replace(text=ask.text.removesuffix("?")) for ask in asks]
        new = [ask._replace(text=ask.text.replace("order", "parcel")) for ask in asks]
        measured = (
            # Read from disk and its signature checked, as every answer is once; from then on from memory.
            ("same, hit, first since opening", _times(graph, asks, now_ms + 10, "hit"), (50, 200)),
            ("same, hit, again", _times(graph, asks, now_ms + 15, "hit"), (50, 200)),
            (
                "canonical, compared, first since opening",
                _times(graph, other, now_ms + 20, "miss"),
                (150, None),
            ),
            ("canonical, compared again", _times(graph, other, now_ms + 25, "miss"), (150, None)),
            ("nothing known", _times(graph, new, now_ms + 30, "miss"), (None, None)),
        )
    found = []
    for name, times, targets in measured:
        for percent, most in zip((50, 99), targets, strict=True):
            value = quantiles(times, n=100)[percent - 1]
            target, met = (f"<= {most}", value <= most) if most is not None else ("", None)
            figure = f"decide, {name}, p{percent}, {_size(count)} entries on disk"
            found.append(Figure(figure, "us", value, target=target, met=met, note="from Python, rendered"))
    return found, count, grown


def _size(count: int) -> str:
    return f"{count / 1e6:.0f}M" if count >= 999_000 else f"{count / 1000:.0f}k"


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
        "settings = GraphSettings(audit=False, max_entries=100_000_000, max_bytes=1 << 40)\n"
        "graph = DecisionGraph(sys.argv[1], settings); print(size() - before)"
    )
    command = [sys.executable, "-c", program, str(folder)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def two_processes(folder: Path) -> list[Figure]:
    """An answer that another process has just stored: how soon it is a hit here, and what it costs."""
    writer = (
        "import sys; sys.path.insert(0, 'benches')\n"
        "from graph import sizes, traffic; from graph.replay import HEAD, OK, START_MS\n"
        "from zlrs.graph import DecisionGraph\n"
        "upstream = traffic.Upstream(1, traffic.Faults(truncated=0, failing=0, reworded=0))\n"
        "with DecisionGraph(sys.argv[1], sizes.SETTINGS) as graph:\n"
        "    for line in sys.stdin:\n"
        "        n = int(line)\n"
        "        ask = traffic.Ask(traffic.Question(0, n), f'When was order {n} shipped?', '')\n"
        "        d = graph.decide(*traffic.request(ask), START_MS + n)\n"
        "        graph.settle(d, OK, HEAD, upstream.answer(ask.question)[1], True, START_MS + n)\n"
        "        print(d.kind, flush=True)\n"
    )
    command = [sys.executable, "-c", writer, str(folder)]
    hits, times = 0, []
    with (
        DecisionGraph(folder, SETTINGS) as graph,
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other,
    ):
        if other.stdin is None or other.stdout is None:
            raise SystemExit("the other process has no pipes")
        upstream = Upstream(1, Faults(truncated=0, failing=0, reworded=0))
        own = Ask(Question(0, 1), "When was order 1 shipped?", "")
        first = graph.decide(*request(own), START_MS + 1)
        graph.settle(first, OK, HEAD, upstream.answer(own.question)[1], True, START_MS + 1)
        for number in range(2, 1002):
            other.stdin.write(f"{number}\n")
            other.stdin.flush()
            other.stdout.readline()
            ask = Ask(Question(0, number), f"When was order {number} shipped?", "")
            began = time.perf_counter_ns()
            decision = graph.decide(*request(ask), START_MS + number + 1)
            times.append((time.perf_counter_ns() - began) / 1000)
            hits += decision.kind == "hit"
        other.stdin.close()
    note = f"the other process's commit is read before the decision; median {median(times):.0f} us"
    return [
        Figure(
            "two processes: hits on what the other has just stored", "%", hits / 10, target="100",
            met=hits == 1000, note=note,
        )
    ]  # fmt: skip


def cost_of_a_fill(folder: Path) -> list[Figure]:
    """The time of a request that fills the graph against one that passes it by."""
    graph = DecisionGraph(folder, GraphSettings(read_deadline_ms=1000))
    upstream = Upstream(1, Faults(truncated=0, failing=0, reworded=0))
    plain, filling = [], []
    with graph:
        for number in range(40):
            ask = Ask(Question(0, number), f"When was order {number} shipped?", "")
            for times, is_filling in ((plain, False), (filling, True)):
                began = time.perf_counter()
                decision = graph.decide(*request(ask), START_MS + number) if is_filling else None
                time.sleep(UPSTREAM_MS / 1000)
                body = upstream.answer(ask.question)[1]
                if decision is not None:
                    graph.settle(decision, OK, HEAD, body, True, START_MS + number)
                times.append(time.perf_counter() - began)
    ratio = median(filling) / median(plain)
    return [
        Figure(
            "a fill / a plain miss, upstream of 100 ms", "ratio", ratio, target="<= 1.17", met=ratio <= 1.17,
            note="decide, upstream, store one after the other; the sidecar stores on nobody's time",
        )
    ]  # fmt: skip


def verify(folder: Path) -> list[Figure]:
    """How fast everything is checked offline."""
    from zlrs.graph import GraphFiles

    report = GraphFiles(folder).verify()
    rate = report.entries / report.entries_ms * 1000
    return [
        Figure(
            "verify, entries", "per second", rate, target=">= 100000", met=rate >= 100_000,
            note=f"{report.entries} entries, hash and signature each; {report.faults} faults",
        )
    ]  # fmt: skip


def verify_chain(folder: Path) -> list[Figure]:
    """The same for the audit chain."""
    from zlrs.graph import GraphFiles

    upstream = Upstream(1, Faults(truncated=0, failing=0, reworded=0))
    with DecisionGraph(folder, GraphSettings(read_deadline_ms=1000)) as graph:
        ask = Ask(Question(0, 1), "When was order 1 shipped?", "")
        for number in range(100_000):
            decision = graph.decide(*request(ask), START_MS + number)
            if number == 0:
                graph.settle(decision, OK, HEAD, upstream.answer(ask.question)[1], True, START_MS)
            if number % 500 == 0:
                graph.flush()
        graph.flush()
    report = GraphFiles(folder).verify()
    rate = report.records / report.records_ms * 1000
    return [
        Figure(
            "verify, audit records", "per second", rate, target=">= 100000", met=rate >= 100_000,
            note=f"{report.records} records in a chain; {report.faults} faults",
        )
    ]  # fmt: skip
