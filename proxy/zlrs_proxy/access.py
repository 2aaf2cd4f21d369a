"""Who may use the sidecar: everyone on this machine by default, holders of a key beyond it."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path
from typing import TYPE_CHECKING

from zlrs.errors import AuthenticationError
from zlrs_proxy.accept import is_loopback
from zlrs_proxy.names import RawHeaders, value_of
from zlrs_proxy.refuse import Refusal
from zlrs_proxy.settings import SettingsError

if TYPE_CHECKING:
    from zlrs_proxy.settings import Settings

_KEY_MIN_LENGTH = 16


def read_keys(path: str) -> tuple[str, ...]:
    """The keys of a file, one a line; `#` starts a comment line.

    Raises:
        SettingsError: It cannot be read, holds no key, or one that is too short to be a secret.
    """
    try:
        lines = Path(path).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the keys in {path}: {type(error).__name__}") from error
    keys = tuple(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))
    if not keys:
        raise SettingsError(f"{path} holds no key")
    if min(map(len, keys)) < _KEY_MIN_LENGTH:
        raise SettingsError(f"{path}: every key needs at least {_KEY_MIN_LENGTH} characters")
    return keys


class Access:
    """The check of client keys, and the key for the upstream where it is ours to add.

    Raises:
        SettingsError: A bind beyond loopback without keys, or a named secret that is missing.
    """

    def __init__(self, settings: Settings) -> None:
        keys = read_keys(settings.keys_file) if settings.keys_file is not None else ()
        self._digests = tuple(hashlib.sha256(key.encode()).digest() for key in keys)
        if not keys and not is_loopback(settings.host):
            raise SettingsError(
                f"refusing to listen on {settings.host} without client keys: anyone who reaches it could use "
                "the upstream and read what is stored. Give --keys-file FILE, or listen on 127.0.0.1"
            )
        self.upstream_key: str | None = None
        if settings.upstream_key_env is not None:
            self.upstream_key = os.environ.get(settings.upstream_key_env)
            if not self.upstream_key:
                raise SettingsError(f"the environment variable {settings.upstream_key_env} is not set")
            if not self.upstream_key.isascii() or not self.upstream_key.isprintable():
                raise SettingsError(f"{settings.upstream_key_env} has characters that no header can carry")

    def check(self, headers: RawHeaders) -> None:
        """Let holders of a key pass.

        Raises:
            Refusal: 401; all keys are compared, in constant time.
        """
        if not self._digests:
            return
        presented = hashlib.sha256(_credential(headers)).digest()
        matches = [hmac.compare_digest(presented, digest) for digest in self._digests]
        if not any(matches):
            raise Refusal(
                AuthenticationError(
                    "This sidecar needs one of its client keys as x-api-key or Authorization: Bearer."
                ),
                headers=(("WWW-Authenticate", "Bearer"),),
            )

    def for_upstream(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Put the configured upstream key in the place where the caller presented its own."""
        if self.upstream_key is None:
            return headers
        key = self.upstream_key.encode()
        names = {name.lower() for name, _ in headers}
        bearer = b"authorization" in names or names.isdisjoint({b"x-api-key", b"anthropic-version"})
        secrets = {b"authorization", b"x-api-key", b"api-key"}
        kept = [(name, value) for name, value in headers if name.lower() not in secrets]
        kept.append((b"Authorization", b"Bearer " + key) if bearer else (b"x-api-key", key))
        return kept


def _credential(headers: RawHeaders) -> bytes:
    key = value_of(headers, b"x-api-key")
    if key is not None:
        return key.strip()
    scheme, _, token = (value_of(headers, b"authorization") or b"").strip().partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""
