"""Messages that two parsers could read differently: one answer, a closed connection, no second request."""

from __future__ import annotations

import pytest

from support.eventually import eventually
from support.mock_upstream import Reply
from support.running import post_head, raw_connection, raw_exchange

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\n"

AMBIGUOUS = {
    "length and chunks": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 0\r\nContent-Length: 44\r\n\r\n",
    "length list": b"Content-Length: 0, 44\r\n\r\n",
    "length sign": b"Content-Length: +0\r\n\r\n",
    "length hex": b"Content-Length: 0x0\r\n\r\n",
    "length space": b"Content-Length : 0\r\n\r\n",
    "length unicode": "Content-Length: ٤\r\n\r\n".encode(),
    "length negative": b"Content-Length: -1\r\n\r\n",
    "length huge": b"Content-Length: 99999999999999999999999999\r\n\r\n",
    "chunked twice": b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "not chunked last": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunked space": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "chunked fold": b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "chunked x": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked tab name": b"Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n",
    "chunk size sign": b"Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n",
    "chunk size 0x": b"Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
    "chunk size huge": b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n\r\n",
    "chunk bare lf": b"Transfer-Encoding: chunked\r\n\r\n0\n\n",
    "chunk data long": b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    "bare lf": b"X: 1\nContent-Length: 0\r\n\r\n",
    "bare cr": b"X: 1\rContent-Length: 44\r\n\r\n",
    "nul": b"X: a\x00b\r\nContent-Length: 0\r\n\r\n",
    "control in value": b"X: a\x0bb\r\nContent-Length: 0\r\n\r\n",
    "control in name": b"X\x01: a\r\nContent-Length: 0\r\n\r\n",
    "space in name": b"X Y: a\r\nContent-Length: 0\r\n\r\n",
    "no colon": b"Nothing\r\nContent-Length: 0\r\n\r\n",
    "empty name": b": a\r\nContent-Length: 0\r\n\r\n",
    "fold": b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "too many headers": b"".join(b"X-%d: 1\r\n" % i for i in range(200)) + b"\r\n",
    "long header": b"X: " + b"a" * 9000 + b"\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("name", AMBIGUOUS)
async def test_ambiguous_framing_is_refused_and_the_connection_closed(start_sidecar, upstream, name) -> None:
    sidecar = await start_sidecar(header_seconds=1, body_seconds=1)
    got = await raw_exchange(sidecar.port, HEAD + AMBIGUOUS[name] + SMUGGLED)
    assert got.count(b"\r\nDate: ") == 1, got
    assert got[9:10] == b"4", got[:100]
    assert not [call for call in upstream.calls if "smuggled" in call.path]
    assert b"smuggled" not in got


@pytest.mark.parametrize("line", [
    b"GET /v1/x HTTP/2.0", b"GET /v1/x HTTP/9.9", b"GET /v1/x",
    b"G\x00T /v1/x HTTP/1.1", b"GET /v1/x\x00 HTTP/1.1", b"GET\t/v1/x\tHTTP/1.1",
    b"/ HTTP/1.1", b"\x16\x03\x01\x02\x00",
])  # fmt: skip
async def test_malformed_request_lines(start_sidecar, upstream, line) -> None:
    sidecar = await start_sidecar(header_seconds=0.5)
    got = await raw_exchange(
        sidecar.port, line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n", eof=False
    )
    assert not got or got[9:10] in {b"4", b"5"}, got[:100]
    assert not upstream.calls


async def test_long_request_line(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    got = await raw_exchange(
        sidecar.port, b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    assert got[9:12] in {b"400", b"431"} or not got
    assert not upstream.calls


async def test_errors_quote_nothing_that_was_sent(start_sidecar, upstream, caplog) -> None:
    sidecar = await start_sidecar()
    got = await raw_exchange(sidecar.port, HEAD + b"x-api-key : canary-7f3a\r\n\r\n")
    assert b"canary" not in got
    assert "canary" not in caplog.text
    assert b"application/json" in got


async def test_pipelined_requests_are_answered_in_order(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    upstream.default = lambda seen: Reply(body=seen.path.encode())
    sent = b"".join(b"GET /v1/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % i for i in range(5))
    got = await raw_exchange(
        sidecar.port, sent + b"GET /v1/last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    assert [part.rpartition(b"/")[2] for part in got.split(b"HTTP/1.1 200")[1:]] == [
        b"0",
        b"1",
        b"2",
        b"3",
        b"4",
        b"last",
    ] or ([got.find(b"/v1/%d" % i) for i in range(5)] == sorted(got.find(b"/v1/%d" % i) for i in range(5)))


async def test_a_head_that_never_ends_is_cut(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(header_seconds=0.15)
    async with raw_connection(sidecar.port) as (reader, writer):
        writer.write(b"POST /v1/messages HTTP/1.1\r\n")
        assert await reader.read() == b""
    async with raw_connection(sidecar.port) as (reader, writer):
        assert await reader.read() == b""  # and one that never begins
    # Also for the second request of a connection.
    async with raw_connection(sidecar.port) as (reader, writer):
        writer.write(b"GET /v1/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await reader.readuntil(b"/v1/x") != b""
        writer.write(b"GET /v1/y HTTP/1.1\r\nHos")
        assert b"HTTP/1.1" not in await reader.read()
    await eventually(lambda: not sidecar.sidecar._server.connections)


async def test_a_body_that_stops_coming_is_answered(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(body_seconds=0.15)
    got = await raw_exchange(
        sidecar.port,
        post_head(9) + b"{",
    )
    assert got.startswith(b"HTTP/1.1 408")
    got = await raw_exchange(
        sidecar.port, b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
    )
    assert got.startswith(b"HTTP/1.1 408")
    assert not upstream.calls or not upstream.calls[0].began.is_set()
