"""No caller chooses an upstream, and what is not a request to this sidecar is refused."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from support.mock_upstream import Reply
from support.running import message, raw_exchange
from zlrs_proxy.settings import SettingsError
from zlrs_proxy.sidecar import Settings, Sidecar

BODY = b'{"a":1}'


def request(
    target: bytes, *, method: bytes = b"POST", host: bytes = b"localhost", extra: bytes = b""
) -> bytes:
    return (
        method + b" " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\nContent-Type: application/json\r\n"
        b"Connection: close\r\n" + extra + b"Content-Length: 7\r\n\r\n" + BODY
    )  # fmt: skip


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        (b"POST", b"http://127.0.0.1:9/v1/messages", b"400"),
        (b"GET", b"https://example.com/", b"400"),
        (b"GET", b"ftp://example.com/x", b"400"),
        (b"CONNECT", b"127.0.0.1:9", b"501"),
        (b"OPTIONS", b"*", b"400"),
        (b"GET", b"v1/models", b"400"),
        (b"GET", b"/v1/models#fragment", b"400"),
        (b"GET", "/v1/modèles".encode(), b"400"),
        (b"GET", b"/v1/\x7fmodels", b"400"),
    ],
)
async def test_only_origin_form_is_served(start_sidecar, upstream, method, target, status) -> None:
    sidecar = await start_sidecar()
    got = await raw_exchange(sidecar.port, request(target, method=method))
    assert got[9:12] == status, got[:200]
    assert not upstream.calls


@pytest.mark.parametrize(
    "host",
    [
        b"evil.example",
        b"localhost.evil.example",
        b"127.0.0.1.nip.io",
        b"[::1].evil",
        b"10.0.0.1",
        b"a b",
        b"",
        b"localhost:x",
    ],
)
async def test_foreign_hosts_are_refused(start_sidecar, upstream, host) -> None:
    sidecar = await start_sidecar()
    got = await raw_exchange(sidecar.port, request(b"/v1/messages", host=host))
    assert got[9:12] in {b"421", b"400"}
    assert not upstream.calls


@pytest.mark.parametrize(
    "host",
    [b"localhost", b"LocalHost:80", b"127.0.0.1:1", b"[::1]:8090", b"127.9.9.9", b"gateway.internal:9"],
)
async def test_known_hosts_are_served(start_sidecar, upstream, host) -> None:
    sidecar = await start_sidecar(allowed_hosts=("Gateway.Internal",))
    got = await raw_exchange(sidecar.port, request(b"/v1/x", host=host))
    assert got.startswith(b"HTTP/1.1 200"), got[:300]


@pytest.mark.parametrize("lines", [b"", b"Host: localhost\r\nHost: localhost\r\n"])
async def test_exactly_one_host(start_sidecar, upstream, lines) -> None:
    sidecar = await start_sidecar()
    got = await raw_exchange(sidecar.port, b"GET /v1/x HTTP/1.1\r\n" + lines + b"Connection: close\r\n\r\n")
    assert got[9:12] == b"400"
    assert not upstream.calls


async def test_nothing_a_caller_sends_chooses_the_upstream(start_sidecar, upstream) -> None:
    reached = []

    async def catch(_reader, writer) -> None:
        reached.append(1)
        writer.close()

    trap = await asyncio.start_server(catch, "127.0.0.1", 0)
    port = trap.sockets[0].getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    sidecar = await start_sidecar()
    async with trap:
        for name in (
            "X-LLM-Proxy-Upstream",
            "X-ZLRS-Upstream",
            "X-Forwarded-Host",
            "Forwarded",
            "X-Original-URL",
            "X-Rewrite-URL",
        ):
            await sidecar.ask(body=message(api_base=address, base_url=address), headers={name: address})
        await sidecar.ask(f"/v1/messages?upstream={address}&url={address}", message())
        await sidecar.ask(f"//127.0.0.1:{port}/v1/messages", message())
        await sidecar.ask(f"/@127.0.0.1:{port}/", message())
        upstream.replies.append(Reply(status=307, headers=[("Location", address)]))
        assert (await sidecar.ask(body=message())).status == 307
        with contextlib.suppress(ConnectionError):
            await raw_exchange(sidecar.port, request(b"/v1/x", extra=f"Proxy: {address}\r\n".encode()))
    assert not reached
    assert len(upstream.calls) == 11


async def test_proxy_variables_are_ignored(start_sidecar, upstream, monkeypatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    sidecar = await start_sidecar()
    assert (await sidecar.ask(body=message())).status == 200


@pytest.mark.parametrize("path", ["/../admin", "/v1/../../x", "/v1/%2e%2E/x", "/.%2e/x", "/v1/.."])
async def test_a_prefix_cannot_be_left(start_sidecar, upstream, path) -> None:
    sidecar = await start_sidecar(upstream=upstream.url + "/tenant")
    got = await raw_exchange(sidecar.port, request(path.encode()))
    assert got[9:12] == b"400"
    assert not upstream.calls


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
async def test_what_a_web_page_can_send_unasked_is_refused(start_sidecar, upstream, kind, path) -> None:
    sidecar = await start_sidecar()
    got = await sidecar.ask(path, data=b"{}", headers={"content-type": kind, "Origin": "http://evil.example"})
    assert got.status == 415
    assert not [name for name, _ in got.headers if name.lower().startswith("access-control")]
    assert not upstream.calls


async def test_loops_end(start_sidecar, upstream) -> None:
    outer = await start_sidecar()
    # Point it at itself, as a wrong --upstream would.
    itself = outer.sidecar._plan.pool.first.upstream
    itself.name = itself.origin = outer.url
    got = await outer.ask(body=message())
    assert got.status == 508
    assert json.loads(got.body)["error"]["message"].startswith("This request has passed 5")
    assert not upstream.calls


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:80",
        "ftp://x",
        "http://",
        "https://user:pw@host",
        "http://h?x=1",
        "http://h#f",
        "http://h:0",
        "http://h:99999",
        "//h",
    ],
)
def test_upstreams_that_are_none(url) -> None:
    with pytest.raises(SettingsError):
        Sidecar(Settings(upstream=url))
