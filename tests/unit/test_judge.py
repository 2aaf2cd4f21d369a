from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from zlrs.config import GraphSettings as Section
from zlrs.errors import ConfigurationError
from zlrs.graph import DecisionGraph, GraphSettings
from zlrs.judge import INSTRUCTIONS, UpstreamJudge, configured, measure, question, read_verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW_MS = 1_800_000_000_000


def test_a_judge_is_measured_on_pairs_whose_truth_is_known() -> None:
    yes = measure(lambda *_: "equivalent", pairs=300)
    assert (yes.wrong_pairs, yes.called_equivalent, yes.false_equivalent, yes.recall) == (300, 300, 1.0, 1.0)
    no = measure(lambda *_: "different", pairs=3000)
    assert (no.wrong_pairs, no.called_equivalent, no.recall) == (3000, 0, 0.0)
    assert 0.0009 < no.false_equivalent < 0.001
    asked: list[tuple[str, str, str]] = []

    def order_matters(ask: str, one: str, other: str) -> str:
        asked.append((ask, one, other))
        return "equivalent" if len(asked) % 2 else "different"

    both = measure(order_matters, pairs=50)
    assert (both.called_equivalent, both.recall) == (0, 0.0), "both orders must say so"
    assert asked[0][1:] == asked[1][:0:-1]

    def broken(*_: str) -> str:
        raise OSError

    assert measure(broken, pairs=10).failed == 20
    with pytest.raises(ValueError, match="pairs"):
        measure(broken, pairs=0)


def test_only_one_word_is_a_verdict() -> None:
    assert [
        read_verdict(text) for text in ("SAME", " same.\n", "Different", "same or different", "", "yes")
    ] == [
        "equivalent",
        "equivalent",
        "different",
        "unsure",
        "unsure",
        "unsure",
    ]


def test_an_answer_cannot_leave_its_quotes() -> None:
    text = question("q", 'a"\nANSWER 2: "a', "b")
    assert text.count("\nANSWER 2: ") == 1


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[tuple[str, dict[str, str], dict]], list[bytes]]]:
    seen: list[tuple[str, dict[str, str], dict]] = []
    replies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
            seen.append((self.path, {key.lower(): value for key, value in self.headers.items()}, sent))
            reply = replies[0]
            self.send_response(200)
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1", seen, replies
    server.shutdown()
    server.server_close()


def test_an_upstream_judges(endpoint) -> None:
    url, seen, replies = endpoint
    replies.append(json.dumps({"choices": [{"message": {"content": "SAME"}}]}).encode())
    judge = UpstreamJudge(url, "large", "sk-judge", 5)
    assert judge("q", "a", "b") == "equivalent"
    path, headers, sent = seen[0]
    assert path == "/v1/chat/completions"
    assert (headers["authorization"], headers["x-zlrs-no-graph"]) == ("Bearer sk-judge", "true")
    assert (sent["model"], sent["temperature"]) == ("large", 0)
    assert sent["messages"][0]["content"] == INSTRUCTIONS
    replies[0] = b"no JSON"
    with pytest.raises(ValueError):
        judge("q", "a", "b")
    with pytest.raises(ValueError):
        UpstreamJudge("file:///etc/passwd", "m")


def test_a_configuration_names_a_judge() -> None:
    assert configured(Section()) is None
    named = configured(Section(judge_url="http://127.0.0.1:9", judge_model="m"))
    assert named is not None
    assert named.name == "http://127.0.0.1:9 m"
    own = configured(Section(judge_callable="zlrs.judge:read_verdict"))
    assert own is not None
    assert own.judge is read_verdict
    for wrong in (
        Section(judge_url="http://127.0.0.1:9"),
        Section(judge_url="http://127.0.0.1:9", judge_model="m", judge_key_env="ZLRS_NOT_SET"),
        Section(judge_callable="zlrs.judge:nothing"),
        Section(judge_callable="zlrs.judge:INSTRUCTIONS"),
    ):
        with pytest.raises(ConfigurationError):
            configured(wrong)


def answer(text: str) -> bytes:
    return json.dumps(
        {
            "id": "1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "stop_sequence": None,
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 2},
        }
    ).encode()


@pytest.mark.parametrize(
    ("judge", "error", "learned"),
    [
        (lambda *_: "equivalent", 0.001, True),
        (lambda *_: "equivalent", None, False),
        (lambda *_: "different", 0.001, False),
        (lambda *_: 7, 0.001, False),
        (lambda *_: 1 / 0, 0.001, False),
    ],
)
def test_a_judge_in_python_is_asked_where_the_rules_do_not_decide(judge, error, learned: bool) -> None:
    graph = DecisionGraph(None, GraphSettings(read_deadline_ms=1000))
    graph.appoint(judge, name="test/1", false_equivalent=error)
    texts = (
        "It was shipped on 2 March.",
        "Our carrier has had your parcel since 2 March, the day on which it left our warehouse.",
    )
    wordings = ("When was order 7 shipped?", "when was order 7 shipped", "Please, when was order 7 shipped?")
    for at, wording in enumerate(wordings):
        content = {"model": "m", "max_tokens": 9, "temperature": 0}
        content["messages"] = [{"role": "user", "content": wording}]
        head = [(b"x-api-key", b"k")]
        decision = graph.decide("POST", "/v1/messages", "", head, json.dumps(content).encode(), "up", NOW_MS)
        if at < 2:
            json_head = [(b"content-type", b"application/json")]
            assert graph.settle(decision, 200, json_head, answer(texts[at]), True, NOW_MS) == "stored"
    assert graph.stats()["judge_calls"] == (2 if judge() == "equivalent" else 1) if learned else True
    assert ("route=canonical" in decision.header) is learned, decision.header
    graph.close()
