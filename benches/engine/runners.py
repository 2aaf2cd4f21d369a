"""Runs one engine once over a list of tests and returns its rates.

A test is named as `examples/engine_speed.rs` names it: `pp512`, `tg128@4096`, `b8:32@32`. All figures are raw
steps of the models, without sampling or text, except mistral.rs's, which has no such program.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.peers import Peer

TIMEOUT_SECONDS = 1800
SLOW_PROMPT, SLOW_NEW = 64, 8


class RunError(Exception):
    """A run failed; the message says how."""


@dataclass
class Run:
    """What one process did."""

    rates: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    peak_rss_bytes: int = 0
    facts: dict[str, object] = field(default_factory=dict)


def measure(command: list[str], threads: int, *, with_errors: bool = False) -> tuple[str, float, int]:
    """Output (with what went to standard error, if asked for), seconds and peak memory of a process."""
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment)
        deadline = start + TIMEOUT_SECONDS
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.perf_counter() > deadline:
                process.kill()
                os.wait4(process.pid, 0)
                raise RunError(f"no end after {TIMEOUT_SECONDS} s")
            time.sleep(0.005)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        text, complaint = output.read().decode(errors="replace"), errors.read().decode(errors="replace")
    if process.returncode:
        last = complaint.strip().splitlines()[-1:] or ["no message"]
        raise RunError(f"exit status {process.returncode}: {last[0]}")
    return text + complaint if with_errors else text, seconds, usage.ru_maxrss * 1024


def ours(program: str, model: Path, threads: int, tests: list[str]) -> Run:
    """Our engine."""
    text, seconds, peak = measure([program, str(model), str(threads), *tests], threads)
    facts = json.loads(text)
    return Run(facts.pop("tok_per_s"), seconds, peak, facts)


def llama_cpp(peer: Peer, model: Path, threads: int, tests: list[str], flash: int) -> Run:
    """llama.cpp by its own programs, with flash attention on or off."""
    run = Run()
    programs = Path(peer.program[0])
    common = ["-m", str(model), "-t", str(threads), "-fa", str(flash)]
    for test in tests:
        if match := re.fullmatch(r"pp(\d+)", test):
            arguments = ["-p", match[1], "-n", "0", "-d", "0"]
        elif match := re.fullmatch(r"tg(\d+)@(\d+)", test):
            arguments = ["-p", "0", "-n", match[1], "-d", match[2]]
        elif match := re.fullmatch(r"b(\d+):(\d+)@(\d+)", test):
            sequences, new, depth = match[1], match[2], match[3]
            context = str(int(sequences) * (int(new) + int(depth)) + 64)
            batch = ["-c", context, "-npp", depth, "-ntg", new, "-npl", sequences, "--output-format", "jsonl"]
            text, _, peak = measure([str(programs / "llama-batched-bench"), *common, *batch], threads)
            lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
            run.rates[test] = float(lines[-1]["speed_tg"])
            run.peak_rss_bytes = max(run.peak_rss_bytes, peak)
            continue
        else:
            raise RunError(f"llama.cpp has no test {test}")
        # A warm-up repeats the whole prompt: worth it only for the short ones.
        warm = [] if test in {"pp512", "tg64@0", "tg128@0"} else ["--no-warmup"]
        bench = [str(programs / "llama-bench"), *common, *arguments, "-r", "1", "-o", "json", *warm]
        text, _, peak = measure(bench, threads)
        run.rates[test] = float(json.loads(text)[0]["avg_ts"])
        run.peak_rss_bytes = max(run.peak_rss_bytes, peak)
    return run


def llama_cpp_start(peer: Peer, model: Path, threads: int) -> Run:
    """From nothing to one token."""
    program = str(Path(peer.program[0]) / "llama-bench")
    arguments = ["-p", "0", "-n", "1", "-r", "1", "--no-warmup", "-o", "json"]
    _, seconds, peak = measure([program, "-m", str(model), "-t", str(threads), *arguments], threads)
    return Run({}, seconds, peak)


def llama_cpp_load(peer: Peer, model: Path, threads: int) -> float:
    """Seconds by its own log until model and a context of 256 tokens are ready; no token is computed."""
    program = str(Path(peer.program[0]) / "llama-batched-bench")
    arguments = [
        "-c",
        "256",
        "-npp",
        "1",
        "-ntg",
        "1",
        "-npl",
        "1",
        "--log-timestamps",
        "--log-prefix",
        "-lv",
        "4",
    ]
    text, _, _ = measure(
        [program, "-m", str(model), "-t", str(threads), *arguments], threads, with_errors=True
    )
    # Minutes, seconds, milliseconds, microseconds; the line ends the making of the context.
    found = re.search(r"^(\d+)\.(\d+)\.(\d+)\.(\d+) .*reserve took", text, re.MULTILINE)
    if not found:
        raise RunError("its log has no line that ends loading")
    minutes, seconds, milliseconds, microseconds = map(int, found.groups())
    return 60 * minutes + seconds + milliseconds / 1e3 + microseconds / 1e6


def plain_read(program: str, threads: int, size: int, milliseconds: int) -> float:
    """GB/s at which so many bytes are read again and again with nothing else to do, by the middle pass."""
    command = [program, str(threads), str(milliseconds), "read", str(size)]
    return float(json.loads(measure(command, threads)[0])["median_gb_per_s"])


def slow_peer(peer: Peer, model: Path, threads: int) -> Run:
    """Candle or mistral.rs: a short prompt and a few tokens."""
    command = [*peer.program, str(model), str(SLOW_PROMPT), str(SLOW_NEW)]
    text, seconds, peak = measure(command, threads)
    lines = [line for line in text.splitlines() if line.startswith("{")]
    if not lines:
        raise RunError("no figures")
    facts = json.loads(lines[-1])
    return Run(facts["tok_per_s"], seconds, peak, facts)
