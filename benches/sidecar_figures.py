"""What is measured of the sidecar: latency, throughput, streams, a soak."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from report import Figure, versus
from sidecar_setup import EVENTS, Bench, descriptors, resident_mb

if TYPE_CHECKING:
    import subprocess


def latency(bench: Bench, addresses: dict[str, str], calls: int) -> list[Figure]:
    """One connection, targets in turn call by call."""
    arms = [
        ("upstream", bench.upstream, bench.sampled),
        ("relay", addresses["relay"], bench.sampled),
        ("pass", addresses["sidecar"], bench.sampled),
        ("miss", addresses["sidecar"], bench.unique),
        ("hit", addresses["sidecar"], bench.repeated),
        ("answer", addresses["answer"], bench.repeated),
    ]
    bench.load("load", *arms, calls=100)
    found = bench.load("load", *arms, calls=calls)
    figures = [
        Figure("upstream itself, latency p50", "ms", found["upstream"]["p50_ms"]),
        versus(
            "pass-through latency p50",
            "ms",
            found["pass"]["p50_ms"],
            "relay",
            found["relay"]["p50_ms"],
            "<= 1.3 x",
        ),
        versus(
            "pass-through latency p99",
            "ms",
            found["pass"]["p99_ms"],
            "relay",
            found["relay"]["p99_ms"],
            "<= 1.5 x",
        ),
        versus("miss, stored: latency p50", "ms", found["miss"]["p50_ms"], "relay", found["relay"]["p50_ms"]),
        versus("hit latency p50", "ms", found["hit"]["p50_ms"], "answer", found["answer"]["p50_ms"]),
        Figure(
            "hit latency p50",
            "ms",
            found["hit"]["p50_ms"],
            target="<= 0.5",
            met=found["hit"]["p50_ms"] <= 0.5,
        ),
        Figure(
            "hit latency p99", "ms", found["hit"]["p99_ms"], target="<= 3", met=found["hit"]["p99_ms"] <= 3
        ),
    ]
    errors = sum(one["errors"] for one in found.values())
    return [*figures, Figure("errors", "calls", errors, target="0", met=errors == 0)]


def throughput(bench: Bench, addresses: dict[str, str], rounds: int, seconds: int) -> list[Figure]:
    """Many connections, in windows that take turns."""
    arms = [
        ("relay", addresses["relay"], bench.sampled),
        ("pass", addresses["sidecar"], bench.sampled),
        ("bypass", addresses["no graph"], bench.sampled),
        ("miss", addresses["sidecar"], bench.unique),
        ("answer", addresses["answer"], bench.repeated),
        ("hit", addresses["sidecar"], bench.repeated),
        ("upstream", bench.upstream, bench.sampled),
    ]
    found = bench.turns(rounds, seconds, 16, *arms)
    rate = {name: one["rate"] for name, one in found.items()}
    errors = sum(one["errors"] for one in found.values())
    return [
        Figure("upstream itself", "calls/s", rate["upstream"], note="two cores; the load's own limit"),
        versus("pass-through per core", "calls/s", rate["pass"], "relay", rate["relay"], ">= 0.75 x"),
        versus("pass-through without a graph", "calls/s", rate["bypass"], "relay", rate["relay"]),
        versus("misses, stored", "calls/s", rate["miss"], "relay", rate["relay"]),
        versus("hits per core", "calls/s", rate["hit"], "answer", rate["answer"], ">= 0.7 x"),
        Figure("errors under load", "calls", errors, target="0", met=errors == 0),
    ]


def streams(bench: Bench, addresses: dict[str, str], rounds: int) -> list[Figure]:
    """Paced streams: 64 at once for times, 512 for completeness."""
    arms = [("direct", bench.upstream, bench.streamed), ("through", addresses["sidecar"], bench.streamed)]
    runs = [bench.load("streams", *arms, connections=64, events=EVENTS) for _ in range(rounds)]

    def added(what: str, at: str) -> float:
        return statistics.median(run[f"through {what}"][at] - run[f"direct {what}"][at] for run in runs)

    first, each = added("first", "p99_ms"), added("event", "p50_ms") * 1000
    broken = sum(run["through event"]["errors"] for run in runs)
    figures = [
        Figure("64 streams: first event p99, added", "ms", first, target="<= 2", met=first <= 2),
        Figure("64 streams: each event p50, added", "us", each, target="<= 100", met=each <= 100),
    ]
    many = bench.load("streams", *arms, connections=512, events=EVENTS)
    lost = many["through event"]["errors"] + broken
    note = f"event p50 {many['through event']['p50_ms']:.2f} ms, p99 {many['through event']['p99_ms']:.2f} ms"
    figures.append(
        Figure(
            "512 streams: broken, lost or reordered", "streams", lost, target="0", met=lost == 0, note=note
        )
    )
    return figures


def memory(process: subprocess.Popen[str], cold: float) -> list[Figure]:
    """What is resident after the load before this, and what of it stays."""
    loaded = resident_mb(process)
    time.sleep(3)
    after = resident_mb(process)
    return [
        Figure("memory: after the load", "MB", after, target="<= 120", met=after <= 120),
        Figure("memory: at the start", "MB", cold, note=f"{loaded:.0f} MB under load"),
    ]


def soak(bench: Bench, minutes: float) -> list[Figure]:
    """Everything mixed for a while: no error, and nothing that grows."""
    address, process = bench.sidecar()
    arms = [
        ("pass", address, bench.sampled),
        ("miss", address, bench.unique),
        ("hit", address, bench.repeated),
    ]
    streamed = ("stream", address, bench.streamed)
    # What is kept open for the next calls is there before anything is counted.
    bench.load("load", *arms, seconds=5, connections=16)
    bench.load("streams", streamed, connections=32, events=8)
    until, errors, calls = time.monotonic() + minutes * 60, 0.0, 0.0
    before, opened = resident_mb(process), descriptors(process)
    stored = 0.0
    while time.monotonic() < until:
        found = bench.load("load", *arms, seconds=5, connections=16)
        errors += sum(one["errors"] for one in found.values())
        calls += sum(one["calls"] for one in found.values())
        stored += found["miss"]["calls"]
        errors += bench.load("streams", streamed, connections=32, events=8)["stream event"]["errors"]
    time.sleep(1)
    grown, left = resident_mb(process) - before, descriptors(process) - opened
    note = f"{calls:,.0f} calls in {minutes:g} minutes; {before:.0f} MB before"
    return [
        Figure("soak: errors", "calls", errors, target="0", met=errors == 0, note=note),
        Figure(
            "soak: memory grown",
            "MB",
            grown,
            note=f"{stored:,.0f} more answers stored; up to 24 MiB of answers are kept in memory",
        ),
        Figure("soak: descriptors left open", "", left, target="0", met=left <= 0),
    ]
