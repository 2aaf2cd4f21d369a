"""What provisional streams tell of single tokens, the same in both protocols."""

from __future__ import annotations

from zlrs.results import Correction, Token


def name_of(about: Token | Correction) -> str:
    """The event's name."""
    return "token" if isinstance(about, Token) else "validation_update"


def fields_of(about: Token | Correction) -> dict[str, object]:
    """What it says."""
    if isinstance(about, Token):
        return {"index": about.index, "text": about.text, "provisional": about.provisional}
    return {
        "index": about.index,
        "original_token": about.original,
        "corrected_token": about.corrected,
    }
