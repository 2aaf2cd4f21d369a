"""Where model files lie, and whether they are what they should be.

`$ZLRS_HOME/models` when `ZLRS_HOME` is set, else `$XDG_CACHE_HOME/zlrs/models` (`~/.cache/zlrs/models`).
A file under its final name is complete and was checked: it gets there by an atomic rename only.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from zlrs.models.errors import ChecksumError

if TYPE_CHECKING:
    from collections.abc import Callable

BUFFER_BYTES = 1 << 20


def home() -> Path:
    """The folder for everything zlrs keeps: models, stores, downloads."""
    explicit = os.environ.get("ZLRS_HOME")
    if explicit:
        return Path(explicit)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "zlrs"


def models_folder() -> Path:
    """The folder of finished model files."""
    return home() / "models"


def sha256_of(path: Path, progress: Callable[[int], None] | None = None) -> str:
    """SHA-256 of a file in lower-case hexadecimal, reading it once in 1 MiB pieces.

    Args:
        path: The file.
        progress: Called with the bytes read so far.
    """
    digest = hashlib.sha256()
    done = 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(BUFFER_BYTES):
            digest.update(piece)
            done += len(piece)
            if progress is not None:
                progress(done)
    return digest.hexdigest()


def check_sum(path: Path, expected: str, name: str, progress: Callable[[int], None] | None = None) -> None:
    """Compare a file's SHA-256 with the known one.

    Raises:
        ChecksumError: Naming both sums.
    """
    found = sha256_of(path, progress)
    if found != expected:
        raise ChecksumError(
            f"{path} is not {name}: its SHA-256 is {found}, expected {expected}",
            f"Remove it with `zlrs models remove {name}` and fetch it again with `zlrs models pull {name}`",
        )
