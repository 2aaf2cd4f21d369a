"""Every field that the two client libraries know: with another value it is another request, or none of ours.

The fields come from the libraries' own types, so that a new one shows here.
"""

from __future__ import annotations

import itertools
import json

import pytest
from anthropic.types.message_create_params import MessageCreateParamsBase
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from zlrs.graph import DecisionGraph, GraphSettings

NOW_MS = 1_800_000_000_000
HEAD = [(b"content-type", b"application/json")]
IGNORED = {"stream", "stream_options", "metadata", "cache_control"}
"""By name only: they change the form of an answer or its bookkeeping, never its text."""
PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions"}
FIELDS = [
    *(("messages", field) for field in sorted(MessageCreateParamsBase.__annotations__)),
    *(("chat", field) for field in sorted(CompletionCreateParamsBase.__annotations__)),
]
NUMBERS = itertools.count()

leaf = st.none() | st.booleans() | st.integers(-5, 500) | st.floats(0, 1) | st.text(max_size=12)
value = st.recursive(
    leaf,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def plain() -> dict[str, object]:
    number = next(NUMBERS)
    ask = {"role": "user", "content": f"What is the capital of country {number}?"}
    return {"model": "m", "max_tokens": 64, "temperature": 0, "messages": [ask]}


def answer(protocol: str) -> bytes:
    if protocol == "messages":
        message = {
            "id": "1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "Paris."}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 2},
        }
    else:
        choice = {"index": 0, "message": {"role": "assistant", "content": "Paris."}, "finish_reason": "stop"}
        message = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        }
    return json.dumps(message).encode()


@pytest.fixture(scope="module")
def graph():
    with DecisionGraph(
        None, GraphSettings(read_deadline_ms=1000, recheck=False, canonical="bounded")
    ) as graph:
        yield graph


def decide(graph: DecisionGraph, protocol: str, body: dict[str, object]):
    raw = json.dumps(body).encode()
    return graph.decide("POST", PATHS[protocol], "", [(b"x-api-key", b"k")], raw, "up", NOW_MS)


def test_the_plain_request_is_a_hit_the_second_time(graph) -> None:
    for protocol in PATHS:
        body = plain()
        assert (
            graph.settle(decide(graph, protocol, body), 200, HEAD, answer(protocol), True, NOW_MS) == "stored"
        )
        assert decide(graph, protocol, body).kind == "hit"


@pytest.mark.parametrize(("protocol", "field"), FIELDS)
@settings(max_examples=20, deadline=None)
@given(first=value, second=value)
def test_another_value_is_another_request(
    graph, protocol: str, field: str, first: object, second: object
) -> None:
    body = plain()
    stored = {**body, field: first}
    graph.settle(decide(graph, protocol, stored), 200, HEAD, answer(protocol), True, NOW_MS)
    if decide(graph, protocol, {**body, field: second}).kind == "hit":
        assert first == second or field in IGNORED, "another value, and the same answer"
    if decide(graph, protocol, body).kind == "hit":
        assert stored == body or field in IGNORED, "no value, and the same answer"
