"""The short way of plain requests gives the same answers as the way of all requests, and counts the same."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from support.running import KEY, chat, message, raw_connection
from zlrs.graph import DecisionGraph, GraphSettings
from zlrs_proxy import ledger

PATHS = ("/v1/messages", "/v1/chat/completions")
FRESH = re.compile(rb"(req_|aud_|msg_|chatcmpl-)[0-9a-f-]+|\"created\":\d+|Date: [^\r]*")


def graph() -> DecisionGraph:
    return DecisionGraph(None, GraphSettings(recheck=False))


def plain(path: str, body: dict, more: str = "", host: str = "localhost") -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nx-api-key: {KEY}\r\n"
        f"{more}Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def answer(reader: asyncio.StreamReader) -> bytes:
    """One answer with a length."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    length = re.search(rb"(?i)\ncontent-length: (\d+)", head)
    assert length is not None, head
    return head + await reader.readexactly(int(length[1]))


async def learned(sidecar, path: str, body: dict) -> None:
    """The graph has the answer, and the host has been seen."""
    for _ in range(2):
        async with raw_connection(sidecar.port) as (reader, writer):
            writer.write(plain(path, {**body, "stream": False}))
            await answer(reader)
        await sidecar.settled()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True])
async def test_both_ways_give_the_same_answer(start_sidecar, upstream, path, stream) -> None:
    sidecar = await start_sidecar(graph=graph())
    body = message(stream=stream) if path == PATHS[0] else chat(stream=stream)
    await learned(sidecar, path, body)
    asked = len(upstream.calls)
    async with raw_connection(sidecar.port) as (reader, writer):
        writer.write(plain(path, body))
        short = await answer(reader)
        # A header of ours, though it asks for nothing, is read by the general way.
        writer.write(plain(path, body, "X-ZLRS-No-Graph: false\r\n"))
        general = await answer(reader)
        writer.write(plain(path, body))
        again = await answer(reader)
    assert b"X-ZLRS-Decision: hit;route=same" in short
    assert FRESH.sub(b"*", short) == FRESH.sub(b"*", general) == FRESH.sub(b"*", again)
    assert len({short, general, again}) == 3, "ids are fresh"
    assert len(upstream.calls) == asked


async def test_requests_that_come_in_pieces_or_together_are_answered_in_order(
    start_sidecar, upstream
) -> None:
    sidecar = await start_sidecar(graph=graph())
    await learned(sidecar, PATHS[0], message())
    hit, miss = plain(PATHS[0], message()), plain(PATHS[0], message("new", temperature=1))
    for cut in (1, 5, 30, 60, len(hit) - 60, len(hit) - 1):
        async with raw_connection(sidecar.port) as (reader, writer):
            writer.write(hit)
            assert b"hit;route=same" in await answer(reader)
            writer.write(hit[:cut])
            await asyncio.sleep(0.02)
            writer.write(hit[cut:])
            assert b"hit;route=same" in await answer(reader)
            writer.write(miss + hit + hit[:cut])
            assert b"Decision: skipped" in await answer(reader)
            assert b"hit;route=same" in await answer(reader)
            writer.write(hit[cut:])
            assert b"hit;route=same" in await answer(reader)


async def test_what_is_decided_goes_upstream_once(start_sidecar, upstream) -> None:
    known = graph()
    sidecar = await start_sidecar(graph=known)
    await learned(sidecar, PATHS[0], message())
    before = known.stats()
    async with raw_connection(sidecar.port) as (reader, writer):
        for number in range(5):
            writer.write(plain(PATHS[0], message(f"ask {number}")))
            assert b"Decision: miss" in await answer(reader)
    assert [call.json()["messages"][0]["content"] for call in upstream.calls[-5:]] == [
        f"ask {number}" for number in range(5)
    ]
    assert known.stats()["misses"] == before["misses"] + 5


async def test_a_host_that_is_not_served_is_refused_on_a_connection_that_was_served(
    start_sidecar, upstream
) -> None:
    sidecar = await start_sidecar(graph=graph())
    await learned(sidecar, PATHS[0], message())
    async with raw_connection(sidecar.port) as (reader, writer):
        writer.write(plain(PATHS[0], message()))
        assert b"hit;route=same" in await answer(reader)
        writer.write(plain(PATHS[0], message(), host="evil.example"))
        assert (await answer(reader)).startswith(b"HTTP/1.1 421 ")


async def test_hits_of_the_short_way_are_in_metrics_and_ledger(start_sidecar, upstream, tmp_path) -> None:
    sidecar = await start_sidecar(graph=graph(), usage_ledger=True, state_folder=str(tmp_path))
    body = chat()
    await learned(sidecar, PATHS[1], body)
    before = sidecar.sidecar.metrics.requests.get("chat", "hit", "2xx")
    async with raw_connection(sidecar.port) as (reader, writer):
        for _ in range(50):
            writer.write(plain(PATHS[1], body))
            last = await answer(reader)
    assert sidecar.sidecar.metrics.requests.get("chat", "hit", "2xx") == before + 50
    used = json.loads(last.partition(b"\r\n\r\n")[2])["usage"]
    await sidecar.sidecar.stop(0)
    saved = [row for row in ledger.read(tmp_path) if row.what == "saved"]
    assert sum(row.requests for row in saved) == before + 50
    assert sum(row.output for row in saved) == (before + 50) * used["completion_tokens"]


def watched(sidecar) -> list[bytes]:
    """What the short way is asked about from now on."""
    server, asked = sidecar.sidecar._server, []
    plain_way = server.plain

    def plain(data: bytes) -> object:
        asked.append(data)
        return plain_way(data)

    server.plain = plain
    return asked


async def test_the_short_way_comes_back_after_requests_of_other_forms(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=graph())
    await learned(sidecar, PATHS[0], message())
    asked = watched(sidecar)
    hit = plain(PATHS[0], message())
    other = plain(PATHS[0], message(), "X-ZLRS-No-Graph: false\r\n")
    relayed = plain("/v1/other", message())
    head, _, body = other.partition(b"\r\n\r\n")
    async with raw_connection(sidecar.port) as (reader, writer):
        for sent in (
            (other,),
            (relayed,),
            (head + b"\r\n\r\n", body),
            (head + b"\r\n\r\n" + body[:9], body[9:]),
        ):
            for piece in sent:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.02)
            assert (await answer(reader)).startswith(b"HTTP/1.1 200 ")
            asked.clear()
            writer.write(hit)
            assert b"hit;route=same" in await answer(reader)
            assert asked == [hit], sent


@pytest.mark.parametrize("cut", [1, 30, -1])
async def test_a_body_that_looks_like_a_plain_request_is_a_body(start_sidecar, upstream, cut) -> None:
    sidecar = await start_sidecar(graph=graph())
    await learned(sidecar, PATHS[0], message())
    asked = watched(sidecar)
    hit = plain(PATHS[0], message())
    outer = f"POST /v1/other HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(hit)}\r\n\r\n".encode()
    before = plain(PATHS[0], message(), "X-ZLRS-No-Graph: false\r\n")
    for first in (outer[:cut], before + outer, before + outer[:cut], hit + outer):
        upstream.calls.clear()
        rest = (before + outer).removeprefix(first) if first.startswith(before) else outer.removeprefix(first)
        rest = b"" if first in {before + outer, hit + outer} else rest
        async with raw_connection(sidecar.port) as (reader, writer):
            writer.write(first)
            await writer.drain()
            if first[: len(before)] == before or first.startswith(hit):
                assert b"hit;route=same" in await answer(reader)
            if rest:
                await asyncio.sleep(0.02)
                writer.write(rest)
                await writer.drain()
            await asyncio.sleep(0.02)
            asked.clear()
            writer.write(hit)
            await answer(reader)
        (call,) = upstream.calls
        assert (call.path, call.body) == ("/v1/other", hit)
        assert asked == []


async def test_a_second_header_of_a_kind_that_comes_once_is_refused_here_too(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=graph())
    await learned(sidecar, PATHS[0], message())
    for name in ("Content-Location", "ETag", "Max-Forwards", "Server", "User-Agent"):
        async with raw_connection(sidecar.port) as (reader, writer):
            writer.write(plain(PATHS[0], message(), f"{name}: a\r\n"))
            once = await answer(reader)
            writer.write(plain(PATHS[0], message(), f"{name}: a\r\n{name.lower()}: a\r\n"))
            twice = await answer(reader)
        assert once.startswith(b"HTTP/1.1 200 "), name
        assert b" 400 " in twice[:16], name


async def test_the_graphs_limit_on_bodies_is_kept_by_both_ways(start_sidecar, upstream) -> None:
    known, short, long = graph(), message("short"), message("long " * 200)
    # One sidecar takes both into the graph; another with a lower limit may answer the short one only.
    learner = await start_sidecar(graph=known)
    for body in (short, long):
        await learned(learner, PATHS[0], body)
    strict = await start_sidecar(graph=known, graph_body_limit_bytes=600)
    for sidecar, expected in ((learner, b"Decision: hit"), (strict, b"Decision: skipped;reason=too_large")):
        for more in ("X-ZLRS-No-Graph: false\r\n", ""):
            async with raw_connection(sidecar.port) as (reader, writer):
                writer.write(plain(PATHS[0], short, more))
                assert b"Decision: hit" in await answer(reader)
                writer.write(plain(PATHS[0], long, more))
                assert expected in await answer(reader)


async def test_hits_that_tell_their_tokens_are_not_counted_as_those_that_do_not(
    start_sidecar, upstream, tmp_path
) -> None:
    sidecar = await start_sidecar(graph=graph(), usage_ledger=True, state_folder=str(tmp_path))
    await learned(sidecar, PATHS[1], chat())
    before = sidecar.sidecar.metrics.requests.get("chat", "hit", "2xx")
    forms = [
        chat(stream=True), chat(), chat(stream=True, stream_options={"include_usage": True}),
        chat(stream=True), chat(),
    ]  # fmt: skip
    async with raw_connection(sidecar.port) as (reader, writer):
        for body in forms:
            writer.write(plain(PATHS[1], body))
            last = await answer(reader)
            assert b"hit;route=same" in last
    used = json.loads(last.partition(b"\r\n\r\n")[2])["usage"]
    await sidecar.sidecar.stop(0)
    rows = list(ledger.read(tmp_path))
    assert sum(row.requests for row in rows if row.what == "saved") == before + 3
    assert sum(row.output for row in rows if row.what == "saved") == (before + 3) * used["completion_tokens"]
    assert sum(row.requests for row in rows if row.what == "unknown") == 2
