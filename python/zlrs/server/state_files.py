"""Saved sessions on disk: names that no caller chooses, a note that says whose and until when, limits.

The file of a session is called after the SHA-256 of its secret, so that a server that has never seen the
session (after a restart, or a replica with the same folder) finds it, and nobody learns a secret from a name.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from zlrs.config import ConfigError
from zlrs.errors import KvCorruptError, KvIncompatibleError, SessionExpiredError
from zlrs.types import Message  # noqa: TC001 - msgspec reads it when it decodes a note

if TYPE_CHECKING:
    from collections.abc import Callable

    from zlrs.config.model import SessionSettings
    from zlrs.engine import Engine
    from zlrs.kept import Fit, Kept, Saved
    from zlrs.server.sessions import Session

KEY_BYTES = 32
SUFFIX = ".zlrs-session"
CLOCK_TOLERANCE_SECONDS = 60.0
"""How far the wall clock may go back before a saved time is not believed."""


class Note(msgspec.Struct, frozen=True):
    """What is kept beside a session's tokens."""

    id: str
    digest: bytes
    model: str
    profile: dict[str, str]
    idle_seconds: float
    created: float
    saved: float
    turns: tuple[Message, ...]
    answers: int


class StateFiles:
    """The folder of saved sessions and the key that seals them.

    Args:
        settings: Folder, key and limits.
        wall: Clock for expiry across restarts, seconds since 1970.

    Raises:
        ConfigError: The folder or the key cannot be used.
    """

    def __init__(self, settings: SessionSettings, wall: Callable[[], float]) -> None:
        if settings.path is None:
            raise ValueError("session.path is not set")
        self._settings = settings
        self._wall = wall
        self.folder = Path(settings.path).expanduser()
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            given = settings.key_file
            self._key = _key(self.folder / "key" if given is None else Path(given).expanduser())
        except OSError as error:
            raise ConfigError(
                f"cannot use {self.folder} for sessions: {error}", "Check `session.path`"
            ) from error

    def derived(self, purpose: str) -> bytes:
        """A key of its own for another purpose; the same in every process with this folder."""
        return hmac.digest(self._key, purpose.encode(), "sha256")

    def path(self, digest: bytes) -> Path:
        """Where the session with a secret of this digest is saved."""
        return self.folder / (digest.hex() + SUFFIX)

    def save(self, session: Session) -> Saved:
        """Write a session. For a thread: it waits for the disk.

        Raises:
            ContextOverflowError: Its text alone is over the limit.
            APIError: The system did not write the file.
        """
        note = Note(
            session.id, session.digest, session.model, dict(session.profile), session.idle_seconds,
            session.created, self._wall(), session.turns, session.answers,
        )  # fmt: skip
        limit = self._settings.file_limit_bytes
        saved = session.kept.save(
            self.path(session.digest),
            self.derived("state"),
            note=msgspec.json.encode(note),
            limit_bytes=limit,
        )
        self._make_room()
        return saved

    def restore(self, engine: Engine, digest: bytes, tenant: bytes) -> tuple[Note, Kept, Fit]:
        """Read a saved session. For a thread.

        Raises:
            SessionExpiredError: There is none, or it is over.
            SessionForbiddenError: It is another credential's.
            KvCorruptError: The file is not what was saved.
            KvIncompatibleError: It was saved with another key, by another version, or is over the limit; it
                is left where it is.
        """
        path = self.path(digest)
        kept, fit, text = engine.restore_kept(
            path, self.derived("state"), limit_bytes=self._settings.file_limit_bytes, tenant=tenant
        )
        try:
            note = self._checked(text, digest)
        except BaseException:
            kept.let_go()
            raise
        return note, kept, fit

    def _checked(self, text: bytes, digest: bytes) -> Note:
        """The note of a state whose seal was good: of this session, and not too old.

        Raises:
            KvIncompatibleError: It is no note that this version writes.
            KvCorruptError: It is another session's.
            SessionExpiredError: It is too old, or from the future.
        """
        try:
            note = msgspec.json.decode(text, type=Note)
        except msgspec.MsgspecError as error:
            raise KvIncompatibleError("the note of a saved state cannot be read by this version") from error
        if not hmac.compare_digest(note.digest, digest):
            raise KvCorruptError("a saved state is another session's")
        age = self._wall() - note.saved
        if age >= note.idle_seconds:
            self.forget(digest)
        if age >= note.idle_seconds or age < -CLOCK_TOLERANCE_SECONDS:
            raise SessionExpiredError("this session is over")
        return note

    def forget(self, digest: bytes) -> None:
        """Remove a session's file, if there is one."""
        with contextlib.suppress(OSError):
            self.path(digest).unlink()

    def sweep(self) -> None:
        """Remove what cannot be restored any more: by its age on disk, so that nothing has to be read."""
        oldest = self._wall() - self._settings.idle_seconds - CLOCK_TOLERANCE_SECONDS
        for _, path, modified in self._files():
            if modified < oldest:
                with contextlib.suppress(OSError):
                    path.unlink()

    def _files(self) -> list[tuple[int, Path, float]]:
        """Size, path and time of each saved session and of each unfinished write."""
        found = []
        with contextlib.suppress(OSError):
            for entry in os.scandir(self.folder):
                if SUFFIX in entry.name and entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        found.append((status.st_size, Path(entry.path), status.st_mtime))
        return found

    def _make_room(self) -> None:
        """Remove the oldest files while all are over the limit of the folder."""
        files = sorted(self._files(), key=lambda file: file[2])
        total = sum(size for size, _, _ in files)
        for size, path, _ in files:
            if total <= self._settings.folder_limit_bytes:
                return
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size


def _key(path: Path) -> bytes:
    """The key of a folder, made when there is none; two that make it at once end with the same.

    Raises:
        ConfigError: It is no key, or others may read it.
    """
    if not path.exists():
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(handle, secrets.token_hex(KEY_BYTES).encode() + b"\n")
            os.fsync(handle)
        finally:
            os.close(handle)
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        temporary.unlink()
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or stat.S_IMODE(status.st_mode) & 0o077:
        raise ConfigError(f"{path} is no key file that only its owner can read", f"Run `chmod 600 {path}`")
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(
            f"{path} is damaged: a key is {2 * KEY_BYTES} hexadecimal digits",
            "Restore it, or remove it together with the saved sessions",
        )
    return key
