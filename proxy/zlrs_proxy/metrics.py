"""Counters for Prometheus, with labels from fixed lists: no request can make a new series."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

OTHER = "other"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ENDPOINTS = ("messages", "chat", OTHER)
_DECISIONS = ("hit", "miss", "skipped", "fill", "refused")
_STATUS_CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")
_UPSTREAM_ERRORS = (
    "connect_timeout",
    "first_byte",
    "tls",
    "unreachable",
    "closed",
    "malformed",
    "cut",
    "idle",
)
_SETTLE_RESULTS = 32
_SECONDS = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
)
_RATIOS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 10.0)


class Counter:
    """Counts by labels, every combination of which is known from the start."""

    def __init__(self, name: str, text: str, labels: Mapping[str, tuple[str, ...]]) -> None:
        self.name = name
        self._text = text
        self._labels = dict(labels)
        self._values: dict[tuple[str, ...], int] = {}

    def add(self, *values: str) -> None:
        """Count one; a value that is not on its list counts as `other`."""
        if values in self._values:
            self._values[values] += 1
            return
        key = tuple(
            value if value in allowed else OTHER
            for value, allowed in zip(values, self._labels.values(), strict=True)
        )
        self._values[key] = self._values.get(key, 0) + 1

    def allow(self, label: str, values: Iterable[str]) -> None:
        """Take further values from the configuration; those known before stay."""
        self._labels[label] = tuple(dict.fromkeys((*self._labels[label], *values)))

    def get(self, *values: str) -> int:
        """The count so far."""
        return self._values.get(values, 0)

    def lines(self) -> Iterable[str]:
        """The text form."""
        yield f"# HELP {self.name} {self._text}"
        yield f"# TYPE {self.name} counter"
        for key, count in sorted(self._values.items()):
            labels = ",".join(f'{name}="{value}"' for name, value in zip(self._labels, key, strict=True))
            yield f"{self.name}{{{labels}}} {count}"


class Histogram:
    """Values, durations unless said otherwise, in fixed buckets."""

    def __init__(self, name: str, text: str, bounds: tuple[float, ...] = _SECONDS) -> None:
        self.name = name
        self._text = text
        self._bounds = bounds
        self._buckets = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one."""
        self._buckets[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self) -> Iterable[str]:
        """The text form."""
        yield f"# HELP {self.name} {self._text}"
        yield f"# TYPE {self.name} histogram"
        total = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._buckets, strict=True):
            total += count
            yield f'{self.name}_bucket{{le="{bound}"}} {total}'
        yield f"{self.name}_sum {self._sum:.6f}"
        yield f"{self.name}_count {total}"


class Metrics:
    """What the sidecar counts."""

    def __init__(self) -> None:
        self.requests = Counter(
            "zlrs_proxy_requests_total",
            "Requests by endpoint, by what was decided and by class of the status sent.",
            {"endpoint": _ENDPOINTS, "decision": _DECISIONS, "status": _STATUS_CLASSES},
        )
        self.upstream = Counter(
            "zlrs_proxy_upstream_responses_total",
            "Answers of the upstream by class of their status.",
            {"status": _STATUS_CLASSES},
        )
        self.upstream_errors = Counter(
            "zlrs_proxy_upstream_errors_total",
            "Calls upstream without a whole answer.",
            {"kind": _UPSTREAM_ERRORS},
        )
        self.clients_gone = Counter(
            "zlrs_proxy_clients_gone_total", "Clients that left before their answer was whole.", {}
        )
        self.followers = Counter(
            "zlrs_proxy_followers_total",
            "Asks that waited for the same ask under way, by how it ended.",
            {"outcome": ("stored", "not_stored", "lost", "timeout")},
        )
        self.rechecks = Counter(
            "zlrs_proxy_rechecks_total",
            "Hits that were due for a check against upstream; left_out: past the limit.",
            {"outcome": ("made", "left_out")},
        )
        self.malformed = Counter("zlrs_proxy_malformed_total", "What came in and was not HTTP.", {})
        self.retries = Counter(
            "zlrs_proxy_retries_total",
            "Further calls upstream for one request, to another upstream or again.",
            {"kind": ("fallback", "again")},
        )
        self.limited = Counter("zlrs_proxy_limited_total", "Requests over a limit of their key.", {})
        self.rules = Counter(
            "zlrs_proxy_rule_requests_total",
            "Asks that went past the graph by rule or by their cohort's share.",
            {"rule": ("cohort_ratio",)},
        )
        self.usage_dropped = Counter(
            "zlrs_proxy_usage_dropped_total", "Answers or rows whose tokens were not accounted.", {}
        )
        self.recounted = Histogram(
            "zlrs_proxy_recount_delta_ratio",
            "Own count of input tokens against the upstream's, as a distance relative to it.",
            _RATIOS,
        )
        self._local_tokens = 0
        self._upstream_tokens = 0
        self.reloads = Counter(
            "zlrs_proxy_reloads_total", "Reloads of the configuration.", {"result": ("good", "bad")}
        )
        self.breakers: Callable[[], Mapping[str, str]] = dict
        """Gives the state of each upstream's breaker."""
        self.decide_seconds = Histogram("zlrs_proxy_decide_seconds", "Time to decide.")
        self.first_byte_seconds = Histogram(
            "zlrs_proxy_first_byte_seconds", "From the request's head to the first byte of the answer."
        )
        self.in_flight = 0
        self._settled: dict[str, int] = {}

    def recount(self, local: int, upstream: int) -> None:
        """Two counts of one prompt."""
        self._local_tokens += local
        self._upstream_tokens += upstream
        if upstream > 0:
            self.recounted.observe(abs(local - upstream) / upstream)

    def settle(self, result: str) -> None:
        """Count a result of settle: its first word, and only so many different ones."""
        word = result.partition(":")[0].partition("=")[0].partition(" ")[0][:40]
        if word not in self._settled and len(self._settled) >= _SETTLE_RESULTS:
            word = OTHER
        self._settled[word] = self._settled.get(word, 0) + 1

    def settled(self, word: str) -> int:
        """How many results began with this word."""
        return self._settled.get(word, 0)

    def text(self, graph: Mapping[str, int]) -> str:
        """Everything in the Prometheus text format; `graph` adds the graph's own numbers."""
        lines: list[str] = []
        for metric in (
            self.requests,
            self.upstream,
            self.upstream_errors,
            self.clients_gone,
            self.followers,
            self.rechecks,
            self.malformed,
            self.retries,
            self.limited,
            self.rules,
            self.usage_dropped,
            self.reloads,
            self.recounted,
            self.decide_seconds,
            self.first_byte_seconds,
        ):
            lines.extend(metric.lines())
        lines += [
            "# HELP zlrs_proxy_settled_total Answers by what became of them.",
            "# TYPE zlrs_proxy_settled_total counter",
        ]
        lines += [
            f'zlrs_proxy_settled_total{{result="{_label(word)}"}} {n}'
            for word, n in sorted(self._settled.items())
        ]
        lines += [
            "# HELP zlrs_proxy_in_flight Requests being answered now.",
            "# TYPE zlrs_proxy_in_flight gauge",
        ]
        lines.append(f"zlrs_proxy_in_flight {self.in_flight}")
        lines += [
            "# HELP zlrs_proxy_recount_tokens_total Input tokens of recounted prompts, by who counted.",
            "# TYPE zlrs_proxy_recount_tokens_total counter",
            f'zlrs_proxy_recount_tokens_total{{side="local"}} {self._local_tokens}',
            f'zlrs_proxy_recount_tokens_total{{side="upstream"}} {self._upstream_tokens}',
            "# HELP zlrs_proxy_upstream_breaker_open Whether an upstream is passed over.",
            "# TYPE zlrs_proxy_upstream_breaker_open gauge",
        ]
        lines += [
            f'zlrs_proxy_upstream_breaker_open{{upstream="{_label(label)}"}} {int(state != "closed")}'
            for label, state in sorted(self.breakers().items())
        ]
        for name, value in sorted(graph.items()):
            lines += [f"# TYPE zlrs_graph_{name} gauge", f"zlrs_graph_{name} {value}"]
        return "\n".join(lines) + "\n"


def status_class(status: int) -> str:
    """`2xx` and so on."""
    return f"{status // 100}xx"


def _label(value: str) -> str:
    return "".join(c if c.isalnum() or c in "_-." else "_" for c in value)
