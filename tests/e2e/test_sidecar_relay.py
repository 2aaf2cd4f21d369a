"""What is relayed arrives as it was sent, both ways."""

from __future__ import annotations

import gzip
import json
import random

import pytest

from support.mock_upstream import Reply, messages_events
from support.running import digest, message, post_head, raw_exchange

CJK = "注文番号１０４２は届きましたか？🚚👩‍👩‍👧‍👦 — naïve Ω \\u2028 end"


async def test_json_answer_is_byte_equal(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    odd = b'{ "b":1,\n\t"a" : "\\u00e9\xc3\xa9", "thinking":{"signature":"AbC+/=="} }  '
    upstream.replies.append(Reply(body=odd, headers=[("Content-Type", "application/json")]))
    sent = b'{"z":1, "messages" : [ ],\n "context_management":{},"a":1.0}'
    got = await sidecar.ask("/v1/messages?beta=true", data=sent)
    assert got.body == odd
    assert upstream.calls[0].body == sent
    assert upstream.calls[0].path == "/v1/messages?beta=true"


async def test_stream_is_byte_equal_when_split_at_every_byte(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    whole = b"".join(messages_events(CJK))
    upstream.replies.append(
        Reply(pieces=[bytes([byte]) for byte in whole], headers=[("Content-Type", "text/event-stream")])
    )
    got = await sidecar.ask(body=message(CJK, stream=True))
    assert got.body == whole


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
async def test_event_stream_forms_pass_verbatim(start_sidecar, upstream, newline) -> None:
    sidecar = await start_sidecar()
    stream = newline.join(
        [b": comment", b"event: ping", b'data:{"type":"ping"}', b"", b"data: x", b"id: 1", b"", b""]
    )
    upstream.replies.append(
        Reply(pieces=[stream[:9], stream[9:]], headers=[("Content-Type", "text/event-stream")])
    )
    got = await sidecar.ask(body=message(stream=True))
    assert got.body == stream


async def test_random_bodies_both_ways(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    rng = random.Random(7)
    for size in (0, 1, 65_535, 65_536, 65_537, 1_309_298):
        sent = rng.randbytes(size)
        got = await sidecar.ask("/v1/files", data=sent, headers={"content-type": "application/octet-stream"})
        assert digest(upstream.calls[-1].body) == digest(sent)
        assert digest(got.body) == digest(sent)
        assert got.header("content-length") == str(size)


@pytest.mark.parametrize("graph_limit", [4096, 1 << 26])
@pytest.mark.parametrize("size", [1_309_298, 31_000_000])
async def test_large_messages_pass(start_sidecar, upstream, size, graph_limit) -> None:
    sidecar = await start_sidecar(graph_body_limit_bytes=graph_limit)
    body = message("x" * size, temperature=1)
    sent = json.dumps(body).encode()
    got = await sidecar.ask(data=sent)
    assert got.status == 200
    assert digest(upstream.calls[0].body) == digest(sent)
    assert upstream.calls[0].header("content-length") == [str(len(sent))]


async def test_chunked_request_body_passes(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()

    async def pieces():
        for _ in range(100):
            yield b"0123456789" * 1000

    got = await sidecar.ask("/v1/files", data=pieces())
    assert digest(got.body) == digest(b"0123456789" * 100_000)
    assert upstream.calls[0].header("transfer-encoding") == ["chunked"]


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("status", [200, 400])
async def test_compressed_answers_pass_as_they_are(start_sidecar, upstream, coding, status) -> None:
    sidecar = await start_sidecar()
    packed = gzip.compress(b"{}") + b"whatever"
    upstream.replies.append(Reply(status=status, body=packed, headers=[("Content-Encoding", coding)]))
    got = await sidecar.ask(body=message(), headers={"accept-encoding": f"{coding};q=0.7"})
    assert (got.status, got.body, got.header("content-encoding")) == (status, packed, coding)
    assert upstream.calls[0].header("accept-encoding") == [f"{coding};q=0.7"]


async def test_compressed_request_passes_as_it_is(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    upstream.default = lambda _: Reply(body=b"{}")
    packed = gzip.compress(json.dumps(message()).encode())
    await sidecar.ask(data=packed, headers={"content-encoding": "gzip"})
    assert upstream.calls[0].body == packed
    assert upstream.calls[0].header("content-encoding") == ["gzip"]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_are_not_followed(start_sidecar, upstream, status) -> None:
    sidecar = await start_sidecar()
    elsewhere = "http://127.0.0.1:9/v1/messages"
    upstream.replies.append(Reply(status=status, headers=[("Location", elsewhere)]))
    got = await sidecar.ask(body=message())
    assert (got.status, got.header("location")) == (status, elsewhere)
    assert len(upstream.calls) == 1


async def test_upstream_errors_pass_unchanged(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    limits = [
        ("retry-after", "7"),
        ("anthropic-ratelimit-requests-remaining", "0"),
        ("request-id", "req_x"),
        ("x-should-retry", "true"),
    ]
    for status in (400, 401, 403, 404, 409, 413, 422, 429, 500, 503, 529):
        text = f'{{"type":"error","error":{{"type":"odd","message":"wording {status} matters"}} }}'.encode()
        upstream.replies.append(Reply(status=status, reason="Its Own Words", body=text, headers=limits))
        got = await sidecar.ask(body=message(stream=True))
        assert (got.status, got.reason, got.body) == (status, "Its Own Words", text)
        for name, value in limits:
            assert got.all(name) == [value]


async def test_error_event_after_200_is_relayed(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    fault = (
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    )
    for before in (0, 4):
        events = [*messages_events("hello there")[:before], fault]
        upstream.replies.append(Reply(pieces=events, headers=[("Content-Type", "text/event-stream")]))
        got = await sidecar.ask(body=message(stream=True))
        assert got.body == b"".join(events)
    assert len(upstream.calls) == 2


async def test_headers_travel_in_order_with_spelling_and_repetitions(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    upstream.replies.append(
        Reply(
            raw=[
                b"HTTP/1.1 200 OK\r\nX-Odd-CASE: a\r\n",
                b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 2\r\n\r\nok",
            ]
        )
    )
    sent = (
        b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"anthropic-beta: zz-2,aa-1\r\nAnthropic-Beta: custom-9\r\nX-Unknown-THING: \xe2\x9c\x93\r\n"
        b"Cookie: s=1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    )
    got = await raw_exchange(sidecar.port, sent)
    assert b"\r\nX-Odd-CASE: a\r\n" in got
    assert b"\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n" in got
    assert b"\r\nContent-Type:" not in got
    assert b"\r\nServer:" not in got
    names = [
        (n, v)
        for n, v in upstream.calls[0].headers
        if n.lower() in {b"anthropic-beta", b"x-unknown-thing", b"cookie"}
    ]
    assert names == [
        (b"anthropic-beta", b"zz-2,aa-1"),
        (b"anthropic-beta", b"custom-9"),
        (b"X-Unknown-THING", "✓".encode()),
        (b"Cookie", b"s=1"),
    ]


async def test_nothing_is_made_up_on_the_way_upstream(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    await raw_exchange(
        sidecar.port, b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    assert {name.lower() for name, _ in upstream.calls[0].headers} == {b"host", b"via"}
    assert upstream.calls[0].header("via") == ["1.1 zlrs"]


async def test_hop_by_hop_headers_end_here(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    upstream.replies.append(
        Reply(
            raw=[
                b"HTTP/1.1 200 OK\r\nConnection: X-Link, close\r\nX-Link: 1\r\nKeep-Alive: timeout=5\r\n",
                b"Trailer: X-T\r\nProxy-Connection: close\r\nUpgrade: h2c\r\nX-Stays: 1\r\n",
                b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            ]
        )
    )
    sent = (
        b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Connection: close, X-Mine, x-api-key\r\nX-Mine: 1\r\nTE: trailers\r\n"
        b"Keep-Alive: 1\r\nProxy-Authorization: Basic eA==\r\n"
        b"x-api-key: kept-although-named\r\nX-Stays: 1\r\nContent-Length: 2\r\n\r\n{}"
    )
    got = await raw_exchange(sidecar.port, sent)
    for name in (b"X-Link", b"Keep-Alive", b"Trailer", b"Proxy-Connection", b"Upgrade"):
        assert name.lower() not in got.lower()
    assert b"X-Stays: 1" in got
    arrived = {name.lower() for name, _ in upstream.calls[0].headers}
    assert arrived.isdisjoint({b"x-mine", b"te", b"keep-alive", b"proxy-authorization", b"connection"})
    assert arrived >= {b"x-stays", b"x-api-key"}


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
async def test_any_method_and_path_is_relayed(start_sidecar, upstream, method) -> None:
    sidecar = await start_sidecar()
    path = "/v1/x%2Fy/../%7Ez;a=b//?q=%20+&q=a%2Bb&empty="
    got = await sidecar.ask(path, method=method)
    assert (upstream.calls[0].method, upstream.calls[0].path) == (method, path)
    assert got.status == 200
    assert got.header("x-zlrs-decision") == "skipped;reason=not_understood"


async def test_head_keeps_the_length_and_has_no_body(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    upstream.default = lambda _: Reply(raw=[b"HTTP/1.1 200 OK\r\nContent-Length: 123\r\n\r\n"])
    got = await raw_exchange(
        sidecar.port, b"HEAD /api/hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    assert b"Content-Length: 123" in got
    assert got.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("status", [204, 304])
async def test_answers_without_a_body(start_sidecar, upstream, status) -> None:
    sidecar = await start_sidecar()
    upstream.replies.append(Reply(raw=[f"HTTP/1.1 {status} Nothing\r\nETag: x\r\n\r\n".encode()]))
    got = await sidecar.ask("/v1/files/1", method="DELETE")
    assert (got.status, got.body, got.header("etag")) == (status, b"", "x")


async def test_http_1_0_client_gets_a_body_that_ends_with_the_connection(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    got = await raw_exchange(
        sidecar.port,
        post_head(88, version="1.0")
        + b'{"model":"m","stream":true,"temperature":1,"messages":[{"role":"user","content":"hi"}]}'.ljust(
            88
        ),
    )
    head, _, body = got.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert body == b"".join(messages_events("You asked: hi"))


async def test_upstream_prefix_is_kept(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(upstream=upstream.url + "/tenant/a/")
    await sidecar.ask("/v1/models?limit=1000", method="GET")
    assert upstream.calls[0].path == "/tenant/a/v1/models?limit=1000"


async def test_pings_and_comments_are_relayed_when_they_come(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    upstream.replies.append(
        Reply(
            pieces=[ping, b": keep\n\n", ping],
            gap_s=0.05,
            then="hang",
            headers=[("Content-Type", "text/event-stream")],
        )
    )
    async with sidecar.session.post(sidecar.url + "/v1/messages", json=message(stream=True)) as response:
        assert await response.content.readexactly(len(ping)) == ping
        assert await response.content.readexactly(len(b": keep\n\n") + len(ping)) == b": keep\n\n" + ping


async def test_headers_do_not_wait_for_the_body(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    upstream.replies.append(
        Reply(
            raw=[b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"],
            then="hang",
        )
    )
    async with sidecar.session.post(sidecar.url + "/v1/messages", json=message(stream=True)) as response:
        assert response.status == 200


async def test_an_upgrade_is_relayed_as_a_plain_request(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    upstream.default = lambda seen: Reply(body=seen.path.encode())
    got = await raw_exchange(
        sidecar.port,
        b"GET /v1/realtime HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n"
        b"GET /v1/next HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    )
    assert got.count(b"HTTP/1.1 200 OK") == 2
    assert not upstream.calls[0].header("upgrade")
    assert [call.path for call in upstream.calls] == ["/v1/realtime", "/v1/next"]


async def test_a_header_that_is_not_utf8_is_refused_or_dropped_never_changed(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    got = await raw_exchange(
        sidecar.port, b"GET /v1/x HTTP/1.1\r\nHost: localhost\r\nX-Odd: \xe9\r\nConnection: close\r\n\r\n"
    )
    assert got.startswith(b"HTTP/1.1 400")
    assert not upstream.calls
    upstream.replies.append(Reply(raw=[b"HTTP/1.1 200 OK\r\nX-Odd: \xe9\r\nContent-Length: 2\r\n\r\nok"]))
    got = await sidecar.ask("/v1/x", method="GET")
    assert (got.body, got.header("x-odd")) == (b"ok", None)
