"""Does leaving work out pay, and does it change answers? Two ways to answer, asked in turns and compared."""

from __future__ import annotations

from zlrs.verify.compare import Answer, Schedule, Tally, Turn, Verification

__all__ = ["Answer", "Schedule", "Tally", "Turn", "Verification"]
