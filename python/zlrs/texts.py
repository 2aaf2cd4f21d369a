"""Texts of request bodies: where they stand, hygiene by named rules, and masks over personal numbers.

>>> from zlrs.texts import SAFE_RULES, clean, redact
>>> clean("too  many   spaces ", SAFE_RULES)
('too many spaces', {'trailing_spaces': 1, 'repeated_spaces': 3})
>>> redact("my card is 4111 1111 1111 1111", ["bank_card"], kept=4)
('my card is **** **** **** 1111', {'bank_card': 1})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zlrs import _core

if TYPE_CHECKING:
    from collections.abc import Sequence

_RULES, _KINDS = _core.text_names()

RULES = tuple(name for name, _ in _RULES)
"""All rules of hygiene, in the order in which they are applied."""
SAFE_RULES = tuple(name for name, is_safe in _RULES if is_safe)
"""Those that take away nothing a reader could see."""
KINDS = tuple(_KINDS)
"""All kinds of personal numbers that can be told by their shape and check digits."""

MARK = "*"
FIRST_SYSTEM, SYSTEM, USER, TOOL, ASSISTANT = "first_system", "system", "user", "tool", "assistant"


class Place(NamedTuple):
    """A text of a conversation: where it is, who wrote it, the bytes of its string with the quotes."""

    path: str
    writer: str
    start: int
    end: int
    text: str


class Member(NamedTuple):
    """A member of the outermost object and the bytes of its value."""

    name: str
    start: int
    end: int


class Places(NamedTuple):
    """The places of a body."""

    texts: list[Place]
    members: dict[str, Member]
    inside: int
    """Behind the opening brace of the outermost object."""


def places(body: bytes) -> Places | None:
    """The places of a Messages, Chat, Responses or batch body; None when it is not one strict JSON value.

    Linear in its length. Of a conversation's texts it finds strings, text blocks and the contents of tool
    results; it does not look into tool calls, documents or pictures.
    """
    found = _core.text_places(body)
    if found is None:
        return None
    texts, members, inside = found
    return Places(
        [Place(*text) for text in texts],
        {name: Member(name, start, end) for name, start, end in members},
        inside,
    )


def clean(text: str, rules: Sequence[str]) -> tuple[str, dict[str, int]]:
    """The text cleaned by some of `RULES`, and how many characters each took away or changed. Linear.

    Code and quotations stay as they are, but for control and zero-width characters.

    Raises:
        ValueError: There is no such rule.
    """
    cleaned, applied = _core.clean_text(text, list(rules))
    return cleaned, {rule: applied[rule] for rule in RULES if rule in applied}


def redact(text: str, kinds: Sequence[str], kept: int = 0) -> tuple[str, dict[str, int]]:
    """The text with `*` for the letters and digits of personal numbers, and how many of each kind there were.

    Linear. A number counts as one only with its right check digits, where its kind has any.

    Args:
        text: What to look through.
        kinds: Some of `KINDS`.
        kept: How many of the last letters and digits of each stay.

    Raises:
        ValueError: There is no such kind.
    """
    masked, found = _core.mask_personal(text, list(kinds), MARK, kept)
    return masked, {kind: found[kind] for kind in KINDS if kind in found}
