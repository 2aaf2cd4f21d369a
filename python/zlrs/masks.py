"""Mask files: reading and writing them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from zlrs import _core
from zlrs.errors import ConfigurationError
from zlrs.streams import reraise

FILE_LIMIT_BYTES = 64 << 20


def load_mask(path: str | os.PathLike[str]) -> _core.Mask:
    """Read a mask file.

    Raises:
        ConfigurationError: There is no such file, it is too long, or it is not, bit for bit, a mask.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_LIMIT_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"the mask {os.fspath(path)} cannot be read: {error.strerror}") from error
    try:
        return _core.Mask.from_bytes(data)
    except _core.CoreError as error:
        reraise(error)


def save_mask(mask: _core.Mask, path: str | os.PathLike[str]) -> None:
    """Write a mask file; it is there complete or not at all."""
    save_bytes(mask.to_bytes(), path)


def save_bytes(data: bytes, path: str | os.PathLike[str]) -> None:
    """Write a file that is there complete or not at all."""
    target = Path(path)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
