"""Breakers, retries, shares, limits, keys and counts against plain statements of what they do."""

from __future__ import annotations

import random
from collections import Counter
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.mock_upstream import dump
from support.now import Now
from zlrs_proxy import keys
from zlrs_proxy.breaker import Breaker, Health, health_of
from zlrs_proxy.keys import Client, Clients
from zlrs_proxy.limits import Limits
from zlrs_proxy.pool import Pool
from zlrs_proxy.refuse import Refusal
from zlrs_proxy.retry import may_repeat_status, wait_seconds
from zlrs_proxy.rules import Rules
from zlrs_proxy.settings import RuleSettings, Settings, SettingsError, UpstreamSettings
from zlrs_proxy.state import open_secret
from zlrs_proxy.view import view_of

SECRET = b"s" * 32


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
