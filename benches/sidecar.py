"""The sidecar beside a bare relay of the same library, LiteLLM and Portkey, on one upstream, in one run.

    python benches/sidecar.py [--quick] [--no-peers] [--soak MINUTES]

What is measured runs on one core, upstream and load on another. Arms take turns: call by call with one
connection, in short windows with many; the median of the windows counts. A peer that is not in the cache is
installed there first (`~/.cache/zlrs/bench`), and left out with the reason when that fails.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from report import Figure, write_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zlrs" / "bench"
PATH = "/v1/chat/completions"
BODY_BYTES = 4096
EVENTS = 64

Samples = dict[str, dict[str, float]]


def cores() -> tuple[str, str]:
    """The core of what is measured, and that of upstream and load."""
    found = sorted(os.sched_getaffinity(0))
    if len(found) < 2:
        raise SystemExit("the benchmark needs two cores")
    return str(found[0]), str(found[1])


class Bench:
    """Processes, files and arms of one run."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self.core, self.other = cores()
        self.wire = self._compile()
        text = "word " * ((BODY_BYTES - 200) // 5)
        self.answer = self._file("answer.json", chat_answer(text))
        self.sampled = self._file("sampled.json", chat_ask(text, 1.0))
        self.unique = self._file("unique.json", chat_ask("{NNNN}" + text, 0.0))
        self.repeated = self._file("repeated.json", chat_ask("same " + text, 0.0))
        streamed = chat_ask(text, 1.0)
        self.streamed = self._file("streamed.json", streamed.replace(b'"model"', b'"stream":true,"model"', 1))
        port = self.start([self.wire, "serve", "--answer", self.answer], self.other)
        self.upstream = f"127.0.0.1:{port}"

    def _compile(self) -> str:
        CACHE.mkdir(parents=True, exist_ok=True)
        source, binary = HERE / "proxy" / "wire.rs", CACHE / "wire"
        if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
            subprocess.run(["rustc", "-O", "--edition", "2024", "-o", binary, source], check=True)
        return str(binary)

    def _file(self, name: str, content: bytes) -> str:
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    def spawn(self, command: list[str], core: str, **options: object) -> subprocess.Popen[str]:
        """Start a process on one core; it ends with the run."""
        pinned = ["taskset", "-c", core, *command]
        process: subprocess.Popen[str] = subprocess.Popen(pinned, text=True, **options)  # type: ignore[call-overload]  # options are a plain dictionary
        self._stack.callback(end, process)
        return process

    def start(self, command: list[str], core: str) -> str:
        """Start a server that prints its port first."""
        process = self.spawn(command, core, stdout=subprocess.PIPE)
        return read_line(process)

    def sidecar(self, *arguments: str, graph: bool = True) -> tuple[str, subprocess.Popen[str]]:
        """Start a sidecar of its own store."""
        home = tempfile.mkdtemp(dir=self.folder)
        command = [
            sys.executable,
            "-m",
            "zlrs",
            "proxy",
            "--upstream",
            f"http://{self.upstream}",
            "--port",
            "0",
        ]
        command += ["--store", f"{home}/graph"] if graph else ["--no-graph"]
        environment = {**os.environ, "ZLRS_HOME": home, "XDG_CONFIG_HOME": home}
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "env": environment, "cwd": home}
        process = self.spawn([*command, *arguments], self.core, **options)
        return read_line(process).split()[2].removeprefix("http://"), process

    def load(self, kind: str, *targets: tuple[str, str, str], path: str = PATH, **options: int) -> Samples:
        """Drive targets (name, address, body file) in their order."""
        command = ["taskset", "-c", self.other, self.wire, kind, "--path", path]
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        for target in targets:
            command += ["--target", "=".join(target)]
        result: Samples = json.loads(
            subprocess.run(command, capture_output=True, text=True, check=True).stdout
        )
        return result

    def turns(self, rounds: int, seconds: int, connections: int, *targets: tuple[str, str, str]) -> Samples:
        """Windows of load in turn; for each target the medians over the rounds."""
        windows = [
            self.load("load", *targets, seconds=seconds, connections=connections) for _ in range(rounds)
        ]
        found: Samples = {}
        for name, *_ in targets:
            mine = [window[name] for window in windows]
            found[name] = {
                "rate": statistics.median(one["calls"] / one["seconds"] for one in mine),
                "p99_ms": statistics.median(one["p99_ms"] for one in mine),
                "errors": sum(one["errors"] for one in mine),
            }
        return found

    def turns_of_eight(self, arms: list[tuple[str, str, str]], seconds: int) -> Samples:
        """Two rounds with eight connections."""
        return self.turns(2, seconds, 8, *arms)


def chat_ask(text: str, temperature: float) -> bytes:
    """A Chat request."""
    messages = [{"role": "user", "content": text}]
    return json.dumps(
        {"model": "mock", "max_tokens": 900, "temperature": temperature, "messages": messages}
    ).encode()


def chat_answer(text: str) -> bytes:
    """A Chat completion."""
    said = {"role": "assistant", "content": text, "refusal": None}
    choices = [{"index": 0, "message": said, "logprobs": None, "finish_reason": "stop"}]
    usage = {"prompt_tokens": 800, "completion_tokens": 800, "total_tokens": 1600}
    answer = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "mock"}
    return json.dumps({**answer, "choices": choices, "usage": usage}).encode()


def read_line(process: subprocess.Popen[str]) -> str:
    """The first line of a server's output."""
    line = process.stdout.readline() if process.stdout is not None else ""
    if not line:
        raise SystemExit(f"{process.args} did not start")
    return line.strip()


def end(process: subprocess.Popen[str]) -> None:
    """End a process and wait for it."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def resident_mb(process: subprocess.Popen[str]) -> float:
    """Resident memory, MB."""
    text = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return int(text.split("VmRSS:")[1].split()[0]) * 1024 / 1e6


def descriptors(process: subprocess.Popen[str]) -> int:
    """Open descriptors."""
    return sum(1 for _ in Path(f"/proc/{process.pid}/fd").iterdir())


def decision(address: str, body: str, expected: str) -> None:
    """Make sure that an arm measures what it is called."""
    headers = {
        "content-type": "application/json",
        "authorization": "Bearer sk-bench",
        "anthropic-version": "2023-06-01",
    }
    request = urllib.request.Request(f"http://{address}{PATH}", Path(body).read_bytes(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        found = answer.headers.get("x-zlrs-decision", "")
    if not found.startswith(expected):
        raise SystemExit(
            f"an arm should give `{expected}` and gives `{found}`: the figures would be of something else"
        )


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- peers ------------------------------------------------------------------------------------------------


def litellm(bench: Bench) -> str:
    """Start LiteLLM's proxy; its address."""
    home = CACHE / "litellm"
    if not (home / "bin" / "litellm").exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        subprocess.run([home / "bin" / "pip", "install", "-q", "litellm[proxy]"], check=True, timeout=900)
    config = bench.folder / "litellm.yaml"
    config.write_text(
        "model_list:\n- model_name: mock\n  litellm_params:\n    model: openai/mock\n"
        f"    api_base: http://{bench.upstream}/v1\n    api_key: sk-bench\n"
        "litellm_settings:\n  telemetry: false\n"
        "general_settings:\n  dangerously_permit_weak_or_unset_master_key: true\n",
        encoding="utf-8",
    )
    port = free_port()
    command = [
        str(home / "bin" / "litellm"),
        "--config",
        str(config),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    environment = {**os.environ, "LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    output = subprocess.DEVNULL
    bench.spawn(command, bench.core, stdout=output, stderr=output, env=environment, cwd=bench.folder)
    return ready(port, "LiteLLM")


def portkey(bench: Bench) -> str:
    """Start Portkey's gateway; its address."""
    home = CACHE / "npm"
    script = home / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    if not script.exists():
        home.mkdir(parents=True, exist_ok=True)
        npm = shutil.which("npm") or "npm"
        install = [npm, "install", "--no-audit", "--no-fund", "--silent", "@portkey-ai/gateway"]
        subprocess.run(install, cwd=home, check=True, timeout=600)
    port = free_port()
    command = ["node", str(script), f"--port={port}", "--headless"]
    output = subprocess.DEVNULL
    bench.spawn(
        command, bench.core, stdout=output, stderr=output, env={**os.environ, "NODE_ENV": "production"}
    )
    return ready(port, "Portkey")


def answers(port: int) -> bool:
    """Whether a server answers, whatever it says."""
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def ready(port: int, name: str) -> str:
    """Wait until a server answers anything."""
    until = time.monotonic() + 90
    while time.monotonic() < until:
        if answers(port):
            return f"127.0.0.1:{port}"
        time.sleep(0.3)
    raise RuntimeError(f"{name} did not answer within 90 s")


# --- measurements -----------------------------------------------------------------------------------------


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


def peers(bench: Bench, addresses: dict[str, str], seconds: int) -> list[Figure]:
    """Other gateways, each beside the sidecar in the same windows."""
    return [
        beside(bench, addresses, seconds, "LiteLLM", litellm, ">= 40 x"),
        beside(bench, addresses, seconds, "Portkey", portkey, ">= 6 x"),
    ]


def beside(
    bench: Bench,
    addresses: dict[str, str],
    seconds: int,
    name: str,
    start: Callable[[Bench], str],
    target: str,
) -> Figure:
    """One gateway and the sidecar in turn; a figure that says why where it cannot be measured."""
    try:
        arms = [(name, start(bench), bench.sampled), ("pass", addresses["sidecar"], bench.sampled)]
        drive = portkey_turns if name == "Portkey" else Bench.turns_of_eight
        found = drive(bench, arms, seconds)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return Figure(name, "", 0, note=f"not measured: {error}")
    mine, theirs = found["pass"]["rate"], found[name]["rate"]
    if not theirs:
        return Figure(name, "", 0, note="not measured: it answered no call with 200")
    return versus(f"pass-through beside {name}", "calls/s", mine, name, theirs, target)


def portkey_turns(bench: Bench, arms: list[tuple[str, str, str]], seconds: int) -> Samples:
    """Portkey takes its upstream from headers, which the load adds for it."""
    extra = f"x-portkey-provider: openai\r\nx-portkey-custom-host: http://{bench.upstream}/v1\r\n"
    os.environ["BENCH_EXTRA_HEADERS"] = extra
    try:
        return bench.turns_of_eight(arms, seconds)
    finally:
        del os.environ["BENCH_EXTRA_HEADERS"]


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


def soak(bench: Bench, minutes: float) -> list[Figure]:
    """Everything mixed for a while: no error, and nothing that grows."""
    address, process = bench.sidecar()
    arms = [
        ("pass", address, bench.sampled),
        ("miss", address, bench.unique),
        ("hit", address, bench.repeated),
    ]
    bench.load("load", *arms, seconds=5, connections=16)
    until, errors, calls = time.monotonic() + minutes * 60, 0.0, 0.0
    before, opened = resident_mb(process), descriptors(process)
    while time.monotonic() < until:
        for one in bench.load("load", *arms, seconds=5, connections=16).values():
            errors += one["errors"]
            calls += one["calls"]
        streamed = ("stream", address, bench.streamed)
        errors += bench.load("streams", streamed, connections=32, events=8)["stream event"]["errors"]
    time.sleep(1)
    grown, left = resident_mb(process) - before, descriptors(process) - opened
    note = f"{calls:,.0f} calls in {minutes:g} minutes; {before:.0f} MB before"
    return [
        Figure("soak: errors", "calls", errors, target="0", met=errors == 0, note=note),
        Figure("soak: memory grown", "MB", grown),
        Figure("soak: descriptors left open", "", left, target="0", met=left <= 0),
    ]


@contextlib.contextmanager
def prepared() -> Iterator[Bench]:
    """A bench with its upstream."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        yield Bench(Path(folder), stack)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for trying it out")
    parser.add_argument("--no-peers", action="store_true", help="leave LiteLLM and Portkey out")
    parser.add_argument("--soak", type=float, default=0.0, metavar="MINUTES", help="also this long")
    options = parser.parse_args()
    scale = 1 if options.quick else 10
    with prepared() as bench:
        relay = bench.start(
            [sys.executable, str(HERE / "proxy" / "bare.py"), "relay", f"http://{bench.upstream}"], bench.core
        )
        sidecar, process = bench.sidecar()
        plain, _ = bench.sidecar(graph=False)
        addresses = {"relay": f"127.0.0.1:{relay}", "sidecar": sidecar, "no graph": plain}
        cold = resident_mb(process)
        bench.load("load", ("warm", sidecar, bench.repeated), calls=1)
        time.sleep(0.5)
        for body, expected in ((bench.sampled, "skipped"), (bench.unique, "miss"), (bench.repeated, "hit")):
            decision(sidecar, body, expected)
        # What a hit is measured against is the very bytes of the hit.
        command = [bench.wire, "call", "--path", PATH, "--target", f"hit={sidecar}={bench.repeated}"]
        content = bench.folder / "hit.json"
        content.write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
        port = bench.start(
            [sys.executable, str(HERE / "proxy" / "bare.py"), "answer", str(content)], bench.core
        )
        addresses["answer"] = f"127.0.0.1:{port}"
        figures = latency(bench, addresses, 300 * scale)
        figures += throughput(bench, addresses, max(2, scale // 2), 1 if options.quick else 3)
        figures += streams(bench, addresses, max(1, scale // 3))
        loaded = resident_mb(process)
        time.sleep(3)
        after = resident_mb(process)
        figures += [
            Figure("memory: after the load", "MB", after, target="<= 120", met=after <= 120),
            Figure("memory: at the start", "MB", cold, note=f"{loaded:.0f} MB under load"),
        ]
        if not options.no_peers:
            figures += peers(bench, addresses, 1 if options.quick else 6)
        if options.soak:
            figures += soak(bench, options.soak)
    write_report("proxy", figures)


if __name__ == "__main__":
    main()
