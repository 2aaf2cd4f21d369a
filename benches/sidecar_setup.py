"""Processes, files and load of the sidecar's benchmark."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        newest = max(one.stat().st_mtime for one in source.parent.glob("*.rs"))
        if not binary.exists() or binary.stat().st_mtime < newest:
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

    def sidecar(
        self, *arguments: str, graph: bool = True, upstream: str | None = None
    ) -> tuple[str, subprocess.Popen[str]]:
        """Start a sidecar of its own store, before the bench's upstream or another one."""
        home = tempfile.mkdtemp(dir=self.folder)
        command = [
            sys.executable,
            "-m",
            "zlrs",
            "proxy",
            "--upstream",
            f"http://{upstream or self.upstream}",
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


@contextlib.contextmanager
def prepared() -> Iterator[Bench]:
    """A bench with its upstream."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        yield Bench(Path(folder), stack)
