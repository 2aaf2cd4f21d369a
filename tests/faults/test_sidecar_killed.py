"""Killed in the middle of a write load, the sidecar loses nothing it had committed and invents nothing."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal

import aiohttp
import pytest

from support.memory_graph import text_of
from support.running import JSON, message

WORKERS = 4
PROBE = "does the credential still work?"


class Load:
    """Asks new questions until it is stopped, and remembers which answers have come from the graph."""

    def __init__(self, url: str, first: int) -> None:
        self.url = url
        self.next = first
        self.asked: set[int] = set()
        self.proven: set[int] = set()

    async def run(self) -> None:
        """Ask, and ask again: a hit has been in the graph."""
        async with aiohttp.ClientSession() as session:
            while True:
                number, self.next = self.next, self.next + 1
                self.asked.add(number)
                await decision(session, self.url, number)
                if (await decision(session, self.url, number)).startswith("hit"):
                    self.proven.add(number)


async def decision(session: aiohttp.ClientSession, url: str, ask: int | str) -> str:
    """Ask one question; what decided it. The text must be the right one whatever decided."""
    text = f"Question number {ask}"
    async with session.post(url + "/v1/messages", json=message(text), headers=JSON) as response:
        assert response.status == 200
        assert text_of(await response.read()) == f"You asked: {text}"
        return response.headers["x-zlrs-decision"]


async def hits(session: aiohttp.ClientSession, url: str, numbers: list[int]) -> None:
    """All of them are there. A hit needs a credential that the upstream has accepted since the start."""
    while not (await decision(session, url, PROBE)).startswith("hit"):  # noqa: ASYNC110 - in another process
        await asyncio.sleep(0.01)
    for number in numbers:
        found = await decision(session, url, number)
        while "store_unavailable" in found:  # slower than a lookup may be; a miss, and no loss
            found = await decision(session, url, number)
        assert found.startswith("hit"), f"{number} was lost: {found}"


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=[pytest.mark.t2, pytest.mark.timeout(600)])])
async def test_killed_at_random_moments(upstream, launch_sidecar, tmp_path, kills) -> None:
    rng = random.Random(11)
    committed: set[int] = set()
    asked: set[int] = set()
    for _ in range(kills):
        sidecar = await launch_sidecar("--upstream", upstream.url, "--store", str(tmp_path / "graph"))
        async with aiohttp.ClientSession() as session:
            await hits(session, sidecar.url, rng.sample(sorted(committed), min(20, len(committed))))
        load = Load(sidecar.url, max(asked, default=0) + 1)
        workers = [asyncio.ensure_future(load.run()) for _ in range(WORKERS)]
        await asyncio.sleep(rng.uniform(0.02, 0.3))
        sidecar.process.send_signal(signal.SIGKILL)
        await sidecar.process.communicate()
        for worker in workers:
            worker.cancel()
            with contextlib.suppress(asyncio.CancelledError, aiohttp.ClientError):
                await worker
        committed |= load.proven
        asked |= load.asked
    assert len(committed) > kills
    last = await launch_sidecar("--upstream", upstream.url, "--store", str(tmp_path / "graph"))
    async with aiohttp.ClientSession() as session:
        await hits(session, last.url, sorted(committed))
        # What was asked and not proven is either there with the right text or not there.
        for number in sorted(asked - committed):
            await decision(session, last.url, number)
        # What was never asked is not there.
        calls = len(upstream.calls)
        assert (await decision(session, last.url, max(asked) + 1)).startswith("miss")
        assert len(upstream.calls) == calls + 1
