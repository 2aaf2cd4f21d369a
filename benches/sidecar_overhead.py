"""What the sidecar adds to a call, and how quick a hit is: direct and proxied calls interleaved.

    python benches/sidecar_overhead.py [--calls 2000]

The upstream is a small in-memory server in a process of its own; overhead is the difference of the medians.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import re
import signal
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web
from report import Figure, write_report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

ANSWER = {
    "id": "msg_upstream",
    "type": "message",
    "role": "assistant",
    "model": "mock",
    "content": [{"type": "text", "text": "The Danube, the Nile and the Amazon."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 12, "output_tokens": 10},
}
HEADERS = {"x-api-key": "bench", "content-type": "application/json", "anthropic-version": "2023-06-01"}


def upstream(pipe: Connection) -> None:
    """Serve ANSWER on a free loopback port until killed."""

    async def messages(request: web.Request) -> web.Response:
        await request.read()
        return web.json_response(ANSWER)

    async def main() -> None:
        application = web.Application(client_max_size=1 << 25)
        application.router.add_post("/v1/messages", messages)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        pipe.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(main())


@contextlib.contextmanager
def servers() -> Iterator[tuple[str, str]]:
    """The mock upstream and the sidecar in front of it; yields both addresses."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    mock = context.Process(target=upstream, args=(theirs,), daemon=True)
    mock.start()
    direct = f"http://127.0.0.1:{mine.recv()}"
    command = [sys.executable, "-m", "zlrs", "proxy", "--upstream", direct, "--port", "0"]
    sidecar = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = None
        for line in sidecar.stdout or ():
            if found := re.search(r"http://\S+", line):
                address = found[0].rstrip("/")
                break
        if address is None:
            raise SystemExit("the sidecar did not start")
        yield direct, address
    finally:
        sidecar.send_signal(signal.SIGTERM)
        sidecar.wait()
        mock.kill()
        mock.join()


def body(ask: str, temperature: float) -> bytes:
    """A Messages request."""
    request = {
        "model": "mock",
        "max_tokens": 64,
        "temperature": temperature,
        "messages": [{"role": "user", "content": ask}],
    }
    return json.dumps(request).encode()


async def call(session: aiohttp.ClientSession, address: str, data: bytes) -> float:
    """Milliseconds of one call, answer read to its end."""
    began = time.perf_counter()
    async with session.post(f"{address}/v1/messages", data=data, headers=HEADERS) as response:
        await response.read()
        if response.status != 200:
            raise SystemExit(f"{address} answered {response.status}")
    return (time.perf_counter() - began) * 1000


def quantile(values: list[float], share: float) -> float:
    """The value below which this share of the values lies."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


async def measure(calls: int) -> list[Figure]:
    """Interleave direct calls, misses, calls that are never eligible, and hits."""
    direct: list[float] = []
    relayed: list[float] = []
    missed: list[float] = []
    hit: list[float] = []
    with servers() as (mock, sidecar):
        async with aiohttp.ClientSession() as session:
            await call(session, sidecar, body("warm", 0.0))
            await asyncio.sleep(0.5)
            for turn in range(calls):
                sampled = body(f"question {turn}", 1.0)
                direct.append(await call(session, mock, sampled))
                relayed.append(await call(session, sidecar, sampled))
                missed.append(await call(session, sidecar, body(f"question {turn}", 0.0)))
                hit.append(await call(session, sidecar, body("warm", 0.0)))
    base = statistics.median(direct)
    figures = [
        Figure("direct call, p50", "ms", base),
        Figure("direct call, p99", "ms", quantile(direct, 0.99)),
    ]
    for name, values in (("relayed, not eligible", relayed), ("miss, stored", missed), ("hit", hit)):
        added = statistics.median(values) - base
        note = f"{added:+.2f} ms against direct at p50"
        figures += [
            Figure(
                f"{name}, p50",
                "ms",
                statistics.median(values),
                "direct",
                base,
                statistics.median(values) / base,
                note=note,
            ),
            Figure(f"{name}, p99", "ms", quantile(values, 0.99)),
        ]
    return figures


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=2000)
    options = parser.parse_args()
    write_report("sidecar-overhead", asyncio.run(measure(options.calls)))


if __name__ == "__main__":
    main()
