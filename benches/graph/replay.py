"""Traffic sent through a graph in memory, and what came of it.

The clock is a simulated one: a request each half second. An oracle with the same routes serves whatever was
asked before in this wording or, where the canonical route may serve, has been answered twice in this form
(that route's gate); how old an answer is, and what was still to be proven, does not matter to it.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from report import Figure

from graph.traffic import Ask, request, says, usual
from zlrs.graph import DecisionGraph, GraphSettings

if TYPE_CHECKING:
    from graph.traffic import Question, Upstream

HEAD = [(b"content-type", b"application/json")]
START_MS = 1_800_000_000_000
STEP_MS = 500
STALE_SHARE = 0.03
CONFIDENCE = 0.95
OK = 200
GATE = 2
"""Answers that agree, before another wording of their form may be served."""
ROUTES = ("same", "canonical", "edge")
Mode = Literal["off", "shadow", "bounded"]
Preset = Literal["strict", "standard", "trial"]


@dataclass(frozen=True)
class Plan:
    """How a replay is run."""

    name: str
    mode: Mode = "bounded"
    preset: Preset = "strict"
    go_stale: bool = False
    has_patterns: bool = True
    edge: Mode = "off"
    prewarm: int = 0
    """Questions asked once in their usual wording before the traffic begins."""
    late_part: float = 0.25
    """The last part of the traffic, which counts as after the warm-up."""


@dataclass
class Outcome:
    """What a replay came to. The last two lists hold an item for each stale answer that was served."""

    plan: Plan
    requests: int = 0
    hits: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ROUTES, 0))
    wrong: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ROUTES, 0))
    not_upstreams: int = 0
    late_hits: int = 0
    late_possible: int = 0
    late_ungated: int = 0
    late_requests: int = 0
    late_calls: int = 0
    first_hit: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    rechecks: int = 0
    overdue: int = 0
    pools: list[str] = field(default_factory=list)
    trials: int = 0
    trials_wrong: int = 0
    seconds: float = 0.0
    waited_ms: float = 0.0
    stale_serves: list[int] = field(default_factory=list)
    stale_seconds: list[float] = field(default_factory=list)


class Replay:
    """One run of a plan."""

    def __init__(self, plan: Plan, asks: list[Ask], upstream: Upstream) -> None:
        self.asks, self.upstream = asks, upstream
        self.outcome = Outcome(plan, requests=len(asks))
        self._said: dict[tuple[str, str], set[str]] = {}
        self._answers: Counter[tuple[Question, str]] = Counter()
        self._stale: set[Question] = set()
        self._wrong_ms: dict[tuple[str, str], list[int]] = {}
        settings = GraphSettings(
            canonical=plan.mode, preset=plan.preset, built_in_patterns=plan.has_patterns, edge=plan.edge
        )
        self._graph = DecisionGraph(None, settings)

    def run(self) -> Outcome:
        """Send everything."""
        plan, outcome = self.outcome.plan, self.outcome
        half, late = len(self.asks) // 2, round(len(self.asks) * (1 - plan.late_part))
        began = time.perf_counter()
        with self._graph:
            for ask in self._questions(plan.prewarm):
                self._send(ask, START_MS - 1000, is_counted=False)
            for index, ask in enumerate(self.asks):
                if plan.go_stale and index == half:
                    self._age(self.asks[:index])
                calls = self.upstream.calls
                self._send(ask, START_MS + index * STEP_MS, is_late=index >= late, number=index)
                if index >= late:
                    outcome.late_requests += 1
                    outcome.late_calls += self.upstream.calls - calls
            self._finish()
        outcome.seconds = time.perf_counter() - began
        return outcome

    def _questions(self, count: int) -> list[Ask]:
        """The most frequent questions, each in its usual wording; the operator's file."""
        asked: dict[Question, int] = {}
        for ask in self.asks:
            asked[ask.question] = asked.get(ask.question, 0) + 1
        chosen = sorted(asked, key=lambda question: (-asked[question], question))[:count]
        return [usual(question) for question in chosen]

    def _send(
        self, ask: Ask, now_ms: int, *, is_late: bool = False, is_counted: bool = True, number: int = 0
    ) -> None:
        outcome, key = self.outcome, (ask.text, ask.question.tier)
        decision = self._graph.decide(*request(ask), now_ms)
        is_hit = decision.kind == "hit"
        if is_late:
            answers = self._answers[ask.question, ask.form] if outcome.plan.mode == "bounded" else 0
            outcome.late_possible += key in self._said or answers >= GATE
            outcome.late_ungated += key in self._said or answers > 0
            outcome.late_hits += is_hit
        if is_hit and is_counted:
            self._count(ask, key, decision.route, b"".join(decision.replay()), now_ms)
            outcome.first_hit.setdefault(decision.route, number)
        outcome.overdue += "reason=recheck" in decision.header
        if is_hit and not decision.recheck:
            return
        outcome.rechecks += is_hit
        before = self.upstream.milliseconds
        status, body = self.upstream.answer(ask.question)
        if not is_hit:
            outcome.waited_ms += self.upstream.milliseconds - before
        if status == OK:
            message = json.loads(body)
            self._said.setdefault(key, set()).add(message["content"][0]["text"])
            self._answers[ask.question, ask.form] += message["stop_reason"] == "end_turn"
        self._graph.settle(decision, status, HEAD, body, True, now_ms + 100)

    def _count(self, ask: Ask, key: tuple[str, str], route: str, body: bytes, now_ms: int) -> None:
        outcome = self.outcome
        text = json.loads(body)["content"][0]["text"]
        outcome.hits[route] += 1
        if route == "same":
            outcome.not_upstreams += text not in self._said[key]
        if not says(text, self.upstream.truth(ask.question)):
            outcome.wrong[route] += 1
            if ask.question in self._stale:
                self._wrong_ms.setdefault(key, []).append(now_ms)

    def _age(self, asked: list[Ask]) -> None:
        """Change the truth of a share of the questions that were asked."""
        chosen = sorted({ask.question for ask in asked})[:: round(1 / STALE_SHARE)]
        for question in chosen:
            self.upstream.epochs[question] = self.upstream.epochs.get(question, 0) + 1
        self._stale = set(chosen)

    def _finish(self) -> None:
        outcome, stats = self.outcome, self._graph.stats()
        outcome.trials, outcome.trials_wrong = stats["trials"], stats["trials_wrong"]
        for pool in self._graph.pools():
            seen, about = pool.evidence, pool.class_
            outcome.pools.append(
                f"{about.kind}/{about.language}: {seen.progress.step}, U={pool.bound:.5f}, n={seen.trials}, "
                f"s={seen.wrong}, ever {seen.total_trials}/{sum(seen.causes)}"
            )
        outcome.calls = self.upstream.calls
        outcome.stale_serves = [len(times) for times in self._wrong_ms.values()]
        outcome.stale_seconds = [(times[-1] - times[0]) / 1000 for times in self._wrong_ms.values()]


def upper(wrong: int, hits: int) -> float:
    """Exact one-sided 95 % upper limit of a rate (Clopper and Pearson)."""
    if hits == 0 or wrong >= hits:
        return 1.0
    low, high = wrong / hits, 1.0
    for _ in range(60):
        p = (low + high) / 2
        below = sum(
            math.exp(
                math.lgamma(hits + 1) - math.lgamma(k + 1) - math.lgamma(hits - k + 1)
                + k * math.log(p) + (hits - k) * math.log1p(-p)
            )
            for k in range(wrong + 1)
        )  # fmt: skip
        low, high = (p, high) if below > 1 - CONFIDENCE else (low, p)
    return high


def limit(wrong: int, hits: int) -> str:
    """A rate with its limit, for a note."""
    return f"{wrong} of {hits}; 95 % upper limit {100 * upper(wrong, hits):.4f} %"


def figures_of(outcome: Outcome) -> list[Figure]:
    """What is reported of a replay."""
    plan, count = outcome.plan, outcome.requests
    hits, wrong = sum(outcome.hits.values()), sum(outcome.wrong.values())
    pools = "; ".join(outcome.pools) if plan.mode == "bounded" else "shadow serves none"
    others = outcome.not_upstreams
    late = outcome.late_hits / max(1, outcome.late_possible)
    intercept = 100 * (1 - outcome.late_calls / max(1, outcome.late_requests))

    def figure(
        what: str, unit: str, value: float, note: str = "", target: str = "", *, met: bool | None = None
    ) -> Figure:
        return Figure(f"{plan.name}: {what}", unit, value, target=target, met=met, note=note)

    found = [figure("hits", "%", 100 * hits / count, f"{count} requests")]
    for route in ROUTES:
        if outcome.hits[route]:
            served, bad = outcome.hits[route], outcome.wrong[route]
            first = f"the first was request {outcome.first_hit.get(route, -1) + 1}"
            found += [
                figure(f"hits over {route}", "%", 100 * served / count, first),
                figure(f"wrong per hit over {route}", "%", 100 * bad / served, limit(bad, served)),
            ]
    ungated = outcome.late_hits / max(1, outcome.late_ungated)
    oracle = (
        f"last {100 * plan.late_part:.0f} % of the traffic; {outcome.overdue} overdue; "
        f"against one that needs a single answer: {ungated:.3f}"
    )
    cost = f"calls, re-checks among them; without those {100 * hits / count:.1f} %"
    stable = not plan.go_stale and plan.mode == "bounded"
    found += [
        figure(
            "hits after warm-up / an oracle's", "ratio", late, oracle,
            ">= 0.95" if stable else "", met=late >= 0.95 if stable else None,
        ),
        figure("spared upstream calls after warm-up", "%", intercept, cost, ">= 45", met=intercept >= 45),
        figure("wrong per hit", "%", 100 * wrong / max(1, hits), limit(wrong, hits)),
        figure("same hits the upstream never gave", "count", others, "", "0", met=others == 0),
        figure("re-checks per hit", "ratio", outcome.rechecks / max(1, hits), f"{outcome.rechecks} made"),
        figure("upstream calls per request", "ratio", outcome.calls / count),
        figure("trials", "count", outcome.trials, f"{outcome.trials_wrong} wrong; {pools}"),
    ]  # fmt: skip
    if outcome.stale_serves:
        median, longest = statistics.median(outcome.stale_serves), max(outcome.stale_seconds)
        note = f"{len(outcome.stale_serves)} stale answers were served, one {max(outcome.stale_serves)} times"
        found += [
            figure("wrong serves per stale answer, median", "count", median, note, "<= 3", met=median <= 3),
            figure("longest from first to last", "s", longest, "", "<= 3600", met=longest <= 3600),
        ]
    return found
