"""How soon the upstream's connection is closed when a client goes away: in every phase, on every route."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

from report import Figure

if TYPE_CHECKING:
    from sidecar_setup import Bench

ROUTES = (
    "/v1/messages",
    "/v1/messages?beta=true",
    "/v1/messages/count_tokens",
    "/v1/messages/batches",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/other",
)
SHARED_ROUTES = ("/v1/messages", "/v1/chat/completions")
"""Those on which a request may wait for the answer to an equal one."""

LIMIT_MS = 100
PATIENCE_SECONDS = 5.0
BODY_BYTES = 6 << 20
"""More than is held for the graph, so that it goes up as it comes."""

_EVENT = b'event: ping\ndata: {"type": "ping"}\n\n'
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: "


class Phase(NamedTuple):
    """What has happened when the client goes away."""

    name: str
    reply: bytes
    """What the upstream has sent by then."""
    sends_all: bool = True
    """Whether the client has sent its whole body."""
    clients: int = 1
    """Clients with the same request; all of them go, one after the other."""


_STREAM = (
    _HEAD + b"text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(_EVENT) + _EVENT + b"\r\n"
)
_LONG = _HEAD + b"application/json\r\nContent-Length: 100000\r\n\r\n" + b" " * 10_000

PHASES = (
    Phase("before the first byte", b""),
    Phase("in a stream", _STREAM),
    Phase("in an answer with a length", _LONG),
    Phase("in its own body", b"", sends_all=False),
    Phase("waiting for an equal request", b"", clients=2),
)


class Upstream:
    """Answers as the phase says, and notes when its connection ends."""

    def __init__(self) -> None:
        self.phase = PHASES[0]
        self.called: asyncio.Future[None] = asyncio.Future()
        self.closed: asyncio.Future[float] = asyncio.Future()

    def expect(self, phase: Phase) -> None:
        """The next call is of this phase."""
        self.phase = phase
        self.called, self.closed = asyncio.Future(), asyncio.Future()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        called, closed, reply = self.called, self.closed, self.phase.reply
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(reply)
            called.set_result(None)
            while await reader.read(1 << 16):
                pass
        if called.done() and not closed.done():
            closed.set_result(time.perf_counter())
        writer.close()


def gone(bench: Bench, rounds: int) -> list[Figure]:
    """Every phase on every route so many times, by an orderly close and by a reset in turn."""
    return asyncio.run(_gone(bench, rounds))


async def _gone(bench: Bench, rounds: int) -> list[Figure]:
    upstream = Upstream()
    server = await asyncio.start_server(upstream.handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    address, _ = bench.sidecar(upstream=f"127.0.0.1:{port}")
    figures, numbers = [], itertools.count()
    for phase in PHASES:
        slowest, times = ("", 0.0), []
        for route in ROUTES if phase.clients == 1 else SHARED_ROUTES:
            for _ in range(rounds):
                taken = await _once(upstream, address, phase, route, next(numbers))
                times.append(taken)
                slowest = max(slowest, (route, taken), key=lambda one: one[1])
        most = slowest[1]
        figures.append(
            Figure(
                f"client gone {phase.name}: upstream closed after, at most", "ms", most,
                target=f"<= {LIMIT_MS}", met=most <= LIMIT_MS,
                note=f"{len(times)} times, median {statistics.median(times):.2f} ms, slowest {slowest[0]}",
            )
        )  # fmt: skip
    server.close()
    return figures


async def _once(upstream: Upstream, address: str, phase: Phase, route: str, number: int) -> float:
    """Milliseconds from the client's end to the upstream's."""
    upstream.expect(phase)
    host, _, port = address.partition(":")
    clients = []
    for _ in range(phase.clients):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(_request(phase, route, number))
        clients.append((reader, writer))
        await asyncio.wait_for(asyncio.shield(upstream.called), PATIENCE_SECONDS)
    if phase.reply:
        await asyncio.wait_for(clients[0][0].readuntil(b"\r\n\r\n"), PATIENCE_SECONDS)
    elif phase.clients > 1:
        # The second one joins the first in its own time.
        await asyncio.sleep(0.02)
    for _, writer in clients:
        began = time.perf_counter()
        if number % 2:
            writer.transport.abort()
        else:
            writer.close()
    closed = await asyncio.wait_for(upstream.closed, PATIENCE_SECONDS)
    return (closed - began) * 1000


def _request(phase: Phase, route: str, number: int) -> bytes:
    asked = {
        "model": "m", "max_tokens": 9, "temperature": 0, "stream": phase.name == "in a stream",
        "messages": [{"role": "user", "content": f"Where is order {number}?"}],
    }  # fmt: skip
    body = json.dumps(asked).encode()
    length = len(body) if phase.sends_all else BODY_BYTES
    if not phase.sends_all:
        body = b" " * (BODY_BYTES - 1000)
    head = (
        f"POST {route} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"x-api-key: sk-bench\r\nContent-Length: {length}\r\n\r\n"
    )
    return head.encode() + body
