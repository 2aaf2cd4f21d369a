"""`zlrs audit LOG [--learn]`: what the graph would have answered of a log, before it is switched on."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from zlrs import traffic_log
from zlrs.errors import InvalidRequestError, NotFoundError
from zlrs.graph import DecisionGraph, GraphSettings

if TYPE_CHECKING:
    from pathlib import Path

    from zlrs.graph import Decision, Pool
    from zlrs.traffic_log import Exchange

_STEP_MS = 1000
"""Between requests of a log without times."""


@dataclass
class Report:
    """What was found."""

    records: int = 0
    unreadable: int = 0
    without_answer: int = 0
    too_old: int = 0
    same: int = 0
    same_answers: Counter[str] = field(default_factory=Counter)
    canonical: int = 0
    misses: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    not_kept: Counter[str] = field(default_factory=Counter)
    pools: list[Pool] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """For programs."""
        return {
            "records": self.records,
            "unreadable": self.unreadable,
            "without_answer": self.without_answer,
            "too_old": self.too_old,
            "same": self.same,
            "canonical": self.canonical,
            "misses": self.misses,
            "skipped": dict(self.skipped),
            "not_kept": dict(self.not_kept),
            "pools": msgspec.to_builtins(self.pools),
        }


def audit_log(path: Path, folder: Path | None, headers: list[tuple[bytes, bytes]], upstream: str) -> Report:
    """Send a log's requests through a graph, its answers as the upstream's.

    Args:
        path: The log.
        folder: Where to keep what is learnt; `None` keeps nothing. Kept are answers that are in the log,
            under the time it gives for them: one that is older than an answer lives is left out.
        headers: Sent with every request: what identifies the tenant.
        upstream: The upstream's name, as the sidecar has it configured.
    """
    report = Report()
    settings = GraphSettings(
        credential_check=False, canonical="shadow", recheck=False, audit=False, read_deadline_ms=1000
    )
    with DecisionGraph(folder, settings) as graph:
        if graph.state() != "ready":
            raise NotFoundError(f"the graph cannot be opened: {graph.state()}")
        # Clocks that never run back: logs are rarely in perfect order. Without a folder it is the log's own.
        now_ms = 0
        for exchange in traffic_log.read(path):
            report.records += 1
            if exchange is None:
                report.unreadable += 1
                continue
            if folder is None:
                now_ms = max(now_ms + 1, exchange.at_ms or now_ms + _STEP_MS)
                answered_ms = now_ms
            else:
                now_ms = max(now_ms, time.time_ns() // 1_000_000)
                answered_ms = min(exchange.at_ms or now_ms, now_ms)
                if answered_ms + settings.ttl_s * 1000 <= now_ms:
                    report.too_old += 1
                    continue
            decision = _asked(graph, exchange, headers, upstream, now_ms, report)
            if decision is None:
                continue
            answer = exchange.answer
            if answer is None:
                report.without_answer += 1
                if folder is not None:
                    # Nothing was said, so there is nothing to keep and nothing to compare.
                    report.misses += 1
                    continue
                # A stand-in makes the next equal request a repeat; it says the same to every wording.
                answer = _stand_in(exchange)
            _answered(graph, decision, exchange.status, answer, answered_ms, report)
        graph.flush()
        # What stand-ins were compared with each other shows nothing.
        report.pools = graph.pools() if folder is not None or not report.without_answer else []
    return report


def _asked(
    graph: DecisionGraph,
    exchange: Exchange,
    headers: list[tuple[bytes, bytes]],
    upstream: str,
    now_ms: int,
    report: Report,
) -> Decision | None:
    """The decision about a request that would have gone upstream; `None` for any other."""
    sent = [*exchange.headers, *headers]
    decision = graph.decide("POST", exchange.path, "", sent, exchange.body, upstream, now_ms)
    if decision.kind == "skipped":
        report.skipped[decision.reason] += 1
        return None
    if decision.kind == "hit":
        report.same += 1
        return None
    return decision


def _answered(
    graph: DecisionGraph, decision: Decision, status: int, answer: bytes, at_ms: int, report: Report
) -> None:
    before = graph.stats()
    settled = graph.settle(decision, status, [(b"content-type", b"application/json")], answer, True, at_ms)
    after = graph.stats()
    # Another wording of a question whose answer was there, confirmed or not yet.
    if after["learned"] + after["trials"] > before["learned"] + before["trials"]:
        report.canonical += 1
    else:
        report.misses += 1
    if settled != "stored":
        report.not_kept[settled.split(";", 1)[0]] += 1


def _stand_in(exchange: Exchange) -> bytes:
    model = json.loads(exchange.body).get("model", "")
    if exchange.path == traffic_log.PATHS["messages"]:
        answer: dict[str, object] = {
            "id": "msg_log", "type": "message", "role": "assistant", "model": model,
            "content": [{"type": "text", "text": "not in the log"}], "stop_reason": "end_turn",
            "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
    else:
        message = {"role": "assistant", "content": "not in the log"}
        answer = {
            "id": "chatcmpl-log", "object": "chat.completion", "created": 1, "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }  # fmt: skip
    return json.dumps(answer).encode()


def show(report: Report, *, as_json: bool, kept_in: Path | None) -> int:
    """Print a report."""
    if as_json:
        print(json.dumps(report.as_dict(), indent=1))
        return 0
    total = max(1, report.records)

    def line(name: str, count: int, note: str = "") -> None:
        print(f"{name:<11} {count:>8}  {100 * count / total:5.1f} %  {note}".rstrip())

    line("requests", report.records)
    line("same", report.same, "the same request again: answered at once, by default")
    line("canonical", report.canonical, "another wording of one: answered once its class has proven itself")
    line("misses", report.misses, "asked for the first time")
    line("skipped", sum(report.skipped.values()), "never answered from the graph:")
    for reason, count in report.skipped.most_common():
        line(f"  {reason}", count)
    if report.not_kept:
        line("not kept", sum(report.not_kept.values()), "answers that may not be stored:")
        for reason, count in report.not_kept.most_common():
            line(f"  {reason}", count)
    left_out = (
        ("unreadable", report.unreadable, "records without a request"),
        ("too old", report.too_old, "answered longer ago than an answer lives: neither asked nor kept"),
    )
    for name, count, note in left_out:
        if count:
            line(name, count, note)
    _show_evidence(report)
    if kept_in is not None:
        print(f"kept in {kept_in}: the answers, and what comparing them has shown")
    return 0


def _show_evidence(report: Report) -> None:
    if report.without_answer:
        print(f"{report.without_answer} misses have no answer in the log, so nothing was compared there")
    for pool in report.pools:
        about, seen = pool.class_, pool.evidence
        print(
            f"class       {about.route} {about.kind} {about.language} {about.model}: "
            f"n={seen.trials} s={seen.wrong} bound={pool.bound:.5f}"
        )


def headers_of(options: list[str], environment: dict[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers named as NAME=VARIABLE; their values come from the environment.

    Raises:
        InvalidRequestError: One is not of this form, or its variable is not set.
    """
    found = []
    for option in options:
        name, separator, variable = option.partition("=")
        if not separator or not name:
            raise InvalidRequestError(f"--header {option!r} is not NAME=VARIABLE")
        value = environment.get(variable)
        if value is None:
            raise InvalidRequestError(f"--header {name}: the variable {variable} is not set")
        found.append((name.lower().encode(), value.encode()))
    return found
