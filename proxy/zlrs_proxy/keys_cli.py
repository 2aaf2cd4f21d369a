"""`zlrs proxy keys`: make a client key, which is printed once and kept as a keyed hash."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from zlrs_proxy.keys import issue
from zlrs_proxy.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence


def command(argv: Sequence[str]) -> int:
    """Make a key; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="zlrs proxy keys",
        description="Make a client key: it is printed once, the file keeps a keyed hash of it.",
        epilog="To take a key back, remove its line and send the sidecar SIGHUP.",
        allow_abbrev=False,
    )
    parser.add_argument("action", choices=["add"])
    parser.add_argument("name", help="whose key it is; appears in the access log")
    parser.add_argument("--file", required=True, metavar="FILE", help="what --keys-file names")
    parser.add_argument("--requests-per-minute", type=_positive, metavar="N")
    parser.add_argument("--tokens-per-minute", type=_positive, metavar="N")
    options = parser.parse_args(list(argv))
    limits = {
        name: value
        for name in ("requests_per_minute", "tokens_per_minute")
        if (value := getattr(options, name)) is not None
    }
    try:
        key, line = issue(options.name, limits)
        _append(Path(options.file).expanduser(), line)
    except (SettingsError, OSError) as error:
        print(f"zlrs proxy keys: {error}", file=sys.stderr)  # noqa: T201 - the command line's own message
        return 1
    with contextlib.suppress(BrokenPipeError):
        print(key, flush=True)  # noqa: T201 - this command's output
    return 0


def _append(path: Path, line: str) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "rb+", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        ends_well = True
        if size:
            file.seek(size - 1)
            ends_well = file.read(1) == b"\n"
        file.write((b"" if ends_well else b"\n") + line.encode() + b"\n")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value
