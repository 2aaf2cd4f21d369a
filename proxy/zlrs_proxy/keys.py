"""Client keys: random, shown once, kept as keyed hashes, each with its limits."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from pathlib import Path

import msgspec

from zlrs_proxy.settings import SettingsError

_PLAIN_MIN_LENGTH = 16
_PREFIX = b"zk_"
_ISSUED = re.compile(rb"zk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LINE = re.compile(
    r"([A-Za-z0-9._-]{1,64})\s+hmac-sha256:([0-9a-f]{12}):([0-9a-f]{32}):([0-9a-f]{64})((?:\s.*)?)"
)
_LIMITS = ("requests_per_minute", "tokens_per_minute")
_DECOY = b"\0" * 32


class Client(msgspec.Struct, frozen=True):
    """The holder of a key."""

    name: str
    salt: bytes
    digest: bytes
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class Clients:
    """The keys of a file, one a line; `#` starts a comment line.

    `NAME hmac-sha256:ID:SALT:HASH [requests_per_minute=N] [tokens_per_minute=N]` as `zlrs proxy keys` writes
    it, or a key in plain text, which has no limits.
    """

    def __init__(self, issued: dict[bytes, Client], plain: list[Client]) -> None:
        self._issued = issued
        self._plain = plain
        self.limit_tokens = any(one.tokens_per_minute is not None for one in issued.values())

    @classmethod
    def read(cls, path: str) -> Clients:
        """Read a file.

        Raises:
            SettingsError: It cannot be read, holds no key, or a line that is none.
        """
        try:
            lines = Path(path).expanduser().read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"cannot read the keys in {path}: {type(error).__name__}") from error
        issued: dict[bytes, Client] = {}
        plain: list[Client] = []
        for number, raw in enumerate(lines, 1):
            line = raw.strip()
            if not line or line.startswith("#"):
                continue
            match = _LINE.fullmatch(line)
            if match is not None:
                where = f"{path}, line {number}"
                if match[2].encode() in issued:
                    raise SettingsError(f"{where}: a second key with the id {match[2]}")
                limits = _limits(match[5], where)
                issued[match[2].encode()] = Client(
                    match[1], bytes.fromhex(match[3]), bytes.fromhex(match[4]), **limits
                )
            elif " " in line or "hmac-sha256:" in line:
                raise SettingsError(f"{path}, line {number}: neither a key nor a line of `zlrs proxy keys`")
            elif len(line) < _PLAIN_MIN_LENGTH:
                raise SettingsError(f"{path}: every key needs at least {_PLAIN_MIN_LENGTH} characters")
            else:
                salt = secrets.token_bytes(16)
                plain.append(Client(f"line-{number}", salt, _keyed(salt, line.encode())))
        if not issued and not plain:
            raise SettingsError(f"{path} holds no key")
        return cls(issued, plain)

    def find(self, presented: bytes) -> Client | None:
        """Whose key this is. Hashes are compared in constant time; ids are no secret."""
        if presented.startswith(_PREFIX) and (match := _ISSUED.fullmatch(presented)) is not None:
            client = self._issued.get(match[1])
            salt, digest = (client.salt, client.digest) if client is not None else (_DECOY, _DECOY)
            return client if hmac.compare_digest(_keyed(salt, presented), digest) else None
        found = None
        for client in self._plain:
            if hmac.compare_digest(_keyed(client.salt, presented), client.digest):
                found = client
        return found


def issue(name: str, limits: dict[str, int]) -> tuple[str, str]:
    """A new key, and the line to keep of it.

    Raises:
        SettingsError: The name has other characters than letters, digits, `.`, `_`, `-`.
    """
    if _NAME.fullmatch(name) is None:
        raise SettingsError("a key's name has 1 to 64 of the characters A-Z a-z 0-9 . _ -")
    identifier = secrets.token_hex(6)
    key = f"zk_{identifier}_{secrets.token_urlsafe(32)}"
    salt = secrets.token_bytes(16)
    line = f"{name} hmac-sha256:{identifier}:{salt.hex()}:{_keyed(salt, key.encode()).hex()}"
    return key, " ".join([line, *(f"{limit}={value}" for limit, value in limits.items())])


def _keyed(salt: bytes, key: bytes) -> bytes:
    return hmac.new(salt, key, hashlib.sha256).digest()


def _limits(text: str, where: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in text.split():
        name, _, value = word.partition("=")
        if name not in _LIMITS or not value.isdigit() or int(value) < 1:
            raise SettingsError(f"{where}: {word!r} is no limit; known are {', '.join(_LIMITS)}")
        found[name] = int(value)
    return found
