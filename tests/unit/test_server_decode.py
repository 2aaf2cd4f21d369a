"""Bodies that are not what they should be: the message says where."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlrs.server.errors import Refusal
from zlrs.server.limits import decode
from zlrs.types import ChatRequest, MessagesRequest, unknown_fields

if TYPE_CHECKING:
    import msgspec

GOOD = {"model": "m", "messages": [{"role": "user", "content": "x"}]}


def refused(body: bytes, kind: type[msgspec.Struct] = MessagesRequest) -> Refusal:
    with pytest.raises(Refusal) as caught:
        decode(body, kind)
    assert caught.value.error.status == 400
    return caught.value


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"", "line 1, column 1 (byte 0)"),
        (b'{"model": "m",\n  "messages" []}', "line 2, column 14 (byte 28)"),
        (b'{"model":"\xff"}', "line 1, column 11 (byte 10)"),
        (b"\xef\xbb\xbf{}", "line 1, column 1 (byte 0)"),
        (json.dumps(GOOD).encode("utf-16"), "line 1, column 1 (byte 0)"),
        (b'{"model":"m","messages":[{"role":"user","content":"\\ud800"}]}', "(byte "),
        (b'{"model":"m","messages":[],"temperature":NaN}', "line 1, column 42 (byte 41)"),
        (b'{"model":"m\x00"}', "line 1, column 12 (byte 11)"),
        (b'{"model":"m","messages":[]} tail', "trailing characters at line 1"),
    ],
)
def test_malformed_json_names_its_place(body: bytes, place: str) -> None:
    message = refused(body).error.message
    assert message.startswith("the body is not valid JSON: ")
    assert place in message


@pytest.mark.parametrize(
    ("change", "path", "says"),
    [
        ({"model": 1}, "model", "expected `str`, got `int`"),
        ({"messages": "x"}, "messages", "expected `array`, got `str`"),
        ({"messages": [1]}, "messages.0", "expected `object`, got `int`"),
        ({"messages": [{"content": "x"}]}, "messages.0.role", "field required"),
        ({"messages": [{"role": "user"}]}, "messages.0.content", "field required"),
        (
            {"messages": [{"role": "user", "content": 5}]},
            "messages.0.content",
            "expected `str or array`, got `int`",
        ),
        (
            {"messages": [GOOD["messages"][0], {"role": "user", "content": [{"type": "text", "text": 4}]}]},
            "messages.1.content.0.text",
            "expected `str`, got `int`",
        ),
        (
            {"messages": [{"role": "user", "content": [{"text": "x"}]}]},
            "messages.0.content.0.type",
            "field required",
        ),
        ({"max_tokens": 1.5}, "max_tokens", "expected `int`, got `float`"),
        ({"max_tokens": "5"}, "max_tokens", "expected `int`, got `str`"),
        ({"temperature": True}, "temperature", "expected `float`, got `bool`"),
        ({"stop_sequences": "x"}, "stop_sequences", "expected `array`, got `str`"),
        ({"tools": {}}, "tools", "expected `array`, got `object`"),
        ({"system": 3}, "system", "got `int`"),
    ],
)
def test_wrong_types_name_the_field(change: dict[str, object], path: str, says: str) -> None:
    refusal = refused(json.dumps({**GOOD, **change}).encode())
    assert refusal.param == path
    assert refusal.error.message.startswith(f"{path}: ")
    assert says in refusal.error.message


def test_a_missing_field_at_the_top_and_a_body_of_another_kind() -> None:
    assert refused(b'{"model":"m"}').error.message == "messages: field required"
    assert refused(b"[]").error.message == "the body: expected `object`, got `array`"


@pytest.mark.parametrize("inside", ["", '"x":', '"metadata":'])
def test_deep_nesting_is_refused(inside: str) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    body = '{"model":"m","messages":[],' + (inside + deep + "}" if inside else '"messages":' + deep + "}")
    refused(body.encode())


def status_of(body: bytes, kind: type[msgspec.Struct]) -> int:
    try:
        decode(body, kind)
    except Refusal as refusal:
        return refusal.error.status
    return 200


@given(st.binary(max_size=200))
def test_any_bytes_give_a_refusal_or_a_request(body: bytes) -> None:
    assert {status_of(body, kind) for kind in (MessagesRequest, ChatRequest)} <= {200, 400}


@given(st.integers(0, 400), st.integers(0, 255))
def test_any_changed_byte_gives_a_refusal_or_a_request(place: int, value: int) -> None:
    body = bytearray(
        json.dumps(
            {**GOOD, "temperature": 0.5, "stop_sequences": ["a"], "stream": True, "logit_bias": {"5": 1}}
        ).encode()
    )
    body[place % len(body)] = value
    assert {status_of(bytes(body), kind) for kind in (MessagesRequest, ChatRequest)} <= {200, 400}


def test_unknown_fields_are_listed_in_order() -> None:
    body = json.dumps({**GOOD, "zoo": [1], "ape": None, "top_k": 1}).encode()
    decode(body, MessagesRequest)
    assert unknown_fields(body, MessagesRequest) == ("zoo", "ape")
