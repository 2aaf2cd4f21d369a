"""What outlives the process: the secret behind fingerprints, in a folder that only its owner reads."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from zlrs.graph import default_directory
from zlrs_proxy.settings import SettingsError

_SECRET_BYTES = 32


def default_folder() -> Path:
    """`$ZLRS_HOME/proxy`, else `$XDG_DATA_HOME/zlrs/proxy` (`~/.local/share`)."""
    return default_directory().parent / "proxy"


def open_secret(folder: str | None) -> bytes:
    """The secret of a state folder, made on first use; a fresh one for this process without a folder.

    Raises:
        SettingsError: The folder cannot be used, or the file in it is damaged.
    """
    if folder is None:
        return secrets.token_bytes(_SECRET_BYTES)
    path = Path(folder).expanduser() / "fingerprint.key"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _create(path)
        found = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot use {path}: {type(error).__name__}") from error
    if len(found) != _SECRET_BYTES:
        raise SettingsError(f"{path} is damaged; remove it to get a new one (shares are then drawn anew)")
    return found


def _create(path: Path) -> None:
    """Several processes may start at once: the first link wins, all read the same."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, secrets.token_hex(_SECRET_BYTES).encode() + b"\n")
        os.fsync(descriptor)
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        os.close(descriptor)
        temporary.unlink()
