"""Shapes of traffic logs, and what the graph makes of a log before it is switched on."""

from __future__ import annotations

import json
import time

import pytest

from zlrs import traffic_log
from zlrs.cli.dispatch import main
from zlrs.cli.traffic_audit import audit_log
from zlrs.errors import InvalidRequestError
from zlrs.graph import DecisionGraph, GraphFiles, GraphSettings

ASKED = {
    "model": "m",
    "max_tokens": 9,
    "temperature": 0,
    "messages": [{"role": "user", "content": "When did order 7 ship?"}],
}


def said(text):
    return {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }


def asking(text, **more):
    return {**ASKED, "messages": [{"role": "user", "content": text}], **more}


def har(request, response):
    return {
        "startedDateTime": "2026-03-01T10:00:00Z",
        "request": {"url": "https://host/v1/messages", "postData": {"text": json.dumps(request)}},
        "response": {"status": 200, "content": {"text": json.dumps(response)}},
    }


@pytest.mark.parametrize(
    ("record", "path", "status"),
    [
        (ASKED, "chat", 200),
        ({**ASKED, "system": "Be brief."}, "messages", 200),
        ({"request": ASKED, "response": said("x")}, "messages", 200),
        ({"request": json.dumps(ASKED), "response": json.dumps(said("x")), "status": 201}, "messages", 201),
        (
            {"url": "/v1/messages", "body": ASKED, "response": {"status_code": 529, "body": {}}},
            "messages",
            529,
        ),
        ({"url": "https://host/v1/chat/completions", "body": json.dumps(ASKED)}, "chat", 200),
        ({"request": {"body": ASKED}, "response": {"body": said("x")}}, "messages", 200),
        (har(ASKED, said("x")), "messages", 200),
    ],
)
def test_common_shapes(record, path, status) -> None:
    found = traffic_log.exchange(record)
    assert found is not None
    assert (found.path, found.status) == (traffic_log.PATHS[path], status)
    assert json.loads(found.body)["messages"] == ASKED["messages"]


@pytest.mark.parametrize("record", [{}, {"a": 1}, {"request": "no"}, {"request": {"model": "m"}}])
def test_what_is_no_request(record) -> None:
    assert traffic_log.exchange(record) is None


@pytest.mark.parametrize(
    ("given", "at_ms"),
    [
        ({"timestamp": 1_700_000_000}, 1_700_000_000_000),
        ({"ts": 1_700_000_000_123}, 1_700_000_000_123),
        ({"time": "2023-11-14T22:13:20Z"}, 1_700_000_000_000),
        ({"time": "yesterday"}, None),
        ({"time": 48.25}, None),
        ({"time": 48.25, "startedDateTime": "2023-11-14T22:13:20Z"}, 1_700_000_000_000),
        ({}, None),
    ],
)
def test_times(given, at_ms) -> None:
    found = traffic_log.exchange({"request": ASKED, **given})
    assert found is not None
    assert found.at_ms == at_ms


def test_lines_arrays_and_har_files(tmp_path) -> None:
    records = [{"request": ASKED, "response": said("x")}] * 3
    lines, array, archive = (tmp_path / name for name in ("lines", "array", "har"))
    lines.write_text("\n".join(map(json.dumps, records)))
    array.write_text(json.dumps(records, indent=1))
    archive.write_text(json.dumps({"log": {"entries": [har(ASKED, said("x"))] * 3}}, indent=1))
    for path in (lines, array, archive):
        assert len(list(traffic_log.read(path))) == 3
    lines.write_text(json.dumps(records[0]) + "\n{half")
    with pytest.raises(InvalidRequestError, match="line 2"):
        list(traffic_log.read(lines))
    array.write_text("no json at all")
    with pytest.raises(InvalidRequestError, match="neither JSON"):
        list(traffic_log.read(array))


@pytest.fixture
def log(tmp_path):
    """A question in four wordings, repeats, one with a temperature, one cut answer, one line that is none."""
    wordings = ["When did order 7 ship?", "when did order 7 ship", "Please, when did order 7 ship?"]
    records = [{"request": asking(text), "response": said("It left on 2 March.")} for text in wordings * 2]
    records += [
        {"request": asking("Tell me a story.", temperature=1), "response": said("Once.")},
        {"request": asking("What is 2+2?"), "response": {**said("Fo"), "stop_reason": "max_tokens"}},
        {"nothing": 1},
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    return path


def test_a_log_is_counted_by_route(log, capsys) -> None:
    assert main(["audit", str(log), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["records"], report["same"], report["canonical"], report["misses"]) == (9, 3, 2, 2)
    assert report["skipped"] == {"temperature_high": 1}
    assert report["not_kept"] == {"stop_reason": 1}
    assert report["unreadable"] == 1
    (pool,) = report["pools"]
    assert (pool["evidence"]["trials"], pool["evidence"]["wrong"]) == (1, 0)
    assert main(["audit", str(log)]) == 0
    shown = capsys.readouterr().out
    assert "same" in shown
    assert "temperature_high" in shown


def test_a_log_without_answers_is_counted_too(tmp_path) -> None:
    path = tmp_path / "asked.jsonl"
    path.write_text("\n".join(json.dumps({**ASKED, "system": "Be brief."}) for _ in range(3)))
    report = audit_log(path, None, [], "default")
    assert (report.same, report.misses, report.without_answer) == (2, 1, 1)


def test_learning_keeps_answers_for_the_tenant_of_the_header(log, tmp_path, monkeypatch, capsys) -> None:
    folder = tmp_path / "graph"
    monkeypatch.setenv("A_KEY", "sk-one")
    command = ["audit", str(log), "--learn", "--graph", str(folder), "--header", "x-api-key=A_KEY"]
    assert main([*command, "--upstream", "anthropic"]) == 0
    assert "kept in" in capsys.readouterr().out
    assert len(GraphFiles(folder).pools()) == 1
    now_ms = GraphFiles(folder).entries()[0].created_ms + 10_000
    with DecisionGraph(folder, GraphSettings(credential_check=False, read_deadline_ms=1000)) as graph:
        for key, kind in ((b"sk-one", "hit"), (b"sk-two", "miss")):
            headers = [(b"content-type", b"application/json"), (b"x-api-key", key)]
            body = json.dumps(ASKED).encode()
            decision = graph.decide("POST", "/v1/messages", "", headers, body, "anthropic", now_ms)
            assert decision.kind == kind


def told(tmp_path, *records):
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    return path


def test_learning_keeps_no_answer_that_is_not_in_the_log(tmp_path, capsys) -> None:
    folder = tmp_path / "graph"
    as_messages = {"system": "Be brief."}
    path = told(
        tmp_path,
        asking("When did order 7 ship?", **as_messages),
        asking("when did order 7 ship", **as_messages),
        asking("Please, when did order 7 ship?", **as_messages),
        {"request": asking("When did order 8 ship?", **as_messages), "response": said("On 2 March.")},
    )
    report = audit_log(path, folder, [], "default")
    assert (report.without_answer, report.misses, report.same) == (3, 4, 0)
    assert {entry.route for entry in GraphFiles(folder).entries()} == {"same", "canonical"}
    assert len(GraphFiles(folder).entries()) == 2
    assert report.pools == [], "nothing was compared"
    now_ms = time.time_ns() // 1_000_000
    with DecisionGraph(folder, GraphSettings(credential_check=False, read_deadline_ms=1000)) as graph:
        for text, kind in (("When did order 7 ship?", "miss"), ("When did order 8 ship?", "hit")):
            body = json.dumps(asking(text, **as_messages)).encode()
            headers = [(b"content-type", b"application/json")]
            decision = graph.decide("POST", "/v1/messages", "", headers, body, "default", now_ms)
            assert decision.kind == kind
    assert main(["audit", str(path), "--learn", "--graph", str(folder)]) == 0
    assert "have no answer in the log" in capsys.readouterr().out


def test_stand_ins_are_no_evidence(tmp_path) -> None:
    wordings = ["When did order 7 ship?", "when did order 7 ship", "Please, when did order 7 ship?"]
    report = audit_log(told(tmp_path, *map(asking, wordings)), None, [], "default")
    assert (report.canonical, report.pools) == (2, [])


def test_learning_keeps_the_time_of_an_answer_and_leaves_out_an_old_one(tmp_path, capsys) -> None:
    folder = tmp_path / "graph"
    now_s = time.time()
    young, old = now_s - 3600, now_s - 25 * 3600
    path = told(
        tmp_path,
        {"request": asking("When did order 7 ship?"), "response": said("On 2 March."), "ts": young},
        {"request": asking("When did order 8 ship?"), "response": said("On 1 March."), "ts": old},
    )
    assert main(["audit", str(path), "--learn", "--graph", str(folder), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["records"], report["misses"], report["too_old"]) == (2, 1, 1)
    entries = GraphFiles(folder).entries()
    assert {entry.created_ms for entry in entries} == {int(young * 1000)}
    assert {entry.expires_ms for entry in entries} == {int(young * 1000) + 86_400_000}
    headers = [(b"content-type", b"application/json")]
    with DecisionGraph(folder, GraphSettings(credential_check=False, read_deadline_ms=1000)) as graph:
        for text, kind in (("When did order 7 ship?", "hit"), ("When did order 8 ship?", "miss")):
            body = json.dumps(asking(text)).encode()
            at = ("POST", "/v1/messages", "", headers, body, "default")
            assert graph.decide(*at, int(now_s * 1000)).kind == kind
            assert graph.decide(*at, int(young * 1000) + 86_400_000).kind == "miss"


def test_without_a_folder_a_log_is_counted_on_its_own_clock(tmp_path) -> None:
    one = {"request": asking("When did order 7 ship?"), "response": said("On 2 March.")}
    start_s = 1_700_000_000
    path = told(tmp_path, *({**one, "ts": start_s + hours * 3600} for hours in (0, 23, 25)))
    report = audit_log(path, None, [], "default")
    assert (report.same, report.misses, report.too_old) == (1, 2, 0)


def test_what_cannot_be_audited_is_said(tmp_path, capsys) -> None:
    assert main(["audit", "no-such-thing"]) == 1
    assert "nor a file" in capsys.readouterr().err
    path = tmp_path / "log"
    path.write_text("{}")
    assert main(["audit", str(path), "--header", "x-api-key"]) == 1
    assert "NAME=VARIABLE" in capsys.readouterr().err
    assert main(["audit", str(path), "--header", "x-api-key=NOT_SET_ANYWHERE"]) == 1
    assert "is not set" in capsys.readouterr().err
