"""Heads that callers bring, headers that contradict each other, rules that cannot be compiled."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from support.fake_engine import Script
from support.head_files import head_file, hostile
from support.serving import MODEL, serving
from zlrs import _core
from zlrs.config import Config, ConfigError, RingRuleSettings, RingSettings, load
from zlrs.server.context import ServerContext
from zlrs.server.validation import load_head
from zlrs.server.validation_heads import HEADS_OF_A_TENANT, IDLE_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    import aiohttp

    from support.serving import Served

BINARY = {"content-type": "application/octet-stream"}
ASK: dict[str, object] = {
    "model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "temperature": 0,
}  # fmt: skip
KEYS = ("first-key-of-sixteen", "second-key-of-sixteen")
NOTED = Script(reply="ab", notes=((0, "head", "a", "redone"),))


async def upload(
    client: aiohttp.ClientSession, data: bytes, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, object]]:
    async with client.post("/v1/validation-heads", data=data, headers=headers or BINARY) as response:
        body = await response.json()
        assert isinstance(body, dict)
        return response.status, body


def message(body: dict[str, object]) -> str:
    error = body["error"]
    assert isinstance(error, dict)
    return str(error["message"])


async def ask(served: Served, headers: dict[str, str]) -> tuple[int, dict[str, object]]:
    async with served.client.post("/v1/messages", json=ASK, headers=headers) as response:
        body = await response.json()
        assert isinstance(body, dict)
        return response.status, body


@pytest.mark.parametrize("name", hostile())
async def test_hostile_heads_are_refused_and_the_server_lives(name: str) -> None:
    data, says = hostile()[name]
    async with serving() as served:
        status, body = await upload(served.client, data)
        assert status == 400
        assert says in message(body)
        inline = {"X-ZLRS-Validation-Head": base64.b64encode(data[:5000]).decode() or "!"}
        assert (await ask(served, inline))[0] == 400
        assert (await ask(served, {}))[0] == 200
        assert served.context.validation_heads.of(b"") == []


async def test_long_and_other_bodies() -> None:
    async with serving() as served:
        status, body = await upload(served.client, bytes((384 << 10) + 1))
        assert status == 413
        assert "393216" in message(body)
        status, _ = await upload(served.client, head_file(), {"content-type": "text/plain"})
        assert status == 400


async def test_a_head_is_its_owners() -> None:
    async with serving(NOTED, keys=KEYS) as served:
        mine, theirs = ({**BINARY, "x-api-key": key} for key in KEYS)
        status, known = await upload(served.client, head_file(), mine)
        assert status == 200
        assert known["object"] == "validation_head"
        head = str(known["id"])
        status, body = await ask(served, {"X-ZLRS-Validation-Head": head, "x-api-key": KEYS[0]})
        assert status == 200
        zlrs = body["zlrs"]
        assert isinstance(zlrs, dict)
        assert zlrs["validation"] == [{"index": 0, "by": "head", "text": "a", "outcome": "redone"}]
        assert zlrs["compute_profile"]["mode"] == "exact;validated"
        assert isinstance(served.core.submitted[-1]["validation"], _core.Validation)
        # Another's head is as unknown as one that never was.
        for name, key in ((head, KEYS[1]), ("vh_0", KEYS[0])):
            status, body = await ask(served, {"X-ZLRS-Validation-Head": name, "x-api-key": key})
            assert (status, name in message(body)) == (404, True)
        async with served.client.delete(f"/v1/validation-heads/{head}", headers=theirs) as response:
            assert response.status == 404
        for _ in range(HEADS_OF_A_TENANT - 1):
            assert (await upload(served.client, head_file(), mine))[0] == 200
        status, body = await upload(served.client, head_file(), mine)
        assert status == 429
        async with served.client.get("/v1/validation-heads", headers=mine) as response:
            assert len((await response.json())["data"]) == HEADS_OF_A_TENANT
        async with served.client.delete(f"/v1/validation-heads/{head}", headers=mine) as response:
            assert (await response.json())["deleted"]
        assert (await upload(served.client, head_file(), mine))[0] == 200
        async with served.client.get("/v1/validation-heads", headers=theirs) as response:
            assert (await response.json())["data"] == []


async def test_heads_are_forgotten() -> None:
    now = [100.0]
    async with serving(clock=lambda: now[0]) as served:
        _, known = await upload(served.client, head_file())
        headers = {"X-ZLRS-Validation-Head": str(known["id"])}
        now[0] += IDLE_SECONDS - 1
        assert (await ask(served, headers))[0] == 200
        now[0] += IDLE_SECONDS + 1
        assert (await ask(served, headers))[0] == 404


async def test_a_small_head_fits_the_header() -> None:
    async with serving(NOTED) as served:
        inline = base64.b64encode(head_file()).decode()
        assert len(inline) < 4096
        assert (await ask(served, {"X-ZLRS-Validation-Head": inline}))[0] == 200
        assert served.core.submitted[-1]["validation"] is not None


@pytest.mark.parametrize(
    ("headers", "status", "says"),
    [
        ({"X-ZLRS-Validation": "off", "X-ZLRS-Validation-Head": "vh_1"}, 400, "'off'"),
        ({"X-ZLRS-Validation-Head": "no base64!"}, 400, "neither"),
        ({"X-ZLRS-Ring": "4"}, 400, "X-ZLRS-Ring"),
        ({"X-ZLRS-Ring": "257"}, 400, "X-ZLRS-Ring"),
        ({"X-ZLRS-Validation": "maybe"}, 400, "X-ZLRS-Validation"),
    ],
)
async def test_contradictions(headers: dict[str, str], status: int, says: str) -> None:
    async with serving() as served:
        given, body = await ask(served, headers)
        assert (given, says in message(body)) == (status, True)


async def test_nothing_is_looked_for_by_default() -> None:
    async with serving(NOTED) as served:
        status, body = await ask(served, {"X-ZLRS-Validation": "on", "X-ZLRS-Ring": "9"})
        zlrs = body["zlrs"]
        assert isinstance(zlrs, dict)
        assert (status, "validation" in zlrs, zlrs["compute_profile"]["mode"]) == (200, False, "exact")
        assert served.core.submitted[-1]["validation"] is None


RULE = RingRuleSettings(name="icd", pattern="Diagnosis: [a-z]+", follow=r" \([A-Z]\d\d\)")


async def test_configured_rules_hold_until_a_request_turns_them_off() -> None:
    async with serving(NOTED, ring=RingSettings(rule=(RULE,))) as served:
        await ask(served, {})
        assert served.core.submitted[-1]["validation"] is not None
        await ask(served, {"X-ZLRS-Validation": "off"})
        assert served.core.submitted[-1]["validation"] is None


def test_rules_are_checked_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "zlrs.toml"
    file.write_text(
        '[ring]\nrepetition = true\n[[ring.rule]]\nname = "a"\npattern = "b"\nfollow = "(?=c)"\n', "utf-8"
    )
    config = load(file=str(file)).config
    assert config.ring.repetition
    with pytest.raises(ConfigError, match=r"ring\.rule: rule \"a\""):
        ServerContext(config)


async def test_a_configured_head_must_be_the_models(tmp_path: Path) -> None:
    context = ServerContext(Config())
    head = tmp_path / "ring.safetensors"
    with pytest.raises(ConfigError, match=r"ring\.head"):
        await load_head(context, str(head), "ab" * 32)
    head.write_bytes(head_file())
    with pytest.raises(ConfigError, match="another model file"):
        await load_head(context, str(head), "cd" * 32)
    await load_head(context, str(head), "ab" * 32)
    assert not context.validation.is_empty
    refusing = ServerContext(Config(ring=RingSettings(uploads=False)))
    assert refusing.validation.is_empty


async def test_uploads_can_be_refused() -> None:
    async with serving(ring=RingSettings(uploads=False)) as served:
        status, body = await upload(served.client, head_file())
        assert (status, "ring.uploads" in str(body)) == (403, True)
