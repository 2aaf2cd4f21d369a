"""Waiting for what happens on the other side of a socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 20.0


async def eventually(
    holds: Callable[[], object], what: str = "condition", patience_s: float = PATIENCE_S
) -> None:
    """Return as soon as it holds; fail when it does not within the patience."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    while not holds():
        if loop.time() > deadline:
            raise AssertionError(f"{what} did not come true within {patience_s} s")
        await asyncio.sleep(0.003)
