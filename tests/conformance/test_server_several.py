"""Several answers of one call, and priorities: both protocols, whole and streamed, good input and bad."""

from __future__ import annotations

import asyncio
import json

import pytest

from support.events import parse_events
from support.eventually import eventually
from support.fake_engine import Script
from support.serving import MODEL, Served, serving
from zlrs.config import HeaderSettings, ServerSettings

USER = {"role": "user", "content": "hi"}
PATHS = ("/v1/messages", "/v1/chat/completions")
BRANCHES = [
    {"tag": "fr"},
    {"tag": "short", "instruction": "Be brief.", "max_tokens": 3},
]
ECHO = Script(reply=lambda prompt: f"<{prompt[-12:]}>")


def body(zlrs: object, **more: object) -> dict[str, object]:
    return {"model": MODEL, "messages": [USER], "max_tokens": 50, "temperature": 0, "zlrs": zlrs, **more}


def texts(path: str, answer: dict) -> list[str]:
    if path == "/v1/messages":
        return [block["text"] for block in answer["content"]]
    return [choice["message"]["content"] for choice in answer["choices"]]


async def ask(served: Served, path: str, sent: dict[str, object]) -> dict:
    async with served.client.post(path, json=sent) as response:
        assert response.status == 200, await response.text()
        return await response.json()


@pytest.mark.parametrize("path", PATHS)
async def test_branches_are_answered_in_their_order_with_their_limits(path: str) -> None:
    async with serving(ECHO) as served:
        answer = await ask(served, path, body({"branches": BRANCHES}))
        assert [options["max_tokens"] for options in served.core.submitted] == [50, 3]
        assert [turns[-1] for turns in served.core.rendered] == [
            ("user", "hi\n\nAnswer in French."),
            ("user", "hi\n\nBe brief."),
        ]
        assert texts(path, answer) == ["<r in French.>", "<i\n"]
        listed = answer["zlrs"]["branches"]
        assert [(one["index"], one["tag"]) for one in listed] == [(0, "fr"), (1, "short")]
        if path == "/v1/messages":
            assert [one["stop_reason"] for one in listed] == ["end_turn", "max_tokens"]
            assert answer["stop_reason"] == "max_tokens"
            usage = [one["usage"]["output_tokens"] for one in listed]
            assert answer["usage"]["output_tokens"] == sum(usage) == 17
        else:
            assert [choice["finish_reason"] for choice in answer["choices"]] == ["stop", "length"]
            assert answer["usage"]["completion_tokens"] == 17
        tenants = {options["tenant"] for options in served.core.submitted}
        assert len(tenants) == 1
        await eventually(lambda: served.context.admission.in_flight == 0, "all places given back")


@pytest.mark.parametrize("path", PATHS)
async def test_conversations_are_independent(path: str) -> None:
    conversations = [
        {"messages": [{"role": "user", "content": "first"}], "tag": "one"},
        {"messages": [{"role": "user", "content": "second"}], "max_tokens": 2},
    ]
    async with serving(ECHO) as served:
        answer = await ask(served, path, body({"conversations": conversations}, messages=[]))
        assert served.core.rendered == [[("user", "first")], [("user", "second")]]
        assert texts(path, answer) == ["<first>", "<s"]
        assert [one["tag"] for one in answer["zlrs"]["conversations"]] == ["one", "1"]


@pytest.mark.parametrize("path", PATHS)
async def test_streams_carry_every_answer_under_its_index(path: str) -> None:
    sent = body({"branches": BRANCHES}, stream=True)
    if path != "/v1/messages":
        sent["stream_options"] = {"include_usage": True}
    async with serving(ECHO) as served, served.client.post(path, json=sent) as response:
        assert response.status == 200
        raw = await response.text()
    data = [json.loads(event.data) for event in parse_events(raw) if event.data != "[DONE]"]
    joined = ["", ""]
    if path == "/v1/messages":
        kinds = [event["type"] for event in data]
        assert kinds[:3] == ["message_start", "content_block_start", "content_block_start"]
        assert kinds[-2:] == ["message_delta", "message_stop"]
        for event in data:
            if event["type"] == "content_block_delta":
                joined[event["index"]] += event["delta"]["text"]
        stopped = [event["index"] for event in data if event["type"] == "content_block_stop"]
        assert sorted(stopped) == [0, 1]
        end = data[-2]
    else:
        for event in data:
            for choice in event["choices"]:
                joined[choice["index"]] += choice["delta"].get("content") or ""
        reasons = {
            choice["index"]: choice["finish_reason"]
            for event in data
            for choice in event["choices"]
            if choice["finish_reason"]
        }
        assert reasons == {0: "stop", 1: "length"}
        end = data[-1]
    assert joined == ["<r in French.>", "<i\n"]
    assert [one["tag"] for one in end["zlrs"]["branches"]] == ["fr", "short"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("zlrs", "more", "says"),
    [
        ({"branches": []}, {}, "1 … 32 branches"),
        ({"branches": [{"tag": "en"}] * 33}, {}, "1 … 32 branches"),
        ({"branches": [{"tag": "en"}, {"tag": "en"}]}, {}, "two branches have the tag 'en'"),
        ({"branches": [{"tag": "xx"}]}, {}, "'xx' is no language of ISO 639-1"),
        ({"branches": [{"tag": "short"}]}, {}, "needs an `instruction`"),
        ({"branches": [{"tag": "a b", "instruction": "x"}]}, {}, "a tag has 1 … 64"),
        ({"branches": [{"tag": "en", "max_tokens": 0}]}, {}, "zlrs.branches.0.max_tokens"),
        ({"branches": [{"tag": "en", "other": 1}]}, {}, "other"),
        (
            {"branches": [{"tag": "en"}]},
            {"messages": [USER, {"role": "assistant", "content": "x"}]},
            "ends with a turn of the user",
        ),
        ({"conversations": []}, {"messages": []}, "1 … 32 conversations"),
        ({"conversations": [{"messages": [USER]}]}, {}, "must be empty beside"),
        ({"conversations": [{"messages": []}]}, {"messages": []}, "zlrs.conversations.0.messages"),
        (
            {"conversations": [{"messages": [{"role": "robot", "content": "x"}]}]},
            {"messages": []},
            "zlrs.conversations.0.messages.0.role",
        ),
        (
            {"conversations": [{"messages": [USER], "tag": "a"}, {"messages": [USER], "tag": "a"}]},
            {"messages": []},
            "two have the tag 'a'",
        ),
        (
            {"conversations": [{"messages": [USER]}], "branches": [{"tag": "en"}]},
            {"messages": []},
            "not both",
        ),
        ({"priority": "urgent"}, {}, "zlrs.priority"),
        ({"unknown": 1}, {}, "unknown"),
    ],
)
async def test_bad_input_is_a_400_with_its_place(
    path: str, zlrs: dict[str, object], more: dict[str, object], says: str
) -> None:
    async with serving() as served:
        async with served.client.post(path, json=body(zlrs, **more)) as response:
            assert response.status == 400
            assert says in (await response.json())["error"]["message"]
        assert not served.core.submitted
        assert served.context.admission.in_flight == 0


@pytest.mark.parametrize("path", PATHS)
async def test_priority_reaches_the_engine(path: str) -> None:
    async with serving() as served:
        await ask(served, path, body({"priority": "batch"}))
        await ask(served, path, body({"priority": "interactive"}))
        await ask(served, path, body(None))
        given = [options["priority"] for options in served.core.submitted]
        assert given == ["batch", "interactive", "interactive"]


async def test_batches_leave_places_to_the_others() -> None:
    held = Script(hold_before=frozenset({0}))
    async with serving(held, server=ServerSettings(queue_limit=4)) as served:
        path = "/v1/messages"

        async def status(zlrs: object) -> int:
            async with served.client.post(path, json=body(zlrs)) as response:
                return response.status

        tasks = [asyncio.create_task(status({"priority": "batch"})) for _ in range(3)]
        await eventually(lambda: served.context.admission.in_flight == 3, "three batches")
        async with served.client.post(path, json=body({"priority": "batch"})) as refused:
            assert refused.status == 529
            assert "priority `batch`" in (await refused.json())["error"]["message"]
        interactive = asyncio.create_task(status(None))
        await eventually(lambda: served.context.admission.in_flight == 4, "one more")
        held.go.set()
        assert await asyncio.gather(*tasks, interactive) == [200] * 4


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True])
async def test_one_failure_ends_all(path: str, *, stream: bool) -> None:
    script = Script(reply="abcdef", fail_before=2)
    async with (
        serving(script) as served,
        served.client.post(path, json=body({"branches": BRANCHES}, stream=stream)) as response,
    ):
        text = await response.text()
        assert response.status == (200 if stream else 500)
        assert "engine_failed" in text
        await eventually(lambda: served.context.admission.in_flight == 0, "all places given back")
        assert not served.context.streams


@pytest.mark.parametrize("path", PATHS)
async def test_a_client_that_goes_away_cancels_all(path: str) -> None:
    held = Script(hold_before=frozenset({2}))
    async with serving(held) as served:
        response = await served.client.post(path, json=body({"branches": BRANCHES}, stream=True))
        await response.content.readany()
        response.close()
        await eventually(
            lambda: all(generation.cancelled.is_set() for generation in served.core.generations),
            "both cancelled",
        )
        await eventually(lambda: served.context.admission.in_flight == 0, "all places given back")


async def test_more_answers_than_places_are_refused_whole() -> None:
    async with serving(server=ServerSettings(queue_limit=1)) as served:
        async with served.client.post("/v1/messages", json=body({"branches": BRANCHES})) as response:
            assert response.status == 529
        await eventually(lambda: served.context.admission.in_flight == 0, "all places given back")


@pytest.mark.parametrize("path", PATHS)
async def test_tags_come_back_also_without_receipts(path: str) -> None:
    async with serving(headers=HeaderSettings(receipts="off")) as served:
        answer = await ask(served, path, body({"branches": BRANCHES}))
        assert list(answer["zlrs"]) == ["branches"]
        async with served.client.post(
            path, json=body({"branches": BRANCHES}), headers={"X-ZLRS-Cache-Only": "true"}
        ) as response:
            assert response.status == 504
