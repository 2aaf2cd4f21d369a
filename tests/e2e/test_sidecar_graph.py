"""Answers from the graph: whole, in the form asked for, without a call upstream, and with a receipt."""

from __future__ import annotations

import asyncio
import gzip
import json
import re

import pytest

from support.memory_graph import MemoryGraph, text_of
from support.mock_upstream import Reply, compressed, messages_reply
from support.running import chat, message

MESSAGES, CHAT = "/v1/messages", "/v1/chat/completions"


def body_of(path, text="Where is order 1042?", **fields):
    return message(text, **fields) if path == MESSAGES else chat(text, **fields)


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
@pytest.mark.parametrize("first_stream", [False, True])
@pytest.mark.parametrize("second_stream", [False, True])
async def test_repeat_is_a_hit_in_the_form_asked_for(
    start_sidecar, upstream, path, first_stream, second_stream
) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    first = await sidecar.ask(path, body_of(path, stream=first_stream))
    second = await sidecar.ask(path, body_of(path, stream=second_stream))
    assert (first.decision, second.decision) == ("miss", "hit")
    assert len(upstream.calls) == 1
    assert text_of(second.body) == text_of(first.body) == "You asked: Where is order 1042?"
    kind = "text/event-stream" if second_stream else "application/json"
    assert second.header("content-type").startswith(kind)


async def test_a_hit_carries_receipts_and_nothing_of_the_old_head(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    await sidecar.ask(body=message())
    got = await sidecar.ask(body=message(), headers={"X-ZLRS-Diagnostic": "full"})
    assert got.header("x-zlrs-decision").startswith("hit;route=same;node=")
    assert re.fullmatch(r"req_[0-9a-f]{32}", got.header("x-zlrs-request-id"))
    assert got.header("request-id") == got.header("x-zlrs-request-id")
    assert got.header("x-zlrs-audit") == "aud_3"
    assert re.fullmatch(r"decide=[\d.]+ms,first_byte=[\d.]+ms", got.header("x-zlrs-latency"))
    assert got.header("anthropic-organization-id") is None
    assert b"upstream" not in got.body


async def test_ids_of_answers_are_ours_and_new_each_time(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    ids = {(await sidecar.ask(body=message())).header("x-zlrs-request-id") for _ in range(5)}
    assert len(ids) == 5


async def test_latency_receipt_of_a_miss_has_three_parts(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    got = await sidecar.ask(body=message(), headers={"x-zlrs-diagnostic": "full"})
    assert re.fullmatch(
        r"decide=[\d.]+ms,upstream=[\d.]+ms,first_byte=[\d.]+ms", got.header("x-zlrs-latency")
    )
    assert got.header("request-id") == "req_upstream_1"


@pytest.mark.parametrize(
    "header",
    ["X-ZLRS-No-Graph", "bypass-zero-layer", "bypass_zero_layer", "X-ZLRS-Multi-Modal", "x-multi-modal"],
)
async def test_bypass_headers_go_upstream(start_sidecar, upstream, header) -> None:
    graph = MemoryGraph()
    sidecar = await start_sidecar(graph=graph)
    await sidecar.ask(body=message())
    got = await sidecar.ask(body=message(), headers={header: "true"})
    assert got.decision == "skipped"
    assert len(upstream.calls) == 2
    await sidecar.settled()
    assert [kind for kind, _, _ in graph.settled] == ["miss", "skipped"]  # its status is learned from
    assert not upstream.calls[1].header(header)


async def test_malformed_json_is_for_the_upstream_to_judge(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    upstream.replies.append(Reply(status=400, body=b'{"its":"words"}'))
    got = await sidecar.ask(data=b'{"model": "m", ')
    assert (got.status, got.body) == (400, b'{"its":"words"}')
    assert got.header("x-zlrs-decision") == "skipped;reason=malformed"


async def test_compressed_answers_are_learned_and_compressed_asks_understood(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    for coding in ("gzip", "deflate"):
        for stream in (False, True):
            body = message(f"ask {coding} {stream}", stream=stream)
            upstream.replies.append(compressed(messages_reply_for(body), coding))
            packed = gzip.compress(json.dumps(body).encode())
            first = await sidecar.ask(data=packed, headers={"content-encoding": "gzip"})
            assert first.header("content-encoding") == coding
            second = await sidecar.ask(body=body)
            assert (first.decision, second.decision) == ("miss", "hit")
            assert second.header("content-encoding") is None


def messages_reply_for(body):
    seen = type("Seen", (), {"json": lambda _self: body})()
    return messages_reply(seen)


async def test_a_bomb_is_relayed_and_never_unpacked_past_the_limit(start_sidecar, upstream) -> None:
    graph = MemoryGraph()
    sidecar = await start_sidecar(graph=graph, answer_limit_bytes=1 << 16, graph_body_limit_bytes=1 << 16)
    bomb = gzip.compress(b" " * (64 << 20))
    upstream.replies.append(Reply(body=bomb[:60_000], headers=[("Content-Encoding", "gzip")]))
    got = await sidecar.ask(body=message())
    assert got.body == bomb[:60_000]
    await sidecar.settled()
    assert graph.settled == [("miss", 200, False)]
    upstream.replies.append(Reply())
    got = await sidecar.ask(data=bomb[:60_000], headers={"content-encoding": "gzip"})
    assert got.header("x-zlrs-decision") == "skipped;reason=too_large"
    assert upstream.calls[-1].body == bomb[:60_000]


async def test_answers_over_the_limit_are_relayed_and_not_kept(start_sidecar, upstream) -> None:
    graph = MemoryGraph()
    sidecar = await start_sidecar(graph=graph, answer_limit_bytes=2048)
    upstream.default = lambda seen: messages_reply(seen, "x" * 5000)
    for _ in range(2):
        got = await sidecar.ask(body=message())
        assert got.decision == "miss"
        await sidecar.settled()
    assert graph.settled == [("miss", 200, False)] * 2


@pytest.mark.parametrize("stream", [False, True])
async def test_fifty_same_asks_make_one_call(start_sidecar, upstream, stream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    upstream.default = lambda seen: slow(messages_reply(seen), 0.2)
    got = await asyncio.gather(*(sidecar.ask(body=message(stream=stream)) for _ in range(50)))
    assert len(upstream.calls) == 1
    assert sorted(one.decision for one in got) == ["hit"] * 49 + ["miss"]
    assert {text_of(one.body) for one in got} == {"You asked: Where is order 1042?"}


async def test_a_miss_is_decided_once(start_sidecar, upstream) -> None:
    graph = MemoryGraph()
    sidecar = await start_sidecar(graph=graph)
    assert (await sidecar.ask(body=message())).decision == "miss"
    assert graph.decided == 1


async def test_five_hundred_same_asks_make_one_call(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph(), follower_seconds=30)
    # The answer is there once all of them have come.
    upstream.default = lambda seen: slow(messages_reply(seen), 3)
    got = await asyncio.gather(*(sidecar.ask(body=message()) for _ in range(500)))
    assert len(upstream.calls) == 1
    assert sorted(one.decision for one in got) == ["hit"] * 499 + ["miss"]


def slow(reply: Reply, seconds: float) -> Reply:
    reply.first_delay_s = seconds
    return reply


async def test_followers_go_alone_after_their_time(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph(), follower_seconds=0.05)
    upstream.default = lambda seen: slow(messages_reply(seen), 0.3)
    got = await asyncio.gather(*(sidecar.ask(body=message()) for _ in range(3)))
    assert len(upstream.calls) == 3
    assert [one.status for one in got] == [200] * 3


async def test_followers_go_alone_when_the_answer_may_not_be_shared(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    upstream.default = lambda _: Reply(status=429, body=b"{}", first_delay_s=0.1)
    got = await asyncio.gather(*(sidecar.ask(body=message()) for _ in range(5)))
    assert [one.status for one in got] == [429] * 5
    assert len(upstream.calls) == 5


async def test_different_asks_never_wait_for_each_other(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    upstream.default = lambda seen: slow(messages_reply(seen), 0.1)
    got = await asyncio.gather(*(sidecar.ask(body=message(f"order {i}")) for i in range(8)))
    assert len({text_of(one.body) for one in got}) == 8
    assert len(upstream.calls) == 8


async def test_cache_only_answers_or_says_so_and_fetches_on_the_side(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    upstream.default = lambda seen: slow(messages_reply(seen), 0.05)
    only = {"X-ZLRS-Cache-Only": "true"}
    missed = [await sidecar.ask(body=message(), headers=only) for _ in range(3)]
    for got in missed:
        assert got.status == 504
        assert json.loads(got.body)["error"]["type"] == "cache_only_miss"
        assert got.decision == "fill"
    await upstream.called()
    assert not upstream.calls[0].header("x-zlrs-cache-only")
    got = await sidecar.ask(body=message())
    assert got.decision == "hit"
    assert (await sidecar.ask(body=message(), headers={"cache-only": "true"})).decision == "hit"
    assert len(upstream.calls) == 1


async def test_cache_only_never_spends_upstream_money_on_what_cannot_be_kept(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    only = {"X-ZLRS-Cache-Only": "true"}
    for path, body in (
        (MESSAGES, message(temperature=1)),
        (CHAT, chat(temperature=1)),
        ("/v1/embeddings", {}),
    ):
        got = await sidecar.ask(path, body, headers=only)
        assert (got.status, got.decision) == (504, "skipped")
        error = json.loads(got.body)["error"]
        assert error["type"] == "cache_only_miss"
        assert ("code" in error) == (path != MESSAGES)
    await asyncio.sleep(0.05)
    assert not upstream.calls


async def test_receipts_can_be_off(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph(), receipts=False)
    for _ in range(2):
        got = await sidecar.ask(body=message(), headers={"x-zlrs-diagnostic": "full"})
        assert not [name for name, _ in got.headers if name.lower().startswith("x-zlrs")]
    assert len(upstream.calls) == 1


async def test_without_a_graph_everything_is_relayed(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    for _ in range(2):
        got = await sidecar.ask(body=message())
        assert got.header("x-zlrs-decision") == "skipped;reason=graph_off"
    assert len(upstream.calls) == 2


async def test_our_names_from_upstream_are_dropped_unless_it_is_a_zlrs(start_sidecar, upstream) -> None:
    lies = [("X-ZLRS-Decision", "hit;route=same"), ("X-ZLRS-Model-Version", "m"), ("X-Anthropic-Thing", "1")]
    upstream.default = lambda _: Reply(headers=lies)
    plain = await start_sidecar()
    got = await plain.ask(body=message(), headers={"X-ZLRS-Session": "secret"})
    assert got.all("x-zlrs-decision") == ["skipped;reason=graph_off"]
    assert got.header("x-zlrs-model-version") is None
    assert got.header("x-anthropic-thing") == "1"
    assert not upstream.calls[-1].header("x-zlrs-session")
    engine = await start_sidecar(upstream_is_zlrs=True)
    got = await engine.ask(body=message(), headers={"X-ZLRS-Session": "create"})
    assert got.all("x-zlrs-decision") == ["skipped;reason=graph_off"]
    assert got.header("x-zlrs-model-version") == "m"
    assert upstream.calls[-1].header("x-zlrs-session") == ["create"]


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("X-ZLRS-No-Graph", "maybe"),
        ("X-ZLRS-Cache-Only", "1"),
        ("X-ZLRS-Diagnostic", "on"),
        ("X-ZLRS-Cohort", "a b"),
    ],
)
async def test_unknown_values_of_our_headers_are_refused_by_name(
    start_sidecar, upstream, header, value
) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    got = await sidecar.ask(body=message(), headers={header: value})
    assert got.status == 400
    assert header in json.loads(got.body)["error"]["message"]
    assert not upstream.calls


async def test_contradicting_controls_are_refused(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    got = await sidecar.ask(body=message(), headers={"X-ZLRS-No-Graph": "true", "X-ZLRS-Cache-Only": "true"})
    assert got.status == 400
    assert not upstream.calls
