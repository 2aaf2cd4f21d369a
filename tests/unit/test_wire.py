"""Header names, error bodies, hop-by-hop rules and event encoding."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlrs import _core, errors, wire


def test_header_names_are_those_of_the_core() -> None:
    ours = {value for name, value in vars(wire).items() if name.isupper() and isinstance(value, str)}
    assert ours == {name for name, _ in _core.header_names()}
    assert all(wire.is_ours(name.encode()) for name in ours)
    assert not wire.is_ours(b"x-anthropic-session")


def test_error_bodies_have_each_protocols_shape() -> None:
    error = errors.RateLimitError("too many", suggestion="wait")
    assert json.loads(wire.error_body(error, "messages", "req_1")) == {
        "type": "error",
        "error": {"type": "rate_limit_error", "message": "too many", "suggestion": "wait"},
        "request_id": "req_1",
    }
    assert json.loads(wire.error_body(error, "chat", "req_1", param="n")) == {
        "error": {
            "message": "too many",
            "type": "rate_limit_error",
            "param": "n",
            "code": "rate_limit_exceeded",
            "suggestion": "wait",
        }
    }


def test_a_messages_body_has_historical_codes_and_those_of_the_instance() -> None:
    def code(error: errors.ZlrsError) -> object:
        return json.loads(wire.error_body(error, "messages", "r"))["error"].get("code")

    assert code(errors.KvCorruptError("x")) == "ERR_KV_CORRUPT_0x7F"
    assert code(errors.InvalidRequestError("x", code="context_length_exceeded")) == "context_length_exceeded"
    assert code(errors.AuthenticationError("x")) is None


def test_hop_by_hop_headers_end_here() -> None:
    headers = [
        (b"Connection", b"Keep-Alive, X-Private ,, authorization, content-length"),
        (b"connection", b"x-other"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Transfer-Encoding", b"chunked"),
        (b"TE", b"trailers"),
        (b"X-Private", b"1"),
        (b"x-other", b"2"),
        (b"Authorization", b"Bearer k"),
        (b"Content-Length", b"3"),
        (b"X-Request-Id", b"a"),
        (b"x-request-id", b"b"),
        (b"x-drop", b"4"),
    ]
    assert wire.end_to_end(headers, frozenset({b"x-drop"})) == headers[7:11]


NAMES = st.sampled_from(
    [b"Connection", b"x-a", b"X-A", b"x-b", b"TE", b"authorization", b"Content-Length", b"Accept"]
)
VALUES = st.sampled_from([b"x-a", b"X-B, te", b"authorization", b"accept,x-a", b"", b"close"])


@given(st.lists(st.tuples(NAMES, VALUES)))
def test_what_travels_on_is_in_order_and_named_nowhere(headers: list[tuple[bytes, bytes]]) -> None:
    kept = wire.end_to_end(headers)
    rest = iter(headers)
    assert all(line in rest for line in kept)
    assert [line for line in headers if line[0].lower() == b"authorization"] == [
        line for line in kept if line[0].lower() == b"authorization"
    ]
    tokens = {
        token.strip().lower()
        for name, value in headers
        if name == b"Connection"
        for token in value.split(b",")
    }
    gone = (tokens | wire.HOP_BY_HOP) - wire.NEVER_CONNECTION_NAMED
    assert kept == [line for line in headers if line[0].lower() not in gone]


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.integers(-(2**53), 2**53))))
def test_an_event_is_one_line_of_json(data: dict[str, object]) -> None:
    data["type"] = "content_block_delta"
    head, line, *rest = wire.message_event(data).split(b"\n")
    assert (head, rest) == (b"event: content_block_delta", [b"", b""])
    assert json.loads(line.removeprefix(b"data: ")) == data
    assert b"\r" not in line
    assert wire.chat_chunk(data) == line + b"\n\n"


@pytest.mark.parametrize("kind", ["", "a\nb", "a b", None, 5, "é"])
def test_an_event_type_that_is_no_name_is_refused(kind: object) -> None:
    with pytest.raises(ValueError, match="letters, digits"):
        wire.message_event({"type": kind})
