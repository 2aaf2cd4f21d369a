"""Who may use the sidecar: everyone on this machine by default, holders of a key beyond it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zlrs.errors import AuthenticationError
from zlrs_proxy.accept import is_loopback
from zlrs_proxy.keys import Client, Clients
from zlrs_proxy.names import RawHeaders, value_of
from zlrs_proxy.refuse import Refusal
from zlrs_proxy.settings import SettingsError

if TYPE_CHECKING:
    from zlrs_proxy.settings import Settings

_TOKEN_MIN_LENGTH = 16


def read_token(path: str) -> str:
    """The admin token in a file: its first line that is not empty or a comment.

    Raises:
        SettingsError: The file cannot be read, or the token is too short to be a secret.
    """
    try:
        lines = Path(path).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the token in {path}: {type(error).__name__}") from error
    token = next((line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    if len(token) < _TOKEN_MIN_LENGTH:
        raise SettingsError(f"{path}: the token needs at least {_TOKEN_MIN_LENGTH} characters")
    return token


class Access:
    """The check of client keys.

    Raises:
        SettingsError: A bind beyond loopback without keys, or a file of keys that cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self._clients = Clients.read(settings.keys_file) if settings.keys_file is not None else None
        if self._clients is None and not is_loopback(settings.host):
            raise SettingsError(
                f"refusing to listen on {settings.host} without client keys: anyone who reaches it could use "
                "the upstream and read what is stored. Give --keys-file FILE, or listen on 127.0.0.1"
            )

    @property
    def limits_tokens(self) -> bool:
        """Whether a key has a limit on tokens, for which answers must be read."""
        return self._clients is not None and self._clients.limit_tokens

    @property
    def is_open(self) -> bool:
        """Whether no key is needed."""
        return self._clients is None

    def check(self, headers: RawHeaders) -> Client | None:
        """Let holders of a key pass; whose it is, or None where no keys are needed.

        Raises:
            Refusal: 401.
        """
        if self._clients is None:
            return None
        client = self._clients.find(_credential(headers))
        if client is None:
            raise Refusal(
                AuthenticationError(
                    "This sidecar needs one of its client keys as x-api-key or Authorization: Bearer."
                ),
                headers=(("WWW-Authenticate", "Bearer"),),
            )
        return client


def _credential(headers: RawHeaders) -> bytes:
    key = value_of(headers, b"x-api-key")
    if key is not None:
        return key.strip()
    scheme, _, token = (value_of(headers, b"authorization") or b"").strip().partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""
