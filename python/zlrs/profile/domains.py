"""Calibration texts: one domain a file, cut into windows of tokens."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from zlrs.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE_LIMIT_BYTES = 64 << 20
SUFFIXES = {".txt", ".md", ".json", ".jsonl", ".py", ".rs", ".csv"}


class Encodes(Protocol):
    """A model that makes tokens of texts."""

    def encode(self, text: str, /) -> list[int]:
        """Tokens of a text."""


class Domain(NamedTuple):
    """Texts of one kind."""

    name: str
    windows: list[list[int]]
    """Tokens, `window_tokens` each."""


class DomainText(NamedTuple):
    """A text before it is cut."""

    name: str
    text: str


def read_texts(paths: Sequence[Path]) -> list[DomainText]:
    """Every file is a domain named after its stem; a folder gives its files; nothing, the built-in texts.

    Raises:
        InvalidRequestError: A file is missing, too long or not UTF-8, or two have one name.
    """
    if not paths:
        folder = resources.files("zlrs.profile") / "texts"
        found = [(Path(entry.name).stem, entry.read_text("utf-8")) for entry in folder.iterdir()]
        return [DomainText(name, text) for name, text in sorted(found)]
    texts: dict[str, str] = {}
    for path in (file for given in paths for file in _files(given)):
        if path.stem in texts:
            raise InvalidRequestError(f"two files are named {path.stem}; a domain is named after its file")
        texts[path.stem] = _read(path)
    return [DomainText(name, text) for name, text in texts.items()]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    if not files:
        raise InvalidRequestError(f"{path} has no text files ({', '.join(sorted(SUFFIXES))})")
    return files


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > FILE_LIMIT_BYTES:
            raise InvalidRequestError(
                f"{path} has {path.stat().st_size} bytes, the limit is {FILE_LIMIT_BYTES}"
            )
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"{path} cannot be read as text: {error}") from error


def sum_of(texts: Sequence[DomainText]) -> bytes:
    """SHA-256 over names and texts, in order."""
    total = hashlib.sha256()
    for text in texts:
        for part in (text.name.encode(), text.text.encode()):
            total.update(len(part).to_bytes(8, "little") + part)
    return total.digest()


def read_domains(
    meter: Encodes, texts: Sequence[DomainText], *, window_tokens: int, windows: int
) -> list[Domain]:
    """Cut every text into `windows` windows, spread over its length.

    Raises:
        InvalidRequestError: A text is too short for two windows.
    """
    domains = []
    for text in texts:
        ids = meter.encode(text.text[: windows * window_tokens * 64])
        there = len(ids) // window_tokens
        if there < 2:  # noqa: PLR2004 - one to search with, one to check with
            raise InvalidRequestError(
                f"the text {text.name} has {len(ids)} tokens; two windows of {window_tokens} are the least"
            )
        count = min(windows, there)
        starts = [index * there // count * window_tokens for index in range(count)]
        domains.append(Domain(text.name, [ids[start : start + window_tokens] for start in starts]))
    return domains
