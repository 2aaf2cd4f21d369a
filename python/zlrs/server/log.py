"""Log lines: one JSON object a line on stderr. Nothing is logged per token or per successful request."""

from __future__ import annotations

import sys
import time

import msgspec


def log(event: str, /, **fields: str | float | bool | None) -> None:
    """Write `{"time", "event", …}`. Texts of prompts, answers and keys do not belong here."""
    line = {"time": round(time.time(), 3), "event": event, **fields}
    sys.stderr.write(msgspec.json.encode(line).decode() + "\n")
    sys.stderr.flush()
