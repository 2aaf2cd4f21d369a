"""Rewriting that was asked for: off by default, listed in the audit record, never what it must not touch."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from support.memory_graph import MemoryGraph
from support.running import chat, message
from zlrs import audit
from zlrs.cli import main
from zlrs.graph import DecisionGraph
from zlrs.texts import SAFE_RULES
from zlrs_proxy.settings import CaptureSettings, RewriteSettings

CARD = "4111 1111 1111 1111"
ASK = f"My  card is {CARD}, is it blocked?"
REDACT = RewriteSettings(redact=("bank_card",))


async def test_nothing_is_changed_by_default(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    body = json.dumps(message(ASK), indent=3).encode()
    got = await sidecar.ask(data=body)
    assert upstream.calls[0].body == body
    assert got.header("x-zlrs-rewritten") is None


@pytest.mark.parametrize(("path", "make"), [("/v1/messages", message), ("/v1/chat/completions", chat)])
@pytest.mark.parametrize("coding", ["", "gzip"])
async def test_personal_numbers_do_not_reach_the_upstream(
    start_sidecar, upstream, path, make, coding
) -> None:
    sidecar = await start_sidecar(rewrite=REDACT)
    body = json.dumps(make(ASK)).encode()
    headers = {"content-md5": "x", "x-custom": "kept"}
    if coding:
        body, headers = gzip.compress(body), {**headers, "content-encoding": coding}
    got = await sidecar.ask(path, data=body, headers=headers)
    assert got.status == 200
    assert got.header("x-zlrs-rewritten") == "redact=1"
    seen = upstream.calls[0]
    assert seen.json()["messages"][0]["content"] == "My  card is **** **** **** ****, is it blocked?"
    assert seen.header("content-length") == [str(len(seen.body))]
    assert seen.header("content-encoding") == seen.header("content-md5") == []
    assert seen.header("x-custom") == ["kept"]


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1/responses", "/v1/messages/batches"])
async def test_the_other_paths_with_texts_are_redacted_too(start_sidecar, upstream, path) -> None:
    sidecar = await start_sidecar(rewrite=REDACT)
    body = {
        "/v1/messages/count_tokens": message(ASK),
        "/v1/responses": {"model": "m", "input": ASK},
        "/v1/messages/batches": {"requests": [{"custom_id": "1", "params": message(ASK)}]},
    }[path]
    await sidecar.ask(path, body)
    assert CARD.encode() not in upstream.calls[0].body
    assert b"My  card is ****" in upstream.calls[0].body


@pytest.mark.parametrize(
    ("data", "headers"),
    [
        (b'{"messages":[{"role":"user","content":"' + CARD.encode() + b'"}', {}),
        (b'{"a":1,"a":"' + CARD.encode() + b'"}', {}),
        (b"not gzip", {"content-encoding": "gzip"}),
        (b"\x28\xb5", {"content-encoding": "made-up"}),
    ],
)
async def test_what_cannot_be_read_is_not_sent_past_redaction(start_sidecar, upstream, data, headers) -> None:
    sidecar = await start_sidecar(rewrite=REDACT)
    got = await sidecar.ask(data=data, headers=headers)
    assert got.status == 400
    assert "cannot be read" in json.loads(got.body)["error"]["message"]
    assert not upstream.calls
    # Without redaction it is not for us to judge.
    open_ = await start_sidecar(rewrite=RewriteSettings(hygiene=SAFE_RULES))
    assert (await open_.ask("/v1/messages/count_tokens", data=data, headers=headers)).status == 200
    assert upstream.calls[-1].body == data


async def test_an_ask_of_a_listed_class_becomes_one_the_graph_can_answer(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(
        graph=MemoryGraph(), rewrite=RewriteSettings(auto_temper=("(?i)^where is",))
    )
    warm = message(temperature=0.9)
    first = await sidecar.ask(body=warm)
    await sidecar.settled()
    second = await sidecar.ask(body=message(temperature=1))
    assert (first.decision, second.decision) == ("miss", "hit")
    assert second.header("x-zlrs-rewritten") == "temper=1"
    other = await sidecar.ask(body=message("Write a poem", temperature=0.9))
    assert other.decision == "skipped"
    assert upstream.calls[-1].json()["temperature"] == 0.9
    assert upstream.calls[0].json() == {**warm, "temperature": 0}


async def test_every_change_is_in_the_audit_record_and_no_text_is(
    start_sidecar, upstream, tmp_path, capsys
) -> None:
    folder = tmp_path / "graph"
    sidecar = await start_sidecar(
        graph=DecisionGraph(folder),
        state_folder=str(tmp_path / "state"),
        rewrite=RewriteSettings(hygiene=SAFE_RULES, redact=("bank_card",)),
        capture=CaptureSettings(enabled=True),
    )
    got = await sidecar.ask(body=message(ASK))
    await sidecar.settled()
    again = await sidecar.ask(body=message(ASK))
    assert (got.decision, again.decision) == ("miss", "hit")
    await sidecar.sidecar.stop(0)
    bodies = [record.body for path in audit.chains(folder) for record in audit.records(path)]
    changes = [body for body in bodies if body["kind"] == "rewritten"]
    assert [body["decision"] for body in changes] == [
        got.header("x-zlrs-audit"),
        again.header("x-zlrs-audit"),
    ]
    assert changes[0]["changes"] == [
        {"path": "messages[0].content", "what": "hygiene", "counts": {"repeated_spaces": 1}},
        {"path": "messages[0].content", "what": "redact", "counts": {"bank_card": 1}},
    ]
    assert "card is" not in json.dumps(bodies)
    check_explained(folder, tmp_path, got, again, capsys)


def check_explained(folder: Path, tmp_path: Path, got, again, capsys) -> None:
    config = tmp_path / "zlrs.toml"
    config.write_text(f'[proxy]\nstate_path = "{tmp_path / "state"}"\n')
    common = ["--graph", str(folder), "--config", str(config)]
    assert main(["audit", "explain", got.header("x-zlrs-audit"), *common]) == 0
    told = capsys.readouterr().out
    assert "miss: went upstream" in told
    assert "nothing is known for this request (no_entry)" in told
    assert "messages[0].content: redact (bank_card 1)" in told
    assert "status 200, stored" in told
    assert "the recorded inputs give the same decision again" in told
    assert main(["audit", "explain", again.header("x-zlrs-audit"), *common, "--bodies"]) == 0
    told = capsys.readouterr().out
    assert "hit: answered from the graph with the upstream's own answer to this very request" in told
    assert "**** **** **** ****" in told
    assert CARD not in told
    assert main(["audit", "explain", "aud_none", *common]) != 0


async def test_changes_are_logged_where_there_is_no_audit_log(start_sidecar, upstream, caplog) -> None:
    caplog.set_level("INFO", logger="zlrs_proxy")
    sidecar = await start_sidecar(rewrite=REDACT)
    await sidecar.ask(body=message(ASK))
    line = next(record for record in caplog.records if record.message == "request changed")
    assert line.fields["changes"] == [
        {"path": "messages[0].content", "what": "redact", "counts": {"bank_card": 1}}
    ]
    assert CARD not in caplog.text


async def test_a_body_over_the_limit_is_refused_and_not_sent_as_it_is(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar(rewrite=REDACT, body_limit_bytes=2048)
    got = await sidecar.ask("/v1/messages/batches", data=b'{"x":"' + b"y" * 100_000 + b'"}')
    assert got.status == 400
    assert not upstream.calls
