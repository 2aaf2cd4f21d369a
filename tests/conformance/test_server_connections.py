"""Connections that are no requests: slow heads, broken heads, pipelined and idle ones."""

from __future__ import annotations

import asyncio
import json

import pytest

from support.serving import Served, serving


async def raw(served: Served, data: bytes) -> bytes:
    """Send bytes, return everything until the server closes."""
    host, port = served.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return answer


@pytest.mark.parametrize("start", [b"", b"GET /livez HT", b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-A"])
async def test_a_head_that_does_not_end_is_cut(start: bytes) -> None:
    async with serving(head_seconds=0.05) as served:
        assert await raw(served, start) == b""


async def test_a_second_head_that_does_not_end_is_cut_too() -> None:
    async with serving(head_seconds=0.05) as served:
        host, port = served.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await reader.readuntil(b'"ready"}')
        await asyncio.sleep(0.1)
        writer.write(b"GET /liv")
        assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()


async def test_a_quick_head_is_not_cut_while_its_answer_takes_time() -> None:
    from support.fake_engine import Script

    script = Script(reply="done", hold_before=frozenset({1}))
    async with serving(script, head_seconds=0.02) as served:
        body = json.dumps({"model": "fake-model", "messages": [{"role": "user", "content": "x"}]}).encode()
        head = (
            b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        )
        asking = asyncio.create_task(raw(served, head + body))
        await asyncio.to_thread(script.held.wait, 20)
        await asyncio.sleep(0.1)
        script.go.set()
        assert b'"text":"done"' in await asking


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /secret-token HTTP/1.1\r\nHost : localhost\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n\r\n", 400),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        (b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400),
        (b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 9000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: 1\r\n" * 200 + b"\r\n", 400),
    ],
)
async def test_what_is_not_http_gets_our_error_and_no_echo(data: bytes, status: int) -> None:
    async with serving() as served:
        answer = await raw(served, data)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert int(head.split()[1]) == status
        assert json.loads(body)["error"]["type"] == "invalid_request_error"
        assert b"secret-token" not in answer
        assert b"Python" not in answer
        assert b"aiohttp" not in answer
        async with served.client.get("/livez") as response:
            assert response.status == 200
