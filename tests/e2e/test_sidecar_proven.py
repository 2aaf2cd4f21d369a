"""The sidecar with the real graph: what it serves, what it never serves, and what stays on disk."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from support.eventually import eventually
from support.memory_graph import text_of
from support.mock_upstream import Reply, chat_reply, messages_reply
from support.running import chat, message
from zlrs.graph import DecisionGraph, GraphSettings

MESSAGES, CHAT = "/v1/messages", "/v1/chat/completions"
VERSION = {"anthropic-version": "2023-06-01"}


@pytest.fixture
async def proven(start_sidecar, tmp_path):
    """Starts a sidecar over the same store each time it is called."""

    async def start(**settings):
        # A busy machine must not make misses of hits here.
        patient = GraphSettings(read_deadline_ms=1000)
        opener = lambda: DecisionGraph(tmp_path / "graph", patient)  # noqa: E731
        return await start_sidecar(opener=opener, **settings)

    return start


def body_of(path, text="Name the returns policy of order 1042.", **fields):
    return message(text, **fields) if path == MESSAGES else chat(text, **fields)


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
@pytest.mark.parametrize("first_stream", [False, True])
@pytest.mark.parametrize("second_stream", [False, True])
async def test_repeat_is_a_hit_across_forms(proven, upstream, path, first_stream, second_stream) -> None:
    sidecar = await proven()
    usage = {"stream_options": {"include_usage": True}} if path == CHAT and first_stream else {}
    first = await sidecar.ask(path, body_of(path, stream=first_stream, **usage))
    second = await sidecar.ask(path, body_of(path, stream=second_stream))
    third = await sidecar.ask(path, body_of(path, stream=second_stream))
    assert (first.decision, second.decision, third.decision) == ("miss", "hit", "hit"), second.headers
    assert second.header("x-zlrs-decision").startswith("hit;route=same;node=")
    assert "bound=replay" in second.header("x-zlrs-decision")
    assert len(upstream.calls) == 1
    assert text_of(first.body) == text_of(second.body) == "You asked: Name the returns policy of order 1042."
    assert second.header("x-zlrs-audit").startswith("aud_")
    for got in (second, third):
        assert b"upstream" not in got.body
    assert second.body != third.body  # the ids in it are fresh


async def test_unicode_survives_storing(proven, upstream) -> None:
    sidecar = await proven()
    text = "注文は届きましたか？🚚👩‍👩‍👧‍👦 naïve \u2028 “quoted” \\u0041"
    for stream in (True, False, True):
        got = await sidecar.ask(body=message(text, stream=stream))
        assert text_of(got.body) == f"You asked: {text}"
    assert len(upstream.calls) == 1


async def test_every_request_is_decided_once(start_sidecar, upstream, tmp_path) -> None:
    opened = []

    def opener() -> DecisionGraph:
        opened.append(DecisionGraph(tmp_path / "graph", GraphSettings(read_deadline_ms=1000)))
        return opened[0]

    sidecar = await start_sidecar(opener=opener)
    for stored, order in ((1, 1), (2, 2), (3, 3), (3, 2)):
        await sidecar.ask(body=message(f"Where is order {order}?"))
        # A request that comes while an answer is being kept may be decided again, when it has been.
        await eventually(lambda stored=stored: opened[0].stats()["stored"] >= stored)
    await sidecar.ask(body=message("Where is order 1?", temperature=1.0))
    counts = opened[0].stats()
    assert [counts[kind] for kind in ("misses", "hits", "skipped")] == [3, 1, 1]
    assert len(upstream.calls) == 4


async def test_a_stampede_on_the_real_graph_makes_one_call(proven, upstream) -> None:
    sidecar = await proven(follower_seconds=60)

    def slow(seen) -> Reply:
        reply = messages_reply(seen)
        reply.first_delay_s = 3
        return reply

    upstream.default = slow
    got = await asyncio.gather(*(sidecar.ask(body=body_of(MESSAGES)) for _ in range(500)))
    assert len(upstream.calls) == 1
    assert sorted(one.decision for one in got) == ["hit"] * 499 + ["miss"]


PNG = {"type": "base64", "media_type": "image/png", "data": "AA=="}
IMAGES = {
    MESSAGES: [{"type": "text", "text": "what is it"}, {"type": "image", "source": PNG}],
    CHAT: [
        {"type": "text", "text": "what is it"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ],
}
TOOLS = {
    MESSAGES: [{"name": "t", "input_schema": {"type": "object"}}],
    CHAT: [{"type": "function", "function": {"name": "t"}}],
}
STATE = {MESSAGES: {"container": "c1"}, CHAT: {"n": 2}}
NEVER = {
    "temperature unstated": lambda path: {k: v for k, v in body_of(path).items() if k != "temperature"},
    "temperature above": lambda path: body_of(path, temperature=0.2),
    "tools": lambda path: body_of(path, tools=TOOLS[path]),
    "image": lambda path: body_of(path) | {"messages": [{"role": "user", "content": IMAGES[path]}]},
    "unknown field": lambda path: body_of(path, never_heard_of=1),
    "state or choices": lambda path: body_of(path, **STATE[path]),
    "volatile": lambda path: body_of(path, "What is the latest status right now?"),
}


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
@pytest.mark.parametrize("name", NEVER)
async def test_never_lists_reach_upstream_every_time(proven, upstream, path, name) -> None:
    sidecar = await proven()
    upstream.default = lambda seen: (messages_reply if path == MESSAGES else chat_reply)(seen, "fine")
    body = NEVER[name](path)
    for _ in range(3):
        got = await sidecar.ask(path, body)
        assert (got.status, got.decision) == (200, "skipped"), got.headers
        await sidecar.settled()
    assert len(upstream.calls) == 3
    assert json.loads(upstream.calls[0].body) == body


@pytest.mark.parametrize(
    "data", [b'{"model":"m","model":"n"}', b"[" * 100_000, b'{"a":"\\ud800"}', b"\xff", b"", b"null", b"{}"]
)
async def test_odd_json_reaches_upstream_byte_for_byte(proven, upstream, data) -> None:
    sidecar = await proven()
    upstream.default = lambda _: Reply(status=400, body=b"upstream's own words")
    got = await sidecar.ask(data=data)
    assert (got.status, got.body, got.decision) == (400, b"upstream's own words", "skipped")
    assert upstream.calls[0].body == data


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
async def test_what_is_not_whole_or_not_an_answer_is_not_kept(proven, upstream, path) -> None:
    sidecar = await proven()
    reply = messages_reply if path == MESSAGES else chat_reply
    refused = (
        ("refusal", "max_tokens", "pause_turn", "tool_use")
        if path == MESSAGES
        else ("length", "content_filter", "tool_calls")
    )
    for number, stop in enumerate(refused):
        for stream in (False, True):
            upstream.default = lambda seen, stop=stop: reply(seen, "an answer", stop)
            for _ in range(2):
                got = await sidecar.ask(path, body_of(path, f"ask {number}", stream=stream))
                assert got.decision == "miss"
                await sidecar.settled()
    upstream.default = lambda seen: reply(seen, "")
    for _ in range(2):
        assert (await sidecar.ask(path, body_of(path, "empty"))).decision == "miss"
        await sidecar.settled()
    assert len(upstream.calls) == 4 * len(refused) + 2


@pytest.mark.parametrize(
    "change",
    [
        {"x-api-key": "sk-another-tenant-0001"},
        {"authorization": "Bearer sk-another"},
        {"anthropic-version": "2024-01-01"},
        {"anthropic-beta": "some-beta"},
        {"x-never-heard-of": "1"},
    ],
)
async def test_another_scope_is_another_answer(proven, upstream, change) -> None:
    sidecar = await proven()
    await sidecar.ask(body=message(), headers=VERSION)
    assert (await sidecar.ask(body=message(), headers=VERSION)).decision == "hit"
    got = await sidecar.ask(body=message(), headers=VERSION | change)
    assert got.decision == "miss"
    assert len(upstream.calls) == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"system": "Answer in French."},
        {"max_tokens": 65},
        {"model": "n"},
        {"temperature": 0.05},
        {"top_p": 0.5},
        {"stop_sequences": ["x"]},
    ],
)
async def test_another_field_is_another_answer(proven, upstream, fields) -> None:
    sidecar = await proven()
    await sidecar.ask(body=message())
    assert (await sidecar.ask(body=message(**fields))).decision == "miss"
    assert (await sidecar.ask("/v1/messages?beta=true", message())).decision == "miss"
    assert len(upstream.calls) == 3


async def test_two_upstreams_over_one_store_share_nothing(proven, upstream) -> None:
    one = await proven()
    await one.ask(body=message())
    two = await proven(upstream=upstream.url + "/b")
    upstream.default = lambda seen: messages_reply(seen, "from b")
    got = await two.ask(body=message())
    assert got.decision in {"miss", "skipped"}
    assert text_of(got.body) == "from b"


async def test_order_of_keys_and_client_bookkeeping_do_not_matter(proven, upstream) -> None:
    sidecar = await proven()
    await sidecar.ask(body=message(metadata={"user_id": "a"}), headers={"x-stainless-retry-count": "0"})
    shuffled = dict(sorted(message(metadata={"user_id": "b"}).items(), reverse=True))
    got = await sidecar.ask(body=shuffled, headers={"x-stainless-retry-count": "1", "user-agent": "other"})
    assert got.decision == "hit"


async def test_a_refused_credential_locks_its_hits(proven, upstream) -> None:
    sidecar = await proven()
    await sidecar.ask(body=message())
    assert (await sidecar.ask(body=message())).decision == "hit"
    upstream.replies.append(Reply(status=401, body=b"{}"))
    assert (await sidecar.ask(body=message("something else"))).status == 401
    await sidecar.settled()
    got = await sidecar.ask(body=message())
    assert got.decision == "miss"
    assert "credential" in got.header("x-zlrs-decision")


async def test_answers_survive_a_restart(proven, upstream) -> None:
    first = await proven()
    asked = [await first.ask(body=message(f"ask {i}")) for i in range(10)]
    await first.settled()
    await first.sidecar.stop(1)
    second = await proven()
    # One accepted call shows that the credential is still good.
    await second.ask(body=message("another"))
    await second.settled()
    for i, before in enumerate(asked):
        got = await second.ask(body=message(f"ask {i}", stream=True))
        assert got.decision == "hit"
        assert text_of(got.body) == text_of(before.body)
    assert len(upstream.calls) == 11


async def test_no_secret_and_no_key_is_stored_or_sent_back(proven, upstream, tmp_path, caplog) -> None:
    canary = "sk-canary-5b1d9e7f0a"
    caplog.set_level(0)
    sidecar = await proven()
    headers = {"x-api-key": canary, "authorization": f"Bearer {canary}", "cookie": f"s={canary}"}
    for _ in range(2):
        for keep_cookie in (True, False):
            sent = headers if keep_cookie else {k: v for k, v in headers.items() if k != "cookie"}
            got = await sidecar.ask("/v1/messages", message(), headers=sent)
            assert canary not in str(got.headers)
    assert (await sidecar.ask("/v1/messages", message(), headers=sent)).decision == "hit"
    await sidecar.ask(f"/v1/models?key={canary}", method="GET")
    async with sidecar.session.get(sidecar.url + "/zlrs/metrics") as response:
        assert canary not in await response.text()
    await sidecar.settled()
    await sidecar.sidecar.stop(1)
    ours = "\n".join(
        record.getMessage() + str(getattr(record, "fields", ""))
        for record in caplog.records
        if record.name.startswith("zlrs")
    )
    assert canary not in ours
    stored = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert stored
    for path in stored:
        assert canary.encode() not in path.read_bytes(), path
        assert path.stat().st_mode & 0o077 == 0, path


async def test_a_damaged_store_stops_no_request(start_sidecar, upstream, tmp_path) -> None:
    rng = random.Random(3)
    folder = tmp_path / "graph"
    first = await start_sidecar(opener=lambda: DecisionGraph(folder))
    for i in range(20):
        await first.ask(body=message(f"ask {i}"))
    await first.settled()
    await first.sidecar.stop(1)
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        data = bytearray(path.read_bytes())
        for _ in range(len(data) // 50):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
    second = await start_sidecar(opener=lambda: DecisionGraph(folder))
    for i in range(20):
        got = await second.ask(body=message(f"ask {i}"))
        assert got.status == 200
        assert text_of(got.body) == f"You asked: ask {i}"


async def test_fifty_same_asks_make_one_call(proven, upstream) -> None:
    sidecar = await proven()

    def slow(seen):
        reply = messages_reply(seen)
        reply.first_delay_s = 0.2
        return reply

    upstream.default = slow
    got = await asyncio.gather(*(sidecar.ask(body=message(stream=bool(i % 2))) for i in range(50)))
    assert len(upstream.calls) == 1
    assert sorted(one.decision for one in got) == ["hit"] * 49 + ["miss"]


async def test_a_replaying_upstream_is_no_evidence(proven, upstream) -> None:
    sidecar = await proven(upstream_is_zlrs=True)

    def replayed(seen):
        reply = messages_reply(seen)
        reply.headers.append(("X-ZLRS-Decision", "hit;route=same"))
        return reply

    upstream.default = replayed
    for _ in range(2):
        got = await sidecar.ask(body=message())
        assert got.decision == "miss"
        await sidecar.settled()
    assert len(upstream.calls) == 2


async def test_cache_only_and_diagnostic_ask_for_the_same_answer(proven, upstream) -> None:
    sidecar = await proven()
    only = {"X-ZLRS-Cache-Only": "true", "X-ZLRS-Diagnostic": "full", "X-ZLRS-Cohort": "a"}
    got = await sidecar.ask(body=message(), headers=only)
    assert (got.status, got.decision) == (504, "fill")
    await upstream.called()
    got = await sidecar.ask(body=message())
    assert got.decision == "hit"
    got = await sidecar.ask(body=message(), headers=only)
    assert (got.status, got.decision) == (200, "hit")
    assert len(upstream.calls) == 1
