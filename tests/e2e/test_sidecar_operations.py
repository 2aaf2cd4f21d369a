"""Probes, metrics, keys, drain."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from support.eventually import eventually
from support.memory_graph import MemoryGraph
from support.mock_upstream import Reply, messages_events
from support.running import message, raw_connection
from zlrs_proxy.settings import Settings, SettingsError
from zlrs_proxy.sidecar import Sidecar

KEY = "client-key-0123456789"


async def get(session: aiohttp.ClientSession, url: str, **headers: str) -> tuple[int, str]:
    async with session.get(url, headers=headers) as response:
        return response.status, await response.text()


async def test_probes_stand_under_a_prefix_and_hide_no_upstream_path(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    for name in ("livez", "readyz", "startupz"):
        assert await get(sidecar.session, f"{sidecar.url}/zlrs/{name}") == (200, "ready\n")
    assert not upstream.calls
    for path in ("/livez", "/readyz", "/metrics", "/zlrs", "/zlrs/other"):
        await sidecar.ask(path, method="GET")
    assert [call.path for call in upstream.calls] == ["/livez", "/readyz", "/metrics", "/zlrs", "/zlrs/other"]


async def test_admin_address_takes_probes_and_metrics_away_from_the_main_one(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(admin_port=0)
    admin = sidecar.sidecar.admin_address
    assert (await get(sidecar.session, f"{admin}/readyz")) == (200, "ready\n")
    assert (await get(sidecar.session, f"{admin}/metrics"))[0] == 200
    assert (await get(sidecar.session, f"{admin}/v1/models"))[0] == 404
    await sidecar.ask("/zlrs/readyz", method="GET")
    assert upstream.calls[0].path == "/zlrs/readyz"


async def test_metrics_need_the_token_where_there_is_one(start_sidecar, upstream, tmp_path) -> None:
    token = tmp_path / "token"
    token.write_text("admin-token-0123456789\n")
    sidecar = await start_sidecar(admin_port=0, admin_token_file=str(token))
    admin = sidecar.sidecar.admin_address
    assert (await get(sidecar.session, f"{admin}/metrics"))[0] == 401
    assert (await get(sidecar.session, f"{admin}/metrics", Authorization="Bearer wrong"))[0] == 401
    assert (await get(sidecar.session, f"{admin}/metrics", Authorization="Bearer admin-token-0123456789"))[
        0
    ] == 200
    assert (await get(sidecar.session, f"{admin}/livez"))[0] == 200


async def test_metrics_count_requests_by_what_was_decided(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    await sidecar.ask(body=message())
    await sidecar.ask(body=message())
    await sidecar.ask(body=message(temperature=1))
    await sidecar.ask(data=b"x", headers={"content-type": "text/plain"})
    status, text = await get(sidecar.session, f"{sidecar.url}/zlrs/metrics")
    assert status == 200
    assert 'zlrs_proxy_requests_total{endpoint="messages",decision="hit",status="2xx"} 1' in text
    assert 'zlrs_proxy_requests_total{endpoint="messages",decision="miss",status="2xx"} 1' in text
    assert 'zlrs_proxy_requests_total{endpoint="messages",decision="skipped",status="2xx"} 1' in text
    assert 'zlrs_proxy_requests_total{endpoint="messages",decision="refused",status="4xx"} 1' in text
    assert 'zlrs_proxy_settled_total{result="stored"} 1' in text
    assert "zlrs_graph_entries 1" in text
    for line in text.splitlines():
        assert line.startswith("#") or len(line.rsplit(" ", 1)) == 2


async def test_no_request_makes_a_new_series(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    upstream.default = lambda seen: Reply(status=200 + len(upstream.calls) % 300)
    for i in range(60):
        await sidecar.ask(f"/v1/path-{i}", message(model=f"model-{i}"), method="POST" if i % 2 else "PURGE")
        await sidecar.ask(body=message(f"{i}", model=f"model-{i}"))
    _, text = await get(sidecar.session, f"{sidecar.url}/zlrs/metrics")
    assert "path-" not in text
    assert "model-" not in text
    assert sum(not line.startswith("#") for line in text.splitlines()) < 90


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "gateway.example"])
def test_beyond_loopback_needs_keys(host, tmp_path) -> None:
    with pytest.raises(SettingsError, match="without client keys"):
        Sidecar(Settings(upstream="http://127.0.0.1:9", host=host))
    keys = tmp_path / "keys"
    keys.write_text(f"# ours\n{KEY}\n")
    Sidecar(Settings(upstream="http://127.0.0.1:9", host=host, keys_file=str(keys)))
    with pytest.raises(SettingsError, match="without a token"):
        Sidecar(Settings(upstream="http://127.0.0.1:9", admin_host=host, admin_port=0))


@pytest.mark.parametrize("content", ["", "# nothing\n\n", "short\n"])
def test_key_files_that_guard_nothing(content, tmp_path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(content)
    with pytest.raises(SettingsError):
        Sidecar(Settings(upstream="http://127.0.0.1:9", keys_file=str(keys)))
    with pytest.raises(SettingsError, match="cannot read"):
        Sidecar(Settings(upstream="http://127.0.0.1:9", keys_file=str(tmp_path / "absent")))


async def test_client_keys_are_checked_and_replaced_upstream(
    start_sidecar, upstream, tmp_path, monkeypatch
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"another-key-0123456789\n{KEY}\n")
    monkeypatch.setenv("UPSTREAM_KEY", "sk-upstream-canary-42")
    sidecar = await start_sidecar(keys_file=str(keys), upstream_key_env="UPSTREAM_KEY")
    for wrong in (
        {"x-api-key": "no"},
        {"x-api-key": ""},
        {"x-api-key": KEY + "x"},
        {"x-api-key": "", "authorization": f"Basic {KEY}"},
    ):
        got = await sidecar.ask(body=message(), headers=wrong)
        assert got.status == 401
        assert json.loads(got.body)["error"]["type"] == "authentication_error"
    assert not upstream.calls
    upstream.default = lambda seen: Reply(
        headers=[("X-Echo", (seen.header("x-api-key") + seen.header("authorization"))[0]), ("x-api-key", "k")]
    )
    got = await sidecar.ask(body=message(), headers={"x-api-key": KEY})
    assert upstream.calls[-1].header("x-api-key") == ["sk-upstream-canary-42"]
    assert got.status == 200
    # The key that we added never comes back, under whatever name.
    assert "canary" not in str(got.headers)
    assert got.header("x-api-key") is None
    async with sidecar.session.post(
        sidecar.url + "/v1/messages", json=message(), headers={"Authorization": f"Bearer {KEY}"}
    ) as response:
        assert response.status == 200
    assert upstream.calls[-1].header("authorization") == ["Bearer sk-upstream-canary-42"]
    assert not upstream.calls[-1].header("x-api-key")


def test_a_named_upstream_key_must_be_there(monkeypatch) -> None:
    monkeypatch.delenv("UPSTREAM_KEY", raising=False)
    with pytest.raises(SettingsError, match="UPSTREAM_KEY is not set"):
        Sidecar(Settings(upstream="http://127.0.0.1:9", upstream_key_env="UPSTREAM_KEY"))


async def test_drain_lets_streams_end_and_takes_no_more(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    events = messages_events("hello there, this is a longer text")
    upstream.default = lambda _: Reply(
        pieces=events, headers=[("Content-Type", "text/event-stream")], gap_s=0.05
    )
    asking = [asyncio.ensure_future(sidecar.ask(body=message(f"{i}", stream=True))) for i in range(50)]
    await eventually(lambda: len(upstream.calls) == 50)
    async with raw_connection(sidecar.port) as (reader, _):
        stopping = asyncio.ensure_future(sidecar.sidecar.stop(10))
        assert await reader.read() == b""  # an idle connection is closed at once
    got = await asyncio.gather(*asking)
    await stopping
    assert {one.body for one in got} == {b"".join(events)}
    with pytest.raises(aiohttp.ClientConnectorError):
        await sidecar.ask(body=message())


async def test_drain_has_an_end(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    upstream.replies.append(Reply(pieces=[b"data: x\n\n"], then="hang"))
    asking = asyncio.ensure_future(sidecar.ask(body=message(stream=True)))
    seen = await upstream.called()
    await asyncio.wait_for(sidecar.sidecar.stop(0.1), 5)
    with pytest.raises(aiohttp.ClientPayloadError):
        await asking
    await asyncio.wait_for(seen.gone.wait(), 1)


async def test_not_ready_while_draining(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(admin_port=0)
    upstream.replies.append(Reply(first_delay_s=0.4, body=b"{}"))
    asking = asyncio.ensure_future(sidecar.ask(body=message()))
    await upstream.called()
    stopping = asyncio.ensure_future(sidecar.sidecar.stop(5))
    await asyncio.sleep(0.05)
    admin = sidecar.sidecar.admin_address
    assert await get(sidecar.session, f"{admin}/readyz") == (503, "draining\n")
    assert await get(sidecar.session, f"{admin}/livez") == (200, "draining\n")
    got = await asking
    assert (got.status, got.header("connection")) == (200, "close")
    await stopping
