"""What is changed in a body that may be changed, and that every other byte stays."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlrs.texts import KINDS, RULES, SAFE_RULES, clean, places, redact
from zlrs_proxy.edits import Editor, summary
from zlrs_proxy.settings import RewriteSettings, SettingsError

CARD = "4111 1111 1111 1111"
ID_CARD = "11010519491231002X"


def edited(body: bytes, *, may_temper: bool = True, **settings):
    return Editor(RewriteSettings(**settings)).edit(body, may_temper=may_temper)


def test_personal_numbers_are_told_by_their_check_digits() -> None:
    text = f"card {CARD}, not 4111 1111 1111 1112; id {ID_CARD}, not 110105194912310021; call 13800138000"
    masked, found = redact(text, KINDS)
    assert found == {"chinese_id": 1, "bank_card": 1, "chinese_mobile": 1}
    assert "4111 1111 1111 1112" in masked
    assert "110105194912310021" in masked
    assert CARD not in masked
    assert ID_CARD not in masked
    assert redact(masked, KINDS) == (masked, {})


def test_the_first_system_text_is_never_touched() -> None:
    number = f"  my  card:   {CARD}  "
    body = json.dumps(
        {
            "messages": [{"role": "user", "content": number}, {"role": "assistant", "content": number}],
            "system": [{"type": "text", "text": number}, {"type": "text", "text": number}],
        }
    ).encode()
    changed = edited(body, hygiene=SAFE_RULES, redact=KINDS)
    after = json.loads(changed.body)
    assert after["system"][0]["text"] == number
    assert after["system"][1]["text"] == after["messages"][0]["content"]
    assert CARD not in after["system"][1]["text"]
    assert after["messages"][1]["content"] == f"  my  card:   {re.sub('[0-9]', '*', CARD)}  "
    assert {edit.path for edit in changed.edits} == {
        "system[1].text",
        "messages[0].content",
        "messages[1].content",
    }
    chat = json.dumps({"messages": [{"role": "system", "content": number}]}).encode()
    assert edited(chat, hygiene=SAFE_RULES, redact=KINDS) == (chat, ())


def test_only_the_changed_strings_differ_in_their_bytes() -> None:
    body = (
        b'{ "model":"m\\u0041",\n "messages" :[{"content":"a  b","role":"user"},'
        b'{"role":"assistant","content":[{"type":"thinking","thinking":"x  y","signature":"\\/s"}]},'
        b'{"role":"user","content":[{"type":"text","text":"\\u4e2d  1","cache_control":{"a":"b"}}]}],'
        b'"n" : 1.50e0 }'
    )
    changed = edited(body, hygiene=SAFE_RULES)
    wanted = body.replace(b'"a  b"', b'"a b"').replace(b'"\\u4e2d  1"', '"中 1"'.encode())
    assert changed.body == wanted
    assert [edit.listed() for edit in changed.edits] == [
        {"path": "messages[0].content", "what": "hygiene", "counts": {"repeated_spaces": 1}},
        {"path": "messages[2].content[0].text", "what": "hygiene", "counts": {"repeated_spaces": 1}},
    ]
    assert summary(changed.edits) == "hygiene=2"
    assert edited(changed.body, hygiene=SAFE_RULES).edits == ()


def test_results_of_tools_are_redacted_and_not_tidied() -> None:
    block = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": f"a   {CARD}"}]}
    body = json.dumps({"messages": [{"role": "user", "content": [block]}]}).encode()
    changed = edited(body, hygiene=RULES, redact=["bank_card"], redact_kept=4)
    assert b"a   **** **** **** 1111" in changed.body
    assert [edit.what for edit in changed.edits] == ["redact"]


@pytest.mark.parametrize(
    ("given_temperature", "wanted"),
    [
        (b"", b'{"temperature":0,'),
        (b'"temperature": 0.7,', b'"temperature": 0,'),
        (b'"temperature":0.0,', None),
    ],
)
def test_auto_temper_sets_temperature_0_on_listed_asks(given_temperature, wanted) -> None:
    body = b"{" + given_temperature + b'"messages":[{"role":"user","content":"Which city is the capital?"}]}'
    changed = edited(body, auto_temper=["(?i)which city"])
    if wanted is None:
        assert changed == (body, ())
    else:
        assert wanted in changed.body
        assert json.loads(changed.body)["temperature"] == 0
        assert summary(changed.edits) == "temper=1"
    assert edited(body, auto_temper=["poem"]) == (body, ())
    assert edited(body, auto_temper=["(?i)which city"], may_temper=False) == (body, ())


@pytest.mark.parametrize("field", ["thinking", "top_p", "top_k", "reasoning_effort", "output_config"])
def test_auto_temper_leaves_alone_what_forbids_a_temperature(field) -> None:
    body = json.dumps({field: 1, "messages": [{"role": "user", "content": "which"}]}).encode()
    assert edited(body, auto_temper=["which"]) == (body, ())


@pytest.mark.parametrize("body", [b"", b"{", b'{"a":1,"a":2}', b'{"system":"\\ud800"}', b"\xff", b"[" * 5000])
def test_what_cannot_be_read_is_not_changed(body) -> None:
    assert edited(body, redact=KINDS) is None


def test_settings_that_cannot_be_used_are_refused_at_the_start() -> None:
    for bad in (
        {"hygiene": ["tidy"]},
        {"redact": ["passport"]},
        {"auto_temper": ["(?=x)"]},
    ):
        with pytest.raises(SettingsError, match="rewrite"):
            Editor(RewriteSettings(**bad))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(st.lists(TEXTS, max_size=5), TEXTS, st.booleans())
def test_a_changed_body_is_the_same_but_for_its_texts(texts, system, escaped) -> None:
    tree = {
        "model": "m",
        "system": system,
        "messages": [{"role": "user", "content": text} for text in texts],
        "metadata": {"user_id": "  x  "},
    }
    body = json.dumps(tree, ensure_ascii=escaped).encode()
    changed = edited(body, hygiene=RULES, redact=KINDS)
    for message in tree["messages"]:
        cleaned = clean(message["content"], RULES)[0]
        kept = cleaned if cleaned.strip() else message["content"]
        message["content"] = redact(kept, KINDS)[0]
    assert json.loads(changed.body) == tree
    assert (changed.body == body) == (not changed.edits)


def test_places_name_every_text_once() -> None:
    found = places(b'{"messages":[{"role":"user","content":"a"}],"max_tokens":5}')
    assert found is not None
    assert [(text.path, text.writer, text.text) for text in found.texts] == [
        ("messages[0].content", "user", "a")
    ]
    assert found.members["max_tokens"] == ("max_tokens", 57, 58)
