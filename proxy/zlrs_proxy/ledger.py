"""Sums of tokens by minute, model, upstream and cohort: what was spent upstream, what the graph saved.

One file of JSON lines a process. No text, no key and no name of a caller is in it.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zlrs_proxy.usage import Usage

OTHER = "other"
_MODELS_LIMIT = 200
_COHORTS_LIMIT = 50
_NAME_LENGTH = 100


class Key(NamedTuple):
    """What sums are kept apart by."""

    minute: int
    what: str
    """`spent`: an answer of the upstream. `saved`: of the graph. `merged`: of the graph, after waiting for
    another's call. `unknown`: an answer of the upstream that does not say what it used."""
    model: str
    upstream: str
    cohort: str


class Row(msgspec.Struct):
    """One line of a ledger: a key and its sums."""

    minute: int
    what: str
    model: str
    upstream: str
    cohort: str
    requests: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    declared: int = 0
    """Sum of the `max_tokens` that the requests named."""


class Ledger:
    """Adds up in memory; `write` appends the minutes that are over.

    Args:
        folder: Where the file goes; it is made with the first line.
        started_ms: Names the file.
    """

    def __init__(self, folder: str, started_ms: int) -> None:
        self._folder = Path(folder).expanduser() / "ledger"
        self._path = self._folder / f"{started_ms:013d}_{secrets.token_hex(4)}.jsonl"
        self._rows: dict[Key, Row] = {}
        self._models: set[str] = set()
        self._cohorts: set[str] = set()

    def add(
        self,
        now_ms: int,
        what: str,
        model: str,
        upstream: str,
        cohort: str,
        usage: Usage,
        declared: int,
        times: int = 1,
    ) -> None:
        """Add one answer, or one that was given so many times.

        Names beyond the first 200 models and 50 cohorts count as `other`.
        """
        key = Key(
            now_ms // 60_000,
            what,
            _bounded(model, self._models, _MODELS_LIMIT),
            upstream,
            _bounded(cohort, self._cohorts, _COHORTS_LIMIT),
        )
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = Row(*key)
        row.requests += times
        row.input += usage.input * times
        row.output += usage.output * times
        row.cache_read += usage.cache_read * times
        row.cache_write += usage.cache_write * times
        row.declared += declared * times

    def take(self, before_ms: int | None) -> list[Row]:
        """The rows of minutes that are over, or all; they are not kept here any more."""
        now = None if before_ms is None else before_ms // 60_000
        done = [key for key in self._rows if now is None or key.minute < now]
        return [self._rows.pop(key) for key in done]

    def write(self, rows: list[Row]) -> None:
        """Append rows. For worker threads.

        Raises:
            OSError: They could not be written and are lost.
        """
        if not rows:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, lines)
        finally:
            os.close(descriptor)


def read(folder: str | Path) -> Iterator[Row]:
    """The rows of all processes; a line that was cut off is left out.

    Raises:
        OSError: A file cannot be read.
        ValueError: A whole line is not a row; file and line are named.
    """
    decoder = msgspec.json.Decoder(Row)
    for path in sorted(Path(folder).expanduser().glob("ledger/*.jsonl")):
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    yield decoder.decode(line)
                except msgspec.DecodeError as error:
                    raise ValueError(f"{path}, line {number}: {error}") from error


def _bounded(name: str, seen: set[str], limit: int) -> str:
    shown = json.dumps(name[:_NAME_LENGTH])[1:-1]
    if shown in seen:
        return shown
    if len(seen) >= limit:
        return OTHER
    seen.add(shown)
    return shown
