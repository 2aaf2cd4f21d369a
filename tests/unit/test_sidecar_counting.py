"""Lengths, views, counts, codings and sums of tokens against plain statements of what they do."""

from __future__ import annotations

import json

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from support.mock_upstream import chat_chunks, dump, messages_events
from support.now import Now
from zlrs.config import PriceSettings
from zlrs_proxy import coding, ledger, traps
from zlrs_proxy.cost import report
from zlrs_proxy.ledger import Ledger, Row
from zlrs_proxy.memory import Memory
from zlrs_proxy.recount import Recounter
from zlrs_proxy.settings import Settings, SettingsError
from zlrs_proxy.usage import Usage, usage_of
from zlrs_proxy.view import view_of

# --- max_tokens -------------------------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(max_size=12), values, max_size=5),
    st.integers(0, 10**6),
    st.sampled_from([None, 2]),
)
def test_cutting_changes_one_number_and_no_other_byte(fields, asked, indent) -> None:
    fields = {**fields, "nested": {"max_tokens": 7, 'a"max_tokens"': 1}}
    fields["max_tokens"] = asked
    body = json.dumps(fields, indent=indent).encode()
    changed = traps.cut(body, "max_tokens", 12_000)
    assert changed is not None
    assert json.loads(changed) == {**fields, "max_tokens": 12_000}
    mark = b'"max_tokens": %d' % asked
    place = body.rindex(mark)
    assert changed == body[:place] + b'"max_tokens": 12000' + body[place + len(mark) :]


def test_a_body_that_names_it_twice_or_not_is_left_alone() -> None:
    assert traps.cut(b'{"max_tokens":1,"max_tokens":2}', "max_tokens", 9) is None
    assert traps.cut(b'{"a":{"max_tokens":1}}', "max_tokens", 9) is None
    assert traps.cut(b'{"max_tokens":{"a":1}}', "max_tokens", 9) is None
    assert traps.cut(b'{"max\\u005ftokens":5}', "max_tokens", 9) is None
    assert traps.cut(b"not json", "max_tokens", 9) is None


@pytest.mark.parametrize(("short", "limit"), [(False, 75), (True, 60)])
def test_the_window_is_stricter_when_memory_is_short(tmp_path, short, limit) -> None:
    (tmp_path / "meminfo").write_text(f"MemTotal:  1000 kB\nMemAvailable:  {50 if short else 500} kB\n")
    memory = Memory(Now(), tmp_path / "meminfo", tmp_path)
    settings = Settings(upstream="http://a", window_tokens=100)
    body = {"model": "m", "messages": []}
    good, bad = (view_of(dump({**body, "max_tokens": n})) for n in (limit, limit + 1))
    assert traps.check_window(settings, memory, good) is None
    refusal = traps.check_window(settings, memory, bad)
    assert refusal is not None
    assert str(limit) in refusal.error.message
    assert str(limit + 1) in refusal.error.message


def test_the_container_counts_too(tmp_path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  1000 kB\nMemAvailable:  900 kB\n")
    (tmp_path / "memory.max").write_text("100\n")
    (tmp_path / "memory.current").write_text("95\n")
    assert Memory(Now(), tmp_path / "meminfo", tmp_path).is_short()
    (tmp_path / "memory.max").write_text("max\n")
    assert not Memory(Now(), tmp_path / "meminfo", tmp_path).is_short()
    assert not Memory(Now(), tmp_path / "absent", tmp_path / "absent").is_short()


# --- views, usage, counts ---------------------------------------------------------------------------------


@given(st.binary(max_size=200) | values.map(dump))
def test_any_body_has_a_view_or_none(body) -> None:
    view = view_of(body)
    assert view is None or isinstance(view.last_user_text, str)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([{"type": "thinking", "thinking": "…", "signature": "x"}], True),
        ([{"type": "redacted_thinking", "data": "x"}], True),
        ([{"type": "text", "text": 'he wrote "thinking" and {"type":"thinking"}'}], False),
        ("thinking", False),
    ],
)
def test_thoughts_are_told_from_words_about_them(content, expected) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": content}]
    view = view_of(dump({"model": "m", "messages": turns}))
    assert view is not None
    assert view.has_thoughts is expected


def test_usage_is_read_from_all_four_shapes() -> None:
    message = {"model": "m", "usage": {"input_tokens": 5, "output_tokens": 3, "cache_read_input_tokens": 2}}
    assert usage_of(dump(message)) == (Usage(5, 3, 2, 0), "m")
    assert usage_of(b"".join(messages_events("hello", "mm"))) == (Usage(11, 7, 0, 0), "mm")
    chat = {"model": "c", "usage": {"prompt_tokens": 9, "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 6}}}  # fmt: skip
    assert usage_of(dump(chat)) == (Usage(3, 4, 6, 0), "c")
    assert usage_of(b"".join(chat_chunks("hello", "cc", usage=True))) == (Usage(11, 7, 0, 0), "cc")
    assert usage_of(b"".join(chat_chunks("hello", "cc")))[0] is None
    for nothing in (b"", b"{}", b"data: [DONE]\n\n", b'{"usage":null}', b'{"usage":{"input_tokens":"x"}}'):
        assert usage_of(nothing)[0] is None


def test_cached_tokens_never_make_a_cost_negative() -> None:
    odd = {"usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 100}}}
    found, _ = usage_of(dump(odd))
    assert found is not None
    assert found.input >= 0
    assert found.prompt == 1


def test_a_recount_says_how_it_counted() -> None:
    turns = [{"role": "user", "content": "How many tokens has this sentence?"}]
    view = view_of(dump({"model": "m", "system": "Be brief.", "messages": turns, "tools": [{"name": "t"}]}))
    assert view is not None
    count = Recounter(None).count(view)
    assert 15 < count.tokens < 40
    assert count.header == f"local={count.tokens};method=estimate"
    with pytest.raises(SettingsError, match="recount_model"):
        Recounter("no-such-model")


# --- codings ----------------------------------------------------------------------------------------------


@given(st.binary(max_size=5000), st.sampled_from(["br", "zstd"]), st.integers(1, 8))
def test_further_codings_are_undone_up_to_the_limit(data, name, cut) -> None:
    pack = brotli.compress if name == "br" else zstandard.ZstdCompressor().compress
    packed = pack(data)
    assert coding.decode(packed, name, 5000) == data
    if data:
        with pytest.raises(coding.CodingError, match="too_large"):
            coding.decode(packed, name, len(data) - 1)
    if name == "zstd":
        assert coding.decode(packed + packed, name, 10_000) == data + data
    with pytest.raises(coding.CodingError):
        coding.decode(packed[:-cut] or b"\x01", name, 5000)


@pytest.mark.parametrize("name", ["br", "zstd"])
def test_further_bombs_are_opened_only_to_the_limit(name) -> None:
    pack = brotli.compress if name == "br" else zstandard.ZstdCompressor().compress
    with pytest.raises(coding.CodingError, match="too_large"):
        coding.decode(pack(b"\0" * 100_000_000), name, 10_000)


# --- ledger and cost --------------------------------------------------------------------------------------


def test_a_ledger_adds_up_and_reads_back(tmp_path) -> None:
    book = Ledger(str(tmp_path), 1)
    for _ in range(3):
        book.add(60_000, "spent", "m", "up", "", Usage(10, 5, 1, 2), 100)
    book.add(120_000, "saved", "m", "up", "beta", Usage(10, 5), 100)
    assert book.take(60_000) == []
    book.write(book.take(120_000))
    book.write(book.take(None))
    rows = list(ledger.read(tmp_path))
    assert rows == [
        Row(1, "spent", "m", "up", "", 3, 30, 15, 3, 6, 300),
        Row(2, "saved", "m", "up", "beta", 1, 10, 5, 0, 0, 100),
    ]
    (path,) = (tmp_path / "ledger").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(path.read_bytes()[:-5])
    assert len(list(ledger.read(tmp_path))) == 1
    path.write_bytes(b"{broken}\n")
    with pytest.raises(ValueError, match="line 1"):
        list(ledger.read(tmp_path))


def test_callers_cannot_make_a_ledger_grow(tmp_path) -> None:
    book = Ledger(str(tmp_path), 1)
    for number in range(5000):
        book.add(1, "spent", f"model {number}\n", "up", f"c{number}", Usage(1, 1), 0)
    rows = book.take(None)
    assert len({row.model for row in rows}) == 201
    assert len({row.cohort for row in rows}) == 51
    assert sum(row.requests for row in rows) == 5000


def test_spent_and_saved_stay_apart() -> None:
    prices = [
        PriceSettings(model="big-*", input_per_million=3, output_per_million=15, cache_read_per_million=0.3),
        PriceSettings(model="big-cheap", input_per_million=1, output_per_million=1),
    ]
    rows = [
        Row(1, "spent", "big-one", "up", "", 2, 1_000_000, 100_000, 1_000_000, 0, 200_000),
        Row(1, "saved", "big-one", "up", "", 9, 1_000_000, 0, 0, 0, 0),
        Row(2, "merged", "big-cheap", "up", "", 1, 0, 1_000_000, 0, 0, 0),
        Row(2, "spent", "free", "up", "", 4, 5, 5, 0, 0, 0),
        Row(2, "unknown", "free", "up", "", 1, 0, 0, 0, 0, 0),
    ]
    *lines, total = report(rows, prices, "model")
    assert [line.name for line in lines] == ["big-cheap", "big-one", "free"]
    assert lines[1].spent.cost == pytest.approx(3 + 1.5 + 0.3)
    assert lines[1].saved.cost == pytest.approx(3)
    assert (total.spent.cost, total.saved.cost) == (pytest.approx(4.8), pytest.approx(4.0))
    assert (total.spent.requests, total.saved.requests, total.merged) == (6, 10, 1)
    assert (total.spent.unpriced, total.unknown) == (4, 1)
    assert report([], prices, "day")[-1].spent.requests == 0
