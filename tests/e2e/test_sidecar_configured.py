"""Rules, keys, limits, lengths, counts and the ledger, seen from the wire."""

from __future__ import annotations

import json
import signal

import pytest

from support.eventually import eventually
from support.memory_graph import MemoryGraph
from support.mock_upstream import Reply, compressed, messages_reply
from support.running import message
from zlrs_proxy import keys, ledger
from zlrs_proxy.settings import RuleSettings

# --- rules ------------------------------------------------------------------------------------------------


async def test_a_rule_sends_past_the_graph_and_its_answer_is_not_stored(start_sidecar, upstream) -> None:
    graph = MemoryGraph()
    sidecar = await start_sidecar(graph=graph, rules=(RuleSettings(name="prices", pattern="(?i)price"),))
    for _ in range(2):
        got = await sidecar.ask(body=message("what is the PRICE"))
        assert got.header("x-zlrs-decision") == "skipped;reason=no_graph_rule"
    await sidecar.settled()
    assert graph.texts == {}
    assert (await sidecar.ask(body=message("hello"))).decision == "miss"
    await sidecar.settled()
    assert (await sidecar.ask(body=message("hello"))).decision == "hit"
    text = (await sidecar.ask("/zlrs/metrics", method="GET")).body
    assert b'zlrs_proxy_rule_requests_total{rule="prices"} 2' in text


async def test_a_cohort_without_a_share_never_gets_a_hit(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph(), cache_ratio={"control": 0})
    await sidecar.ask(body=message())
    await sidecar.settled()
    control = await sidecar.ask(body=message(), headers={"x-zlrs-cohort": "control"})
    assert control.header("x-zlrs-decision") == "skipped;reason=cohort_ratio"
    assert (await sidecar.ask(body=message(), headers={"x-zlrs-cohort": "other"})).decision == "hit"
    assert not upstream.calls[-1].header("x-zlrs-cohort")


# --- keys and limits --------------------------------------------------------------------------------------


@pytest.fixture
def issued(tmp_path):
    """Makes keys: `issued(name, requests_per_minute=…)`; the file is in `issued.path`."""
    path = tmp_path / "keys"

    def make(name: str, **limits: int) -> str:
        key, line = keys.issue(name, limits)
        with path.open("a") as file:
            file.write(line + "\n")
        return key

    make.path = str(path)
    return make


async def test_only_issued_keys_open_and_each_has_its_limit(start_sidecar, upstream, issued) -> None:
    web, batch = issued("web", requests_per_minute=2), issued("batch")
    sidecar = await start_sidecar(keys_file=issued.path)
    for headers, statuses in (
        ({"x-api-key": web}, [200, 200, 429]),
        ({"x-api-key": "", "authorization": f"Bearer {batch}"}, [401]),
        ({"x-api-key": batch}, [200, 200, 200]),
        ({"x-api-key": "zk_000000000000_" + "x" * 43}, [401]),
    ):
        got = [await sidecar.ask(body=message(), headers=headers) for _ in statuses]
        assert [one.status for one in got] == statuses
        if statuses[-1] == 429:
            assert int(got[-1].header("retry-after")) in range(1, 31)
            assert json.loads(got[-1].body)["error"]["type"] == "rate_limit_error"
    assert len(upstream.calls) == 5
    # Probes are free of limits.
    assert (await sidecar.ask("/zlrs/livez", method="GET", headers={"x-api-key": web})).status == 200


async def test_tokens_of_an_answer_count_against_its_key(start_sidecar, upstream, issued) -> None:
    key = issued("web", tokens_per_minute=20)
    sidecar = await start_sidecar(keys_file=issued.path)
    for form in ({}, {"stream": True}):
        assert (await sidecar.ask(body=message(**form), headers={"x-api-key": key})).status == 200
        await sidecar.sidecar._accounts.settle()
    got = await sidecar.ask(body=message(), headers={"x-api-key": key})
    assert (got.status, len(upstream.calls)) == (429, 2)
    assert "tokens" in json.loads(got.body)["error"]["message"]


# --- max_tokens -------------------------------------------------------------------------------------------


async def test_a_length_over_the_window_is_refused_with_the_numbers(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(window_tokens=1000)
    got = await sidecar.ask(body=message(max_tokens=751))
    assert got.status == 400
    assert "751" in json.loads(got.body)["error"]["message"]
    assert upstream.calls == []
    assert (await sidecar.ask(body=message(max_tokens=500))).status == 200


async def test_a_length_is_lowered_and_said_when_that_is_asked_for(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(cut_max_tokens=12_000, window_tokens=20_000)
    sent = (
        b'{"model":"m",  "max_tokens" : 64000 ,"messages":[{"role":"user","content":"\\"max_tokens\\":1"}]}'
    )
    got = await sidecar.ask(data=sent)
    assert (got.status, got.header("x-zlrs-truncated")) == (200, "max_tokens=12000")
    assert upstream.calls[0].body == sent.replace(b"64000", b"12000")
    assert upstream.calls[0].header("content-length") == [str(len(sent))]
    got = await sidecar.ask(body=message(max_tokens=100))
    assert got.header("x-zlrs-truncated") is None


async def test_chat_names_another_field(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(cut_max_tokens=10)
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_completion_tokens": 99}
    got = await sidecar.ask("/v1/chat/completions", body=body)
    assert got.header("x-zlrs-truncated") == "max_tokens=10"
    assert upstream.calls[0].json() == {**body, "max_completion_tokens": 10}


async def test_nothing_is_rewritten_by_default(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    sent = json.dumps(message(max_tokens=10**9)).encode()
    assert (await sidecar.ask(data=sent)).status == 200
    assert upstream.calls[0].body == sent


# --- counts and the ledger --------------------------------------------------------------------------------


async def test_a_recount_is_in_header_log_and_metric(start_sidecar, upstream, caplog) -> None:
    sidecar = await start_sidecar(recount=True, access_log=True)
    with caplog.at_level("INFO", "zlrs_proxy.requests"):
        got = await sidecar.ask(body=message("how many tokens are these"))
        await sidecar.quiet()
        await sidecar.sidecar._accounts.settle()
    header = got.header("x-zlrs-tokens")
    assert header is not None
    local = int(header.partition(";")[0].removeprefix("local="))
    assert header.endswith(";method=estimate")
    (record,) = [record for record in caplog.records if record.name == "zlrs_proxy.requests"]
    fields = record.fields
    assert (fields["local_tokens"], fields["input_tokens"], fields["token_delta"]) == (local, 11, local - 11)
    assert fields["zero_layer_bypass"] is False
    text = (await sidecar.ask("/zlrs/metrics", method="GET")).body.decode()
    assert f'zlrs_proxy_recount_tokens_total{{side="local"}} {local}' in text
    assert 'zlrs_proxy_recount_tokens_total{side="upstream"} 11' in text


async def test_the_ledger_keeps_spent_and_saved_apart(start_sidecar, upstream, tmp_path) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph(), state_folder=str(tmp_path))
    packed = compressed(messages_reply(await _seen(sidecar, upstream)), "gzip")
    upstream.replies.append(packed)
    await sidecar.ask(body=message("zipped", model="z"))
    await sidecar.ask(body=message("one", model="a", max_tokens=50))
    await sidecar.quiet()
    await sidecar.settled()
    for form in ({}, {"stream": True}):
        got = await sidecar.ask(body=message("one", model="a", max_tokens=50, **form))
        assert got.decision == "hit"
    upstream.replies.append(Reply(status=529, body=b"{}"))
    await sidecar.ask(body=message("refused", model="a"))
    await sidecar.ask("/v1/models", method="GET")
    await sidecar.quiet()
    await sidecar.sidecar.stop(0)
    rows = {(row.what, row.model): row for row in ledger.read(tmp_path)}
    assert {what for what, _ in rows} == {"spent", "saved"}
    spent, saved = rows["spent", "a"], rows["saved", "a"]
    assert (spent.requests, spent.input, spent.output, spent.declared) == (1, 11, 7, 50)
    assert (saved.requests, saved.input, saved.output, saved.declared) == (2, 22, 14, 100)
    assert rows["spent", "m"].requests == 2  # the answers that the upstream gave its own name
    text = next((tmp_path / "ledger").iterdir()).read_text()
    assert "sk-test" not in text
    assert "zipped" not in text


async def _seen(sidecar, upstream):
    await sidecar.ask(body=message("first", model="m"))
    return upstream.calls[0]


async def test_without_anything_to_account_answers_are_not_read(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    await sidecar.ask(body=message())
    assert not sidecar.sidecar._accounts.is_on


# --- answers in further codings ---------------------------------------------------------------------------


@pytest.mark.parametrize("coding", ["br", "zstd"])
async def test_answers_in_further_codings_are_stored(start_sidecar, upstream, coding) -> None:
    import brotli
    import zstandard

    pack = brotli.compress if coding == "br" else zstandard.ZstdCompressor().compress
    graph = MemoryGraph()
    sidecar = await start_sidecar(graph=graph)
    plain = messages_reply(await _seen(sidecar, upstream), text="packed")
    packed = pack(plain.body)
    upstream.replies.append(Reply(body=packed, headers=[*plain.headers, ("Content-Encoding", coding)]))
    got = await sidecar.ask(body=message("in another coding"))
    assert (got.body, got.header("content-encoding")) == (packed, coding)
    await sidecar.settled()
    again = await sidecar.ask(body=message("in another coding"))
    assert again.decision == "hit"
    assert json.loads(again.body)["content"][0]["text"] == "packed"


# --- the store comes back ---------------------------------------------------------------------------------


async def test_a_store_that_failed_at_the_start_is_used_when_it_comes_back(start_sidecar, upstream) -> None:
    graph = MemoryGraph()
    states = ["raises", "bypass", "ready"]

    class Bypassed(MemoryGraph):
        def state(self) -> str:
            return "bypass: no space"

    def opened():
        state = states.pop(0) if len(states) > 1 else states[0]
        if state == "raises":
            raise OSError("not mounted yet")
        return Bypassed() if state == "bypass" else graph

    sidecar = await start_sidecar(opener=opened, store_retry_seconds=0.02)
    got = await sidecar.ask(body=message())
    assert (got.status, got.header("x-zlrs-decision")) == (200, "skipped;reason=store_unavailable")
    await eventually(lambda: sidecar.sidecar._keeper.graph is graph, "the store")
    await sidecar.ask(body=message())
    await sidecar.settled()
    assert (await sidecar.ask(body=message())).decision == "hit"


# --- reload -----------------------------------------------------------------------------------------------


async def test_sighup_takes_a_good_configuration_and_keeps_the_old_for_a_bad_one(
    launch_sidecar, upstream, tmp_path
) -> None:
    import aiohttp

    config = tmp_path / "zlrs.toml"
    config.write_text(f'[proxy]\nupstream = "{upstream.url}"\n')
    sidecar = await launch_sidecar("--config", str(config))

    async def asked() -> int:
        body = json.dumps(message(max_tokens=900))
        headers = {"content-type": "application/json"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{sidecar.url}/v1/messages", data=body, headers=headers) as response,
        ):
            return response.status

    async def metric(line: str) -> bool:
        async with aiohttp.ClientSession() as session, session.get(f"{sidecar.url}/zlrs/metrics") as response:
            return line in await response.text()

    async def hang_up(result: str, count: int) -> None:
        sidecar.process.send_signal(signal.SIGHUP)
        line = f'zlrs_proxy_reloads_total{{result="{result}"}} {count}'
        for _ in range(500):
            if await metric(line):
                return
        raise AssertionError(line)

    assert await asked() == 200
    config.write_text(f'[proxy]\nupstream = "{upstream.url}"\nwindow_tokens = 1000\ndecide_seconds = 5\n')
    await hang_up("good", 1)
    assert await asked() == 400
    for count, bad in enumerate(
        ("[proxy]\nupstraem = 'x'\n", "broken", '[proxy]\nupstream = "http://a b"\n', ""), 1
    ):
        config.write_text(bad)
        await hang_up("bad", count)
        assert await asked() == 400
    code, err = await sidecar.end()
    assert code == 0
    assert "needs_restart" in err
    assert "upstraem" in err


async def test_a_stream_under_way_outlives_a_reload(start_sidecar, upstream) -> None:
    import asyncio

    from support.mock_upstream import messages_events

    sidecar = await start_sidecar()
    events = messages_events("slow answer")
    upstream.replies.append(Reply(pieces=events, gap_s=0.05, headers=[("Content-Type", "text/event-stream")]))
    asking = asyncio.ensure_future(sidecar.ask(body=message(stream=True)))
    await upstream.called()
    sidecar.sidecar.reload(sidecar.sidecar.settings)
    assert (await asking).body == b"".join(events)
    await eventually(lambda: not sidecar.sidecar._retired, "the old rooms' end")
    assert (await sidecar.ask(body=message())).status == 200
