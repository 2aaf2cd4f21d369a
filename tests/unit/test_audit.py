"""The audit log read back: a good chain is told from a changed one, and no text of a request is in it."""

from __future__ import annotations

import csv
import io
import json

import pytest

from zlrs import audit
from zlrs.cli import main
from zlrs.errors import ConflictError, NotFoundError
from zlrs.graph import DecisionGraph, GraphSettings

SECRET_TEXT = "what is the canary word"


@pytest.fixture
def folder(tmp_path):
    graph = DecisionGraph(tmp_path / "graph", GraphSettings(read_deadline_ms=1000))
    ask = {
        "model": "m",
        "max_tokens": 9,
        "temperature": 0,
        "messages": [{"role": "user", "content": SECRET_TEXT}],
    }
    answer = {
        "id": "1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None,
        "content": [{"type": "text", "text": "canary answer"}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }  # fmt: skip
    request = (
        "POST",
        "/v1/messages",
        "",
        [(b"x-api-key", b"canary-key")],
        json.dumps(ask).encode(),
        "upstream",
    )
    decision = graph.decide(*request, 1_700_000_000_000)
    head = [(b"content-type", b"application/json")]
    assert graph.settle(decision, 200, head, json.dumps(answer).encode(), True, 1_700_000_000_500) == "stored"
    assert graph.decide(*request, 1_700_000_001_000).kind == "hit"
    graph.close()
    return tmp_path / "graph"


def test_a_chain_is_good_and_tells_what_happened(folder, capsys) -> None:
    (chain,) = audit.chains(folder)
    report = audit.verify(chain)
    assert report == audit.Report(3, 3, 0, ended=True, cut_line=False)
    kinds = [(record.kind, record.body["outcome"]) for record in audit.records(chain)]
    assert kinds == [("decision", "miss"), ("settled", "stored"), ("decision", "hit")]
    assert "canary" not in chain.read_text()
    assert main(["audit", "verify", "--graph", str(folder)]) == 0
    assert "good, 3 records, 3 signed, ended" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new"), [('"hit"', '"mis"'), ('"stored"', '"sto_ed"'), ('"seq":2', '"seq":3')]
)
def test_a_changed_chain_is_named(folder, capsys, old, new) -> None:
    (chain,) = audit.chains(folder)
    chain.write_text(chain.read_text().replace(old, new, 1))
    with pytest.raises(ConflictError, match="line"):
        audit.verify(chain)
    assert main(["audit", "verify", "--graph", str(folder)]) == 1
    assert chain.name in capsys.readouterr().err


def test_a_chain_of_another_key_is_refused(folder, capsys) -> None:
    (chain,) = audit.chains(folder)
    with pytest.raises((ConflictError, ValueError)):
        audit.verify(chain, "00" * 32)
    assert main(["audit", "verify", "--graph", str(folder), "--key", "short"]) == 1
    assert "64 hexadecimal digits" in capsys.readouterr().err


def test_a_line_that_was_cut_off_is_left_out(folder) -> None:
    (chain,) = audit.chains(folder)
    chain.write_bytes(chain.read_bytes()[:-20])
    assert audit.verify(chain).cut_line
    assert len(list(audit.records(chain))) == 3


def test_show_and_export(folder, capsys) -> None:
    (chain,) = audit.chains(folder)
    name = next(record.body["id"] for record in audit.records(chain))
    assert main(["audit", "show", "--graph", str(folder)]) == 0
    assert "hit" in capsys.readouterr().out
    assert main(["audit", "show", str(name), "--graph", str(folder)]) == 0
    assert '"settled"' in capsys.readouterr().out
    assert main(["audit", "show", "aud_absent", "--graph", str(folder)]) == 1
    capsys.readouterr()
    assert main(["audit", "export", "--csv", "--graph", str(folder)]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["outcome"] for row in rows] == ["miss", "stored", "hit"]
    assert main(["audit", "export", "--graph", str(folder)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_no_log_is_said(tmp_path, capsys) -> None:
    assert main(["audit", "verify", "--graph", str(tmp_path)]) == 1
    assert "no audit log" in capsys.readouterr().err
    with pytest.raises(NotFoundError):
        audit.verify(tmp_path / "absent.jsonl")
