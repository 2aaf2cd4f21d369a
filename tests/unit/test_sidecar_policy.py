"""Breakers, retries, shares, limits, keys and counts against plain statements of what they do."""

from __future__ import annotations

import json
import random
from collections import Counter
from email.utils import formatdate

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from support.mock_upstream import chat_chunks, dump, messages_events
from zlrs.config import PriceSettings
from zlrs_proxy import coding, keys, ledger, traps
from zlrs_proxy.breaker import Breaker, Health, health_of
from zlrs_proxy.cost import report
from zlrs_proxy.keys import Client, Clients
from zlrs_proxy.ledger import Ledger, Row
from zlrs_proxy.limits import Limits
from zlrs_proxy.memory import Memory
from zlrs_proxy.pool import Pool
from zlrs_proxy.recount import Recounter
from zlrs_proxy.refuse import Refusal
from zlrs_proxy.retry import may_repeat_status, wait_seconds
from zlrs_proxy.rules import Rules
from zlrs_proxy.settings import RuleSettings, Settings, SettingsError, UpstreamSettings
from zlrs_proxy.state import open_secret
from zlrs_proxy.usage import Usage, usage_of
from zlrs_proxy.view import view_of

SECRET = b"s" * 32


class Now:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return int(self.seconds * 1000)


# --- breaker ----------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([*Health, "wait"]), max_size=60), st.integers(1, 4))
def test_a_breaker_is_the_plain_state_machine(events, limit) -> None:
    clock = Now()
    breaker = Breaker(clock, limit, 10)
    failures, opened = 0, None
    for event in events:
        if event == "wait":
            clock.seconds += 4
            continue
        half_open = opened is not None and clock.seconds - opened >= 10
        assert breaker.admits() == (opened is None or half_open)
        if half_open:
            assert not breaker.admits()  # one probe at a time
        breaker.record(event)
        if event is Health.GOOD:
            failures, opened = 0, None
        elif event is Health.FAILED:
            failures += 1
            if opened is not None or failures >= limit:
                opened = clock.seconds
        state = "closed" if opened is None else "half_open" if clock.seconds - opened >= 10 else "open"
        assert breaker.state == state


def test_a_probe_without_a_verdict_frees_its_place() -> None:
    clock = Now()
    breaker = Breaker(clock, 1, 10)
    breaker.record(Health.FAILED)
    clock.seconds += 10
    assert breaker.admits()
    breaker.record(health_of(429))
    assert breaker.admits()
    breaker.record(health_of(400))
    assert breaker.state == "closed"


# --- retries ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ([(b"Retry-After", b"3")], 3.0),
        ([(b"retry-after", b"0.5")], 0.5),
        ([(b"retry-after-ms", b"250"), (b"retry-after", b"9")], 0.25),
        ([(b"Retry-After", formatdate(1012, usegmt=True).encode())], 12.0),
        ([(b"Retry-After", formatdate(900, usegmt=True).encode())], 0.0),
    ],
)
def test_the_named_pause_is_kept(headers, seconds) -> None:
    assert wait_seconds(tuple(headers), 1, 1_000_000, random.Random(1)) == pytest.approx(seconds)


@pytest.mark.parametrize("value", [b"soon", b"", b"-1", b"1e9", b"9" * 40, b"nan", b"inf", b"\xff", b"1.x"])
def test_a_senseless_pause_is_none(value) -> None:
    assert 0.3 <= wait_seconds(((b"retry-after", value),), 1, 0, random.Random(1)) <= 0.7


@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("status", [200, 301, 400, 401, 404, 408, 409, 413, 429, 500, 502, 503, 504, 529])
def test_only_what_is_safe_is_repeated(method, status) -> None:
    expected = status in {429, 503, 529} or (method == "GET" and status in {500, 502, 504})
    assert may_repeat_status(method, status, ()) == expected
    assert not may_repeat_status(method, status, ((b"X-Should-Retry", b"false"),))
    assert may_repeat_status(method, status, ((b"X-Should-Retry", b"true"),)) == (status >= 400)


# --- pool -------------------------------------------------------------------------------------------------


def pool_of(**weights: float) -> Pool:
    upstreams = tuple(
        UpstreamSettings(name=n, url=f"http://{n}.example", weight=w) for n, w in weights.items()
    )
    return Pool(Settings(upstreams=upstreams), Now(), SECRET)


def test_conversations_are_spread_by_weight_and_always_the_same() -> None:
    pool, again = pool_of(a=1, b=3, c=0), pool_of(a=1, b=3, c=0)
    talks = [str(number).encode() for number in range(4000)]
    chosen = [pool.order(talk, is_stuck=False)[0].label for talk in talks]
    assert chosen == [again.order(talk, is_stuck=False)[0].label for talk in talks]
    counts = Counter(chosen)
    assert 850 < counts["a"] < 1150
    assert counts["c"] == 0
    # A newcomer takes over only its share: nobody moves between the old ones.
    larger = pool_of(a=1, b=3, c=0, d=1)
    for talk, before in zip(talks, chosen, strict=True):
        assert larger.order(talk, is_stuck=False)[0].label in {before, "d"}


def test_names_of_upstreams_differ() -> None:
    with pytest.raises(SettingsError, match="two upstreams"):
        Pool(
            Settings(upstreams=(UpstreamSettings(url="http://a"), UpstreamSettings(url="http://b"))),
            Now(),
            SECRET,
        )
    with pytest.raises(SettingsError, match="no upstream"):
        Pool(Settings(), Now(), SECRET)


@pytest.mark.parametrize("text", ["", "a b", "naïve", "a\nb", "a\x00b"])
def test_a_key_that_no_header_can_carry_is_refused(tmp_path, text) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(SettingsError):
        Pool(Settings(upstream="http://a", upstream_key_file=str(tmp_path / "key")), Now(), SECRET)


# --- rules ------------------------------------------------------------------------------------------------


def ask(text: str, model: str = "m"):
    found = view_of(dump({"model": model, "messages": [{"role": "user", "content": text}]}))
    assert found is not None
    return found


def test_a_rule_holds_when_all_its_conditions_do() -> None:
    rule = RuleSettings(name="r", pattern=r"(?i)\bprice", model="claude-*", cohort="beta")
    rules = Rules(Settings(upstream="http://a", rules=(rule,)), SECRET)
    assert rules.reason(ask("the Price?", "claude-3"), "beta") == ("no_graph_rule", "r")
    for view, cohort in (
        (ask("the Price?", "gpt"), "beta"),
        (ask("the Price?", "claude-3"), None),
        (ask("enterprise", "claude-3"), "beta"),
    ):
        assert rules.reason(view, cohort) == ("", "")


def test_shares_are_stable_and_grow_without_anyone_leaving() -> None:
    views = [ask(f"question {number}") for number in range(3000)]
    sides = []
    for share in (0.0, 0.1, 0.5, 1.0):
        rules = Rules(Settings(upstream="http://a", rules=(RuleSettings(name="r", share=share),)), SECRET)
        side = {i for i, view in enumerate(views) if rules.reason(view, None)[0]}
        assert abs(len(side) / len(views) - share) < 0.03
        sides.append(side)
    assert sides[0] <= sides[1] <= sides[2] <= sides[3]
    other = Rules(Settings(upstream="http://a", rules=(RuleSettings(name="r", share=0.5),)), b"t" * 32)
    assert {i for i, view in enumerate(views) if other.reason(view, None)[0]} != sides[2]


def test_cohorts_have_their_share_of_the_graph() -> None:
    rules = Rules(Settings(upstream="http://a", cache_ratio={"beta": 0.25, "default": 0.75}), SECRET)
    for cohort, expected in (("beta", 0.25), (None, 0.75), ("unknown", 0.75)):
        served = sum(not rules.reason(ask(str(number)), cohort)[0] for number in range(2000))
        assert abs(served / 2000 - expected) < 0.04


def test_a_pattern_that_cannot_be_linear_is_refused_at_the_start() -> None:
    with pytest.raises(SettingsError, match="pattern"):
        Rules(Settings(upstream="http://a", rules=(RuleSettings(name="r", pattern=r"(a)\1"),)), SECRET)


def test_the_secret_outlives_the_process_and_is_private(tmp_path) -> None:
    folder = tmp_path / "state"
    first = open_secret(str(folder))
    assert first == open_secret(str(folder))
    assert (folder / "fingerprint.key").stat().st_mode & 0o777 == 0o600
    assert open_secret(None) != open_secret(None)
    (folder / "fingerprint.key").write_text("damaged")
    with pytest.raises(SettingsError):
        open_secret(str(folder))


# --- keys and limits --------------------------------------------------------------------------------------


def test_issued_keys_open_and_nothing_else_does(tmp_path) -> None:
    key, line = keys.issue("web", {"requests_per_minute": 5})
    other, _ = keys.issue("other", {})
    path = tmp_path / "keys"
    path.write_text(f"# ours\n{line}\nplain-key-0123456789\n")
    clients = Clients.read(str(path))
    found = clients.find(key.encode())
    assert found is not None
    assert (found.name, found.requests_per_minute, found.tokens_per_minute) == ("web", 5, None)
    assert clients.find(b"plain-key-0123456789") is not None
    stored = line.split()[1]
    for wrong in (other, key[:-1], key + "x", "", stored, stored.split(":")[3], key.upper()):
        assert clients.find(wrong.encode()) is None
    assert key not in path.read_text()
    assert key.rpartition("_")[2] not in path.read_text()


@pytest.mark.parametrize(
    "line",
    ["web hmac-sha256:0:0:0", "two words here but no hash", "short", "web hmac-sha256:{i}:{s}:{h} unknown=1",
     "web hmac-sha256:{i}:{s}:{h} requests_per_minute=0", "web hmac-sha256:{i}:{s}:{h} tokens_per_minute=-1"],
)  # fmt: skip
def test_lines_that_are_no_key_stop_the_start(tmp_path, line) -> None:
    (tmp_path / "keys").write_text(line.format(i="0" * 12, s="0" * 32, h="0" * 64) + "\n")
    with pytest.raises(SettingsError):
        Clients.read(str(tmp_path / "keys"))


def test_a_key_uses_up_its_requests_and_gets_them_back() -> None:
    clock = Now()
    limits = Limits(clock)
    client = Client("web", b"", b"", requests_per_minute=3)
    for _ in range(3):
        limits.admit(client)
    with pytest.raises(Refusal) as caught:
        limits.admit(client)
    assert caught.value.error.status == 429
    assert dict(caught.value.headers)["Retry-After"] == "20"
    clock.seconds += 20
    limits.admit(client)
    with pytest.raises(Refusal):
        limits.admit(client)


def test_tokens_are_noted_afterwards_and_held_against_the_next_request() -> None:
    clock = Now()
    limits = Limits(clock)
    client = Client("web", b"", b"", tokens_per_minute=60)
    limits.admit(client)
    limits.spend(client, 90)
    with pytest.raises(Refusal) as caught:
        limits.admit(client)
    assert dict(caught.value.headers)["Retry-After"] == "31"
    clock.seconds += 31
    limits.admit(client)
    limits.admit(Client("other", b"", b"", tokens_per_minute=60))


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
