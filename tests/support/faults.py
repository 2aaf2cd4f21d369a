"""A catalogue of faults: what breaks, what the client must see, and the world it happens in."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp

from support.mock_upstream import MockUpstream, messages_events, messages_reply
from support.running import JSON, Running, message
from zlrs.graph import DecisionGraph, GraphSettings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from support.fault_relay import FaultRelay

TEXT = "Where is order 1042?"
EVENTS = messages_events("hello there")
SSE = [("Content-Type", "text/event-stream")]
WHOLE_SECONDS = 8.0
"""Longest a client may wait with the deadlines below, whatever breaks."""
DEADLINES = {
    "connect_seconds": 0.4,
    "first_byte_seconds": 0.6,
    "idle_seconds": 0.4,
    "header_seconds": 0.4,
    "body_seconds": 0.4,
    "client_stall_seconds": 0.5,
}


@dataclass
class World:
    """A mock upstream behind a relay, and a sidecar with a real graph in front of it."""

    upstream: MockUpstream
    relay: FaultRelay
    start: Callable[..., Awaitable[Running]]
    launch: Callable[..., Awaitable[object]]
    folder: Path
    graph: DecisionGraph = field(default_factory=lambda: DecisionGraph(None, GraphSettings(recheck=False)))
    sidecar: Running | None = None
    text: str = TEXT

    async def up(self, **settings) -> Running:
        """Start the sidecar with short deadlines."""
        given = {"upstream": self.relay.url, "graph": self.graph, **DEADLINES, **settings}
        self.sidecar = await self.start(**given)
        return self.sidecar

    def running(self) -> Running:
        """The sidecar that was started."""
        assert self.sidecar is not None
        return self.sidecar

    def body(self, **fields) -> dict:
        """The request of the fault."""
        return message(self.text, **fields)

    async def ask(self, **fields) -> str:
        """One request: `STATUS`, `STATUS cut` when its body broke off, or `gone` without any answer.

        A whole 200 that is not the upstream's answer is `wrong`.
        """
        sidecar = self.running()
        got = b""
        status = 0
        try:
            async with sidecar.session.post(
                sidecar.url + "/v1/messages", json=self.body(**fields), headers=JSON, allow_redirects=False
            ) as response:
                status = response.status
                async for piece in response.content.iter_any():
                    got += piece
        except aiohttp.ClientPayloadError:
            return f"{status} cut"
        except aiohttp.ClientError:
            return "gone"
        self.got = got
        return str(status)

    async def settled(self) -> None:
        """Wait until nothing is on its way."""
        await self.running().settled()
        await self.running().quiet()

    async def recovers(self) -> bool:
        """Whether another ask is answered rightly, within ten seconds and a few tries."""
        self.relay.toxics.clear()
        self.upstream.replies.clear()
        self.upstream.default = lambda seen: messages_reply(seen, text="all is well")
        self.text = "Is all well?"
        for _ in range(50):
            if await self.ask() == "200" and json.loads(self.got)["content"][0]["text"] == "all is well":
                return True
            await asyncio.sleep(0.2)
        return False


@dataclass(frozen=True)
class Fault:
    """One fault."""

    group: str
    name: str
    expected: str
    """What `run` must return."""
    run: Callable[[World], Awaitable[str]]
    stores: bool = False
    """Whether the answer is whole and right, and so may be kept."""
    calls: int = 1
    """Most requests that may reach the upstream."""


FAULTS: list[Fault] = []


def fault(group: str, name: str, expected: str, *, stores: bool = False, calls: int = 1):
    """Register a fault."""

    def registered(run: Callable[[World], Awaitable[str]]):
        FAULTS.append(Fault(group, name, expected, run, stores, calls))
        return run

    return registered
