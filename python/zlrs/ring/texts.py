"""Sources with answers about them, to learn from: given as such, or cut from plain text."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from zlrs.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FILE_LIMIT_BYTES = 64 << 20
SOURCE_CHARACTERS = (160, 1400)
"""A paragraph of plain text shorter or longer than this is no source."""
ANSWER_SENTENCES = 2
FIELDS = (("source", "reference"), ("question", "answer"))
"""Names that the two texts of a line of JSON may have."""

_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z])|(?<=。)")
_CALCULATION = re.compile(r"<<[^>]*>>")


class Pair(NamedTuple):
    """A source, and an answer that is right by it."""

    source: str
    answer: str


def read_pairs(paths: Sequence[Path]) -> list[Pair]:
    """All pairs of some files.

    A `.jsonl` file has an object a line, with `source` and `reference`, or `question` and `answer`. Of any
    other text each paragraph is a source, and those of its sentences that say most are its answer.

    Raises:
        InvalidRequestError: A file is missing, too long, not UTF-8, or has a line that is no pair.
    """
    pairs: list[Pair] = []
    for path in paths:
        try:
            if path.stat().st_size > FILE_LIMIT_BYTES:
                raise InvalidRequestError(
                    f"{path} has {path.stat().st_size} bytes, the limit is {FILE_LIMIT_BYTES}"
                )
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequestError(f"{path} cannot be read as text: {error}") from error
        pairs += _of_lines(path, text) if path.suffix == ".jsonl" else _of_paragraphs(text)
    return pairs


def _of_lines(path: Path, text: str) -> list[Pair]:
    pairs = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        names, fields = _fields_of(path, number, line)
        source, answer = (str(fields[name]) for name in names)
        pairs.append(Pair(source, _CALCULATION.sub("", answer)))
    return pairs


def _fields_of(path: Path, number: int, line: str) -> tuple[tuple[str, str], dict[str, object]]:
    try:
        fields = json.loads(line)
    except ValueError:
        fields = None
    if isinstance(fields, dict):
        for names in FIELDS:
            if all(isinstance(fields.get(name), str) for name in names):
                return names, fields
    known = " or ".join(f"`{source}` and `{answer}`" for source, answer in FIELDS)
    raise InvalidRequestError(f"{path}, line {number}: an object with the texts {known} is wanted")


def _of_paragraphs(text: str) -> list[Pair]:
    least, most = SOURCE_CHARACTERS
    pairs = []
    for paragraph in re.split(r"\n\s*\n|\n(?= = )|(?<= )\n", text):
        source = paragraph.strip()
        if not least <= len(source) <= most:
            continue
        sentences = [sentence.strip() for sentence in _SENTENCE.split(source) if sentence.strip()]
        if len(sentences) <= ANSWER_SENTENCES:
            continue
        said = sorted(sentences, key=_weight, reverse=True)[:ANSWER_SENTENCES]
        # The later one first, so that the answer is no plain continuation.
        answer = " ".join(sorted(said, key=sentences.index, reverse=True))
        pairs.append(Pair(source, answer))
    return pairs


def _weight(sentence: str) -> float:
    """How much a sentence says: numbers and names, over its length."""
    atoms = len(re.findall(r"\d+|(?<= )[A-Z][a-z]+", sentence))
    return atoms / (20 + len(sentence))
