"""Limits of a key on requests and tokens: buckets that refill evenly over a minute."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zlrs.errors import RateLimitError
from zlrs_proxy.refuse import Refusal

if TYPE_CHECKING:
    from zlrs_proxy.clock import Clock
    from zlrs_proxy.keys import Client

_MINUTE = 60.0


class Bucket:
    """Holds up to a minute's worth. What is used afterwards may take it below zero."""

    def __init__(self, per_minute: int, now: float) -> None:
        self.per_minute = per_minute
        self._level = float(per_minute)
        self._at = now

    def level(self, now: float) -> float:
        """What is left."""
        self._level = min(self.per_minute, self._level + (now - self._at) * self.per_minute / _MINUTE)
        self._at = now
        return self._level

    def take(self, amount: float, now: float) -> None:
        """Use some of it."""
        self._level = self.level(now) - amount

    def wait_seconds(self, wanted: float, now: float) -> float:
        """How long until so much is there."""
        return max(0.0, wanted - self.level(now)) * _MINUTE / self.per_minute


class Limits:
    """The buckets of all keys; they outlive a reload of the configuration."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[tuple[str, str], Bucket] = {}

    def admit(self, client: Client) -> None:
        """Let one request in.

        Raises:
            Refusal: 429 with `Retry-After`: the key has used up its requests, or its tokens.
        """
        now = self._clock.monotonic()
        requests = self._bucket(client, "requests", client.requests_per_minute, now)
        tokens = self._bucket(client, "tokens", client.tokens_per_minute, now)
        if requests is not None and requests.level(now) < 1:
            raise _refusal("requests", requests.per_minute, requests.wait_seconds(1, now))
        if tokens is not None and tokens.level(now) <= 0:
            raise _refusal("tokens", tokens.per_minute, tokens.wait_seconds(1, now))
        if requests is not None:
            requests.take(1, now)

    def spend(self, client: Client, tokens: int) -> None:
        """Note the tokens of an answer, known when it has ended."""
        now = self._clock.monotonic()
        bucket = self._bucket(client, "tokens", client.tokens_per_minute, now)
        if bucket is not None:
            bucket.take(tokens, now)

    def _bucket(self, client: Client, what: str, per_minute: int | None, now: float) -> Bucket | None:
        if per_minute is None:
            return None
        key = (client.name, what)
        bucket = self._buckets.get(key)
        if bucket is None or bucket.per_minute != per_minute:
            bucket = self._buckets[key] = Bucket(per_minute, now)
        return bucket


def _refusal(what: str, per_minute: int, seconds: float) -> Refusal:
    wait = max(1, math.ceil(seconds))
    return Refusal(
        RateLimitError(
            f"This key may use {per_minute} {what} a minute, and has.",
            suggestion=f"Try again in {wait} s.",
        ),
        headers=(("Retry-After", str(wait)),),
    )
