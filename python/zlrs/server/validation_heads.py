"""Re-scoring heads that callers bring: each for its owner, in memory alone."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zlrs.server.errors import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from zlrs import _core

HEADS_OF_A_TENANT = 4
HEADS = 256
"""Of all tenants; one more makes the one go that was not used for longest."""
IDLE_SECONDS = 3600.0
"""A head that was not used for so long is forgotten."""
PREFIX = "vh_"


@dataclass
class Uploaded:
    """One head and whose it is."""

    id: str
    tenant: bytes
    head: _core.RingHead
    bytes: int
    used: float


class ValidationHeads:
    """All heads that were uploaded. Used on the event loop only."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heads: dict[str, Uploaded] = {}

    def add(self, tenant: bytes, head: _core.RingHead, size: int) -> Uploaded:
        """Keep a head.

        Raises:
            Refusal: 429 when this caller has four already.
        """
        self._sweep()
        if sum(known.tenant == tenant for known in self._heads.values()) >= HEADS_OF_A_TENANT:
            raise refuse(
                "rate_limit_error",
                f"a caller may keep {HEADS_OF_A_TENANT} validation heads",
                suggestion="Delete one: DELETE /v1/validation-heads/{id}",
            )
        if len(self._heads) >= HEADS:
            del self._heads[min(self._heads.values(), key=lambda known: known.used).id]
        known = Uploaded(PREFIX + secrets.token_hex(16), tenant, head, size, self._clock())
        self._heads[known.id] = known
        return known

    def find(self, tenant: bytes, name: str) -> Uploaded:
        """A caller's own head; another's is as unknown as one that never was.

        Raises:
            Refusal: 404.
        """
        self._sweep()
        known = self._heads.get(name)
        if known is None or not secrets.compare_digest(known.tenant, tenant):
            raise refuse(
                "not_found_error",
                f"there is no validation head {name[:80]!r}",
                suggestion="Upload it again: heads live in memory, and an hour after their last use",
            )
        known.used = self._clock()
        return known

    def remove(self, tenant: bytes, name: str) -> Uploaded:
        """Forget a head."""
        known = self.find(tenant, name)
        del self._heads[known.id]
        return known

    def of(self, tenant: bytes) -> list[Uploaded]:
        """A caller's heads, the oldest first."""
        self._sweep()
        return [known for known in self._heads.values() if known.tenant == tenant]

    def _sweep(self) -> None:
        oldest = self._clock() - IDLE_SECONDS
        for known in [known for known in self._heads.values() if known.used < oldest]:
            del self._heads[known.id]
