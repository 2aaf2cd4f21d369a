"""Many requests of every kind, good and broken, leave nothing behind: no task, no descriptor, no memory."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import tracemalloc
from pathlib import Path

import aiohttp

from support.eventually import eventually
from support.memory_graph import MemoryGraph
from support.mock_upstream import ABORT, CLOSE, HANG, Reply, answer, last_text, messages_events
from support.running import message, post_head, raw_connection

ROUND = 40


KINDS = ["hit", "miss", "left", "cut", "closed", "half a body", "rubbish", "other"]
STREAM = [("Content-Type", "text/event-stream")]


def reply(seen) -> Reply:
    """What the kind of a request makes the upstream do."""
    kind = last_text(seen.json()).partition(":")[0]
    if kind in {"cut", "closed"}:
        return Reply(pieces=messages_events("x")[:3], headers=STREAM, then=ABORT if kind == "cut" else CLOSE)
    if kind == "left":
        return Reply(pieces=messages_events("x"), headers=STREAM, gap_s=0.01, then=HANG)
    return answer(seen)


async def one(sidecar, rng: random.Random) -> None:
    """A request of some kind, perhaps left early."""
    kind = rng.choice(KINDS)
    text = f"{kind}: {rng.random()}"
    if kind in {"half a body", "rubbish"}:
        async with raw_connection(sidecar.port) as (_, writer):
            writer.write(post_head(5000) + b"{" if kind == "half a body" else b"\x16\x03\x01 rubbish\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.01)
        return
    asking = asyncio.ensure_future(
        sidecar.ask(
            "/v1/x" if kind == "other" else "/v1/messages", message("same" if kind == "hit" else text)
        )
    )
    if kind == "left":
        await asyncio.sleep(rng.uniform(0, 0.03))
        asking.cancel()
    with contextlib.suppress(asyncio.CancelledError, aiohttp.ClientError):
        await asking


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_nothing_is_left_behind(start_sidecar, upstream) -> None:
    rng = random.Random(5)
    upstream.default = reply
    sidecar = await start_sidecar(graph=MemoryGraph(), follower_seconds=0.1)

    async def rounds(count: int) -> tuple[int, int, int]:
        """The least that was in use after any of them: idle connections come and go."""
        found = []
        for _ in range(count):
            await asyncio.gather(*(one(sidecar, rng) for _ in range(ROUND)))
            await eventually(lambda: not sidecar.sidecar.metrics.in_flight)
            await sidecar.settled()
            await eventually(lambda: not upstream.open_requests)
            upstream.calls.clear()
            sidecar.sidecar._keeper.graph.texts.clear()
            sidecar.sidecar._keeper.graph.settled.clear()
            await asyncio.sleep(0.02)
            gc.collect()
            found.append((len(asyncio.all_tasks()), open_files(), tracemalloc.get_traced_memory()[0]))
        return tuple(min(column) for column in zip(*found, strict=True))

    tracemalloc.start()
    try:
        await rounds(4)
        tasks, files, size = await rounds(4)
        tasks_after, files_after, size_after = await rounds(6)
    finally:
        tracemalloc.stop()
    # 240 requests came after: even one thing left by every tenth would show.
    assert tasks_after <= tasks + ROUND // 2
    assert files_after <= files + ROUND // 2
    # A request and its call hold more than 10 kB while they live.
    assert size_after - size < 240 * 2000
