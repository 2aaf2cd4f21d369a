"""Requests over HTTP and what they took."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

ANSWERED = 200
WORDS = (
    "river", "stone", "light", "house", "green", "paper", "window", "slow", "train", "garden", "silver",
    "road", "winter", "bread", "cloud", "music", "letter", "north", "table", "open", "field", "water",
)  # fmt: skip
"""Each about a token."""


@dataclass(frozen=True)
class Answer:
    """One streamed answer.

    Attributes:
        first_seconds: From sending to the first text.
        seconds: From sending to the end.
        tokens: Of the answer.
        text: The answer.
    """

    first_seconds: float
    seconds: float
    tokens: int
    text: str


def words(chosen: random.Random, count: int) -> str:
    """Some words."""
    return " ".join(chosen.choices(WORDS, k=count))


def session() -> aiohttp.ClientSession:
    """For any number of requests at once.

    Every request has a connection of its own: the peer may close one that is kept open just when it is used
    again.
    """
    timeout = aiohttp.ClientTimeout(total=1800)
    return aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0, force_close=True))


async def ask(
    client: aiohttp.ClientSession,
    url: str,
    messages: list[dict[str, str]],
    max_tokens: int,
    *,
    tenant: str | None = None,
    more: Mapping[str, object] | None = None,
) -> Answer:
    """Stream one greedy answer. Requests of other tenants share nothing that was computed.

    Raises:
        RuntimeError: It was refused.
    """
    body = {
        "model": "any", "messages": messages, "max_tokens": max_tokens, "temperature": 0, "stream": True,
        "stream_options": {"include_usage": True}, **(more or {}),
    }  # fmt: skip
    headers = {} if tenant is None else {"authorization": f"Bearer {tenant}"}
    started, first, tokens = time.perf_counter(), 0.0, 0
    text = []
    async with client.post(f"{url}/v1/chat/completions", json=body, headers=headers) as answer:
        if answer.status != ANSWERED:
            raise RuntimeError(f"{url} answered {answer.status}: {await answer.text()}")
        async for line in answer.content:
            if not line.startswith(b"data: {"):
                continue
            data = json.loads(line[6:])
            if "error" in data:
                raise RuntimeError(f"{url}: {data['error']}")
            choices = data.get("choices") or []
            if choices and (piece := choices[0]["delta"].get("content")):
                first = first or time.perf_counter() - started
                text.append(piece)
            if data.get("usage"):
                tokens = data["usage"]["completion_tokens"]
    taken = time.perf_counter() - started
    return Answer(first or taken, taken, tokens, "".join(text))
