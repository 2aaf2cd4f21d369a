"""Pings of the sidecar's own: by option, between whole events, in the client's protocol."""

from __future__ import annotations

import pytest

from support.mock_upstream import Reply
from support.running import chat, message

SSE = [("Content-Type", "text/event-stream")]
MESSAGES_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
FIRST, SECOND = b'event: a\ndata: {"n":1}\n\n', b'event: b\ndata: {"n":2}\n\n'


async def test_a_silent_stream_gets_pings_between_its_events(upstream, start_sidecar) -> None:
    sidecar = await start_sidecar(ping_seconds=0.05)
    upstream.replies.append(Reply(pieces=[FIRST, SECOND], headers=SSE, gap_s=0.3))
    got = await sidecar.ask(body=message(stream=True))
    assert got.body.replace(MESSAGES_PING, b"") == FIRST + SECOND
    assert MESSAGES_PING in got.body.partition(FIRST)[2].partition(SECOND)[0]


async def test_chat_gets_comments(upstream, start_sidecar) -> None:
    sidecar = await start_sidecar(ping_seconds=0.05)
    upstream.replies.append(Reply(pieces=[b"data: {}\n\n", b"data: [DONE]\n\n"], headers=SSE, gap_s=0.3))
    got = await sidecar.ask("/v1/chat/completions", chat(stream=True))
    assert b"data: {}\n\n: ping\n\n" in got.body
    assert got.body.replace(b": ping\n\n", b"") == b"data: {}\n\ndata: [DONE]\n\n"


async def test_an_event_is_never_cut_in_two(upstream, start_sidecar) -> None:
    sidecar = await start_sidecar(ping_seconds=0.05)
    pieces = [FIRST[:9], FIRST[9:-1], FIRST[-1:] + SECOND]
    upstream.replies.append(Reply(pieces=pieces, headers=SSE, gap_s=0.2))
    got = await sidecar.ask(body=message(stream=True))
    assert FIRST in got.body
    assert got.body.replace(MESSAGES_PING, b"") == FIRST + SECOND


@pytest.mark.parametrize(
    ("settings", "headers"),
    [
        ({}, SSE),
        ({"ping_seconds": 0.05}, [("Content-Type", "application/json")]),
        ({"ping_seconds": 0.05}, [*SSE, ("Content-Encoding", "gzip")]),
    ],
)
async def test_everything_else_stays_as_it_is(upstream, start_sidecar, settings, headers) -> None:
    sidecar = await start_sidecar(**settings)
    upstream.replies.append(Reply(pieces=[b"{}\n\n", b"{}"], headers=headers, gap_s=0.2))
    got = await sidecar.ask(body=message(stream=True))
    assert got.body == b"{}\n\n{}"


async def test_a_ping_is_not_part_of_what_is_kept(upstream, start_sidecar) -> None:
    from support.memory_graph import MemoryGraph
    from support.mock_upstream import messages_events

    kept: list[bytes] = []

    class Graph(MemoryGraph):
        def settle(self, decision, status, headers, body, complete, now_ms) -> str:
            kept.append(body)
            return super().settle(decision, status, headers, body, complete, now_ms)

    sidecar = await start_sidecar(graph=Graph(), ping_seconds=0.05)
    events = messages_events("hello")
    upstream.replies.append(Reply(pieces=events, headers=SSE, gap_s=0.1))
    got = await sidecar.ask(body=message(stream=True))
    assert MESSAGES_PING in got.body
    await sidecar.settled()
    assert kept == [b"".join(events)]
