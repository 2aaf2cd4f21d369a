"""Too much of anything ends early, with both numbers, before it is held in memory."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from support.eventually import eventually
from support.memory_graph import MemoryGraph
from support.mock_upstream import HANG, Reply
from support.running import message, raw_connection, raw_exchange

LIMIT = 32_000_000
JSON_HEAD = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize("length", [LIMIT + 1, 33_000_000, 10**15])
async def test_declared_too_large_is_refused_before_a_byte_is_read(start_sidecar, upstream, length) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    got = await raw_exchange(sidecar.port, JSON_HEAD + b"Content-Length: %d\r\n\r\n" % length)
    assert got.startswith(b"HTTP/1.1 413")
    error = json.loads(got.partition(b"\r\n\r\n")[2])
    assert error["error"]["type"] == "request_too_large"
    assert str(LIMIT) in error["error"]["message"]
    assert str(length) in error["error"]["message"]
    assert not upstream.calls


@pytest.mark.parametrize("graph_limit", [1024, 1 << 26])
async def test_undeclared_too_large_is_refused_when_it_is(start_sidecar, upstream, graph_limit) -> None:
    sidecar = await start_sidecar(
        body_limit_bytes=100_000, graph_body_limit_bytes=graph_limit, graph=MemoryGraph()
    )
    piece = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    got = await raw_exchange(
        sidecar.port, JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + piece * 40 + b"0\r\n\r\n"
    )
    assert got.startswith(b"HTTP/1.1 413")
    assert all(call.gone.is_set() or not call.began.is_set() for call in upstream.calls)
    assert all(len(call.body) <= 100_000 for call in upstream.calls)


async def test_exactly_the_limit_passes(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(body_limit_bytes=100_000)
    upstream.default = lambda _: Reply()
    assert (await sidecar.ask(data=b"x" * 100_000)).status == 200
    assert (await sidecar.ask(data=b"x" * 100_001)).status == 413


async def test_expect_is_answered_before_the_body_is_sent(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    upstream.default = lambda _: Reply(body=b"fine")
    async with raw_connection(sidecar.port) as (reader, writer):
        writer.write(JSON_HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"{}")
        assert (await reader.read()).endswith(b"fine")
    assert not upstream.calls[0].header("expect")
    got = await raw_exchange(
        sidecar.port, JSON_HEAD + b"Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n"
    )
    assert got.startswith(b"HTTP/1.1 413")
    got = await raw_exchange(sidecar.port, JSON_HEAD + b"Expect: magic\r\nContent-Length: 2\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 417")


async def test_requests_at_once_are_limited_and_told_to_come_back(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(in_flight_limit=3)
    upstream.default = lambda _: Reply(first_delay_s=0.3, body=b"{}")
    got = await asyncio.gather(*(sidecar.ask(body=message(f"{i}")) for i in range(6)))
    assert sorted(one.status for one in got) == [200] * 3 + [529] * 3
    refused = next(one for one in got if one.status == 529)
    assert refused.header("retry-after") == "1"
    assert json.loads(refused.body)["error"]["type"] == "overloaded_error"
    assert (await sidecar.ask(body=message())).status == 200


async def test_many_open_streams_do_not_starve_a_short_call(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    upstream.replies.extend(Reply(pieces=[b"data: x\n\n"], then=HANG) for _ in range(150))
    streams = [
        asyncio.ensure_future(sidecar.session.post(sidecar.url + "/v1/messages", json=message()))
        for _ in range(150)
    ]
    responses = await asyncio.gather(*streams)
    assert (await sidecar.ask(body=message())).status == 200
    for response in responses:
        response.close()
    await sidecar.quiet()


async def test_connections_are_limited(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(connection_limit=5)
    opened = [await asyncio.open_connection("127.0.0.1", sidecar.port) for _ in range(5)]
    reader, writer = await asyncio.open_connection("127.0.0.1", sidecar.port)
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    for _, one in [*opened, (reader, writer)]:
        one.close()
    await eventually(lambda: not sidecar.sidecar._server.connections)
    assert (await sidecar.ask(body=message())).status == 200


async def test_a_client_that_does_not_read_holds_back_the_upstream_and_is_cut(
    start_sidecar, upstream
) -> None:
    sidecar = await start_sidecar(client_stall_seconds=0.4)
    sent = []

    class Pieces(list):
        def __iter__(self):
            for _ in range(2000):
                sent.append(1)
                yield b"x" * 65_536

    upstream.replies.append(Reply(pieces=Pieces()))
    async with raw_connection(sidecar.port) as (_, writer):
        writer.transport.pause_reading()
        writer.write(b"GET /v1/files/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        seen = await upstream.called()
        await asyncio.wait_for(seen.gone.wait(), 5)
    # 2,000 pieces are 131 MB; what fits in the sockets' buffers on the way is a few.
    assert len(sent) < 400
    await sidecar.quiet()


async def test_heads_that_never_end_keep_no_one_out(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(header_seconds=1.0)
    opened = [await asyncio.open_connection("127.0.0.1", sidecar.port) for _ in range(300)]
    for _, writer in opened:
        writer.write(b"POST /v1/messages HTTP/1.1\r\nHost: local")
    for _ in range(5):
        assert (await sidecar.ask(body=message())).status == 200
    ends = await asyncio.gather(*(asyncio.wait_for(reader.read(), 5) for reader, _ in opened))
    assert set(ends) == {b""}
    for _, writer in opened:
        writer.close()
