"""Event streams: golden transcripts, pings, failures inside a stream, disconnection, draining."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.events import parse_events
from support.eventually import eventually
from support.fake_engine import Script
from support.serving import MODEL, Served, serving
from zlrs.config import HeaderSettings, ServerSettings
from zlrs.server.lifecycle import drain

if TYPE_CHECKING:
    from aiohttp import ClientResponse

GOLDEN = Path(__file__).parent.parent / "golden"
USER = {"role": "user", "content": "hi"}
HELD = Script(reply="never ends", hold_before=frozenset({2}))


def body(path: str, **more: object) -> dict[str, object]:
    base: dict[str, object] = {"model": MODEL, "messages": [USER], "stream": True}
    return {**base, **({"max_tokens": 50} if path == "/v1/messages" else {}), **more}


def masked(text: str) -> str:
    """A transcript without what is different every time: ids and dates."""
    text = re.sub(r"(msg_|chatcmpl-|req_)[0-9a-f]{32}", r"\1ID", text)
    return re.sub(r'"created":\d+', '"created":0', text)


@pytest.mark.parametrize(
    ("name", "path", "script", "more"),
    [
        ("messages_end_turn", "/v1/messages", Script(reply="Hé 😀!"), {}),
        ("messages_max_tokens", "/v1/messages", Script(reply="abcdef"), {"max_tokens": 2, "seed": 5}),
        ("messages_stop_sequence", "/v1/messages", Script(reply="one two"), {"stop_sequences": ["x", " t"]}),
        ("messages_empty", "/v1/messages", Script(reply=""), {}),
        ("messages_error", "/v1/messages", Script(reply="abc", fail_before=1), {}),
        ("chat_stop", "/v1/chat/completions", Script(reply="Hé 😀!"), {}),
        (
            "chat_length_usage",
            "/v1/chat/completions",
            Script(reply="abcdef"),
            {"max_completion_tokens": 2, "stream_options": {"include_usage": True}},
        ),
        ("chat_error", "/v1/chat/completions", Script(reply="abc", fail_before=1), {}),
    ],
)
async def test_transcripts(name: str, path: str, script: Script, more: dict[str, object]) -> None:
    async with serving(script) as served, served.client.post(path, json=body(path, **more)) as response:
        assert response.status == 200
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["x-accel-buffering"] == "no"
        assert response.headers["cache-control"] == "no-cache"
        text = await response.text()
    parse_events(text)
    expected = (GOLDEN / f"server_{name}.txt").read_text(encoding="utf-8")
    assert masked(text) == expected


async def opening(response: ClientResponse, until: bytes) -> bytes:
    """Read a stream until some bytes were seen."""
    seen = b""
    while until not in seen:
        piece = await response.content.readany()
        assert piece, seen
        seen += piece
    return seen


async def test_usage_is_exact_before_the_first_step() -> None:
    script = Script(reply="never ends", hold_before=frozenset({0}))
    async with (
        serving(script) as served,
        served.client.post("/v1/messages", json=body("/v1/messages")) as response,
    ):
        start = await opening(response, b"event: ping")
        first = parse_events(start.decode())[0].json
        message = first["message"]
        assert isinstance(message, dict)
        assert message["usage"]["input_tokens"] == 5
        async with served.client.post(
            "/v1/messages/count_tokens", json={"model": MODEL, "messages": [USER]}
        ) as counted:
            assert (await counted.json())["input_tokens"] == 5
        script.go.set()
        await response.read()


@pytest.mark.parametrize(("path", "ping"), [("/v1/messages", b'"ping"'), ("/v1/chat/completions", b": ping")])
async def test_silence_is_broken_by_pings_until_the_end(path: str, ping: bytes) -> None:
    script = Script(reply="abc", hold_before=frozenset({0}))
    settings = ServerSettings(ping_seconds=0.02)
    async with (
        serving(script, server=settings) as served,
        served.client.post(path, json=body(path)) as response,
    ):
        seen = b""
        while seen.count(ping) < 4:
            seen += await response.content.readany()
        script.go.set()
        text = (seen + await response.read()).decode()
    assert "".join(re.findall(r'"(?:text|content)":"(.)"', text)) == "abc"
    parse_events(text)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_goes_away_ends_its_generation(path: str, stream: bool) -> None:
    script = Script(reply="never ends", hold_before=frozenset({2}))
    async with serving(script) as served:
        request = asyncio.create_task(_read(served, path, stream=stream))
        await asyncio.to_thread(script.held.wait, 20)
        assert served.context.admission.in_flight == 1
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        await asyncio.wait_for(served.context.admission.idle.wait(), 10)
        assert served.core.generations[0].cancelled.is_set()
        script.go.set()
        script.hold_before = frozenset()
        assert '"n"' in await _read(served, "/v1/messages", stream=True)


async def _read(served: Served, path: str, *, stream: bool) -> str:
    async with served.client.post(path, json=body(path, stream=stream)) as response:
        return await response.text()


@pytest.mark.parametrize(("path", "status"), [("/v1/messages", 529), ("/v1/chat/completions", 429)])
async def test_past_the_queue_comes_retry_after(path: str, status: int) -> None:
    script = Script(reply="never ends", hold_before=frozenset({2}))
    async with serving(script, server=ServerSettings(queue_limit=2)) as served:
        waiting = [asyncio.create_task(_read(served, path, stream=True)) for _ in range(2)]
        await asyncio.to_thread(script.held.wait, 20)
        await eventually(lambda: served.context.admission.in_flight == 2)
        async with served.client.post(path, json=body(path)) as response:
            assert response.status == status
            assert int(response.headers["retry-after"]) >= 1
            assert response.headers["x-should-retry"] == "true"
            error = (await response.json())["error"]
        assert error["type"] == "overloaded_error"
        assert "the limit is 2" in error["message"]
        script.go.set()
        assert all('"n"' in text for text in await asyncio.gather(*waiting))
        assert served.context.admission.in_flight == 0


async def test_a_full_queue_of_the_engine_is_told_before_the_stream_begins() -> None:
    script = Script(refuse=("overloaded_error", "64 requests wait, the limit is 64"))
    async with serving(script) as served:
        async with served.client.post("/v1/messages", json=body("/v1/messages")) as response:
            assert response.status == 529
            assert response.headers["retry-after"]
        assert served.context.admission.in_flight == 0


async def test_draining_lets_answers_finish() -> None:
    script = Script(reply="finished", hold_before=frozenset({2}))
    async with serving(script) as served:
        running = asyncio.create_task(_read(served, "/v1/messages", stream=True))
        await asyncio.to_thread(script.held.wait, 20)
        draining = asyncio.create_task(drain(served.context, None))
        async with served.client.get("/readyz") as response:
            assert response.status == 503
            assert await response.json() == {"status": "draining"}
        for path in ("/livez", "/startupz"):
            async with served.client.get(path) as response:
                assert response.status == 200
        async with served.client.post("/v1/messages", json=body("/v1/messages")) as response:
            assert response.status == 529
            assert "shutting down" in (await response.json())["error"]["message"]
        script.go.set()
        await draining
        assert (await running).endswith('{"type":"message_stop"}\n\n')


async def test_what_is_not_finished_in_time_is_told() -> None:
    script = Script(reply="never ends", hold_before=frozenset({2}))
    async with serving(script, server=ServerSettings(drain_seconds=0)) as served:
        stream = asyncio.create_task(_read(served, "/v1/messages", stream=True))
        await asyncio.to_thread(script.held.wait, 20)
        whole = asyncio.create_task(served.client.post("/v1/chat/completions", json=body("/c", stream=False)))
        await eventually(lambda: len(served.context.streams) == 2)
        await drain(served.context, None)
        last = parse_events(await stream)[-1]
        assert last.name == "error"
        assert last.json["error"]["type"] == "overloaded_error"  # type: ignore[index]
        response = await whole
        assert response.status == 429
        assert all(generation.cancelled.is_set() for generation in served.core.generations)


async def test_a_deadline_is_an_error_and_not_an_answer() -> None:
    settings = ServerSettings(deadline_seconds=7)
    async with serving(server=settings) as served:
        async with served.client.post("/v1/messages", json=body("/v1/messages", stream=False)) as response:
            assert response.status == 200
        assert served.core.submitted[0]["deadline_ms"] == 7000


async def test_while_loading_only_probes_are_answered() -> None:
    async with serving(loaded=False) as served:
        served.context.loading_share = 0.25
        for path, status in (("/livez", 200), ("/readyz", 503), ("/startupz", 503), ("/health", 503)):
            async with served.client.get(path) as response:
                assert response.status == status
                assert (await response.json())["loaded"] == 0.25
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            async with served.client.post(path, json=body("/v1/messages")) as response:
                assert response.status == 529
                assert response.headers["retry-after"]
        async with served.client.get("/v1/models") as response:
            assert response.status == 529
        async with served.client.get("/metrics") as response:
            assert "zlrs_ready 0" in await response.text()


async def test_receipts_can_be_hidden_and_spoken_historically() -> None:
    async with serving() as served:
        spoken = {"X-Anthropic-Diagnostic": "full"}
        plain = body("/v1/messages", stream=False)
        async with served.client.post("/v1/messages", json=plain, headers=spoken) as response:
            assert "X-Anthropic-Hardware-Latency" in response.headers
            assert not [name for name in response.headers if name.startswith("X-ZLRS")]
        accept = {"Accept": "application/json; include-headers=true", "X-ZLRS-Diagnostic": "full"}
        async with served.client.post("/v1/messages", json=plain, headers=accept) as response:
            repeated = (await response.json())["zlrs"]["headers"]
            ours = {name: value for name, value in response.headers.items() if name.startswith("X-ZLRS-")}
            assert repeated == ours
            assert json.loads(ours["X-ZLRS-Compute-Profile"]) == {
                "dense_layers": 2, "sparse_skips": 0, "row_layer_skips": 0, "hardware_mode": "cpu",
                "mode": "exact", "kv_precision": "f16", "drafted": 0, "accepted": 0,
            }  # fmt: skip
            assert ours["X-ZLRS-Model-Version"] == "fake-model Q4_1 abababababab"
            assert ours["X-ZLRS-Model-Info"] == "fake-model;zero-layer=;zero-heads="
            assert ours["X-ZLRS-Zero-Active"] == "false"
            assert re.fullmatch(r"(\w+=\d+\.\dms,){4}io=\d+\.\dms", ours["X-ZLRS-Latency"])
    async with (
        serving(headers=HeaderSettings(receipts="off")) as served,
        served.client.post("/v1/messages", json=body("/v1/messages")) as response,
    ):
        assert not [name for name in response.headers if name.startswith(("X-ZLRS", "X-Anthropic"))]
        assert "zlrs" not in (await response.text()).replace(MODEL, "")
