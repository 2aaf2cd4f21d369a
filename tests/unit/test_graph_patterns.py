"""Domain patterns of the graph: configured by name, switched off by name, and what evidence they carry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from zlrs.config import ConfigError, load
from zlrs.config import GraphSettings as Section
from zlrs.errors import ConfigurationError
from zlrs.graph import DecisionGraph, GraphSettings

if TYPE_CHECKING:
    from pathlib import Path

NOW_MS = 1_800_000_000_000
POLICY = r"\bP-(?P<id>\d{4})\b"
TOML = """
[graph]
built_in_patterns = true
patterns_off = ["flight", "policy"]
[graph.patterns]
policy = '\\bP-(?P<id>\\d{4})\\b'
claim = '\\bC\\d+\\b'
"""


def test_a_file_names_patterns_and_switches_them_off(tmp_path: Path) -> None:
    file = tmp_path / "zlrs.toml"
    file.write_text(TOML)
    section = load(file=str(file), environment={}).config.graph
    assert section.patterns == {"policy": POLICY, "claim": r"\bC\d+\b"}
    assert section.patterns_off == ["flight", "policy"]
    opened = DecisionGraph.open(Section(path="memory", patterns=section.patterns, patterns_off=["claim"]))
    assert opened.settings.patterns == section.patterns
    assert opened.settings.patterns_off == ["claim"]
    opened.close()
    for bad in ('[graph.patterns]\n"No" = "x"', '[graph.patterns]\na = ""', "[graph]\npatterns_off = [1]"):
        file.write_text(bad)
        with pytest.raises(ConfigError):
            load(file=str(file), environment={})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"patterns": {"a": "("}}, "does not compile"),
        ({"patterns": {"a": "x*"}}, "empty text"),
        ({"patterns": {"order": "x"}}, "built-in"),
        ({"patterns_off": ["polcy"], "patterns": {"policy": "x"}}, "no pattern is called"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_told_at_the_start(wrong: dict, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        DecisionGraph(None, GraphSettings(**wrong))


def answer(text: str) -> bytes:
    return json.dumps(
        {
            "id": "1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None,
            "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 2},
        }
    ).encode()  # fmt: skip


def ask(graph: DecisionGraph, text: str) -> None:
    body = {"model": "m", "max_tokens": 9, "temperature": 0, "messages": [{"role": "user", "content": text}]}
    request = ("POST", "/v1/messages", "", [(b"x-api-key", b"k")], json.dumps(body).encode(), "up")
    decision = graph.decide(*request, NOW_MS)
    head = [(b"content-type", b"application/json")]
    graph.settle(decision, 200, head, answer("It was shipped on 2 March."), True, NOW_MS)
    graph.flush()


def test_evidence_under_other_patterns_does_not_count(tmp_path: Path) -> None:
    def trials(*wordings: str, **settings: object) -> list[int]:
        chosen = GraphSettings(read_deadline_ms=1000, audit=False, **settings)  # type: ignore[arg-type]
        with DecisionGraph(tmp_path / "graph", chosen) as graph:
            # The credential is known from the first answer on.
            for wording in ("Is this on?", *wordings):
                ask(graph, wording)
            return sorted(pool.evidence.trials for pool in graph.pools())

    wordings = ("When was order 7 shipped?", "when was order 7 shipped", "Please, when was order 7 shipped?")
    assert trials(*wordings) == [1]
    assert trials("When was order 7 shipped") == [2]
    assert trials("please, when was order 7 shipped?", patterns={"policy": POLICY}) == [1, 2]
    # Switched off again it is the set of before, with its own evidence.
    off = {"patterns": {"policy": POLICY}, "patterns_off": ["policy"]}
    assert trials("please, when was order 7 shipped", **off) == [1, 3]
