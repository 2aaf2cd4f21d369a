"""Faults put into an answer by rule, with their places: numbers, dates, names, negations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

KINDS = ("number", "date", "name", "negation")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_MONTH = re.compile(r"\b(?:" + "|".join(MONTHS) + r")\b")
_YEAR = re.compile(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{2,}\b")
_VERB = re.compile(r"\b(?:is|are|was|were|has|have|had|can|could|will|would|must|should|may|did|does)\b")
_NOT = re.compile(r" not\b")
_CHINESE_VERB = re.compile(r"(?:可以|应当|能够|有权)")


class Faulty(NamedTuple):
    """An answer with faults: its text, and where it is wrong, in bytes of UTF-8."""

    text: str
    wrong: tuple[tuple[int, int], ...]


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


def corrupt(answer: str, kind: str, random: Random, names: Sequence[str], *, limit: int = 2) -> Faulty | None:
    """The answer with at most `limit` faults of a kind.

    Args:
        answer: A right one.
        kind: One of `KINDS`.
        random: Where choices come from.
        names: Names of other texts, to put in place of right ones.
        limit: Most faults.

    Returns:
        None where the answer has nothing to make such a fault of.
    """
    makers = {"number": _numbers, "date": _dates, "name": _names, "negation": _negations}
    edits = makers[kind](answer, random, names)
    if not edits:
        return None
    chosen = sorted(random.sample(edits, min(limit, len(edits))))
    return _apply(answer, chosen)


def _apply(answer: str, edits: Sequence[_Edit]) -> Faulty:
    parts: list[str] = []
    wrong: list[tuple[int, int]] = []
    at = length = 0
    for edit in edits:
        before = answer[at : edit.start]
        # What both have in common at the beginning is not wrong yet.
        common = 0
        old = answer[edit.start : edit.end]
        while common < min(len(old), len(edit.text)) and old[common] == edit.text[common]:
            common += 1
        length += len(before.encode())
        start = length + len(edit.text[:common].encode())
        length += len(edit.text.encode())
        # Where something is left out, what comes in its place is wrong.
        wrong.append((start, max(length, start + 1)))
        parts += [before, edit.text]
        at = edit.end
    return Faulty("".join(parts) + answer[at:], tuple(wrong))


def _other_digit(digits: str, random: Random) -> str:
    place = random.randrange(len(digits))
    while not digits[place].isdigit():
        place = random.randrange(len(digits))
    choices = [d for d in "0123456789" if d != digits[place] and not (place == 0 and d == "0")]
    return digits[:place] + random.choice(choices) + digits[place + 1 :]


def _numbers(answer: str, random: Random, _names: Sequence[str]) -> list[_Edit]:
    found = [match for match in _NUMBER.finditer(answer) if not _YEAR.fullmatch(match[0])]
    return [_Edit(*match.span(), _other_digit(match[0], random)) for match in found]


def _dates(answer: str, random: Random, _names: Sequence[str]) -> list[_Edit]:
    edits = [
        _Edit(*match.span(), random.choice([month for month in MONTHS if month != match[0]]))
        for match in _MONTH.finditer(answer)
    ]
    for match in _YEAR.finditer(answer):
        year = int(match[0]) + random.choice([-11, -7, -3, -2, -1, 1, 2, 3, 7, 11])
        edits.append(_Edit(*match.span(), str(year)))
    return edits


def _names(answer: str, random: Random, names: Sequence[str]) -> list[_Edit]:
    others = [name for name in names if name not in answer]
    if not others:
        return []
    found = [match for match in _NAME.finditer(answer) if match[0] not in MONTHS]
    return [_Edit(*match.span(), random.choice(others)) for match in found]


def _negations(answer: str, _random: Random, _names: Sequence[str]) -> list[_Edit]:
    edits = [_Edit(*match.span(), "") for match in _NOT.finditer(answer)]
    edits += [
        _Edit(match.end(), match.end(), " not")
        for match in _VERB.finditer(answer)
        if not _NOT.match(answer, match.end())
    ]
    return edits + [_Edit(match.start(), match.start(), "不") for match in _CHINESE_VERB.finditer(answer)]


def names_of(text: str) -> list[str]:
    """Names in the middle of sentences."""
    return [match[0] for match in _NAME.finditer(text) if match[0] not in MONTHS]
