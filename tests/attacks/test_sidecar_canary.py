"""Secrets put in every place that a request has; afterwards they are nowhere they do not belong."""

from __future__ import annotations

import io
import json
import logging

import pytest

from support.mock_upstream import ABORT, Reply
from support.running import message, raw_exchange
from zlrs.graph import DecisionGraph
from zlrs_proxy import keys
from zlrs_proxy.logs import JsonLines
from zlrs_proxy.settings import RuleSettings, UpstreamSettings

CANARY = "canary7f3a9b"


@pytest.fixture
def logged():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


async def test_canaries_are_found_nowhere(start_sidecar, upstream, tmp_path, logged) -> None:
    key, line = keys.issue("web", {"tokens_per_minute": 10**9})
    (tmp_path / "keys").write_text(line + "\n")
    (tmp_path / "upstream-key").write_text(f"sk-{CANARY}-upstream\n")
    sidecar = await start_sidecar(
        opener=lambda: DecisionGraph(tmp_path / "graph"),
        upstreams=(
            UpstreamSettings(name="one", url=upstream.url, key_file=str(tmp_path / "upstream-key")),
            UpstreamSettings(name="dead", url="http://127.0.0.1:9", fallback=True),
        ),
        keys_file=str(tmp_path / "keys"),
        state_folder=str(tmp_path / "state"),
        rules=(RuleSettings(name="r", pattern="never"),),
        access_log=True,
        recount=True,
    )
    headers = {
        "x-api-key": key,
        "authorization": f"Bearer {CANARY}-bearer",
        "cookie": f"s={CANARY}",
        "anthropic-beta": CANARY,
        "x-custom": CANARY,
    }
    plain = {"x-api-key": key}
    secret = message(f"my password is {CANARY}")
    sent = [
        await sidecar.ask(f"/v1/messages?key={CANARY}", body=secret, headers=headers),
        await sidecar.ask(f"/v1/files/{CANARY}?a={CANARY}", method="GET", headers=headers),
        await sidecar.ask(body=secret, headers=plain),
        await sidecar.ask(body=secret, headers=plain),
        await sidecar.ask(body=secret, headers={"x-api-key": f"sk-{CANARY}"}),
        await sidecar.ask(data=f'{{"broken": "{CANARY}'.encode(), headers=plain),
        await sidecar.ask(body=secret, headers={**plain, "x-zlrs-no-graph": "perhaps"}),
    ]
    upstream.replies += [Reply(status=503, body=f'{{"echo":"{CANARY}"}}'.encode())]
    sent.append(await sidecar.ask(body=message("again"), headers=plain))
    upstream.replies += [Reply(raw=[f"HTTP/1.1 abc {CANARY}\r\n\r\n".encode()], then=ABORT)]
    await sidecar.ask(body=message(f"{CANARY} twice"), headers=plain)
    garbage = await raw_exchange(sidecar.port, f"GET /{CANARY} {CANARY}\r\n\r\n".encode(), eof=True)
    metrics = await sidecar.ask("/zlrs/metrics", method="GET", headers=plain)
    await sidecar.quiet()
    await sidecar.settled()
    await sidecar.sidecar.stop(0)

    # The canaries did travel.
    assert upstream.calls[0].header("authorization") == [f"Bearer sk-{CANARY}-upstream"]
    assert upstream.calls[0].header("x-custom") == [CANARY]
    text = logged.getvalue()
    assert '"zero_layer_bypass"' in text
    for where, found in (("log", text), ("metrics", metrics.body.decode()), ("refusal", garbage.decode())):
        assert CANARY not in found, where
        assert key not in found, where
    for got in sent:
        told = json.dumps(got.headers)
        assert f"{CANARY}-upstream" not in told + got.body.decode("utf-8", "replace")
        assert key not in told
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "upstream-key"]
    assert any("ledger" in str(path) for path in kept)
    for path in kept:
        content = path.read_bytes()
        assert key.encode() not in content, path
        if path.name.startswith("graph.sqlite3"):
            # The store keeps answers, which quote the ask here; the credentials are in none.
            assert f"{CANARY}-bearer".encode() not in content, path
            assert f"sk-{CANARY}".encode() not in content, path
        else:
            assert CANARY.encode() not in content, path
