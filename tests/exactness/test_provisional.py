"""Provisional streams of the small real model end with the answers of plain ones, in both protocols.

The long suite, 500 streams, is `make exactness`.
"""

from __future__ import annotations

import asyncio
import itertools
import json

import aiohttp
import pytest

from support.events import parse_events
from support.provisional import ProvisionalReader
from support.real_model import small_model
from support.serve_process import serve_process

TOGETHER = 8
PATHS = ("/v1/messages", "/v1/chat/completions")
WISHES = (
    "Repeat three times: {}", "Translate to French: {}", "Explain in one sentence: {}", "Is this true? {}",
    "Write this as a JSON object: {}", "Continue: {}", "Spell backwards: {}", "Make a list out of: {}",
    "Antworte auf Deutsch: {}", "请翻译: {}",
)  # fmt: skip
MATTERS = (
    "the cat sleeps", "water boils at 100 degrees", "def add(a, b): return a + b", "1, 2, 3, 4, 5",
    "😀🇩🇪 Grüße, 世界", "SELECT name FROM users", "once upon a time", "a river, a hill, a tree",
    "order 4711 of 12 March 2024", "to be or not to be", "<b>bold</b>", "x = y + z", "the sky is blue",
    "apples and pears", "no", "a very long and winding road that leads to your door", "3.14159",
    "red green blue red green blue", "Dear Sir or Madam,", "the end", "import os\nimport sys",
    "I think, therefore I am", "one two three", "the quick brown fox", "2 + 2 = 4",
)  # fmt: skip


def asks(count: int, tokens: int) -> list[dict[str, object]]:
    """Conversations, every second one sampled with a seed."""
    made: list[dict[str, object]] = []
    pairs = itertools.islice(itertools.product(MATTERS, WISHES), count)
    for index, (matter, wish) in enumerate(pairs):
        made.append(
            {
                "model": "m", "max_tokens": tokens, "seed": index,
                "messages": [{"role": "user", "content": wish.format(matter)}],
                "temperature": 0.8 if index % 2 else 0.0,
            }
        )  # fmt: skip
    assert len(made) == count
    return made


class Client:
    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.http = http
        self.turns = asyncio.Semaphore(TOGETHER)
        self.guesses = self.corrections = 0

    async def whole(self, ask: dict[str, object]) -> str:
        async with self.turns, self.http.post("/v1/chat/completions", json=ask) as response:
            assert response.status == 200
            return str(json.loads(await response.text())["choices"][0]["message"]["content"])

    async def provisional(self, path: str, ask: dict[str, object]) -> tuple[str, str]:
        """The text that every client adds up, and what a reader of the events has."""
        headers = {"X-ZLRS-Stream-Mode": "provisional"}
        async with (
            self.turns,
            self.http.post(path, json={**ask, "stream": True}, headers=headers) as response,
        ):
            assert response.status == 200
            events = parse_events(await response.text())
        reader, text = ProvisionalReader(), ""
        for event in events:
            if event.data == "[DONE]":
                continue
            if event.name in {"token", "validation_update"}:
                reader.read(event.name, event.json)
            elif event.name == "content_block_delta":
                text += json.loads(event.data)["delta"]["text"]
            elif not event.name:
                chunk = json.loads(event.data)
                text += chunk["choices"][0]["delta"].get("content") or ""
                for name, fields in chunk.get("zlrs", {}).items():
                    reader.read(name, fields)
        self.guesses += reader.guesses
        self.corrections += reader.corrections
        return text, reader.text


async def hold_equal(count: int, tokens: int) -> None:
    environment = {"ZLRS_ENGINE_DRAFTING": "always"}
    with serve_process(str(small_model()), "--alias", "*", environment=environment) as served:
        async with aiohttp.ClientSession(base_url=served.url) as http:
            client = Client(http)
            asked = asks(count, tokens)
            # The first time guesses come from the question alone, later from the answer known by then.
            cold = await asyncio.gather(*(client.provisional(PATHS[0], ask) for ask in asked))
            expected = await asyncio.gather(*(client.whole(ask) for ask in asked))
            warm = await asyncio.gather(*(client.provisional(PATHS[1], ask) for ask in asked))
            for path, got in zip(PATHS, (cold, warm), strict=True):
                for index, (pair, whole) in enumerate(zip(got, expected, strict=True)):
                    assert pair == (whole, whole), f"{path}, prompt {index}"
            assert 0 < client.corrections < client.guesses


async def test_provisional_streams_end_with_the_same_answers() -> None:
    await hold_equal(6, 24)


@pytest.mark.t2
@pytest.mark.timeout(5400)
async def test_500_provisional_streams_end_with_the_same_answers() -> None:
    # 250 questions in both protocols.
    await hold_equal(250, 48)
