"""Factors: business facts that answers depend on, as part of the graph's scope.

A factor has a name, a provider and a time to live. Its value is fetched in a thread of its own, ahead of
time, so that no request waits for it. A provider that is slow, dead or wrong stops the graph and nothing
else: once the last value has outlived its time, requests are not eligible (`reason=factor_unknown`) and
go upstream.

    >>> from zlrs.factors import Factor, Factors
    >>> factors = Factors([Factor("policy", lambda: "2026-03", ttl_seconds=60)])
    >>> factors.wait(seconds=5)
    True
    >>> factors.current()
    ([('policy', '2026-03')], None)
    >>> factors.close()
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import socket
import threading
import time
import urllib.request
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from zlrs.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zlrs.config import FactorSettings

VALUE_BYTES = 4096
"""Longest value. A fact is a version, a tier, an epoch; not a document."""

_LOG = logging.getLogger("zlrs")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PAUSE_AFTER_FAILURE_SECONDS = 1.0


class Factor:
    """One fact.

    Args:
        name: Its name; 1 to 64 letters, digits, dots, dashes, underscores.
        provider: Returns its value now, within a time limit of its own; while it hangs, the last value ages.
        ttl_seconds: How long a value counts. It is fetched again after half of that.
    """

    def __init__(self, name: str, provider: Callable[[], str], ttl_seconds: float) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigurationError(f"a factor's name is letters, digits, . _ -; given is {name!r}")
        if not ttl_seconds > 0:
            raise ConfigurationError(f"the factor {name} needs a positive time to live")
        self.name = name
        self.provider = provider
        self.ttl_seconds = ttl_seconds


class _Held(NamedTuple):
    value: str
    until: float


class Factors:
    """The present values of all factors. Safe to use from several threads; not after a fork.

    Args:
        factors: The factors, each name once.
        monotonic: Clock, seconds.

    Raises:
        ConfigurationError: A name is there twice.
    """

    def __init__(self, factors: Sequence[Factor], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._factors = sorted(factors, key=lambda factor: factor.name)
        names = [factor.name for factor in self._factors]
        if len(set(names)) != len(names):
            raise ConfigurationError("two factors have one name")
        self._monotonic = monotonic
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._fetched = threading.Condition(self._lock)
        for factor in self._factors:
            threading.Thread(
                target=self._keep, args=(factor,), name=f"zlrs-factor-{factor.name}", daemon=True
            ).start()

    def current(self) -> tuple[list[tuple[str, str]], str | None]:
        """Names and values, by name; or no values and the name of the first fact that is not known."""
        now = self._monotonic()
        values: list[tuple[str, str]] = []
        with self._lock:
            for factor in self._factors:
                held = self._held.get(factor.name)
                if held is None or held.until <= now:
                    return [], factor.name
                values.append((factor.name, held.value))
        return values, None

    def wait(self, seconds: float) -> bool:
        """Wait until every fact is known, at most so long; whether they are."""
        with self._fetched:
            return self._fetched.wait_for(lambda: len(self._held) == len(self._factors), timeout=seconds)

    def close(self) -> None:
        """End the threads; one that hangs in its provider ends with the program."""
        self._ended.set()

    def _keep(self, factor: Factor) -> None:
        failed = False
        while not self._ended.is_set():
            # A value counts from before it was asked for: it may be as old as that.
            asked = self._monotonic()
            try:
                value = _checked(factor.provider())
            except Exception as error:  # noqa: BLE001 - the graph goes without, the requests go on
                if not failed:
                    # The error's text may hold what was fetched.
                    _LOG.warning("the factor %s has no value: %s", factor.name, type(error).__name__)
                failed = True
                self._ended.wait(min(_PAUSE_AFTER_FAILURE_SECONDS, factor.ttl_seconds / 2))
                continue
            failed = False
            with self._fetched:
                self._held[factor.name] = _Held(value, asked + factor.ttl_seconds)
                self._fetched.notify_all()
            self._ended.wait(factor.ttl_seconds / 2)


def _checked(value: object) -> str:
    if not isinstance(value, str) or len(value.encode()) > VALUE_BYTES:
        raise ValueError(f"not a text of at most {VALUE_BYTES} bytes")
    return value


def http_provider(url: str, timeout_seconds: float) -> Callable[[], str]:
    """The body of a GET, without outer white space; anything but a 200 is no value."""
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError("a factor's URL begins with http:// or https://")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())

    def fetch() -> str:
        with opener.open(url, timeout=timeout_seconds) as response:
            if response.status != 200:  # noqa: PLR2004 - OK
                raise OSError(f"status {response.status}")
            body: bytes = response.read(VALUE_BYTES + 1)
        return body.decode().strip()

    return fetch


def redis_provider(url: str, key: str, timeout_seconds: float) -> Callable[[], str]:
    """The string under a key; one GET over a connection of its own.

    The protocol of one command is a dozen lines; a client library would be one more package for them.
    """
    parts = urlsplit(url)
    if parts.scheme != "redis" or not parts.hostname:
        raise ConfigurationError("a factor's Redis is redis://[[user]:password@]host[:port][/database]")
    commands: list[list[bytes]] = []
    if parts.password:
        user = [unquote(parts.username).encode()] if parts.username else []
        commands.append([b"AUTH", *user, unquote(parts.password).encode()])
    if parts.path.strip("/"):
        commands.append([b"SELECT", parts.path.strip("/").encode()])
    commands.append([b"GET", key.encode()])
    address = (parts.hostname, parts.port or 6379)

    def fetch() -> str:
        deadline = time.monotonic() + timeout_seconds
        reply: bytes | None = None
        with (
            socket.create_connection(address, timeout=timeout_seconds) as connection,
            connection.makefile("rb") as lines,
        ):
            for command in commands:
                connection.settimeout(max(0.001, deadline - time.monotonic()))
                words = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in command)
                connection.sendall(b"*%d\r\n" % len(command) + words)
                head = lines.readline(1024)
                if head.startswith(b"$") and 0 <= int(head[1:]) <= VALUE_BYTES:
                    reply = lines.read(int(head[1:]) + 2)[:-2]
                elif not head.startswith(b"+"):
                    raise OSError("Redis gave no value")
        if reply is None:
            raise OSError("Redis gave no value")
        return reply.decode()

    return fetch


def callable_provider(path: str) -> Callable[[], str]:
    """A function without arguments, as `package.module:function`."""
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"there is no {path!r} to call: {error}") from None
    if not callable(found):
        raise ConfigurationError(f"{path!r} cannot be called")

    def fetch() -> str:
        value: object = found()
        if not isinstance(value, str):
            raise TypeError("the function returned no text")
        return value

    return fetch


def configured(settings: Sequence[FactorSettings]) -> Factors | None:
    """The factors of a configuration; None where it has none.

    Raises:
        ConfigurationError: A provider cannot be used.
    """
    if not settings:
        return None
    return Factors([Factor(one.name, _provider(one), one.ttl_seconds) for one in settings])


def _provider(settings: FactorSettings) -> Callable[[], str]:
    given = [settings.http, settings.redis, settings.callable]
    if sum(value is not None for value in given) != 1:
        raise ConfigurationError(f"the factor {settings.name} needs one of http, redis, callable")
    if settings.http is not None:
        return http_provider(settings.http, settings.timeout_seconds)
    if settings.redis is not None:
        url = settings.redis
        if settings.redis_password_env is not None:
            password = os.environ.get(settings.redis_password_env)
            if not password:
                raise ConfigurationError(f"the variable {settings.redis_password_env} is not set")
            url = url.replace("redis://", f"redis://:{quote(password, safe='')}@", 1)
        if settings.redis_key is None:
            raise ConfigurationError(f"the factor {settings.name} needs redis_key")
        return redis_provider(url, settings.redis_key, settings.timeout_seconds)
    return callable_provider(settings.callable or "")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: object, **_named: object) -> None:
        return None
