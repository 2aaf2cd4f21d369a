"""What the command prints: data to stdout, everything else to stderr, colour only where it is wanted."""

from __future__ import annotations

import os
import sys

RED = "31"
CYAN = "36"


def coloured(text: str, code: str) -> str:
    """Text in a colour on a terminal; `NO_COLOR` forbids and `FORCE_COLOR` demands it."""
    if os.environ.get("NO_COLOR"):
        return text
    wanted = bool(os.environ.get("FORCE_COLOR")) or (sys.stderr.isatty() and os.environ.get("TERM") != "dumb")
    return f"\x1b[{code}m{text}\x1b[0m" if wanted else text


def print_error(message: str, suggestion: str = "") -> None:
    """`error:` with what is wrong, and `hint:` with what to do."""
    print(f"{coloured('error:', RED)} {message}", file=sys.stderr)
    if suggestion:
        print(f"{coloured('hint:', CYAN)} {suggestion}", file=sys.stderr)


def note(text: str) -> None:
    """A line for people."""
    print(text, file=sys.stderr, flush=True)
