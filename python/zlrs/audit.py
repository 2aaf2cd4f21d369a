"""The audit log: check its chains, read their records.

A chain is a file of JSON lines that one process wrote; `docs/decision-graph.md` describes the format.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from zlrs import _core
from zlrs.errors import from_core

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

_OWN_KINDS = frozenset({"start", "checkpoint", "end", "dropped"})


class Report(NamedTuple):
    """What a good chain holds."""

    records: int
    signed_records: int
    dropped_records: int
    ended: bool
    cut_line: bool


class Record(NamedTuple):
    """One line of a chain."""

    sequence: int
    body: dict[str, object]

    @property
    def kind(self) -> str:
        """`decision`, `settled`, `withdrawn`, or the chain's own."""
        return str(self.body.get("kind", ""))


class _Line(msgspec.Struct):
    seq: int
    body: dict[str, object]


def chains(folder: str | os.PathLike[str]) -> list[Path]:
    """The chains in the audit folder of a graph's directory, oldest first."""
    return sorted(Path(folder, "audit").glob("chain_*.jsonl"))


def verify(path: str | os.PathLike[str], key: str | None = None) -> Report:
    """Check every number, link, hash and signature of a chain.

    Args:
        path: The chain.
        key: The public key it must be signed with (64 hexadecimal digits). Without it the key in the first
            line is believed, which shows damage but not a chain made by somebody else.

    Raises:
        ConflictError: It is not what was written; the first bad record is named.
        NotFoundError: It cannot be read.
        ValueError: The key is none.
    """
    try:
        found = _core.verify_audit(path, key)
    except _core.CoreError as error:
        raise from_core(error) from None
    return Report(
        found["records"],
        found["signed_records"],
        found["dropped_records"],
        bool(found["ended"]),
        bool(found["cut_line"]),
    )


def records(path: str | os.PathLike[str], *, own: bool = False) -> Iterator[Record]:
    """The records of a chain in order, unchecked; a last line that was cut off is left out.

    Args:
        path: The chain.
        own: Also the lines that the chain is made of: beginning, checkpoints, end.
    """
    decoder = msgspec.json.Decoder(_Line)
    with Path(path).open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            parsed = decoder.decode(line)
            record = Record(parsed.seq, parsed.body)
            if own or record.kind not in _OWN_KINDS:
                yield record
