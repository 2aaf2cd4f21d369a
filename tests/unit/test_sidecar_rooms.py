"""The sidecar's small parts against plain statements of what they do."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import sys
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

from support.mock_upstream import chat_chunks, messages_events
from zlrs_proxy import accept, coding, ids, logs, metrics, names
from zlrs_proxy.decide import skipped
from zlrs_proxy.flight import Flights, Outcome
from zlrs_proxy.route import Endpoint, Upstream, endpoint_of
from zlrs_proxy.settings import Settings
from zlrs_proxy.tap import Tap
from zlrs_proxy.watch import Watch

LIMIT = 10_000


@given(
    st.binary(max_size=LIMIT + 50),
    st.sampled_from(["gzip", "x-gzip", "GZIP ", "deflate", "raw", "identity", ""]),
)
def test_decoding_undoes_each_coding_up_to_the_limit(data, name) -> None:
    raw = zlib.compressobj(wbits=-15)
    members = gzip.compress(data[:7]) + gzip.compress(data[7:])
    packed = {
        "gzip": gzip.compress(data), "x-gzip": gzip.compress(data), "GZIP ": members,
        "deflate": zlib.compress(data), "raw": raw.compress(data) + raw.flush(), "identity": data, "": data,
    }[name]  # fmt: skip
    given_name = "deflate" if name == "raw" else name
    if len(data) > LIMIT:
        with pytest.raises(coding.CodingError, match="too_large"):
            coding.decode(packed, given_name, LIMIT)
    else:
        assert coding.decode(packed, given_name, LIMIT) == data


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate", "br", "gzip, gzip"]), st.integers(1, 50))
def test_decoding_of_anything_gives_bytes_or_a_reason(data, name, cut) -> None:
    for packed in (data, gzip.compress(data)[:-cut], zlib.compress(data)[:-cut]):
        out, reason = outcome(packed, name)
        assert (out is None) == (reason in {"encoded_body", "malformed", "too_large"})
        assert out is None or len(out) <= LIMIT


def outcome(packed: bytes, name: str) -> tuple[bytes | None, str]:
    try:
        return coding.decode(packed, name, LIMIT), ""
    except coding.CodingError as error:
        return None, error.reason


def test_a_bomb_is_opened_only_to_the_limit() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    with pytest.raises(coding.CodingError, match="too_large"):
        coding.decode(bomb, "gzip", LIMIT)
    with pytest.raises(coding.CodingError, match="malformed"):
        coding.decode(gzip.compress(b"") * 100_000, "gzip", LIMIT)


@pytest.mark.parametrize(
    ("endpoint", "events"),
    [
        (Endpoint.MESSAGES, messages_events("hello [DONE] 世界")),
        (Endpoint.CHAT, chat_chunks('say "message_stop"')),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_stream_has_ended_exactly_at_its_last_event(endpoint, events, newline, size) -> None:
    whole = b"".join(events).replace(b"\n", newline.encode())
    tap = Tap(1 << 20, endpoint)
    tap.begin(200, ((b"Content-Type", b"text/event-stream"),))
    for start in range(0, len(whole), size):
        assert not tap.has_ended()
        tap.feed(whole[start : start + size])
    assert tap.has_ended()


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(0, 400))
def test_a_tap_keeps_all_or_nothing(pieces, limit) -> None:
    tap = Tap(limit, Endpoint.OTHER)
    tap.begin(200, ())
    for piece in pieces:
        tap.feed(piece)
    whole = b"".join(pieces)
    assert tap.count == len(whole)
    assert tap.overflowed == (len(whole) > limit)
    assert tap.decoded() == (b"" if tap.overflowed else whole)


@given(st.lists(st.tuples(st.sampled_from(["A", "a", "B", "x-Y"]), st.text(max_size=5)), max_size=12))
def test_headers_keep_their_values_in_order(pairs) -> None:
    raw = [(name.encode(), value.encode("utf-8", "surrogatepass")) for name, value in pairs]
    text, refused = names.to_text(raw)
    expected: CIMultiDict[str] = CIMultiDict()
    bad = []
    for name, value in pairs:
        if any("\ud800" <= c <= "\udfff" for c in value):
            bad.append(name.lower())
        else:
            expected.add(name, value)
    assert {name.lower(): text.getall(name) for name in text} == {
        name.lower(): expected.getall(name) for name in expected
    }
    assert [name.lower() for name in refused] == bad
    spellings = {}
    for name in text:
        assert spellings.setdefault(name.lower(), name) == name


@given(st.text(max_size=60))
def test_only_the_exact_paths_are_understood(path) -> None:
    target = accept.Target(path, "")
    found = endpoint_of("POST", target)
    assert found is {"/v1/messages": Endpoint.MESSAGES, "/v1/chat/completions": Endpoint.CHAT}.get(
        path, Endpoint.OTHER
    )


@pytest.mark.parametrize(
    "path",
    ["/v1/messages/", "//v1/messages", "/V1/messages", "/v1/messages;x", "/v1%2fmessages", "/v1/./messages"],
)
def test_spellings_that_servers_fold_together_are_not_understood(path) -> None:
    assert endpoint_of("POST", accept.Target(path, "")) is Endpoint.OTHER
    assert endpoint_of("GET", accept.Target("/v1/messages", "")) is Endpoint.OTHER


@given(st.from_regex(r"/[!-\"$-~]{0,60}", fullmatch=True))
def test_targets_go_upstream_byte_for_byte(text) -> None:
    path, mark, query = text.partition("?")
    target = accept.Target(path, mark + query)
    url = Upstream("http://127.0.0.1:9").url(target)
    # The one thing that is lost on the way is the question mark of an empty query.
    assert url.raw_path_qs == (text if query else path)
    assert (url.scheme, url.host, url.port, url.user) == ("http", "127.0.0.1", 9, None)


def test_ids_sort_by_time_and_differ() -> None:
    found = [ids.request_id() for _ in range(1000)]
    assert len(set(found)) == 1000
    for one in found:
        digits = one.removeprefix("req_")
        assert len(digits) == 32
        assert digits[12] == "7"
        assert digits[16] in "89ab"
    assert [one[:16] for one in found] == sorted(one[:16] for one in found)


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer CANARY",
        "authorization=CANARY",
        '{"x-api-key": "CANARY"}',
        "GET /v1?key=CANARY&a=1",
        "api_key=CANARY",
        "sk-CANARY",
        "basic CANARY",
    ],
)
def test_log_lines_hide_what_looks_like_a_credential(text) -> None:
    record = logging.LogRecord("x", logging.INFO, "f", 1, "saw %s", (text,), None)
    record.fields = {"detail": text}
    line = logs.JsonLines().format(record)
    assert "CANARY" not in line
    assert json.loads(line)["level"] == "info"


def test_log_lines_name_exceptions_without_their_texts() -> None:
    try:
        int("CANARY in a request")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "fault", (), sys.exc_info())
    line = json.loads(logs.JsonLines().format(record))
    assert line["error"] == "ValueError"
    assert "CANARY" not in str(line)
    assert __file__ in line["at"][-1]


@given(st.lists(st.text(max_size=30), max_size=200))
@settings(max_examples=30)
def test_settle_results_make_a_bounded_number_of_series(results) -> None:
    counted = metrics.Metrics()
    for result in results:
        counted.settle(result)
    lines = [line for line in counted.text({}).splitlines() if line.startswith("zlrs_proxy_settled_total{")]
    assert len(lines) <= 33
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == len(results)


def test_histogram_counts_each_duration_once_in_every_bucket_above_it() -> None:
    histogram = metrics.Histogram("h", "t")
    for seconds in (0.0, 0.001, 0.3, 1e9):
        histogram.observe(seconds)
    lines = list(histogram.lines())
    assert 'h_bucket{le="0.0005"} 1' in lines
    assert 'h_bucket{le="0.001"} 2' in lines
    assert 'h_bucket{le="0.5"} 3' in lines
    assert 'h_bucket{le="+Inf"} 4' in lines
    assert lines[-1] == "h_count 4"


async def test_watch_fires_once_after_silence_and_not_while_resting() -> None:
    fired = []
    watch = Watch()
    watch.wait(0.02, lambda: fired.append("a"))
    watch.rest()
    await asyncio.sleep(0.05)
    assert not fired
    watch.wait(10, lambda: fired.append("late"))
    watch.wait(0.02, lambda: fired.append("b"))
    await asyncio.sleep(0.05)
    assert fired == ["b"]
    watch.wait(0.02, lambda: fired.append("c"))
    watch.stop()
    await asyncio.sleep(0.05)
    assert fired == ["b"]


async def test_watch_is_put_off_by_every_sign_of_life() -> None:
    fired = []
    watch = Watch()
    for _ in range(10):
        watch.wait(0.06, lambda: fired.append(1))
        await asyncio.sleep(0.01)
        assert not fired
    watch.stop()


async def test_flights_tell_who_waits_and_forget() -> None:
    flights = Flights()
    before = flights.count
    flight = flights.lead("k")
    waiting = [asyncio.ensure_future(flight.wait(5)) for _ in range(3)]
    await asyncio.sleep(0)
    assert flight.followers == 3
    assert await flight.wait(0) is None
    flights.end("k", flight, Outcome.STORED)
    assert await asyncio.gather(*waiting) == [Outcome.STORED] * 3
    assert flights.join("k") is None
    assert flights.landed_since("k", before)
    assert not flights.landed_since("k", flights.count)
    assert not flights.landed_since("other", before)
    for i in range(5000):
        flights.end(f"{i}", flights.lead(f"{i}"), Outcome.STORED)
    assert len(flights._landed) <= 1024


def test_skipped_verdicts_name_their_reason() -> None:
    assert skipped("x") == ("skipped", "skipped;reason=x", "", "", None)


def test_settings_show_no_secret() -> None:
    assert "env" in repr(Settings(upstream="http://x", upstream_key_env="env"))
