"""Several upstreams: who is asked, what is tried again, and what never is."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from support.memory_graph import MemoryGraph
from support.mock_upstream import ABORT, MockUpstream, Reply, messages_events
from support.running import message
from zlrs_proxy.settings import UpstreamSettings

DEAD = "http://127.0.0.1:9"


@contextlib.asynccontextmanager
async def another():
    mock = MockUpstream()
    await mock.start()
    try:
        yield mock
    finally:
        await mock.stop()


def refusing(status: int, *headers: tuple[str, str]) -> Reply:
    return Reply(
        status=status, body=b'{"type":"error"}', headers=[("Content-Type", "application/json"), *headers]
    )


async def test_the_next_upstream_is_asked_when_the_first_is_not_there(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(
        upstreams=(
            UpstreamSettings(name="dead", url=DEAD),
            UpstreamSettings(name="good", url=upstream.url, fallback=True),
        )
    )
    got = await sidecar.ask(body=message())
    assert got.status == 200
    assert len(upstream.calls) == 1
    assert sidecar.sidecar.metrics.retries.get("fallback") == 1


@pytest.mark.parametrize("status", [429, 503, 529])
async def test_an_upstream_that_refuses_is_replaced_before_the_first_byte(
    start_sidecar, upstream, status
) -> None:
    upstream.replies.append(refusing(status))
    async with another() as spare:
        sidecar = await start_sidecar(
            upstreams=(
                UpstreamSettings(name="one", url=upstream.url),
                UpstreamSettings(name="two", url=spare.url, fallback=True),
            )
        )
        sent = b'{"model":"m", "temperature":0,"max_tokens":5,"messages":[{"role":"user","content":"hi"}]}'
        got = await sidecar.ask(data=sent)
        assert got.status == 200
        assert [upstream.calls[0].body, spare.calls[0].body] == [sent, sent]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 500, 502, 504])
async def test_other_errors_are_relayed_and_nothing_is_asked_twice(start_sidecar, upstream, status) -> None:
    async with another() as spare:
        sidecar = await start_sidecar(
            retries=3,
            upstreams=(
                UpstreamSettings(name="one", url=upstream.url),
                UpstreamSettings(name="two", url=spare.url, fallback=True),
            ),
        )
        upstream.replies.append(refusing(status, ("x-odd", "1")))
        got = await sidecar.ask(body=message())
        assert (got.status, got.header("x-odd"), got.body) == (status, "1", b'{"type":"error"}')
        assert (len(upstream.calls), len(spare.calls)) == (1, 0)


async def test_what_the_upstream_says_about_retries_goes_first(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(retries=2)
    upstream.replies += [refusing(529, ("x-should-retry", "false"))]
    assert (await sidecar.ask(body=message())).status == 529
    assert len(upstream.calls) == 1
    upstream.replies += [refusing(500, ("x-should-retry", "true"), ("retry-after-ms", "1"))]
    assert (await sidecar.ask(body=message())).status == 200
    assert len(upstream.calls) == 3


async def test_a_short_pause_is_kept_and_a_long_one_is_the_clients_business(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(retries=2, retry_after_limit_seconds=1)
    upstream.replies += [refusing(429, ("retry-after", "0")), refusing(503, ("retry-after-ms", "5"))]
    assert (await sidecar.ask(body=message())).status == 200
    assert len(upstream.calls) == 3
    upstream.replies += [refusing(429, ("retry-after", "30"))]
    got = await sidecar.ask(body=message())
    assert (got.status, got.header("retry-after")) == (429, "30")
    assert len(upstream.calls) == 4


async def test_the_last_answer_is_relayed_when_tries_are_used_up(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(retries=1)
    upstream.replies += [refusing(503, ("retry-after", "0")), refusing(529, ("retry-after", "0"))]
    assert (await sidecar.ask(body=message())).status == 529
    assert len(upstream.calls) == 2


async def test_an_answer_goes_before_a_failure_that_came_later(start_sidecar, upstream) -> None:
    upstream.replies += [refusing(503)]
    sidecar = await start_sidecar(
        upstreams=(
            UpstreamSettings(name="one", url=upstream.url),
            UpstreamSettings(name="dead", url=DEAD, fallback=True),
        )
    )
    assert (await sidecar.ask(body=message())).status == 503


async def test_nothing_is_tried_again_after_the_request_was_taken(start_sidecar, upstream) -> None:
    async with another() as spare:
        sidecar = await start_sidecar(
            retries=2,
            upstreams=(
                UpstreamSettings(name="one", url=upstream.url),
                UpstreamSettings(name="two", url=spare.url, fallback=True),
            ),
        )
        upstream.replies += [Reply(raw=[b""], then=ABORT)]
        assert (await sidecar.ask(body=message())).status == 502
        events = messages_events("cut")
        upstream.replies += [
            Reply(pieces=events[:4], headers=[("Content-Type", "text/event-stream")], then=ABORT)
        ]
        with contextlib.suppress(Exception):
            await sidecar.ask(body=message(stream=True))
        assert (len(upstream.calls), len(spare.calls)) == (2, 0)


async def test_a_body_that_streams_through_is_sent_once(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(retries=3, graph_body_limit_bytes=1024)
    upstream.replies += [refusing(503, ("retry-after", "0"))]
    assert (await sidecar.ask(body=message("x" * 100_000))).status == 503
    assert len(upstream.calls) == 1


async def test_paths_with_state_behind_them_stay_with_the_first(start_sidecar, upstream) -> None:
    async with another() as spare:
        sidecar = await start_sidecar(
            upstreams=(
                UpstreamSettings(name="one", url=upstream.url, weight=1),
                UpstreamSettings(name="two", url=spare.url, weight=1000),
            )
        )
        for number in range(8):
            await sidecar.ask(f"/v1/messages/batches/{number}", method="GET")
        assert (len(upstream.calls), len(spare.calls)) == (8, 0)
        for number in range(20):
            await sidecar.ask(body=message(f"talk {number}"))
        assert len(spare.calls) > 10


async def test_a_conversation_stays_where_it_was_answered(start_sidecar, upstream) -> None:
    async with another() as spare:
        sidecar = await start_sidecar(
            upstreams=(
                UpstreamSettings(name="one", url=upstream.url),
                UpstreamSettings(name="two", url=spare.url, fallback=True),
            )
        )
        turns = [{"role": "user", "content": "first words"}]
        upstream.replies += [refusing(529)]
        await sidecar.ask(body={**message(), "messages": turns})
        thought = {"type": "thinking", "thinking": "…", "signature": "made by two"}
        turns += [{"role": "assistant", "content": [thought]}, {"role": "user", "content": "go on"}]
        await sidecar.ask(body={**message(), "messages": turns})
        assert (len(upstream.calls), len(spare.calls)) == (1, 2)
        # Only that one takes its thoughts back: when it refuses, nobody else is asked, also after a reload.
        sidecar.sidecar.reload(sidecar.sidecar.settings)
        spare.replies += [refusing(529)]
        assert (await sidecar.ask(body={**message(), "messages": turns})).status == 529
        assert (len(upstream.calls), len(spare.calls)) == (1, 3)


async def test_an_answer_of_a_fallback_is_not_stored_as_the_firsts(start_sidecar, upstream) -> None:
    graph = MemoryGraph()
    async with another() as spare:
        sidecar = await start_sidecar(
            graph=graph,
            upstreams=(
                UpstreamSettings(name="one", url=upstream.url),
                UpstreamSettings(name="two", url=spare.url, fallback=True),
            ),
        )
        upstream.replies += [refusing(503)]
        assert (await sidecar.ask(body=message())).status == 200
        await sidecar.quiet()
        await sidecar.settled()
        assert graph.settled == []
        await sidecar.ask(body=message("another"))
        await sidecar.settled()
        assert graph.settled == [("miss", 200, True)]


async def test_a_breaker_passes_over_and_lets_one_probe_through(start_sidecar, upstream) -> None:
    async with another() as spare:
        sidecar = await start_sidecar(
            breaker_failures=2,
            breaker_open_seconds=0.2,
            upstreams=(
                UpstreamSettings(name="one", url=upstream.url),
                UpstreamSettings(name="two", url=spare.url, fallback=True),
            ),
        )
        upstream.replies += [refusing(503), refusing(503)]
        for number in range(5):
            assert (await sidecar.ask(body=message(f"q{number}"))).status == 200
        assert (len(upstream.calls), len(spare.calls)) == (2, 5)
        text = await sidecar.ask("/zlrs/metrics", method="GET")
        assert b'zlrs_proxy_upstream_breaker_open{upstream="one"} 1' in text.body
        await asyncio.sleep(0.25)
        assert (await sidecar.ask(body=message("probe"))).status == 200
        assert (len(upstream.calls), len(spare.calls)) == (3, 5)


async def test_faults_of_callers_never_open_a_breaker(start_sidecar, upstream) -> None:
    async with another() as spare:
        sidecar = await start_sidecar(
            breaker_failures=2,
            upstreams=(
                UpstreamSettings(name="one", url=upstream.url),
                UpstreamSettings(name="two", url=spare.url, fallback=True),
            ),
        )
        for number, status in enumerate([400, 401, 404, 413, 422, 400, 403]):
            upstream.replies.append(refusing(status))
            assert (await sidecar.ask(body=message(f"q{number}"))).status == status
        assert (await sidecar.ask(body=message("good"))).status == 200
        assert len(spare.calls) == 0


async def test_with_one_upstream_the_breaker_never_stands_in_the_way(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(breaker_failures=1)
    for _ in range(4):
        upstream.replies.append(refusing(500))
        assert (await sidecar.ask(body=message())).status == 500
    assert (await sidecar.ask(body=message())).status == 200
    assert len(upstream.calls) == 5


async def test_each_upstream_has_its_own_key(start_sidecar, upstream, tmp_path, monkeypatch) -> None:
    (tmp_path / "key").write_text("sk-from-file\n")
    monkeypatch.setenv("SPARE_KEY", "sk-from-variable")
    async with another() as spare:
        sidecar = await start_sidecar(
            upstreams=(
                UpstreamSettings(name="one", url=upstream.url, key_file=str(tmp_path / "key")),
                UpstreamSettings(name="two", url=spare.url, fallback=True, key_env="SPARE_KEY"),
            )
        )
        upstream.replies += [refusing(503)]
        spare.replies += [Reply(body=b"{}", headers=[("x-echo", "sk-from-variable"), ("x-fine", "yes")])]
        got = await sidecar.ask(body=message())
        assert upstream.calls[0].header("x-api-key") == ["sk-from-file"]
        assert spare.calls[0].header("x-api-key") == ["sk-from-variable"]
        assert (got.header("x-echo"), got.header("x-fine")) == (None, "yes")
