"""Several continuations of one prompt: what each is told, and under which name it comes back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zlrs.languages import LANGUAGES
from zlrs.types import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

TAG = re.compile(r"[A-Za-z0-9._-]{1,64}")
LANGUAGE = re.compile(r"[a-z]{2}")
BRANCH_LIMIT = 32
"""Most branches or conversations of one call: as many answers as are computed at once."""


@dataclass(frozen=True)
class Branch:
    """One continuation.

    Attributes:
        tag: Its name in the result: letters, digits, `.`, `_`, `-`, at most 64. Two lower-case letters are a
            language by ISO 639-1.
        instruction: What this one is told, after the last turn's text. With a language it may be left out: it
            is then to answer in that language.
        max_tokens: At most so many new tokens; by default what the call says.
    """

    tag: str
    instruction: str | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if TAG.fullmatch(self.tag) is None:
            raise ValueError(f"a tag has 1 … 64 letters, digits, `.`, `_` or `-` (given {self.tag[:80]!r})")
        if LANGUAGE.fullmatch(self.tag) and self.tag not in LANGUAGES:
            raise ValueError(f"{self.tag!r} is no language of ISO 639-1; other tags have another length")
        if self.text is None:
            raise ValueError(
                f"branch {self.tag!r} needs an `instruction`; only languages have one of their own"
            )

    @property
    def text(self) -> str | None:
        """What it is told."""
        if self.instruction is None and self.tag in LANGUAGES:
            return f"Answer in {LANGUAGES[self.tag]}."
        return self.instruction

    def turns(self, turns: Sequence[Message]) -> tuple[Message, ...]:
        """The conversation with the instruction; all before it is shared with the other branches.

        Raises:
            ValueError: The last turn is not the user's.
        """
        if not turns or turns[-1].role != "user":
            raise ValueError("branches need a conversation that ends with a turn of the user")
        last = turns[-1]
        told = f"{last.content}\n\n{self.text}" if self.text else last.content
        return (*turns[:-1], Message(last.role, told))


def require_branches(branches: Sequence[Branch]) -> None:
    """Refuse none, too many, and two of one name.

    Raises:
        ValueError: With numbers.
    """
    if not 1 <= len(branches) <= BRANCH_LIMIT:
        raise ValueError(f"1 … {BRANCH_LIMIT} branches can be answered in one call (given {len(branches)})")
    tags = [branch.tag for branch in branches]
    double = next((tag for tag in tags if tags.count(tag) > 1), None)
    if double is not None:
        raise ValueError(f"two branches have the tag {double!r}; each needs its own")
