"""Many clients of a real model at once, in little memory: right answers, stated refusals, nothing left."""

from __future__ import annotations

import asyncio
import random

import aiohttp
import pytest

from support.real_model import small_model
from support.serve_process import serve_process, wait_for_metrics

CLIENTS = 24
QUEUE_LIMIT = 16
BLOCK_BYTES = 16 * 30 * 2 * 3 * 64 * 2
"""Of the small model: tokens, layers, keys and values, heads, their width, bytes of an f16."""
QUESTIONS = ("What is the capital of France?", "Name a colour.", "def add(a, b):", "Why is the sky blue?")


def body(question: str, *, stream: bool) -> dict[str, object]:
    return {
        "model": "any",
        "max_tokens": 12,
        "temperature": 0,
        "stream": stream,
        "messages": [
            {"role": "system", "content": "Answer briefly. " * 10},
            {"role": "user", "content": question},
        ],
    }


async def ask(session: aiohttp.ClientSession, url: str, question: str, key: str) -> str:
    headers = {"authorization": f"Bearer {key}"}
    for _ in range(200):
        async with session.post(
            f"{url}/v1/chat/completions", json=body(question, stream=False), headers=headers
        ) as answer:
            parsed = await answer.json()
            if answer.status == 200:
                return str(parsed["choices"][0]["message"]["content"])
            # The one refusal there may be: the queue is full, and it says when to come back.
            assert answer.status == 429, parsed
            assert int(answer.headers["retry-after"]) >= 1
        await asyncio.sleep(0.05)
    raise AssertionError("never admitted")


async def leave(session: aiohttp.ClientSession, url: str, question: str, key: str, pieces: int) -> None:
    """Go away after some pieces of a stream."""
    headers = {"authorization": f"Bearer {key}"}
    async with session.post(
        f"{url}/v1/chat/completions", json=body(question, stream=True), headers=headers
    ) as answer:
        for _ in range(pieces if answer.status == 200 else 0):
            await answer.content.readline()
        answer.close()


async def client(session: aiohttp.ClientSession, url: str, number: int, expected: dict[str, str]) -> None:
    chosen = random.Random(number)
    for _ in range(2):
        question = chosen.choice(QUESTIONS)
        key = f"tenant-{number % 3}"
        if chosen.random() < 0.4:
            await leave(session, url, question, key, chosen.randrange(6))
        assert await ask(session, url, question, key) == expected[question]


@pytest.mark.t1
@pytest.mark.timeout(180)
async def test_many_clients_get_their_answers_and_leave_nothing() -> None:
    arguments = (
        str(small_model()), "--alias", "*", "--context-tokens", "512", "--kv-bytes", str(40 * BLOCK_BYTES),
        "--queue-limit", str(QUEUE_LIMIT),
    )  # fmt: skip
    with serve_process(*arguments) as serving:
        timeout = aiohttp.ClientTimeout(total=150)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            expected = {
                question: await ask(session, serving.url, question, "alone") for question in QUESTIONS
            }
            clients = (client(session, serving.url, number, expected) for number in range(CLIENTS))
            await asyncio.gather(*clients)
            async with session.get(f"{serving.url}/metrics") as page:
                lines = dict(line.split(" ") for line in (await page.text()).splitlines() if line[0] != "#")
        levels = ("running", "queued", "kv_blocks_used", "failed")
        await asyncio.to_thread(wait_for_metrics, serving, *(f"zlrs_engine_{name} 0" for name in levels))
        assert float(lines["zlrs_engine_kv_blocks_total"]) == 40
        assert float(lines["zlrs_engine_kv_blocks_peak"]) <= 40
        assert float(lines["zlrs_engine_tokens_reused"]) > 0
