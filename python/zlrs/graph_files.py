"""A graph's directory on disk, looked at from outside. `zlrs.graph` exports all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from zlrs import _core
from zlrs.errors import from_core
from zlrs.graph_types import Pool

if TYPE_CHECKING:
    import os


class StoredEntry(msgspec.Struct, frozen=True):
    """The row of an entry, without its answer. Names are 64 hexadecimal digits."""

    row: int
    key: str
    node: str
    scope: str
    tenant: str
    route: str
    created_ms: int
    expires_ms: int
    body_bytes: int
    answer_hash: str
    key_id: str
    holds: bool
    """Whether hash and signature hold."""


class VerifyReport(msgspec.Struct, frozen=True):
    """What a check of a graph's directory found. `named` are the first hundred faults."""

    entries: int
    pools: int
    chains: int
    records: int
    dropped_records: int
    open_chains: int
    faults: int
    named: list[str]
    entries_ms: float
    records_ms: float


class GraphFiles:
    """A graph's directory, looked at without opening the graph. A running graph is not disturbed.

    Args:
        path: The directory.

    Raises:
        APIError: There is no graph, or it cannot be read. Every method raises it too.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self._core = _core.GraphFiles(path)
        except _core.CoreError as error:
            raise from_core(error) from None

    def public_key(self) -> str:
        """The key that entries and chains are signed with, 64 hexadecimal digits."""
        return self._core.public_key()

    def entries(self, prefix: str = "", limit: int = 1000) -> list[StoredEntry]:
        """Entries whose key, node, scope or tenant begins with these hexadecimal digits, oldest first.

        Reads every row.
        """
        try:
            return msgspec.json.decode(self._core.entries(prefix, limit), type=list[StoredEntry])
        except _core.CoreError as error:
            raise from_core(error) from None

    def export(self) -> list[str]:
        """Every entry with its answer and signature, one JSON text each."""
        try:
            return self._core.export()
        except _core.CoreError as error:
            raise from_core(error) from None

    def pools(self) -> list[Pool]:
        """What comparisons have shown, by class."""
        try:
            return msgspec.json.decode(self._core.pools(), type=list[Pool])
        except _core.CoreError as error:
            raise from_core(error) from None

    def records(self, audit_id: str) -> list[dict[str, object]]:
        """The audit records of a decision and about it."""
        try:
            return msgspec.json.decode(self._core.records(audit_id), type=list[dict[str, object]])
        except _core.CoreError as error:
            raise from_core(error) from None

    def verify(self) -> VerifyReport:
        """Check every signature, hash, seal and chain."""
        try:
            return msgspec.json.decode(self._core.verify(), type=VerifyReport)
        except _core.CoreError as error:
            raise from_core(error) from None


def repeat(record: dict[str, object]) -> tuple[str, str]:
    """Make the decision of an audit record again: what was recorded, and what its inputs give now.

    Raises:
        ConflictError: The record is not one of a decision, or is of another version.
    """
    try:
        return _core.repeat_decision(msgspec.json.encode(record).decode())
    except _core.CoreError as error:
        raise from_core(error) from None
