"""Faults that users reported of other Messages servers, tried on this one.

Each test names the symptom. What concerns tools and thinking is refused here with a reason; those tests hold
the refusal, so that nobody gets a silent half-answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anthropic
import pytest

from support.events import Event, collect, parse_events
from support.fake_engine import END_OF_TURN, ROLE_IDS, Script
from support.serving import MODEL, Served, serving
from zlrs.config import ServerSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

USER = {"role": "user", "content": "hi"}


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as running:
        yield running


async def post(served: Served, path: str = "/v1/messages", **fields: object) -> dict[str, object]:
    body = {"model": MODEL, "max_tokens": 64, "messages": [USER], **fields}
    async with served.client.post(path, json=body) as response:
        parsed = await response.json()
        assert response.status == 200, parsed
    assert isinstance(parsed, dict)
    return parsed


async def events(served: Served, **fields: object) -> list[Event]:
    body = {"model": MODEL, "max_tokens": 64, "messages": [USER], "stream": True, **fields}
    async with served.client.post("/v1/messages", json=body) as response:
        assert response.status == 200
        return parse_events(await response.text())


async def test_thinking_is_refused_and_never_half_answered(served: Served) -> None:
    for kind in ("enabled", "adaptive"):
        body = {"model": MODEL, "messages": [USER], "thinking": {"type": kind}}
        async with served.client.post("/v1/messages", json=body) as response:
            assert response.status == 400
            assert "no thinking mode" in (await response.json())["error"]["message"]
    await post(served, thinking={"type": "disabled"})


async def test_system_in_the_middle_is_accepted_and_keeps_its_place(served: Served) -> None:
    turns = [USER, {"role": "system", "content": "be brief"}, {"role": "user", "content": "go"}]
    await post(served, messages=turns, system="top")
    assert served.core.rendered[-1] == [
        ("system", "top"), ("user", "hi"), ("system", "be brief"), ("user", "go"),
    ]  # fmt: skip


async def test_a_later_turn_extends_the_earlier_prompt(served: Served) -> None:
    first = [USER]
    second = [*first, {"role": "assistant", "content": "yes"}, USER, {"role": "system", "content": "late"}]
    await post(served, messages=first, system="s")
    await post(served, messages=second, system="s")
    before, after = (generation.ids for generation in served.core.generations)
    assert after[: len(before) - 1] == before[:-1]


async def test_a_clients_attribution_line_is_no_part_of_the_prompt(served: Served) -> None:
    for token in ("a1", "b2"):
        line = f"x-anthropic-billing-header: cc_version=1; cch={token};"
        for system in (
            line + "\nbe kind",
            [{"type": "text", "text": line}, {"type": "text", "text": "be kind"}],
        ):
            await post(served, system=system)
    assert {tuple(generation.ids) for generation in served.core.generations} == {
        tuple(served.core.render([("system", "be kind"), ("user", "hi")]))
    }


async def test_cache_control_is_accepted_everywhere(served: Served) -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    block = {"type": "text", "text": "hi", "cache_control": mark}
    answer = await post(
        served, messages=[{"role": "user", "content": [block]}], system=[block], cache_control=mark
    )
    usage = answer["usage"]
    assert isinstance(usage, dict)
    assert (usage["cache_read_input_tokens"], usage["input_tokens"]) == (0, 1)
    await post(served, messages=[{"role": "user", "content": [block, {**block, "text": ""}]}])


async def test_what_is_read_and_written_is_counted_as_the_protocol_counts(served: Served) -> None:
    served.script.cached_tokens = 3
    prompt = len(served.core.render([("user", "hi")]))
    mark = {"type": "ephemeral"}
    block = {"type": "text", "text": "hi", "cache_control": mark}
    for body, expected in (
        ({"messages": [USER]}, (prompt - 3, 0, 3)),
        ({"messages": [USER], "cache_control": mark}, (1, prompt - 4, 3)),
        ({"messages": [{"role": "user", "content": [block]}]}, (1, prompt - 4, 3)),
    ):
        usage = (await post(served, **body))["usage"]
        assert isinstance(usage, dict)
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        assert tuple(usage[name] for name in names) == expected
        start = (await events(served, **body))[0].json["message"]
        assert isinstance(start, dict)
        assert start["usage"] == {**usage, "output_tokens": 0}


async def test_the_first_event_waits_until_its_usage_is_known_and_pings_meanwhile() -> None:
    script = Script(cached_tokens=2, hold_begin=True)
    async with serving(script, server=ServerSettings(ping_seconds=0.01)) as served:
        body = {"model": MODEL, "max_tokens": 5, "messages": [USER], "stream": True}
        async with served.client.post("/v1/messages", json=body) as response:
            seen = b""
            while seen.count(b"event: ping") < 3:
                seen += await response.content.readany()
            assert b"message_start" not in seen
            script.go.set()
            seen += await response.content.read()
        assert seen.count(b"event: message_start") == 1
        assert b'"cache_read_input_tokens":2' in seen.partition(b"content_block_start")[0]


async def test_tenants_are_told_apart_by_credentials_alone() -> None:
    async with serving() as served:
        for headers in ({}, {"x-api-key": "k1"}, {"x-api-key": "k2"}, {"authorization": "Bearer k1"}, {}):
            body = {"model": MODEL, "max_tokens": 1, "messages": [USER]}
            async with served.client.post("/v1/messages", json=body, headers=headers) as response:
                assert response.status == 200
        tenants = [submitted["tenant"] for submitted in served.core.submitted]
        assert len(set(tenants)) == 4
        assert tenants[0] == tenants[4]
        assert all(isinstance(tenant, bytes) and len(tenant) == 32 for tenant in tenants)


async def test_usage_of_the_stream_equals_the_usage_of_the_whole_and_the_count(served: Served) -> None:
    whole = (await post(served, system="sys"))["usage"]
    assert isinstance(whole, dict)
    seen = await events(served, system="sys")
    start = seen[0].json["message"]
    assert isinstance(start, dict)
    last = next(event.json for event in seen if event.name == "message_delta")["usage"]
    assert isinstance(last, dict)
    assert start["usage"] == {**whole, "output_tokens": 0}
    assert last == whole
    counted = await post(served, "/v1/messages/count_tokens", system="sys")
    assert counted == {"input_tokens": whole["input_tokens"]}
    assert whole["input_tokens"] == len(served.core.render([("system", "sys"), ("user", "hi")]))


async def test_every_block_has_one_start_and_one_stop_and_indices_without_gaps(served: Served) -> None:
    names = [event.name for event in await events(served)]
    assert names[0] == "message_start"
    assert names[-2:] == ["message_delta", "message_stop"]
    assert names.count("content_block_start") == names.count("content_block_stop") == 1
    indices = {event.json["index"] for event in await events(served) if "index" in event.json}
    assert indices == {0}


async def test_each_event_says_its_type_twice(served: Served) -> None:
    for event in await events(served):
        assert event.name == event.json["type"]


async def test_count_tokens_ignores_the_query_and_needs_no_max_tokens(served: Served) -> None:
    body = {"model": MODEL, "messages": [USER]}
    async with served.client.post("/v1/messages/count_tokens?beta=true", json=body) as response:
        assert response.status == 200
        assert await response.json() == {"input_tokens": 5}
    async with served.client.post("/v1/messages?beta=true", json={**body, "max_tokens": 3}) as response:
        assert response.status == 200


async def test_count_tokens_refuses_with_a_reason_what_it_cannot_count(served: Served) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    nested = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x"}]}
    for block in (image, nested, {"type": "document", "source": {}}):
        body = {"model": MODEL, "messages": [{"role": "user", "content": [block]}]}
        async with served.client.post("/v1/messages/count_tokens", json=body) as response:
            assert response.status == 400
            assert block["type"] in (await response.json())["error"]["message"]  # type: ignore[operator]


async def test_count_tokens_counts_the_system_prompt(served: Served) -> None:
    without = await post(served, "/v1/messages/count_tokens")
    with_system = await post(served, "/v1/messages/count_tokens", system="sys")
    assert with_system["input_tokens"] == without["input_tokens"] + len("sys") + 2  # type: ignore[operator]


async def test_unknown_betas_and_client_headers_are_ignored(served: Served) -> None:
    headers = {
        "anthropic-beta": "x-foo-2030-01-01,another",
        "anthropic-version": "2099-01-01",
        "x-claude-code-session-id": "1",
        "x-stainless-retry-count": "3",
    }
    body = {"model": MODEL, "max_tokens": 5, "messages": [USER]}
    async with served.client.post("/v1/messages", json=body, headers=headers) as response:
        assert response.status == 200


async def test_unknown_fields_are_tolerated_and_reported(served: Served) -> None:
    answer = await post(served, context_management={"edits": []}, zoo=1)
    receipt = answer["zlrs"]
    assert isinstance(receipt, dict)
    assert receipt["ignored_fields"] == ["context_management", "zoo"]
    async with served.client.get("/metrics") as response:
        assert 'zlrs_ignored_fields_total{protocol="messages"} 1' in await response.text()


async def test_an_unknown_role_is_one_clear_error(served: Served) -> None:
    body = {"model": MODEL, "messages": [USER, {"role": "critic", "content": "x"}]}
    async with served.client.post("/v1/messages", json=body) as response:
        parsed = await response.json()
        assert response.status == 400
    assert set(parsed) == {"type", "error", "request_id"}
    assert (
        parsed["error"]["message"]
        == "messages.1.role: unknown role 'critic'; roles are user, assistant, system"
    )


async def test_a_template_that_raises_is_a_400_with_its_words() -> None:
    script = Script(template_error=("invalid_request_error", "roles must alternate"))
    async with serving(script) as served:
        body = {"model": MODEL, "messages": [USER]}
        for path in ("/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions"):
            async with served.client.post(path, json=body) as response:
                assert response.status == 400
                assert "roles must alternate" in (await response.json())["error"]["message"]


async def test_a_begun_answer_is_continued(served: Served) -> None:
    await post(served, messages=[USER, {"role": "assistant", "content": "Sure:"}])
    ids = served.core.generations[-1].ids
    assert ids[-6:] == [ROLE_IDS["assistant"], *map(ord, "Sure:")]
    assert ids.count(END_OF_TURN) == 1


async def test_thinking_of_earlier_answers_is_left_out(served: Served) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    earlier = {"role": "assistant", "content": [thought, {"type": "text", "text": "yes"}]}
    await post(served, messages=[USER, earlier, USER])
    assert served.core.rendered[-1][1] == ("assistant", "yes")


async def test_max_tokens_may_be_absent_and_is_bounded_by_the_window(served: Served) -> None:
    body = {"model": MODEL, "messages": [USER]}
    async with served.client.post("/v1/messages", json=body) as response:
        assert response.status == 200
    assert served.core.submitted[-1]["max_tokens"] == 2048 - 5
    await post(served, max_tokens=100_000)
    assert served.core.submitted[-1]["max_tokens"] == 2048 - 5


async def test_a_window_that_ends_the_answer_is_named() -> None:
    async with serving(Script(reply="x" * 100), context_tokens=32) as served:
        answer = await post(served, max_tokens=100)
        assert answer["stop_reason"] == "model_context_window_exceeded"
        answer = await post(served, max_tokens=3)
        assert answer["stop_reason"] == "max_tokens"


async def test_a_stop_sequence_is_named_and_left_out(served: Served) -> None:
    answer = await post(served, stop_sequences=["fake", "zzz"])
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", "fake")
    assert answer["content"] == [{"type": "text", "text": "Hello from the "}]


async def test_temperature_is_one_unless_said_and_the_seed_is_reported(served: Served) -> None:
    answer = await post(served)
    assert served.core.submitted[-1]["temperature"] == 1.0
    assert answer["zlrs"]["seed"] == 4242  # type: ignore[index]
    answer = await post(served, temperature=0, seed=7, top_k=3, top_p=0.5)
    options = served.core.submitted[-1]
    assert (options["temperature"], options["seed"], options["top_k"], options["top_p"]) == (0.0, 7, 3, 0.5)
    assert answer["zlrs"]["seed"] == 7  # type: ignore[index]


async def test_head_requests_find_someone_here(served: Served) -> None:
    for path, status in (("/", 200), ("/v1/models", 200), ("/api/hello", 404)):
        async with served.client.head(path) as response:
            assert response.status == status
            assert await response.read() == b""


async def test_model_lists_are_paged_and_never_redirect(served: Served) -> None:
    async with served.client.get("/v1/models?limit=1000", allow_redirects=False) as response:
        page = await response.json()
    assert [model["id"] for model in page["data"]] == [MODEL]
    assert (page["has_more"], page["first_id"], page["last_id"]) == (False, MODEL, MODEL)
    async with served.client.get(f"/v1/models?after_id={MODEL}") as response:
        assert (await response.json())["data"] == []


async def test_the_stream_closes_after_an_error_and_the_client_raises() -> None:
    async with (
        serving(Script(reply="abc", fail_before=1)) as served,
        anthropic.AsyncAnthropic(base_url=served.url, api_key="k", max_retries=0) as client,
        client.messages.stream(
            model=MODEL, max_tokens=5, messages=[{"role": "user", "content": "hi"}]
        ) as stream,
    ):
        seen: list[str] = []
        with pytest.raises(anthropic.APIStatusError, match="not finite"):
            await collect(stream.text_stream, seen)
        assert seen == ["a"]
