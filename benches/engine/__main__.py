"""Our engine and its peers in turn on the same files with the same threads.

    cd benches && ../.venv/bin/python -m engine [--quick] [--model NAME]... [--rounds N] [--threads N]

Writes docs/benchmarks/engine.json and engine.md. The quick form takes about ten minutes once the peers are
installed, the full one over an hour; nothing else should run. Each round runs every engine once, llama.cpp
with the better of flash attention on and off for each kind of test (found before the rounds).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from report import ROOT, Figure, write_report

from engine import peers, reasons, runners, summary
from zlrs.models import installed

QUICK_MODELS = (
    "smollm2-135m-instruct-q4_1",
    "qwen2.5-coder-0.5b-instruct-q4_k_m",
    "qwen2.5-coder-1.5b-instruct-q4_k_m",
    "gemma-3-270m-q4_k_m",
)
FULL_MODELS = QUICK_MODELS[1:3]
QUICK_TESTS = ["pp512", "tg64@0"]
# In the quick form one model stands for what long contexts and batches do.
QUICK_LONG_MODEL = QUICK_MODELS[1]
QUICK_LONG_TESTS = ["pp4096", "tg32@4096", "tg16@8192", "b1:32@32", "b4:32@32", "b8:32@32"]
FULL_TESTS = [
    "pp512",
    "pp4096",
    "tg128@0",
    "tg128@4096",
    "tg128@8192",
    "b1:64@32",
    "b4:64@32",
    "b8:64@32",
]
# The steps of few rows are compared with one another; what slow peers are asked is asked of ours too.
STEPS = ["b1:32@32", "b2:32@32", "b4:32@32", "b8:32@32"]
SLOW_TESTS = [f"pp{runners.SLOW_PROMPT}", f"tg{runners.SLOW_NEW}@0"]
READ_MILLISECONDS = 400
READ_SHARE_PERCENT = 75
# Of one core, over the seconds after an answer in which nothing is asked.
IDLE_PERCENT = 0.5
READING = (
    "Plain reading is a loop over memory in large pages, as the weights lie, with the engine's threads and"
    " nothing else to do. A token's share is of plain reading of just as many bytes, measured in each round:"
    " a small model's weights lie in part in the caches, and so do those bytes. What a token reads of keys"
    " and values is not counted."
)
# Long tests are slow on the peer's side: in the quick form they run once, the others in every round.
QUICK_ONCE = {"tg16@8192"}


@dataclass
class Rounds:
    """All rates of one model, and what else was seen."""

    ours: dict[str, list[float]] = field(default_factory=dict)
    theirs: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    start_seconds: list[float] = field(default_factory=list)
    their_start_seconds: list[float] = field(default_factory=list)
    load_seconds: list[float] = field(default_factory=list)
    their_load_seconds: list[float] = field(default_factory=list)
    plain_gb_per_s: list[float] = field(default_factory=list)
    peak: int = 0
    peak_kv_bytes: int = 0
    their_peak: int = 0
    facts: dict[str, object] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def add(self, rates: dict[str, float], peer: str | None = None) -> None:
        """Notes a round."""
        into = self.ours if peer is None else self.theirs.setdefault(peer, {})
        for test, rate in rates.items():
            into.setdefault(test, []).append(rate)


def better_flash(peer: peers.Peer, model: Path, threads: int, tests: list[str]) -> dict[str, int]:
    """For each kind of test the setting that is faster once; batches go with single tokens."""
    settings: dict[str, int] = {}
    short = {"pp": "pp512", "tg": "tg64@0"}
    found: dict[str, int] = {}
    for kind, test in short.items():
        rates = [runners.llama_cpp(peer, model, threads, [test], flash).rates[test] for flash in (0, 1)]
        found[kind] = int(rates[1] >= rates[0])
    for test in tests:
        settings[test] = found["pp" if test.startswith("pp") else "tg"]
    return settings


def one_round(others: list[peers.Peer], model: Path, plan: Plan, rounds: Rounds, index: int) -> None:
    """Every engine once."""
    run = runners.ours(plan.program, model, plan.threads, plan.all_tests(index))
    rounds.add(run.rates)
    rounds.facts = run.facts
    if run.peak_rss_bytes > rounds.peak:
        # Rounds differ in their longest context, and so in their memory of keys and values.
        rounds.peak, rounds.peak_kv_bytes = run.peak_rss_bytes, int(str(run.facts["kv_bytes"]))
    size = int(str(run.facts["weight_bytes_of_a_token"]))
    rate = runners.plain_read(plan.machine_program, plan.threads, size, READ_MILLISECONDS)
    rounds.plain_gb_per_s.append(rate)
    start = runners.ours(plan.program, model, plan.threads, [])
    rounds.start_seconds.append(start.seconds)
    rounds.load_seconds.append(float(str(start.facts["load_seconds"])))
    for peer in others:
        try:
            if peer.name == "llama.cpp":
                if not plan.flash:
                    plan.flash.update(better_flash(peer, model, plan.threads, plan.tests))
                for flash in (0, 1):
                    tests = [test for test in plan.of_round(index) if plan.flash[test] == flash]
                    other = runners.llama_cpp(peer, model, plan.threads, tests, flash)
                    rounds.add(other.rates, peer.name)
                    rounds.their_peak = max(rounds.their_peak, other.peak_rss_bytes)
                other = runners.llama_cpp_start(peer, model, plan.threads)
                rounds.their_start_seconds.append(other.seconds)
                load = runners.llama_cpp_load(peer, model, plan.threads)
                rounds.their_load_seconds.append(load)
            elif index == 0:
                rounds.add(runners.slow_peer(peer, model, plan.threads).rates, peer.name)
        except (runners.RunError, OSError, ValueError, KeyError) as error:  # noqa: PERF203 - the others go on
            rounds.failures.setdefault(peer.name, str(error))


@dataclass
class Plan:
    """What is asked of one model, and with which programs of ours."""

    program: str
    machine_program: str
    threads: int
    tests: list[str]
    once: set[str] = field(default_factory=set)
    flash: dict[str, int] = field(default_factory=dict)

    def of_round(self, index: int) -> list[str]:
        """The tests of a round."""
        return [test for test in self.tests if index == 0 or test not in self.once]

    def all_tests(self, index: int) -> list[str]:
        """With what only ours is asked; each once."""
        return list(dict.fromkeys([*self.of_round(index), *STEPS, *SLOW_TESTS]))


def medians(rates: dict[str, list[float]]) -> dict[str, float]:
    """The middle of each test's rounds."""
    return {test: summary.Spread.of(values).median for test, values in rates.items()}


def seconds_figure(name: str, ours: list[float], theirs: list[float], note: str) -> Figure:
    """A time beside llama.cpp's, which it should not exceed."""
    mine = summary.Spread.of(ours).median
    if not theirs:
        return Figure(name, "s", mine, note=note)
    other = summary.Spread.of(theirs).median
    ratio = mine / other
    return Figure(name, "s", mine, "llama.cpp", other, ratio, target="<= 1 x", met=ratio <= 1, note=note)


def share_figure(name: str, read: float, plain: float, size: float) -> Figure:
    """Of plain reading, what single tokens read."""
    share = 100 * read / plain
    return Figure(
        f"share of plain reading at decode, {name}",
        "%",
        share,
        target=f">= {READ_SHARE_PERCENT} %",
        met=share >= READ_SHARE_PERCENT,
        note=f"{read:.1f} GB/s of {plain:.1f}; both read the same {size / 1e6:.0f} MB again and again",
    )


def memory_figure(name: str, path: Path, rounds: Rounds) -> Figure:
    """Peak memory."""
    allowed = 1.10 * path.stat().st_size + rounds.peak_kv_bytes
    return Figure(
        f"peak memory, {name}",
        "MB",
        rounds.peak / 1e6,
        peer="llama.cpp" if rounds.their_peak else "",
        peer_value=rounds.their_peak / 1e6 if rounds.their_peak else None,
        ratio=rounds.peak / rounds.their_peak if rounds.their_peak else None,
        target=f"<= {allowed / 1e6:.0f} MB (1.10 x file + KV)",
        met=rounds.peak <= allowed,
    )


def figures_of(name: str, path: Path, plan: Plan, rounds: Rounds, machine: dict[str, object]) -> list[Figure]:
    """All figures of a model."""
    ours, llama, facts = medians(rounds.ours), rounds.theirs.get("llama.cpp", {}), rounds.facts
    figures = [
        summary.compare(name, test, rounds.ours[test], "llama.cpp", llama.get(test, []))
        for test in plan.tests
    ]
    for rows, test, most in ((2, STEPS[1], 1.10), (4, STEPS[2], 1.35), (8, STEPS[3], None)):
        ratio = rows * ours[STEPS[0]] / ours[test]
        met = ratio <= most if most else None
        target = f"<= {most}" if most else ""
        figures.append(Figure(f"step of {rows} rows to one of 1, {name}", "x", ratio, target=target, met=met))
    for peer, rates in rounds.theirs.items():
        if peer != "llama.cpp":
            for test, theirs in rates.items():
                figures.append(summary.compare(name, test, rounds.ours[test], peer, theirs))
    decode = next(test for test in plan.tests if test.startswith("tg") and test.endswith("@0"))
    size = float(str(facts["weight_bytes_of_a_token"]))
    plain = summary.Spread.of(rounds.plain_gb_per_s).median
    figures += [
        share_figure(name, size * ours[decode] / 1e9, plain, size),
        seconds_figure(
            f"load, {name}",
            rounds.load_seconds,
            rounds.their_load_seconds,
            "to a ready context, vocabulary too; file in the page cache",
        ),
        seconds_figure(
            f"from start to one token, {name}",
            rounds.start_seconds,
            rounds.their_start_seconds,
            "the whole process, file in the page cache",
        ),
        memory_figure(name, path, rounds),
    ]
    measured = reasons.Measured(
        ours=ours,
        theirs=medians(llama),
        types=cast("dict[str, int]", facts["types"]),
        products=cast("reasons.Products", machine["products"]),
        clock_ghz=float(str(machine["clock_ghz"])),
        threads=plan.threads,
        multiplications=int(str(facts["multiplications_of_a_prompt_token"])),
        read_share=100 * size * ours[decode] / 1e9 / plain,
        load_seconds=summary.Spread.of(rounds.load_seconds).median,
        file_bytes=path.stat().st_size,
        weight_bytes=int(str(facts["weight_bytes"])),
        kv_bytes=rounds.peak_kv_bytes,
    )
    return [measured.explain(figure) for figure in figures]


def idle_figure(name: str, path: Path, threads: int) -> Figure:
    """Processor time of a loaded engine that nobody asks anything, after it has answered."""
    program = [sys.executable, str(Path(__file__).with_name("idle.py")), str(path), str(threads)]
    facts = json.loads(runners.measure(program, threads)[0])
    percent = 100 * facts["processor_seconds"] / facts["seconds"]
    return Figure(
        f"idle, {name}",
        "% of a core",
        percent,
        target=f"<= {IDLE_PERCENT} %",
        met=percent <= IDLE_PERCENT,
        note=f"over {facts['seconds']:.0f} s after an answer",
    )


def machine_figures(machine: dict[str, object]) -> list[Figure]:
    """Bandwidth, clock and multiply-adds per cycle of each type."""
    note = f"clock {machine['clock_ghz']} GHz, {machine['isa']}"
    plain = float(str(machine["read_gb_per_s"]))
    figures = [Figure("plain reading of 268 MB", "GB/s", plain, note=f"best of short rounds; {note}")]
    products = machine["products"]
    if isinstance(products, dict):
        for kind, rows in products.items():
            many, one = rows["256"], rows["1"]
            figures.append(
                Figure(
                    f"product with 256 rows, {kind}",
                    "multiply-adds per cycle and core",
                    many["mac_per_cycle_and_core"],
                    note=f"with 1 row {one['gb_per_s']} GB/s; time of 2, 4, 8 rows to 1: "
                    + ", ".join(f"{rows[k]['us'] / one['us']:.2f}" for k in ("2", "4", "8")),
                )
            )
    return figures


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--model", action="append")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--peer", action="append", help="llama.cpp, mistral.rs or candle; all by default")
    options = parser.parse_args()
    count = options.rounds or (3 if options.quick else 7)
    names = options.model or list(QUICK_MODELS if options.quick else FULL_MODELS)
    program = peers.example("zlrs-engine", "engine_speed")
    machine_program = peers.example("zlrs-kernels", "machine_speed")
    others, reasons = peers.install(options.peer or ["llama.cpp", "mistral.rs", "candle"])

    began = time.perf_counter()
    command = [machine_program, str(options.threads), str(READ_MILLISECONDS)]
    machine = json.loads(runners.measure(command, options.threads)[0])
    figures = machine_figures(machine)
    remarks = [f"{options.threads} threads, {count} rounds in turn; medians, the middle half beside them."]
    remarks.append("Raw steps without sampling or text; batches as one plan of several sequences.")
    remarks.append(READING)
    remarks += [f"{peer.name} {peer.version}." for peer in others]
    remarks += [f"{name} is missing: {reason}." for name, reason in reasons.items()]
    files = {model.name: path for model, path in installed()}
    for name in names:
        path = files.get(name) or Path(name)
        if not path.exists():
            remarks.append(f"{name} is not installed: `zlrs models pull {name}`.")
            continue
        long = options.quick and name == QUICK_LONG_MODEL
        tests = [*QUICK_TESTS, *(QUICK_LONG_TESTS if long else [])] if options.quick else FULL_TESTS
        once = QUICK_ONCE if options.quick else set()
        plan = Plan(program, machine_program, options.threads, tests, once)
        rounds = Rounds()
        for index in range(count):
            one_round(others, path, plan, rounds, index)
            spent = (time.perf_counter() - began) / 60
            print(f"{name}: round {index + 1} of {count}, {spent:.1f} minutes", flush=True)
        figures += figures_of(path.name, path, plan, rounds, machine)
        try:
            figures.append(idle_figure(path.name, path, options.threads))
        except (runners.RunError, ValueError) as error:
            rounds.failures["zlrs idle"] = str(error)
        remarks += [f"{peer} on {path.name}: {reason}." for peer, reason in rounds.failures.items()]
        if plan.flash:
            remarks.append(f"llama.cpp's flash attention on {path.name}: {plan.flash}.")
    write_report("engine", figures)
    page = ROOT / "docs" / "benchmarks" / "engine.md"
    page.write_text(summary.markdown(figures, "The engine beside its peers", remarks), encoding="utf-8")
    print(f"written: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
