"""Faults of the upstream and of the network before it."""

from __future__ import annotations

import asyncio
import json
import socket

from support.fault_relay import DOWN, UP, Toxic
from support.faults import EVENTS, SSE, World, fault
from support.mock_upstream import ABORT, CLOSE, HANG, Reply, event, messages_events, messages_reply
from zlrs_proxy.settings import Settings

STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
UPSTREAM = "upstream"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


@fault(UPSTREAM, "refuses connections", "502", calls=0)
async def refused(world: World) -> str:
    await world.up()
    await world.relay.down()
    got = await world.ask()
    await world.relay.start()
    return got


@fault(UPSTREAM, "its name does not resolve", "502", calls=0)
async def no_name(world: World) -> str:
    sidecar = await world.up(upstream="http://does-not-exist.invalid")
    got = await world.ask()
    sidecar.sidecar.reload(Settings(upstream=world.relay.url, port=0))
    return got


@fault(UPSTREAM, "connections are neither taken nor refused", "504", calls=0)
async def black_hole(world: World) -> str:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        waiting = []
        for _ in range(4):  # what the queue takes, and more: from then on the kernel answers nobody
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(address)
            waiting.append(one)
        await asyncio.sleep(0.05)
        sidecar = await world.up(upstream=f"http://127.0.0.1:{address[1]}")
        got = await world.ask()
        for one in waiting:
            one.close()
    sidecar.sidecar.reload(Settings(upstream=world.relay.url, port=0))
    return got


@fault(UPSTREAM, "does not speak TLS where it should", "502", calls=0)
async def no_tls(world: World) -> str:
    sidecar = await world.up(upstream=world.relay.url.replace("http:", "https:"))
    got = await world.ask()
    sidecar.sidecar.reload(Settings(upstream=world.relay.url, port=0))
    return got


@fault(UPSTREAM, "is silent before its first byte", "504")
async def silent(world: World) -> str:
    await world.up()
    world.upstream.replies.append(Reply(first_delay_s=30))
    got = await world.ask()
    await asyncio.wait_for(world.upstream.calls[0].gone.wait(), 1)
    return got


@fault(UPSTREAM, "the request arrives in part and then nothing moves", "504", calls=0)
async def stuck_request(world: World) -> str:
    world.relay.toxics.append(Toxic(UP, limit_bytes=40, then="hang"))
    await world.up()
    return await world.ask()


def _limited(name: str, count: int, then: str, expected: str, *, stream: bool, in_body: bool = False) -> None:
    @fault(UPSTREAM, name, expected)
    async def limited(world: World) -> str:
        world.relay.toxics.append(Toxic(DOWN, limit_bytes=count, then=then, in_body=in_body))
        await world.up()
        got = await world.ask(stream=stream)
        # A reset may overtake what came before it; then the client has got nothing, which is no lie either.
        return expected if then == "reset" and in_body and got == "gone" else got


_limited("resets at byte 0", 0, "reset", "502", stream=False)
_limited("closes at byte 0", 0, "close", "502", stream=False)
_limited("resets in the middle of the head", 30, "reset", "502", stream=False)
_limited("resets in the middle of a body", 50, "reset", "200 cut", stream=False, in_body=True)
_limited("resets in the middle of an event", 420, "reset", "200 cut", stream=True, in_body=True)
_limited("closes in the middle of an event", 420, "close", "200 cut", stream=True, in_body=True)
_limited("falls silent in the middle of a stream", 420, "hang", "200 cut", stream=True, in_body=True)


@fault(UPSTREAM, "closes after its last event but one", "200 cut")
async def before_stop(world: World) -> str:
    await world.up()
    world.upstream.replies.append(Reply(raw=[STREAM_HEAD, *map(chunk, EVENTS[:-1])], gap_s=0.01, then=CLOSE))
    return await world.ask(stream=True)


@fault(UPSTREAM, "its chunks are not well framed", "200 cut")
async def bad_chunks(world: World) -> str:
    await world.up()
    world.upstream.replies.append(Reply(raw=[STREAM_HEAD, chunk(EVENTS[0]), b"zz\r\nrubbish"], gap_s=0.02))
    return await world.ask(stream=True)


def _raw(name: str, raw: list[bytes], expected: str, *, then: str = CLOSE, stores: bool = False) -> None:
    @fault(UPSTREAM, name, expected, stores=stores)
    async def answers(world: World) -> str:
        await world.up()
        world.upstream.replies.append(Reply(raw=raw, then=then, gap_s=0.02))
        return await world.ask()


_raw("body shorter than its length", [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"], "200 cut")
_raw("body longer than its length", [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200"], "200")
_raw("two lengths", [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"], "502")
_raw(
    "a length and chunks",
    [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    "502",
)
_raw("not HTTP at all", [b"SSH-2.0-OpenSSH_9.6\r\n"], "502")
_raw("a control byte in a header", [b"HTTP/1.1 200 OK\r\nX-A: a\x00b\r\nContent-Length: 0\r\n\r\n"], "502")
_raw("a header of 20,000 bytes", [b"HTTP/1.1 200 OK\r\nX: " + b"a" * 20_000 + b"\r\n\r\n"], "502")
_raw(
    "a thousand headers",
    [b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 1000 + b"Content-Length: 0\r\n\r\n"],
    "502",
)
_raw("resets instead of an answer", [b"HTTP/1.1 2"], "502", then=ABORT)
_raw(
    "interim answers before the answer",
    [b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"],
    "200",
)


@fault(UPSTREAM, "a byte of its head is flipped on the way", "502")
async def flipped(world: World) -> str:
    world.relay.toxics.append(Toxic(DOWN, flip_byte=2))
    await world.up()
    return await world.ask()


@fault(UPSTREAM, "one byte at a time", "200", stores=True)
async def drip(world: World) -> str:
    world.relay.toxics.append(Toxic(DOWN, slice_bytes=1, latency_s=0.0005))
    await world.up()
    return await world.ask()


@fault(UPSTREAM, "the request arrives one byte at a time", "200", stores=True)
async def drip_up(world: World) -> str:
    world.relay.toxics.append(Toxic(UP, slice_bytes=1, latency_s=0.0005))
    await world.up()
    return await world.ask(stream=True)


@fault(UPSTREAM, "a slow network", "200", stores=True)
async def latency(world: World) -> str:
    world.relay.toxics += [Toxic(DOWN, latency_s=0.05), Toxic(UP, latency_s=0.05)]
    await world.up()
    return await world.ask(stream=True)


@fault(UPSTREAM, "a narrow network", "200", stores=True)
async def bandwidth(world: World) -> str:
    world.relay.toxics.append(Toxic(DOWN, bytes_per_second=20_000, slice_bytes=100))
    await world.up()
    return await world.ask(stream=True)


@fault(UPSTREAM, "its end arrives late", "200", stores=True)
async def slow_close(world: World) -> str:
    world.relay.toxics.append(Toxic(DOWN, slow_close_s=0.3))
    await world.up()
    return await world.ask()


@fault(UPSTREAM, "kept connections are reset while they rest", "200", stores=True, calls=4)
async def stale(world: World) -> str:
    await world.up()
    for text in ("one", "two", "three"):
        world.text = text
        await world.ask()
    world.relay.reset_all()
    await asyncio.sleep(0.05)
    world.text = "four"
    return await world.ask()


@fault(UPSTREAM, "is silent in a stream, but not for too long", "200", stores=True)
async def pause(world: World) -> str:
    await world.up()
    world.upstream.replies.append(Reply(pieces=EVENTS, headers=SSE, gap_s=0.2))
    return await world.ask(stream=True)


@fault(UPSTREAM, "hangs after its first events", "200 cut")
async def hangs(world: World) -> str:
    await world.up()
    world.upstream.replies.append(Reply(pieces=EVENTS[:3], headers=SSE, then=HANG))
    got = await world.ask(stream=True)
    await asyncio.wait_for(world.upstream.calls[0].gone.wait(), 1)
    return got


def _relayed(name: str, reply: Reply, expected: str, *, stream: bool = False) -> None:
    """What is whole and wrong is relayed to the byte, and not kept."""
    wanted = b"".join(reply.pieces) if reply.pieces is not None else reply.body

    @fault(UPSTREAM, name, expected)
    async def relayed(world: World) -> str:
        await world.up()
        world.upstream.replies.append(reply)
        got = await world.ask(stream=stream)
        assert world.got == wanted
        return got


ERROR = json.dumps({"type": "error", "error": {"type": "x", "message": "odd  spacing"}}, indent=3).encode()
_relayed("redirects to another host", Reply(301, [("Location", "http://127.0.0.1:9/v1/x")]), "301")
for _status in (400, 401, 403, 404, 409, 413, 422, 500, 503, 529):
    _relayed(f"answers {_status}", Reply(_status, body=ERROR), str(_status))
for _after in ("3", "Wed, 21 Oct 2099 07:28:00 GMT", "nonsense"):
    _relayed(
        f"answers 429 with retry-after {_after[:8]}", Reply(429, [("retry-after", _after)], ERROR), "429"
    )
_relayed("says gzip and sends text", Reply(body=b"not gzip", headers=[("Content-Encoding", "gzip")]), "200")
_relayed("an empty 200", Reply(body=b""), "200")
_relayed("a page instead of JSON", Reply(body=b"<html>maintenance</html>"), "200")

_OVERLOADED = event("error", {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})
for _name, _events in {
    "an error as its first event": [_OVERLOADED],
    "an error in the middle of a stream": [*EVENTS[:4], _OVERLOADED],
    "an event that is not JSON": [*EVENTS[:3], b"event: content_block_delta\ndata: {oops\n\n", *EVENTS[3:]],
    "message_start twice": [EVENTS[0], *EVENTS],
    "an event of ten megabytes": [EVENTS[0], b"event: x\ndata: " + b"x" * 10_000_000 + b"\n\n", *EVENTS[1:]],
    "a stream that says max_tokens": messages_events("cut", stop_reason="max_tokens"),
    "a stream without an end": EVENTS[:-1],
    "only pings": [event("ping", {"type": "ping"})] * 5,
}.items():
    _relayed(_name, Reply(pieces=_events, headers=SSE), "200", stream=True)


@fault(UPSTREAM, "fails once and then answers another ask", "500", calls=1)
async def fails_once(world: World) -> str:
    await world.up()
    world.upstream.replies.append(Reply(500, body=ERROR))
    got = await world.ask()
    assert world.upstream.calls[-1].body
    world.upstream.default = messages_reply
    return got
