"""Prometheus text (format 0.0.4) from a handful of counters. Every label comes from a short fixed list."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SECONDS_BUCKETS = (0.005, 0.02, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    escaped = (
        (name, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")) for name, value in labels
    )
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped) + "}"


class Counter:
    """Values that only grow, one a set of labels."""

    kind = "counter"

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self._values: dict[Labels, float] = {}

    def add(self, amount: float = 1, **labels: str) -> None:
        """Add to the counter of these labels."""
        key = tuple(labels.items())
        self._values[key] = self._values.get(key, 0) + amount

    def lines(self) -> list[str]:
        """Samples in text form."""
        return [f"{self.name}{_labels(labels)} {value:g}" for labels, value in sorted(self._values.items())]


class Histogram:
    """Counts of durations per upper bound, one set a set of labels."""

    kind = "histogram"

    def __init__(self, name: str, text: str, bounds: tuple[float, ...] = SECONDS_BUCKETS) -> None:
        self.name = name
        self.text = text
        self._bounds = bounds
        self._values: dict[Labels, tuple[list[int], list[float]]] = {}

    def observe(self, value: float, **labels: str) -> None:
        """Count one value, in seconds."""
        key = tuple(labels.items())
        counts, total = self._values.setdefault(key, ([0] * (len(self._bounds) + 1), [0.0]))
        place = next((i for i, bound in enumerate(self._bounds) if value <= bound), len(self._bounds))
        counts[place] += 1
        total[0] += value

    def lines(self) -> list[str]:
        """Samples in text form: cumulative buckets, sum and count."""
        lines = []
        for labels, (counts, total) in sorted(self._values.items()):
            seen = 0
            for bound, count in zip([f"{b:g}" for b in self._bounds] + ["+Inf"], counts, strict=True):
                seen += count
                lines.append(f"{self.name}_bucket{_labels((*labels, ('le', bound)))} {seen}")
            lines.append(f"{self.name}_sum{_labels(labels)} {total[0]:.6f}")
            lines.append(f"{self.name}_count{_labels(labels)} {seen}")
        return lines


class Metrics:
    """All metrics of the server."""

    def __init__(self) -> None:
        self.requests = Counter("zlrs_requests_total", "Answered requests by route and status.")
        self.seconds = Histogram("zlrs_request_duration_seconds", "Time from request to last byte, by route.")
        self.first_token = Histogram("zlrs_time_to_first_token_seconds", "Time from request to first token.")
        self.tokens = Counter("zlrs_tokens_total", "Tokens by type: input or output.")
        self.finished = Counter("zlrs_generations_total", "Ended answers by reason.")
        self.decisions = Counter("zlrs_graph_decisions_total", "Decisions of the decision graph by kind.")
        self.settled = Counter("zlrs_graph_settled_total", "Answers offered to the decision graph by result.")
        self.masked = Counter("zlrs_zero_layer_answers_total", "Answers by a load with a mask, by mask.")
        self.checked = Counter("zlrs_zero_layer_checked_tokens_total", "Masked tokens re-run in full.")
        self.misfires = Counter(
            "zlrs_zero_layer_misfires_total", "Of those, tokens the full model would have chosen otherwise."
        )
        self.ignored = Counter("zlrs_ignored_fields_total", "Requests with body fields that are not known.")

    def render(self, gauges: Mapping[str, tuple[str, float]], facts: Mapping[str, Mapping[str, str]]) -> str:
        """The page.

        Args:
            gauges: name -> (help, value now).
            facts: name of an `_info` metric -> its labels.
        """
        lines = []
        for metric in vars(self).values():
            if isinstance(metric, (Counter, Histogram)):
                lines += [f"# HELP {metric.name} {metric.text}", f"# TYPE {metric.name} {metric.kind}"]
                lines += metric.lines()
        for name, (text, value) in gauges.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        for name, labels in facts.items():
            lines += [f"# HELP {name} Constant 1 with facts as labels.", f"# TYPE {name} gauge"]
            lines.append(f"{name}{_labels(tuple(labels.items()))} 1")
        return "\n".join(lines) + "\n"
