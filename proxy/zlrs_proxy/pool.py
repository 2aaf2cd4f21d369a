"""The configured upstreams, and which of them a request goes to. Nothing a caller sends names one."""

from __future__ import annotations

import hashlib
import math
import os
import ssl
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from zlrs_proxy.breaker import Breaker
from zlrs_proxy.route import Upstream
from zlrs_proxy.settings import SettingsError, UpstreamSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zlrs_proxy.clock import Clock
    from zlrs_proxy.settings import Settings

_REMEMBERED = 16_384
_SECRETS = frozenset({b"authorization", b"x-api-key", b"api-key"})


class Member:
    """One upstream: its address, its key, its breaker.

    Raises:
        SettingsError: Its address is malformed, or a file or variable it names cannot be used.
    """

    def __init__(self, settings: UpstreamSettings, breaker: Breaker) -> None:
        self.label = settings.name
        self.upstream = Upstream(settings.url)
        self.weight = settings.weight
        self.fallback = settings.fallback
        self.is_zlrs = settings.is_zlrs
        self.breaker = breaker
        self.tls: ssl.SSLContext | bool = True
        self.key = read_key(settings)
        """What replaces the callers' credentials."""
        if settings.ca_file is not None:
            try:
                self.tls = ssl.create_default_context(cafile=settings.ca_file)
            except OSError as error:
                raise SettingsError(f"cannot use upstream_ca_file: {type(error).__name__}") from error

    def with_key(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Put our key in the place where the caller presented its own; without one, nothing changes."""
        if self.key is None:
            return headers
        key = self.key.encode()
        names = {name.lower() for name, _ in headers}
        bearer = b"authorization" in names or names.isdisjoint({b"x-api-key", b"anthropic-version"})
        kept = [(name, value) for name, value in headers if name.lower() not in _SECRETS]
        kept.append((b"Authorization", b"Bearer " + key) if bearer else (b"x-api-key", key))
        return kept


def read_key(settings: UpstreamSettings) -> str | None:
    """The key for an upstream, from a variable or a file; None: the callers' own are passed on.

    Raises:
        SettingsError: Both are named, or what is named is missing, empty or not printable ASCII.
    """
    if settings.key_env is not None and settings.key_file is not None:
        raise SettingsError("upstream_key_env and upstream_key_file exclude each other")
    if settings.key_env is not None:
        name = f"the environment variable {settings.key_env}"
        key = os.environ.get(settings.key_env, "")
        if not key:
            raise SettingsError(f"{name} is not set")
    elif settings.key_file is not None:
        name = settings.key_file
        try:
            key = Path(settings.key_file).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"cannot read the key in {name}: {type(error).__name__}") from error
        if not key:
            raise SettingsError(f"{name} is empty")
    else:
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise SettingsError(f"{name} has characters that no header can carry")
    return key


class Pool:
    """All upstreams.

    Conversations are spread by weight with rendezvous hashing over a keyed hash: the same one always goes to
    the same upstream, also after a restart, and a new upstream takes over only its share. A conversation that
    was answered elsewhere stays there (the last 16,384 are remembered).
    """

    def __init__(self, settings: Settings, clock: Clock, secret: bytes) -> None:
        breaker = (clock, settings.breaker_failures, settings.breaker_open_seconds)
        self.members = [Member(one, Breaker(*breaker)) for one in settings.all_upstreams()]
        self.first = self.members[0]
        self._secret = secret
        self._moved: OrderedDict[bytes, str] = OrderedDict()

    def inherit(self, older: Pool) -> None:
        """Go on with what another pool, of an earlier configuration, has learned."""
        self._moved = older._moved
        known = {(one.label, one.upstream.name): one.breaker for one in older.members}
        for member in self.members:
            member.breaker = known.get((member.label, member.upstream.name), member.breaker)

    def is_single(self) -> bool:
        """Whether there is nothing to choose."""
        return len(self.members) == 1

    def order(self, conversation: bytes | None, *, is_stuck: bool) -> Sequence[Member]:
        """The upstreams to ask, in this order.

        Args:
            conversation: What requests of one conversation share. None: state may be kept there (batches,
                files, models), so it is always the first one.
            is_stuck: Only the one that has answered before can go on.
        """
        if conversation is None or self.is_single():
            return (self.first,)
        key = self._key(conversation)
        chosen = sorted(
            (one for one in self.members if not one.fallback and one.weight > 0),
            key=lambda one: -_score(key, one),
        )
        found = [*chosen, *(one for one in self.members if one.fallback)] or [self.first]
        moved = self._moved.get(key)
        if moved is not None:
            found.sort(key=lambda one: one.label != moved)
        return found[:1] if is_stuck else found

    def answered(self, conversation: bytes | None, member: Member, first: Member) -> None:
        """Remember who has answered a conversation, when it was not the one whose turn it was."""
        if conversation is None or member is first:
            return
        key = self._key(conversation)
        self._moved[key] = member.label
        self._moved.move_to_end(key)
        if len(self._moved) > _REMEMBERED:
            self._moved.popitem(last=False)

    def _key(self, conversation: bytes) -> bytes:
        return hashlib.blake2b(
            conversation, key=self._secret, digest_size=16, person=b"zlrs upstream"
        ).digest()


def _score(key: bytes, member: Member) -> float:
    """Weighted rendezvous: the highest of `-weight / ln(u)` wins with probability weight / sum of weights."""
    digest = hashlib.blake2b(member.label.encode(), key=key, digest_size=8).digest()
    uniform = (int.from_bytes(digest, "big") + 1) / (2**64 + 2)
    return -member.weight / math.log(uniform)
