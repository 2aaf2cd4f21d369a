"""Served answers are asked for again in the background, and other wordings are compared in shadow."""

from __future__ import annotations

import asyncio

import pytest

from support.eventually import eventually
from support.memory_graph import text_of
from support.mock_upstream import ABORT, Reply, messages_reply
from support.running import message
from zlrs.graph import DecisionGraph, GraphSettings

ASK = "How long does the delivery of an order take?"


@pytest.fixture
async def hurried(start_sidecar, tmp_path):
    """A sidecar whose graph checks every tenth hit, however young the answer."""
    settings = GraphSettings(read_deadline_ms=1000, recheck_least_age_s=0)
    opened = []

    def opener():
        opened.append(DecisionGraph(tmp_path / "graph", settings))
        return opened[-1]

    sidecar = await start_sidecar(opener=opener)
    sidecar.graph = opened[0]
    return sidecar


async def checked(sidecar, outcome) -> None:
    await eventually(lambda: sidecar.graph.stats()[f"rechecks_{outcome}"] == 1, outcome)


async def learned(sidecar, **how) -> None:
    """The answer is stored, and its next hit is to be checked."""
    await sidecar.ask(body=message(ASK, **how))
    await sidecar.settled()
    for _ in range(9):
        assert (await sidecar.ask(body=message(ASK, **how))).decision == "hit"


def says(upstream, text) -> None:
    upstream.default = lambda seen: messages_reply(seen, text)


async def test_the_immediate_repeat_calls_nobody(start_sidecar, upstream, tmp_path) -> None:
    sidecar = await start_sidecar(opener=lambda: DecisionGraph(tmp_path / "graph"))
    await sidecar.ask(body=message(ASK))
    for _ in range(12):
        assert (await sidecar.ask(body=message(ASK))).decision in {"hit", "miss"}
    await asyncio.sleep(0.1)
    assert len(upstream.calls) <= 3, "at most what a slow store has sent there, no checks"
    assert sidecar.sidecar.metrics.rechecks.get("made") == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_a_hit_is_answered_first_and_checked_with_the_same_request(hurried, upstream, stream) -> None:
    says(upstream, "It takes 3 days.")
    await learned(hurried, stream=stream)
    hit = await hurried.ask(body=message(ASK, stream=stream))
    assert (hit.decision, text_of(hit.body)) == ("hit", "It takes 3 days.")
    await checked(hurried, "agreed")
    first, last = upstream.calls
    assert first.json() == last.json()
    assert first.header("x-api-key") == last.header("x-api-key")
    assert hurried.sidecar.metrics.rechecks.get("made") == 1
    assert hurried.sidecar.metrics.settled("recheck_agree") == 1
    again = await hurried.ask(body=message(ASK, stream=stream))
    assert again.decision == "hit"
    await asyncio.sleep(0.05)
    assert len(upstream.calls) == 2, "the eleventh hit is not due"


async def test_a_stale_answer_is_served_once_and_gone(hurried, upstream) -> None:
    says(upstream, "It takes 3 days.")
    await learned(hurried)
    says(upstream, "It takes 5 days.")
    stale = await hurried.ask(body=message(ASK))
    assert (stale.decision, text_of(stale.body)) == ("hit", "It takes 3 days.")
    await checked(hurried, "contradicted")
    fresh = await hurried.ask(body=message(ASK))
    assert (fresh.decision, text_of(fresh.body)) == ("miss", "It takes 5 days.")


@pytest.mark.parametrize(
    "reply", [Reply(status=500, body=b"{}"), Reply(pieces=[b'{"id"'], then=ABORT), Reply(body=b"not json")]
)
async def test_a_check_that_fails_changes_nothing(hurried, upstream, reply) -> None:
    says(upstream, "It takes 3 days.")
    await learned(hurried)
    upstream.replies = [reply]
    assert (await hurried.ask(body=message(ASK))).decision == "hit"
    await checked(hurried, "inconclusive")
    assert text_of((await hurried.ask(body=message(ASK))).body) == "It takes 3 days."


async def test_a_slow_check_is_on_nobody_s_time_and_ends_with_the_sidecar(hurried, upstream) -> None:
    says(upstream, "It takes 3 days.")
    await learned(hurried)
    upstream.default = lambda seen: Reply(first_delay_s=30)
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert (await hurried.ask(body=message(ASK))).decision == "hit"
    await upstream.called(2)
    assert (await hurried.ask(body=message(ASK))).decision == "hit"
    assert loop.time() - began < 10
    await hurried.sidecar.stop(0)
    await eventually(lambda: not upstream.open_requests, "the check's connection is closed")


async def test_past_the_limit_checks_are_left_out(start_sidecar, upstream, tmp_path) -> None:
    settings = GraphSettings(read_deadline_ms=1000, recheck_least_age_s=0)
    sidecar = await start_sidecar(opener=lambda: DecisionGraph(tmp_path / "graph", settings), recheck_limit=0)
    says(upstream, "It takes 3 days.")
    await learned(sidecar)
    assert (await sidecar.ask(body=message(ASK))).decision == "hit"
    assert sidecar.sidecar.metrics.rechecks.get("left_out") == 1
    assert len(upstream.calls) == 1


async def test_other_wordings_are_compared_in_shadow_with_a_receipt(hurried, upstream) -> None:
    says(upstream, "It takes 3 days.")
    headers = []
    for text in (ASK, ASK.removesuffix("?"), f"Please, {ASK}", ASK.replace("How long", "how long")):
        got = await hurried.ask(body=message(text))
        assert text_of(got.body) == "It takes 3 days."
        headers.append(got.header("x-zlrs-decision"))
        await hurried.settled()
        hurried.graph.flush()
    assert all(header.startswith("miss;") for header in headers)
    assert "route=canonical" in headers[2], headers
    assert headers[3].endswith(";stage=shadow;bound=1.00000;n=1;s=0"), headers
    assert len(upstream.calls) == 4
    (pool,) = hurried.graph.pools()
    assert (pool.evidence.trials, pool.evidence.wrong, pool.class_.route) == (2, 0, "canonical")
