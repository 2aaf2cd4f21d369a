"""Input that is computed while it is typed."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from typing import TYPE_CHECKING

from report import Figure

from serve.asking import ANSWERED, session, words

if TYPE_CHECKING:
    import aiohttp

QUESTION_WORDS = 100
"""Each about a token."""
WORDS_PER_MINUTE = 40
SPEED_UP = 5
"""Typing five times as fast as people do makes the target harder to reach, and the benchmark shorter."""
FIGURE = "typed input, first token after sending a 100-token question"


async def _first(
    client: aiohttp.ClientSession, url: str, text: str, headers: dict[str, str], *, append: bool
) -> tuple[float, str]:
    """Seconds to the first text of a streamed answer, and the session's header."""
    body = {
        "model": "any", "max_tokens": 4, "temperature": 0, "stream": True,
        "messages": [{"role": "user", "content": text}], "zlrs": {"append": append},
    }  # fmt: skip
    started, first = time.perf_counter(), 0.0
    async with client.post(f"{url}/v1/messages", json=body, headers=headers) as answer:
        if answer.status != ANSWERED:
            raise RuntimeError(f"{answer.status}: {await answer.text()}")
        async for line in answer.content:
            if line.startswith(b"data: {") and json.loads(line[6:])["type"] == "content_block_delta":
                first = first or time.perf_counter() - started
        return first or time.perf_counter() - started, answer.headers.get("X-ZLRS-Session", "")


async def _draft(client: aiohttp.ClientSession, url: str, text: str, headers: dict[str, str]) -> None:
    """What has been typed until now."""
    async with client.post(url, json={"text": text}, headers=headers) as answer:
        if answer.status >= 300:
            raise RuntimeError(f"{answer.status}: {await answer.text()}")


async def _asked(client: aiohttp.ClientSession, url: str, question: str, name: str, *, typing: bool) -> float:
    """Seconds to the first text of the answer to a question in a session that has had one turn."""
    headers = {"x-api-key": name}
    _, told = await _first(client, url, "Hello.", {**headers, "X-ZLRS-Session": "create"}, append=False)
    identifier, _, secret = told.partition(";secret=")
    headers["X-ZLRS-Session"] = secret
    words_typed = question.split()
    for end in range(1, len(words_typed) + 1) if typing else ():
        await _draft(client, f"{url}/v1/sessions/{identifier}/draft", " ".join(words_typed[:end]), headers)
        await asyncio.sleep(60 / WORDS_PER_MINUTE / SPEED_UP)
    seconds, _ = await _first(client, url, question, headers, append=True)
    return seconds


async def typed(url: str, rounds: int) -> list[Figure]:
    """A question that is typed word by word, against the same number of words that come at once."""
    chosen = random.Random(17)  # noqa: S311 - prompts, not secrets
    target = "≤ 0.2 × of the unassisted time"
    plain, assisted = [], []
    async with session() as client:
        try:
            for turn in range(rounds):
                for times, typing in ((plain, False), (assisted, True)):
                    question = words(chosen, QUESTION_WORDS)
                    name = f"typist-{turn}-{typing}-0000"
                    times.append(await _asked(client, url, question, name, typing=typing))
        except RuntimeError as error:
            return [
                Figure(FIGURE, "ms", 0, target=target, met=None, note=f"not measured: {str(error)[:160]}")
            ]
    value, peer = 1000 * statistics.median(assisted), 1000 * statistics.median(plain)
    return [
        Figure(
            FIGURE, "ms", value, peer="sent at once", peer_value=peer, ratio=value / peer, target=target,
            met=value / peer <= 0.2, note=f"typed at {SPEED_UP} × {WORDS_PER_MINUTE} words a minute",
        )
    ]  # fmt: skip
