"""Who may talk to the server: listening address, Host header, keys, request-target form."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from zlrs.config import ConfigError
from zlrs.server.errors import invalid, refuse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp import web

CREDENTIALS = ("x-api-key", "authorization")

KEY_LENGTH = 16
"""Shortest key accepted, in characters."""

OPEN_PATHS = frozenset({"/livez", "/readyz", "/startupz", "/health", "/healthz"})
"""Probes come from machines without keys and tell nothing about answers."""


class Keys:
    """The accepted API keys, kept as SHA-256 digests. Without any, everyone on this address is accepted."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = tuple(hashlib.sha256(key.encode()).digest() for key in keys)

    def __bool__(self) -> bool:
        return bool(self._digests)

    @classmethod
    def from_file(cls, path: str | None) -> Keys:
        """One key a line; empty lines and lines starting with `#` do not count.

        Raises:
            ConfigError: The file cannot be read, has no key, or a key shorter than 16 characters or with
                characters a header cannot carry.
        """
        if path is None:
            return cls(())
        try:
            lines = Path(path).expanduser().read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"cannot read the keys file {path}: {error}", "Check `server.keys_file`"
            ) from error
        keys = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if not keys:
            raise ConfigError(f"the keys file {path} has no key", "Write one key a line")
        for number, key in enumerate(keys, start=1):
            if len(key) < KEY_LENGTH or not key.isascii() or not key.isprintable() or " " in key:
                raise ConfigError(
                    f"key {number} of {path} cannot be used: a key has at least {KEY_LENGTH} printable ASCII "
                    "characters without spaces",
                    'Make one with `python -c "import secrets; print(secrets.token_urlsafe(32))"`',
                )
        return cls(keys)

    def accept(self, given: str) -> bool:
        """Whether a key is one of ours; the time taken does not depend on which or where it differs."""
        digest = hashlib.sha256(given.encode("utf-8", "surrogateescape")).digest()
        accepted = False
        for own in self._digests:
            accepted |= hmac.compare_digest(own, digest)
        return accepted


class Tenants:
    """Who asks, as the engine is told it: a keyed hash of the credentials.

    Computed state is never shared between callers, and no credential can be guessed from the hash.
    """

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secret or secrets.token_bytes(32)

    def of(self, request: web.Request) -> bytes:
        """32 bytes; the same for the same credentials as long as the secret is: by default this process's."""
        digest = hmac.new(self._secret, digestmod=hashlib.sha256)
        for name in CREDENTIALS:
            value = request.headers.get(name, "").encode("utf-8", "surrogateescape")
            digest.update(len(value).to_bytes(8, "big") + value)
        return digest.digest()


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reachable from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def require_safe_address(host: str, keys: Keys) -> None:
    """Refuse to open the server to a network without keys.

    Raises:
        ConfigError: Naming the address and both ways out.
    """
    if not is_loopback(host) and not keys:
        raise ConfigError(
            f"{host} can be reached by other machines and no keys are set",
            "Give `--keys-file FILE` (one key a line), or listen on 127.0.0.1",
        )


class HostNames:
    """The names a Host header may carry: a page in a browser cannot reach us by a name of its own."""

    def __init__(self, bound: str, allowed: Iterable[str]) -> None:
        self._loopback_only = is_loopback(bound)
        self._names = {"localhost", bound.strip("[]").lower(), *(name.lower() for name in allowed)}

    def accept(self, header: str) -> bool:
        """Whether a Host header (port included) names this server."""
        name = _without_port(header).lower()
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._loopback_only


def _without_port(header: str) -> str:
    if header.startswith("["):
        return header[1:].partition("]")[0]
    name, colon, port = header.rpartition(":")
    return name if colon and port.isdigit() else header


def require_target(request: web.Request, hosts: HostNames) -> None:
    """Only origin-form targets for one of our names: we are no forward proxy."""
    if not request.raw_path.startswith("/") or request.method == "CONNECT":
        raise invalid("this is no forward proxy: the request target must begin with `/`")
    host = request.headers.get("host")
    if host is None:
        raise invalid("the Host header is missing")
    if not hosts.accept(host):
        raise refuse(
            "permission_error",
            f"Host {host!r} is not a name of this server",
            suggestion="Use the address it printed, or add the name to `server.allowed_hosts`",
        )


def require_key(request: web.Request, keys: Keys) -> None:
    """Accept `x-api-key` or `Authorization: Bearer`; one valid key is enough."""
    if not keys or request.path in OPEN_PATHS:
        return
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    given = [request.headers.get("x-api-key", ""), token.strip() if scheme.lower() == "bearer" else ""]
    accepted = [keys.accept(key) for key in given if key]
    if any(accepted):
        return
    what = "this key is not accepted" if accepted else "a key is required"
    raise refuse(
        "authentication_error",
        what,
        suggestion="Send `x-api-key: KEY` or `Authorization: Bearer KEY` with a key of this server",
    )
