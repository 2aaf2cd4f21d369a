"""An upstream that fails: the client learns it at once, and is never told that half an answer was whole."""

from __future__ import annotations

import asyncio
import json
import socket

import aiohttp
import pytest

from support.memory_graph import MemoryGraph
from support.mock_upstream import ABORT, CLOSE, HANG, Reply, messages_events
from support.running import chat, message, post_head, raw_exchange

STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENTS = messages_events("hello there")


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def chunks(events) -> list[bytes]:
    return [STREAM_HEAD, *(chunk(event) for event in events)]


async def stream_until_cut(sidecar) -> tuple[bytes, bool]:
    """What came, and whether the end was abnormal."""
    got = b""
    async with sidecar.session.post(sidecar.url + "/v1/messages", json=message(stream=True)) as response:
        assert response.status == 200
        try:
            async for piece in response.content.iter_any():
                got += piece
        except aiohttp.ClientPayloadError:
            return got, True
    return got, False


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
async def test_nobody_listens(start_sidecar, path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        sidecar = await start_sidecar(upstream=f"http://127.0.0.1:{taken.getsockname()[1]}")
        got = await sidecar.ask(path, chat() if "chat" in path else message())
    assert got.status == 502
    error = json.loads(got.body)["error"]
    assert error["type"] == "upstream_unreachable"
    assert "cannot be reached" in error["message"]
    assert (json.loads(got.body).get("type") == "error") == (path == "/v1/messages")


async def test_unknown_name(start_sidecar) -> None:
    sidecar = await start_sidecar(upstream="http://does-not-exist.invalid")
    assert (await sidecar.ask(body=message())).status == 502


async def test_not_tls(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(upstream=upstream.url.replace("http://", "https://"))
    got = await sidecar.ask(body=message())
    assert got.status == 502


async def test_no_first_byte_in_time(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(first_byte_seconds=0.1)
    upstream.replies.append(Reply(first_delay_s=30))
    got = await sidecar.ask(body=message())
    assert got.status == 504
    assert json.loads(got.body)["error"]["type"] == "timeout_error"
    await asyncio.wait_for(upstream.calls[0].gone.wait(), 1)


@pytest.mark.parametrize("with_graph", [False, True])
async def test_silence_in_the_middle_ends_the_stream_abnormally(start_sidecar, upstream, with_graph) -> None:
    sidecar = await start_sidecar(idle_seconds=0.1, graph=MemoryGraph() if with_graph else None)
    upstream.replies.append(
        Reply(pieces=EVENTS[:3], headers=[("Content-Type", "text/event-stream")], then=HANG)
    )
    assert await stream_until_cut(sidecar) == (b"".join(EVENTS[:3]), True)
    await asyncio.wait_for(upstream.calls[0].gone.wait(), 1)


async def test_a_slow_stream_is_not_silent_and_has_no_total_limit(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(idle_seconds=0.2, first_byte_seconds=0.3)
    upstream.replies.append(Reply(pieces=EVENTS, headers=[("Content-Type", "text/event-stream")], gap_s=0.1))
    assert await stream_until_cut(sidecar) == (b"".join(EVENTS), False)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param([b""], id="closed at once"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Le"], id="closed in the head"),
        pytest.param([b"SSH-2.0-OpenSSH_9.6\r\n"], id="not http"),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"], id="two lengths"
        ),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
            id="length and chunks",
        ),
        pytest.param([b"HTTP/1.1 200 OK\r\nX-Bad: a\x00b\r\nContent-Length: 0\r\n\r\n"], id="control byte"),
        pytest.param([b"HTTP/1.1 200 OK\r\nX-Bad : a\r\nContent-Length: 0\r\n\r\n"], id="space before colon"),
        pytest.param([b"HTTP/1.1 200 OK\r\nX: " + b"a" * 20_000 + b"\r\n\r\n"], id="endless header"),
    ],
)
@pytest.mark.parametrize("then", [CLOSE, ABORT])
async def test_no_answer_is_502(start_sidecar, upstream, raw, then) -> None:
    sidecar = await start_sidecar()
    upstream.replies.append(Reply(raw=raw, then=then))
    got = await sidecar.ask(body=message())
    assert got.status == 502
    assert json.loads(got.body)["error"]["type"] == "upstream_unreachable"
    assert (await sidecar.ask(body=message())).status == 200


@pytest.mark.parametrize("then", [CLOSE, ABORT])
@pytest.mark.parametrize("count", [1, 3, len(EVENTS) - 1])
async def test_cut_between_events(start_sidecar, upstream, then, count) -> None:
    graph = MemoryGraph()
    sidecar = await start_sidecar(graph=graph)
    upstream.replies.append(Reply(raw=chunks(EVENTS[:count]), gap_s=0.02, then=then))
    assert await stream_until_cut(sidecar) == (b"".join(EVENTS[:count]), True)
    await sidecar.settled()
    assert not graph.texts


@pytest.mark.parametrize("then", [CLOSE, ABORT])
async def test_cut_inside_an_event(start_sidecar, upstream, then) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    upstream.replies.append(
        Reply(raw=[STREAM_HEAD, chunk(EVENTS[0]), b"ff\r\n" + EVENTS[1][:20]], gap_s=0.02, then=then)
    )
    assert await stream_until_cut(sidecar) == (EVENTS[0] + EVENTS[1][:20], True)


async def test_broken_chunk_framing(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    upstream.replies.append(Reply(raw=[STREAM_HEAD, chunk(EVENTS[0]), b"zz\r\nrubbish"], gap_s=0.02))
    assert await stream_until_cut(sidecar) == (EVENTS[0], True)


async def test_shorter_than_its_length(start_sidecar, upstream) -> None:
    graph = MemoryGraph()
    sidecar = await start_sidecar(graph=graph)
    upstream.replies.append(Reply(raw=[b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"], gap_s=0.02))
    with pytest.raises(aiohttp.ClientPayloadError):
        await sidecar.ask(body=message())
    await sidecar.settled()
    assert not graph.texts


async def test_longer_than_its_length_is_cut_at_it(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    upstream.replies.append(
        Reply(raw=[b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n\r\n"])
    )
    assert (await sidecar.ask(body=message())).body == b"{}"
    assert (await sidecar.ask(body=message("next"))).status == 200


async def test_http_1_0_client_sees_a_reset_instead_of_a_clean_end(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    upstream.replies.append(Reply(raw=chunks(EVENTS[:2]), gap_s=0.05, then=ABORT))
    head = post_head(2, version="1.0") + b"{}"
    reader, writer = await asyncio.open_connection("127.0.0.1", sidecar.port)
    writer.write(head)
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()


async def test_one_byte_at_a_time(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    upstream.replies.append(Reply(raw=[bytes([byte]) for byte in whole], gap_s=0.001))
    assert (await sidecar.ask(body=message())).body == b"hello"


async def test_a_lie_about_gzip_passes_and_is_not_learned(start_sidecar, upstream) -> None:
    graph = MemoryGraph()
    sidecar = await start_sidecar(graph=graph)
    upstream.replies.append(Reply(body=b"not gzip", headers=[("Content-Encoding", "gzip")]))
    assert (await sidecar.ask(body=message())).body == b"not gzip"
    await sidecar.settled()
    assert graph.settled == [("miss", 200, False)]


async def test_a_ten_megabyte_event_passes(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    event = b"data: " + b"x" * 10_000_000 + b"\n\n"
    upstream.replies.append(Reply(pieces=[event], headers=[("Content-Type", "text/event-stream")]))
    assert (await sidecar.ask(body=message(stream=True))).body == event


async def test_an_early_refusal_reaches_a_client_that_is_still_sending(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph_body_limit_bytes=1024)
    upstream.replies.append(Reply(status=413, body=b'{"no":1}', read_body=False))
    head = post_head(50_000)
    got = await raw_exchange(sidecar.port, head + b"x" * 2000)
    assert got.startswith(b"HTTP/1.1 413")
    assert got.endswith(b'{"no":1}')


async def test_an_upstream_that_comes_back_is_used_again(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    assert (await sidecar.ask(body=message())).status == 200
    port = int(upstream.url.rpartition(":")[2])
    await upstream.stop()
    assert (await sidecar.ask(body=message())).status == 502
    again = await asyncio.start_server(lambda _r, w: answer_and_close(w), "127.0.0.1", port)
    async with again:
        got = await sidecar.ask(body=message())
    assert (got.status, got.body) == (200, b"back")


async def answer_and_close(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nback")
    await writer.drain()
    writer.close()
    await writer.wait_closed()
