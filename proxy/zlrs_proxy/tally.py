"""Metrics of several workers as one: each writes its text to a folder, whoever is asked adds them up."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_LIVE = ".prom"
_ENDED = "ended.sums"
# What all workers see of one store, or what each says of one upstream: the highest is the truth, not the sum.
_SHARED = ("zlrs_graph_entries", "zlrs_graph_bytes", "zlrs_proxy_upstream_breaker_open")
# What ends with the process that says it.
_PASSING = ("zlrs_proxy_in_flight", "zlrs_graph_cached_bodies", "zlrs_graph_cached_bytes", *_SHARED)


class Tally:
    """One worker's place in the folder.

    Args:
        folder: Shared by the workers of one sidecar, readable for its owner only.
        index: Which worker this is.
    """

    def __init__(self, folder: str, index: int) -> None:
        self._folder = Path(folder)
        self._own = self._folder / f"{index}.{os.getpid()}{_LIVE}"

    def publish(self, text: str) -> None:
        """Let the others see this worker's metrics."""
        _write(self._own, text)

    def sums(self, own: str) -> str:
        """This worker's metrics added to the last that the others have published, and to those that ended."""
        others = [path for path in sorted(self._folder.glob(f"*{_LIVE}")) if path != self._own]
        texts = [own, *(_read(path) for path in others)]
        ended = _read(self._folder / _ENDED)
        return merged(texts, ended) + (
            "# HELP zlrs_proxy_workers Workers that publish their metrics.\n"
            f"# TYPE zlrs_proxy_workers gauge\nzlrs_proxy_workers {len(texts)}\n"
        )


def retire(folder: str, index: int, process: int) -> None:
    """A worker has ended: its counters stay in the sums, so that they never go down."""
    path = Path(folder) / f"{index}.{process}{_LIVE}"
    text = _read(path)
    if text:
        ended = Path(folder) / _ENDED
        _write(ended, merged([], text, _read(ended)))
        path.unlink()


def merged(live: list[str], *ended: str) -> str:
    """Metrics texts as one.

    Args:
        live: Of workers that run.
        ended: Of workers that do not: only what is counted over time is taken.
    """
    values: dict[str, float] = {}
    comments: dict[str, dict[str, None]] = {}
    order: dict[str, list[str]] = {}
    for text, is_live in [*((one, True) for one in live), *((one, False) for one in ended)]:
        about = ""
        for line in text.splitlines():
            if line.startswith("#"):
                about = line.split(" ", 3)[2]
                comments.setdefault(about, {})[line] = None
                order.setdefault(about, [])
                continue
            sample, _, number = line.rpartition(" ")
            if not is_live and about in _PASSING:
                continue
            value = float(number)
            if sample not in values:
                order.setdefault(about, []).append(sample)
                values[sample] = value
            elif about in _SHARED:
                values[sample] = max(values[sample], value)
            else:
                values[sample] += value
    lines: list[str] = []
    for about, samples in order.items():
        if samples or is_counted(comments.get(about, {})):
            lines += comments.get(about, {})
            lines += [f"{sample} {_shown(values[sample])}" for sample in samples]
    return "\n".join(lines) + "\n" if lines else ""


def is_counted(comments: dict[str, None]) -> bool:
    """Whether a metric without a value yet is shown all the same, as one worker alone would."""
    return any(line.startswith("# TYPE") and not line.endswith("gauge") for line in comments)


def _shown(value: float) -> str:
    return str(int(value)) if value.is_integer() else f"{value:.6f}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _write(path: Path, text: str) -> None:
    """Whole or not at all; metrics that cannot be written stop nothing."""
    temporary = path.with_suffix(".new")
    with contextlib.suppress(OSError):
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
