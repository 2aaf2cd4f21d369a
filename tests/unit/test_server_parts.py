"""The server's small parts: ids, admission, keys, host names, metrics, request headers, receipts."""

from __future__ import annotations

import dataclasses
import uuid
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from zlrs.config import ConfigError
from zlrs.errors import OverloadedError
from zlrs.results import Finish, Timings, Usage
from zlrs.server.access import HostNames, Keys, is_loopback, require_safe_address
from zlrs.server.admission import Admission
from zlrs.server.errors import Refusal, as_refusal, error_object, overloaded, status_for
from zlrs.server.headers import RULES, parse
from zlrs.server.ids import new_id
from zlrs.server.metrics import Metrics
from zlrs.server.receipts import (
    HISTORICAL,
    ModelFacts,
    compute_profile,
    end_facts,
    header_safe,
    latency,
    response_headers,
)
from zlrs.server.several import total

if TYPE_CHECKING:
    from pathlib import Path

KEY = "a-key-of-sixteen-characters"
FACTS = ModelFacts(
    "m",
    "Q4_1",
    "0123456789abcdef" * 4,
    mask_sum="",
    zero_heads="",
    empty_layers=(),
    layers=30,
    context_tokens=64,
    vocabulary=100,
    kv_tokens=64,
)


@pytest.mark.parametrize(
    "other",
    [{"device": "cuda"}, {"numerics_version": 2}, {"mask_sum": "ab"}, {"file_sha256": "cd"}],
    ids=lambda changed: next(iter(changed)),
)
def test_answers_of_another_arithmetic_are_another_models(other: dict[str, str | int]) -> None:
    assert dataclasses.replace(FACTS, **other).identity != FACTS.identity


def test_ids_are_version_7_and_sort_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_700_000_000_000_000_000]
    monkeypatch.setattr("time.time_ns", lambda: now[0])
    ids = []
    for _ in range(50):
        ids.append(new_id("req_"))
        now[0] += 1_000_000
    assert ids == sorted(ids)
    parsed = [uuid.UUID(hex=text.removeprefix("req_")) for text in ids]
    assert {(one.version, one.variant) for one in parsed} == {(7, uuid.RFC_4122)}
    assert parsed[0].int >> 80 == 1_700_000_000_000


def test_admission_counts_and_gives_back_once() -> None:
    clock = [0.0]
    admission = Admission(2, lambda: clock[0])
    first, second = admission.enter(), admission.enter()
    with pytest.raises(Refusal) as caught:
        admission.enter()
    assert (caught.value.error.type, caught.value.error.status) == ("overloaded_error", 529)
    assert caught.value.headers["x-should-retry"] == "true"
    assert 1 <= int(caught.value.headers["retry-after"]) <= 60
    assert "2 requests" in caught.value.error.message
    assert not admission.idle.is_set()
    first.release()
    first.release()
    assert admission.in_flight == 1
    admission.enter().release()
    second.release()
    assert admission.idle.is_set()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30))
def test_retry_after_stays_in_its_range(durations: list[float]) -> None:
    clock = [0.0]
    admission = Admission(1, lambda: clock[0])
    for duration in durations:
        slot = admission.enter()
        clock[0] += duration
        slot.release()
        assert 1 <= admission.retry_after_seconds() <= 60


def test_keys_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# mine\n{KEY}\n\n  another-key-of-some-length  \n", encoding="utf-8")
    keys = Keys.from_file(str(path))
    assert keys
    assert keys.accept(KEY)
    assert keys.accept("another-key-of-some-length")
    assert not keys.accept(KEY + "x")
    assert not keys.accept("")
    assert not keys.accept("\udcff")
    assert not Keys.from_file(None)


@pytest.mark.parametrize(
    "text", ["", "# only a comment\n", "short\n", "has a blank in the middle\n", "schlüssel-mit-umlaut\n"]
)
def test_keys_that_cannot_be_used(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        Keys.from_file(str(path))
    assert caught.value.suggestion


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("[::1]", True), ("localhost", True),
        ("0.0.0.0", False), ("::", False), ("192.168.1.2", False), ("example.org", False), ("127.1", False),
    ],
)  # fmt: skip
def test_only_loopback_is_open_without_keys(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
    require_safe_address(host, Keys([KEY]))
    if loopback:
        require_safe_address(host, Keys(()))
    else:
        with pytest.raises(ConfigError, match="no keys are set"):
            require_safe_address(host, Keys(()))


@pytest.mark.parametrize(
    ("bound", "header", "accepted"),
    [
        ("127.0.0.1", "127.0.0.1:8080", True),
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "LOCALHOST:1", True),
        ("127.0.0.1", "[::1]:8080", True),
        ("127.0.0.1", "my.name:80", True),
        ("127.0.0.1", "evil.example", False),
        ("127.0.0.1", "evil.example:8080", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "10.0.0.5", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "localhost:80@evil.example", False),
        ("0.0.0.0", "10.0.0.5:8080", True),
        ("0.0.0.0", "evil.example", False),
    ],
)
def test_host_names(bound: str, header: str, accepted: bool) -> None:
    assert HostNames(bound, ["my.name"]).accept(header) is accepted


def test_metrics_are_prometheus_text() -> None:
    metrics = Metrics()
    metrics.requests.add(route='/a"b\\c\nd', status="200")
    metrics.seconds.observe(0.02, route="/x")
    metrics.seconds.observe(1e9, route="/x")
    page = metrics.render({"zlrs_level": ("Help.", 2.5)}, {"zlrs_build_info": {"version": "1"}})
    lines = page.splitlines()
    assert r'zlrs_requests_total{route="/a\"b\\c\nd",status="200"} 1' in lines
    assert 'zlrs_request_duration_seconds_bucket{route="/x",le="0.005"} 0' in lines
    assert 'zlrs_request_duration_seconds_bucket{route="/x",le="0.02"} 1' in lines
    assert 'zlrs_request_duration_seconds_bucket{route="/x",le="+Inf"} 2' in lines
    assert 'zlrs_request_duration_seconds_count{route="/x"} 2' in lines
    assert "zlrs_level 2.5" in lines
    assert 'zlrs_build_info{version="1"} 1' in lines
    assert page.endswith("\n")


def asked(**headers: str) -> CIMultiDict[str]:
    return CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})


def test_without_headers_everything_is_default() -> None:
    parsed = parse(asked())
    assert parsed.mode(can_skip=True) == "exact"
    assert not (parsed.historical)
    assert not (parsed.diagnostic)
    assert not (parsed.no_graph)
    assert not (parsed.cache_only)
    assert not (parsed.include)
    assert parsed.values == {rule.canonical: rule.default for rule in RULES}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-ZLRS-Compute", "fast"), ("X-ZLRS-Context", "full;strength=2"),
        ("X-ZLRS-Context", "full;strength=0.05"),
        ("X-ZLRS-Context", "half"), ("X-ZLRS-Context", "full;power=1"), ("X-ZLRS-Guarantee", "yes"),
        ("X-ZLRS-KV-Policy", "drop"), ("X-ZLRS-Ring", "4"), ("X-ZLRS-Ring", "257"), ("X-ZLRS-Ring", "-5"),
        ("X-ZLRS-Ring", "6.5"), ("X-ZLRS-Validation", "true"), ("X-ZLRS-Stream-Mode", "words"),
        ("X-ZLRS-Diagnostic", "1"), ("X-ZLRS-No-Graph", "1"), ("X-ZLRS-No-Graph", ""),
        ("X-ZLRS-Cache-Only", "yes"),
        ("X-ZLRS-Context-Signature", "abc"), ("X-ZLRS-KV-Migrate", "a2b"), ("X-ZLRS-Session", "mine"),
    ],
)  # fmt: skip
def test_a_value_outside_the_table_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse(asked(**{name: value}))
    rule = next(rule for rule in RULES if rule.canonical == name)
    assert caught.value.error.status == 400
    assert name in caught.value.error.message
    assert repr(value) in caught.value.error.message
    assert rule.allowed in caught.value.error.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-ZLRS-Stream-Mode", "semantic"),
    ],
)  # fmt: skip
def test_what_this_version_lacks_is_refused_and_not_ignored(name: str, value: str) -> None:
    with pytest.raises(Refusal, match="not available in this version"):
        parse(asked(**{name: value}))


@pytest.mark.parametrize(
    ("headers", "mode"),
    [
        ({"X-ZLRS-Compute": "legacy"}, "legacy"),
        ({"X-ZLRS-Compute": "Exact"}, "exact"),
        ({"X-ZLRS-Compute": "aggressive"}, "exact;unavailable=aggressive"),
        ({"X-ZLRS-Compute": "sparse-state-aware"}, "exact;missing=context,guarantee"),
        (
            {"X-ZLRS-Compute": "sparse-state-aware", "X-ZLRS-Context": "anchor-prioritized;strength=0.5"},
            "exact;missing=guarantee",
        ),
        (
            {
                "X-ZLRS-Compute": "sparse-state-aware",
                "X-ZLRS-Context": "anchor-prioritized",
                "X-ZLRS-Guarantee": "fidelity-verified",
            },
            "exact;unavailable=anchor",
        ),
        ({"X-ZLRS-KV-Policy": "anchor-first"}, "exact;unavailable=kv-policy"),
        ({"X-Anthropic-KV-Policy": "nonsense"}, "exact;ignored=kv-policy"),
    ],
)
def test_the_receipt_says_what_was_not_skipped(headers: dict[str, str], mode: str) -> None:
    assert parse(asked(**headers)).mode(can_skip=False) == mode


def test_aggressive_where_something_can_be_skipped() -> None:
    aggressive = parse(asked(**{"X-ZLRS-Compute": "aggressive"}))
    assert aggressive.mode(can_skip=True) == aggressive.engine_compute == "aggressive"
    assert aggressive.exact().mode(can_skip=True) == "exact"
    assert parse(asked(), "aggressive").engine_compute == "aggressive"
    for value in ("exact", "legacy", "sparse-state-aware"):
        assert parse(asked(**{"X-ZLRS-Compute": value}), "aggressive").engine_compute == "exact"


@pytest.mark.parametrize("name", ["bypass-zero-layer", "bypass_zero_layer", "X-ZLRS-No-Graph"])
def test_no_graph_under_all_its_names(name: str) -> None:
    parsed = parse(CIMultiDict({name: "TRUE"}))
    assert parsed.no_graph
    assert parsed.historical is (name != "X-ZLRS-No-Graph")


def test_the_canonical_name_wins_over_a_historical_one() -> None:
    both = {"X-ZLRS-Diagnostic": "off", "X-Anthropic-Diagnostic": "full"}
    parsed = parse(CIMultiDict(both))
    assert not parsed.diagnostic
    assert not parsed.historical


def test_include_headers_is_read_from_accept() -> None:
    assert parse(asked(Accept="application/json; include-headers=true")).include


FINISH = Finish("stop", None, Usage(3, 2), 9, Timings(1.0, 2.0, 4.0, 2.5))


def test_receipts_follow_the_spelling_of_the_request() -> None:
    canonical = response_headers(FACTS, parse(asked()), enabled=True, historical=False, measured="queue=1ms")
    assert set(canonical) == set(HISTORICAL) - {"X-ZLRS-Latency"}
    assert canonical["X-ZLRS-Model-Version"] == "m Q4_1 0123456789ab"
    assert canonical["X-ZLRS-Zero-Active"] == "false"
    spoken = parse(asked(**{"X-Anthropic-Diagnostic": "full"}))
    in_kind = response_headers(FACTS, spoken, enabled=True, historical=False, measured="queue=1ms")
    assert set(in_kind) == set(HISTORICAL.values())
    always = response_headers(FACTS, parse(asked()), enabled=True, historical=True)
    assert all(name.startswith("X-Anthropic-") for name in always)
    assert response_headers(FACTS, spoken, enabled=False, historical=True, measured="x") == {}


def test_dense_layers_are_those_that_every_token_went_through() -> None:
    masked = dataclasses.replace(FACTS, empty_layers=(3, 28), mask_sum="ab" * 32)
    counted = Usage(3, 2, sparse_skips=2, row_layer_skips=5, most_layer_skips=4)
    # 30 layers, the last four of them not for every token; one of those was not there anyway.
    assert compute_profile(masked, "aggressive", counted)["dense_layers"] == 25
    assert compute_profile(masked, "aggressive")["dense_layers"] == 28
    assert compute_profile(FACTS, "aggressive", counted)["dense_layers"] == 26
    assert compute_profile(FACTS, "exact", Usage(3, 2))["dense_layers"] == 30


def test_several_answers_count_as_one_and_the_deepest_skip_counts_for_all() -> None:
    usages = [Usage(3, 2, 1, 5, 4, 2, 6, 4), Usage(3, 1, 0, 0, 0, 1, 2, 2), Usage(3, 1)]
    assert total(usages) == Usage(9, 4, 1, 5, 4, 3, 8, 4)


def test_latency_names_what_each_part_measured() -> None:
    timings = Timings(1.0, 2.0, 4.0, 2.5, kv_ms=0.5, decompress_ms=0.25, compute_ms=6.0, io_ms=1.0)
    assert latency(timings, 10.0) == "queue=1.0ms,kv=0.5ms,decomp=0.2ms,compute=6.0ms,io=11.0ms"


def test_end_facts_hold_the_seed_and_what_was_ignored() -> None:
    facts = end_facts(FACTS, parse(asked(**{"X-ZLRS-Diagnostic": "full"})), FINISH, 10.0, ("zoo",))
    assert facts["seed"] == 9
    assert facts["ignored_fields"] == ["zoo"]
    assert "latency" in facts
    assert "latency" not in end_facts(FACTS, parse(asked()), FINISH, 10.0, ())


@given(st.text())
def test_header_values_from_files_are_made_safe(text: str) -> None:
    safe = header_safe(text)
    assert len(safe) <= 128
    assert all(character.isascii() and character.isprintable() for character in safe)
    assert not set(safe) & set(';,="\\ \r\n')


def test_unknown_failures_tell_nothing_and_chat_gets_429() -> None:
    refusal = as_refusal(ValueError("secret path /x"))
    assert refusal.error.status == 500
    assert "secret" not in str(error_object(refusal, "messages", "req_1"))
    full = overloaded("full", retry_after_seconds=3)
    assert full.headers["retry-after"] == "3"
    assert (status_for(full, "messages"), status_for(full, "chat")) == (529, 429)
    assert error_object(full, "chat", "req_1") == {
        "error": {
            "message": "full",
            "type": "overloaded_error",
            "param": None,
            "code": "overloaded",
            "suggestion": OverloadedError.default_suggestion,
        }
    }
