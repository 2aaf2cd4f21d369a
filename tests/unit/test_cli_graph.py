"""`zlrs graph`: what it prints about a real directory, and what it does to it."""

from __future__ import annotations

import json
import re
import sqlite3

import pytest

from zlrs.cli.dispatch import main
from zlrs.graph import DecisionGraph, GraphFiles, GraphSettings

NOW_MS = 1_800_000_000_000
HEAD = [(b"content-type", b"application/json")]


def request(text):
    body = {
        "model": "m",
        "max_tokens": 9,
        "temperature": 0,
        "messages": [{"role": "user", "content": text}],
    }
    return ("POST", "/v1/messages", "", [(b"x-api-key", b"k")], json.dumps(body).encode(), "upstream")


def answer(text):
    return json.dumps(
        {
            "id": "1",
            "type": "message",
            "role": "assistant",
            "model": "m-1",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 2},
        }
    ).encode()


@pytest.fixture
def folder(tmp_path):
    """A graph that was asked ten questions, each in three wordings, and one again."""
    path = tmp_path / "graph"
    with DecisionGraph(path, GraphSettings(read_deadline_ms=1000)) as graph:
        at_ms = NOW_MS
        for number in range(10):
            for text in (
                f"When did order {number} ship?",
                f"when did order {number} ship",
                f"When did order {number}  ship?",
            ):
                at_ms += 10
                decision = graph.decide(*request(text), at_ms)
                assert (
                    graph.settle(decision, 200, HEAD, answer("It left on 2 March."), True, at_ms + 1)
                    == "stored"
                )
                graph.flush()
        assert graph.decide(*request("When did order 3 ship?"), at_ms + 10).kind == "hit"
    return path


def run(capsys, *arguments):
    code = main(["graph", *arguments])
    output = capsys.readouterr()
    return code, output.out, output.err


def test_stats_name_routes_classes_and_their_bound(folder, capsys) -> None:
    code, text, _ = run(capsys, "stats", "--graph", str(folder))
    assert code == 0
    assert re.search(r"^entries +canonical +10$", text, re.MULTILINE)
    assert re.search(r"^entries +same +30$", text, re.MULTILINE)
    assert re.search(r"class +canonical prose \w+ model=m .* stage=shadow bound=0.32314 n=10 s=0", text), text
    code, text, _ = run(capsys, "stats", "--graph", str(folder), "--json")
    assert json.loads(text)["pools"][0]["evidence"]["trials"] == 10


def test_inspect_shows_entries_by_any_name_and_decisions_by_id(folder, capsys) -> None:
    entry = GraphFiles(folder).entries()[4]
    code, text, _ = run(capsys, "inspect", entry.key[:12], "--graph", str(folder))
    assert (code, json.loads(text)["key"], json.loads(text)["holds"]) == (0, entry.key, True)
    audit = next(re.finditer(r"aud_[0-9a-f-]{36}", next((folder / "audit").iterdir()).read_text()))[0]
    code, text, _ = run(capsys, "inspect", audit, "--graph", str(folder))
    assert code == 0
    assert '"kind": "decision"' in text
    assert '"kind": "settled"' in text
    code, text, _ = run(capsys, "inspect", "ffffffffffff", "--graph", str(folder))
    assert code == 1


def test_every_decision_replays_to_itself(folder, capsys) -> None:
    log = next((folder / "audit").iterdir()).read_text()
    ids = [
        line["body"]["id"] for line in map(json.loads, log.splitlines()) if line["body"]["kind"] == "decision"
    ]
    assert len(ids) == 31
    outcomes = set()
    for name in ids:
        code, text, _ = run(capsys, "inspect", "--replay", name, "--graph", str(folder))
        recorded, repeated = (line.split(maxsplit=1)[1] for line in text.splitlines())
        assert (code, recorded) == (0, repeated)
        outcomes.add(recorded)
    assert outcomes == {
        "hit",
        'miss;reason=no_entry;canonical={"nothing":"no_entry"}',
        'miss;reason=no_entry;canonical="learn"',
        'miss;reason=no_entry;canonical="trial"',
    }


def test_verify_names_an_edited_byte(folder, capsys) -> None:
    code, text, _ = run(capsys, "verify", "--graph", str(folder))
    assert code == 0, text
    assert re.search(r"entries +40 good \([\d,]+ a second\)", text)
    assert re.search(r"chains +1 good, 0 without an end, \d+ records \([\d,]+ a second\)", text)
    victim = GraphFiles(folder).entries()[7]
    with sqlite3.connect(folder / "graph.sqlite3") as connection:
        connection.execute(
            "UPDATE entries SET body = CAST(replace(CAST(body AS TEXT), '2 March', '3 March') AS BLOB)"
            " WHERE seq = ?",
            [victim.row],
        )
    chain = next((folder / "audit").iterdir())
    log = chain.read_text()
    edited = log.replace('"outcome":"hit"', '"outcome":"bit"', 1)
    assert edited != log
    chain.write_text(edited)
    code, _, errors = run(capsys, "verify", "--graph", str(folder))
    assert code == 1
    assert victim.key in errors
    hit = next(line for line in log.splitlines() if '"outcome":"hit"' in line)
    assert json.loads(hit)["body"]["id"] in errors
    code, text, _ = run(capsys, "verify", "--graph", str(folder), "--json")
    assert (code, json.loads(text)["faults"]) == (1, 2)


@pytest.mark.parametrize(
    ("what", "left"),
    [(["--all"], 0), (["--expired"], 40), (["--older-than-hours", "0"], 40), (["--tenant", "*"], 0)],
)
def test_purge_removes_what_is_named_and_nothing_else(folder, capsys, what, left) -> None:
    entry = GraphFiles(folder).entries()[0]
    what = [entry.tenant[:16] if word == "*" else word for word in what]
    code, text, _ = run(capsys, "purge", *what, "--graph", str(folder))
    assert (code, text) == (0, f"{40 - left} entries removed\n")
    assert len(GraphFiles(folder).entries()) == left
    assert len(GraphFiles(folder).pools()) == 1, "evidence is not an answer"


def test_purge_of_one_entry_or_node(folder, capsys) -> None:
    entries = GraphFiles(folder).entries()
    code, text, _ = run(capsys, "purge", "--entry", entries[0].key, "--graph", str(folder))
    assert (code, text) == (0, "2 entries removed\n"), "the answer, and what the canonical route keeps of it"
    left = GraphFiles(folder).entries()
    assert [entry.route for entry in left].count("canonical") == 9
    assert [entry.route for entry in left].count("same") == 29, "other wordings have their own answers"
    canonical = next(entry for entry in left if entry.route == "canonical")
    code, text, _ = run(capsys, "purge", "--node", canonical.node[:16], "--graph", str(folder))
    assert code == 0
    assert all(entry.node != canonical.node for entry in GraphFiles(folder).entries())


@pytest.mark.parametrize("what", [[], ["--all", "--expired"], ["--node", "zz"]])
def test_purge_without_one_clear_choice_removes_nothing(folder, capsys, what) -> None:
    code, _, errors = run(capsys, "purge", *what, "--graph", str(folder))
    assert code == 1
    assert "error:" in errors
    assert len(GraphFiles(folder).entries()) == 40


def test_export_is_one_line_for_each_entry_and_class(folder, capsys) -> None:
    code, text, _ = run(capsys, "export", "--graph", str(folder))
    lines = [json.loads(line) for line in text.splitlines()]
    assert code == 0
    assert [line["kind"] for line in lines].count("entry") == 40
    assert [line["kind"] for line in lines].count("pool") == 1
    assert "March" not in text, "no answers"


def test_a_directory_without_a_graph_is_an_error(tmp_path, capsys) -> None:
    code, _, errors = run(capsys, "stats", "--graph", str(tmp_path / "nothing"))
    assert code == 1
    assert "graph.key" in errors
    assert not (tmp_path / "nothing").exists()
