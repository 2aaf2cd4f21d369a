"""The HTTP library: a version without known advisories, and each class of its past ones tried here."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import aiohttp
import pytest
from aiohttp import http_parser

from support.eventually import eventually
from support.mock_upstream import Reply
from support.running import JSON, message, post_head, raw_connection, raw_exchange

ROOT = Path(__file__).resolve().parents[2]
FIRST_GOOD = (3, 14, 3)
HEAD = b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\n"
HIDDEN = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_the_library_is_one_without_known_advisories() -> None:
    installed = tuple(int(part) for part in aiohttp.__version__.split(".")[:3])
    assert installed >= FIRST_GOOD
    for name in ("pyproject.toml", "proxy/pyproject.toml"):
        low = re.search(r'"aiohttp>=([0-9.]+),<4"', (ROOT / name).read_text())
        assert low is not None
        assert tuple(int(part) for part in low[1].split(".")) >= FIRST_GOOD, name
    # The parser in Python is slower, and has had faults that this one had not.
    assert http_parser.HttpRequestParser is not http_parser.HttpRequestParserPy


REFUSED = {
    "CVE-2023-47641: a length and chunks": HEAD
    + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    + HIDDEN,
    "CVE-2023-37276: a return, a line feed, a zero in a header": HEAD + b"X: a\r\x00b: c\r\n\r\n" + HIDDEN,
    "GHSA-pjjw-qhg8-p2p9: a lenient length": HEAD + b"Content-Length: +0\r\n\r\n" + HIDDEN,
    "CVE-2023-47627: a space before the colon": HEAD + b"Content-Length : 0\r\n\r\n" + HIDDEN,
    "CVE-2024-23829: a line feed alone": HEAD + b"X: a\nContent-Length: 5\r\n\r\n" + HIDDEN,
    "CVE-2024-52304: a line feed in a chunk's extension": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n0;\nx\r\n\r\n"
    + HIDDEN,
    "CVE-2025-53643: a length as a trailer": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 44\r\n\r\n"
    + HIDDEN,
    "CVE-2025-69224: digits of another script": HEAD + "Content-Length: ٤\r\n\r\n".encode() + HIDDEN,
    "CVE-2026-34525: two hosts": HEAD + b"Host: evil\r\n\r\n" + HIDDEN,
    "CVE-2023-49081: a version with a line end": b"GET /v1/x HTTP/1.1\r\rX: y\r\n\r\n" + HIDDEN,
    "CVE-2023-49082: a method with a line end": b"GE\nT /v1/x HTTP/1.1\r\nHost: localhost\r\n\r\n" + HIDDEN,
    "CVE-2026-22815: trailers without an end": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
    + b"X: y\r\n" * 20_000
    + b"\r\n",
    "CVE-2022-33124: half an IPv6 address": b"GET http://[::1/v1/x HTTP/1.1\r\nHost: [::1\r\n\r\n",
}


@pytest.mark.parametrize("name", sorted(REFUSED))
async def test_each_class_of_past_advisories_is_closed(start_sidecar, upstream, name) -> None:
    sidecar = await start_sidecar(header_seconds=0.6, body_seconds=0.6)
    got = await raw_exchange(sidecar.port, REFUSED[name])
    assert not got or (got.startswith(b"HTTP/1.") and got[9:10] == b"4"), got[:80]
    assert len(re.findall(rb"HTTP/1\.[01] \d{3} ", got)) <= 1
    await sidecar.quiet()
    assert [call.path for call in upstream.calls if call.began.is_set()] == []
    assert (await sidecar.ask(body=message())).status == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\x0bX: y\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 O\x00K\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-\x07A: b\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_control_bytes_of_an_upstream_make_no_header_of_ours(start_sidecar, upstream, raw) -> None:
    """CVE-2026-34519, CVE-2026-34520: reason phrases and values of answers."""
    sidecar = await start_sidecar()
    upstream.replies.append(Reply(raw=[raw]))
    body = json.dumps(message()).encode()
    got = await raw_exchange(
        sidecar.port, post_head(len(body)).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + body
    )
    head = got.partition(b"\r\n\r\n")[0]
    assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]", head)
    assert b"set-cookie" not in head.lower()


async def test_a_hundred_thousand_chunks_of_one_byte(start_sidecar, upstream) -> None:
    """CVE-2025-69229: the work is linear, and the body arrives as it was."""
    sidecar = await start_sidecar()
    head = HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    got = await asyncio.wait_for(
        raw_exchange(sidecar.port, head + b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n"), 20
    )
    assert got.startswith(b"HTTP/1.1 200")
    assert upstream.calls[0].body == b"x" * 100_000


async def test_thousands_of_pipelined_requests_fill_no_memory(start_sidecar, upstream) -> None:
    """CVE-2026-54273: what is not yet answered is not read for ever."""
    sidecar = await start_sidecar()
    upstream.default = lambda _: Reply(first_delay_s=2)
    one = b"GET /v1/x HTTP/1.1\r\nHost: localhost\r\nX-Pad: " + b"p" * 4000 + b"\r\n\r\n"
    async with raw_connection(sidecar.port) as (_, writer):
        with pytest.raises((asyncio.TimeoutError, ConnectionError)):
            await flood(writer, one * 500)
        # One is being answered; the rest waits in the sender.
        assert len(upstream.calls) <= 1
        writer.transport.abort()
    await eventually(lambda: not sidecar.sidecar._server.connections)


async def flood(writer: asyncio.StreamWriter, piece: bytes) -> None:
    for _ in range(20):
        writer.write(piece)
        await asyncio.wait_for(writer.drain(), 1)


async def test_odd_cookies_write_no_log(start_sidecar, upstream, caplog) -> None:
    """CVE-2025-69230: nothing reads cookies here."""
    sidecar = await start_sidecar()
    for _ in range(5):
        await sidecar.ask(body=message(), headers={"cookie": "; ".join(["=\x80", "a b=c", "😀=1"] * 50)})
    assert not [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]


@pytest.mark.parametrize(
    "kind", ["multipart/form-data; boundary=x", "multipart/mixed", "application/x-www-form-urlencoded"]
)
async def test_forms_are_relayed_and_never_read(start_sidecar, upstream, kind) -> None:
    """CVE-2024-30251, CVE-2026-34516, CVE-2026-50269: no form is parsed, so none can loop or fill memory."""
    sidecar = await start_sidecar()
    body = b'--x\r\nContent-Disposition: form-data; name="a\r\nb"\r\n\r\n' + b"--x\r\n" * 5000
    got = await sidecar.ask("/v1/files", data=body, headers={**JSON, "content-type": kind})
    assert got.status == 200
    assert upstream.calls[0].body == body
    assert upstream.calls[0].header("content-type") == [kind]


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/static/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//evil.example/%2f.."],
)
async def test_no_file_and_no_redirect_is_made_here(start_sidecar, upstream, path) -> None:
    """CVE-2024-23334, CVE-2021-21330: paths travel on as they are; nothing of this machine is served."""
    sidecar = await start_sidecar()
    got = await sidecar.ask(path, method="GET")
    assert got.status == 200
    assert upstream.calls[0].path == path
    assert got.header("location") is None


async def test_a_request_line_in_many_pieces(start_sidecar, upstream) -> None:
    """CVE-2026-54277: each piece costs its own length."""
    sidecar = await start_sidecar()
    async with raw_connection(sidecar.port) as (reader, writer):
        for byte in b"GET /v1/" + b"a" * 3000 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n":
            writer.write(bytes([byte]))
            if byte == ord("/"):
                await writer.drain()
        assert (await asyncio.wait_for(reader.read(), 10)).startswith(b"HTTP/1.1 200")
