"""The decision graph from Python, over the native module."""

from __future__ import annotations

import doctest
import json
import os
import stat
import threading

import msgspec
import pytest

import zlrs.graph
from zlrs import _core
from zlrs.config import GraphSettings as GraphSection
from zlrs.errors import APIError, ConfigurationError
from zlrs.graph import DecisionGraph, GraphSettings

NOW_MS = 1_800_000_000_000
JSON = ((b"Content-Type", b"application/json"),)
KEY = ((b"x-api-key", b"sk-one"),)


def request(text="Where is order 1042?", headers=KEY, upstream="http://up", **fields):
    body = {
        "model": "m",
        "max_tokens": 64,
        "temperature": 0,
        "messages": [{"role": "user", "content": text}],
    }
    body |= fields
    body = {name: value for name, value in body.items() if value is not None}
    return ("POST", "/v1/messages", "", headers, json.dumps(body).encode(), upstream)


def answer(text="On its way."):
    message = {
        "id": "msg_up",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 4},
    }
    return json.dumps(message).encode()


def teach(graph, asked, text="On its way.", now_ms=NOW_MS):
    decision = graph.decide(*asked, now_ms)
    return graph.settle(decision, 200, JSON, answer(text), True, now_ms)


@pytest.fixture(params=["memory", "disk"])
def graph(request, tmp_path):
    settings = GraphSettings(read_deadline_ms=1000)
    with DecisionGraph(None if request.param == "memory" else tmp_path / "graph", settings) as opened:
        yield opened


def test_the_documented_example_runs() -> None:
    result = doctest.testmod(zlrs.graph)
    assert result.attempted > 5
    assert result.failed == 0


def test_miss_then_hit_with_every_field(graph) -> None:
    miss = graph.decide(*request(), NOW_MS)
    assert (miss.kind, miss.route, miss.reason, miss.protocol) == ("miss", "same", "no_entry", "messages")
    assert (miss.model, miss.stream, miss.age_ms, miss.replay()) == ("m", False, None, [])
    assert len(miss.node) == 64
    assert miss.header == f"miss;route=same;node={miss.node[:16]}"
    assert graph.settle(miss, 200, JSON, answer(), True, NOW_MS) == "stored"
    hit = graph.decide(*request(), NOW_MS + 50)
    assert (hit.kind, hit.reason, hit.age_ms, hit.node) == ("hit", "", 50, miss.node)
    assert hit.header.endswith(";stage=full;bound=replay")
    [body] = hit.replay()
    assert json.loads(body)["content"] == [{"type": "text", "text": "On its way."}]
    assert hit.content_type == "application/json"
    stream = graph.decide(*request(stream=True), NOW_MS + 60)
    assert stream.kind == "hit"
    assert stream.stream
    assert stream.content_type.startswith("text/event-stream")
    assert stream.replay()[0].startswith(b"event: message_start\n")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"temperature": None}, "temperature_default"),
        ({"temperature": 0.2}, "temperature_high"),
        ({"tools": [{"name": "t", "input_schema": {}}]}, "tools"),
        ({"text": "What time is it now?"}, "volatile"),
        ({"surprise": 1}, "unknown_field"),
        ({"headers": (*KEY, (b"Cookie", b"a=b"))}, "cookie"),
        ({"headers": (*KEY, (b"X-ZLRS-No-Graph", b"true"))}, "no_graph_header"),
    ],
)
def test_what_is_not_eligible_says_why(graph, fields, reason) -> None:
    decision = graph.decide(*request(**fields), NOW_MS)
    assert (decision.kind, decision.reason) == ("skipped", reason)
    assert decision.header.startswith(f"skipped;reason={reason}")
    assert graph.settle(decision, 200, JSON, answer(), True, NOW_MS).startswith(reason)


def test_other_endpoints_are_skipped(graph) -> None:
    decision = graph.decide("GET", "/v1/models", "", KEY, b"", "http://up", NOW_MS)
    assert (decision.kind, decision.protocol, decision.reason) == ("skipped", "other", "not_understood")


def test_a_refused_credential_locks_and_the_check_can_be_off(graph, tmp_path) -> None:
    assert teach(graph, request()) == "stored"
    refused = graph.decide(*request("Another"), NOW_MS + 10)
    graph.settle(refused, 401, JSON, b"{}", True, NOW_MS + 11)
    assert graph.decide(*request(), NOW_MS + 12).reason == "credential_locked"
    settings = GraphSettings(read_deadline_ms=1000, credential_check=False)
    with DecisionGraph(tmp_path / "own", settings) as own:
        teach(own, request())
        assert own.decide(*request(), NOW_MS + 3_600_000).kind == "hit"


def test_withdraw_and_purge(graph) -> None:
    teach(graph, request())
    graph.withdraw(graph.decide(*request(), NOW_MS + 1), NOW_MS + 1, "test")
    assert graph.decide(*request(), NOW_MS + 2).kind == "miss"
    teach(graph, request(), now_ms=NOW_MS + 10)
    # The answer, and what the canonical route keeps of it.
    assert graph.purge() == 2
    stats = graph.stats()
    assert (stats["entries"], stats["tombstones"], stats["stored"]) == (0, 2, 2)


def test_a_graph_keeps_its_answers_and_writes_an_audit_log(tmp_path) -> None:
    path = tmp_path / "graph"
    with DecisionGraph(path, GraphSettings(read_deadline_ms=1000, credential_check=False)) as first:
        assert first.state() == "ready"
        assert first.decide(*request(), NOW_MS).audit.startswith("aud_")
        assert teach(first, request()) == "stored"
        first.flush()
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((path / "graph.key").stat().st_mode) == 0o600
    [log] = (path / "audit").glob("*.jsonl")
    kinds = [json.loads(line)["body"]["kind"] for line in log.read_text().splitlines()]
    assert kinds[0] == "start"
    assert kinds[-1] == "end"
    assert "decision" in kinds
    assert "sk-one" not in log.read_text()
    with DecisionGraph(path, GraphSettings(read_deadline_ms=1000, credential_check=False)) as second:
        assert second.decide(*request(), NOW_MS + 5).kind == "hit"


def test_without_a_wait_memory_decides_alike_and_a_row_on_disk_has_to_be_read_first(tmp_path) -> None:
    settings = GraphSettings(read_deadline_ms=1000, credential_check=False)
    with DecisionGraph(tmp_path / "graph", settings) as first:
        fresh = first.decide_now(*request(), NOW_MS)
        assert fresh is not None
        assert (fresh.kind, fresh.reason) == ("miss", "no_entry")
        assert first.settle(fresh, 200, JSON, answer(), True, NOW_MS) == "stored"
    with DecisionGraph(tmp_path / "graph", settings) as second:
        assert second.decide_now(*request(), NOW_MS + 1) is None
        stats = second.stats()
        assert (stats["hits"], stats["misses"], stats["audit_records"]) == (0, 0, 0)
        asked = second.decide(*request(), NOW_MS + 1)
        at_once = second.decide_now(*request(), NOW_MS + 1)
        assert at_once is not None
        assert (asked.kind, asked.header) == (at_once.kind, at_once.header) == ("hit", at_once.header)
        # What another process takes back is seen before the next hit.
        with DecisionGraph(tmp_path / "graph", settings) as other:
            other.withdraw(other.decide(*request(), NOW_MS + 2), NOW_MS + 2, "test")
        gone = second.decide_now(*request(), NOW_MS + 3)
        assert gone is None or gone.kind == "miss"
        assert second.decide(*request(), NOW_MS + 3).kind == "miss"


def test_a_store_that_cannot_be_used_is_bypassed(tmp_path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with DecisionGraph(tmp_path / "file" / "graph") as graph:
        assert graph.state().startswith("bypass: the graph directory")
        assert len(graph.notices()) == 1
        decision = graph.decide(*request(), NOW_MS)
        assert decision.header == "skipped;reason=store_unavailable"
        assert graph.settle(decision, 200, JSON, answer(), True, NOW_MS) == "store_unavailable"
        with pytest.raises(APIError, match="out of service"):
            graph.flush()


def test_after_close_and_after_a_fork_everything_is_skipped(graph) -> None:
    teach(graph, request())
    child = os.fork()
    if child == 0:
        decision = graph.decide(*request(), NOW_MS + 1)
        graph.close()
        os._exit(0 if decision.kind == "skipped" and "fork" in graph.state() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert graph.decide(*request(), NOW_MS + 1).kind == "hit"
    graph.close()
    graph.close()
    assert graph.decide(*request(), NOW_MS + 2).header == "skipped;reason=store_unavailable"
    assert graph.state() == "bypass: it was closed"


def test_settings_match_the_native_ones() -> None:
    # Each default, given alone, must be known to the core and be within its ranges.
    for name, value in msgspec.to_builtins(GraphSettings()).items():
        _core.Graph(None, json.dumps({name: value}).encode()).close()
    with pytest.raises(_core.CoreError) as error:
        _core.Graph(None, b'{"ttl": 1}')
    assert error.value.type == "configuration_error"
    # What the core knows and we do not would be named in its list of expected fields.
    known = set(msgspec.to_builtins(GraphSettings()))
    listed = {part.strip("`") for part in error.value.message.replace(",", " ").split() if "`" in part}
    assert listed - {"ttl"} == known


@pytest.mark.parametrize(
    "settings",
    [
        GraphSettings(ttl_s=0),
        GraphSettings(temperature_limit=0.5),
        GraphSettings(read_deadline_ms=5000),
        GraphSettings(max_bytes=1),
    ],
)
def test_settings_out_of_range_are_errors(settings) -> None:
    with pytest.raises(ConfigurationError, match="allowed"):
        DecisionGraph(None, settings)


def test_open_takes_the_configuration(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ZLRS_HOME", str(tmp_path / "home"))
    with DecisionGraph.open(GraphSection(ttl_seconds=60, absent_temperature="eligible")) as graph:
        assert (graph.settings.ttl_s, graph.settings.absent_temperature) == (60, "eligible")
        assert (tmp_path / "home" / "graph" / "graph.sqlite3").exists()
    with DecisionGraph.open(GraphSection(path="memory")) as graph:
        assert graph.decide(*request(), NOW_MS).audit == ""
    monkeypatch.delenv("ZLRS_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert zlrs.graph.default_directory() == tmp_path / "data" / "zlrs" / "graph"


def test_threads_share_a_graph(graph) -> None:
    failures = []

    def work(number) -> None:
        for turn in range(20):
            asked = request(f"Question {number} of {turn}")
            if teach(graph, asked, f"{number} {turn}") != "stored":
                failures.append((number, turn, "not stored"))
            hit = graph.decide(*asked, NOW_MS + 1)
            if hit.kind != "hit" or f"{number} {turn}".encode() not in b"".join(hit.replay()):
                failures.append((number, turn, hit.header))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert graph.stats()["entries"] == 240


def test_a_decision_of_something_else_is_refused(graph) -> None:
    with pytest.raises(TypeError):
        graph.settle(object(), 200, JSON, b"", True, NOW_MS)


def test_the_load_moves_how_far_the_edge_route_looks_and_nothing_else() -> None:
    from zlrs.graph import DecisionGraph, GraphSettings, follow_load

    asked: list[float] = []

    def load() -> float:
        asked.append(1.0)
        return 1.0

    for edge, expected in (("off", 0), ("shadow", 1)):
        with DecisionGraph(None, GraphSettings(edge=edge)) as graph:
            follow_load(graph, load)
            graph.decide("POST", "/v1/messages", "", [], b"{}", "up", 1_800_000_000_000)
        assert len(asked) == expected
    follow_load(object(), load)
