"""A thousand clients that go away at random: nothing is left behind, and the server answers the next one."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING

import aiohttp
import pytest

from support.real_model import small_model
from support.serve_process import serve_process, wait_for_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENTS = 10


async def go_away(url: str, numbers: Iterator[int], chosen: random.Random) -> None:
    async with aiohttp.ClientSession() as session:
        for number in numbers:
            body: dict[str, object] = {
                "model": "any", "max_tokens": 40, "stream": number % 3 > 0, "temperature": number % 2,
                "messages": [{"role": "user", "content": "word " * chosen.choice((2, 50, 300))}],
            }  # fmt: skip
            if number % 5 == 0:
                body["zlrs"] = {"branches": [{"tag": "en"}, {"tag": "fr"}], "priority": "batch"}

            async def read(sent: dict[str, object] = body) -> None:
                async with session.post(f"{url}/v1/messages", json=sent) as response:
                    assert response.status in {200, 529}, await response.text()
                    await response.read()

            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(read(), chosen.uniform(0.0, 0.25))


async def all_go_away(url: str, count: int) -> None:
    chosen = random.Random(3)
    numbers = iter(range(count))
    await asyncio.gather(*(go_away(url, numbers, chosen) for _ in range(CLIENTS)))


@pytest.mark.t2
@pytest.mark.timeout(600)
def test_a_thousand_clients_that_go_away_leave_nothing() -> None:
    arguments = (small_model(), "--alias", "*", "--context-tokens", "1024", "--queue-limit", "32")
    with serve_process(*map(str, arguments)) as serving:
        asyncio.run(all_go_away(serving.url, 1000))
        wait_for_metrics(
            serving,
            "zlrs_engine_kv_blocks_used 0",
            "zlrs_engine_running 0",
            "zlrs_engine_queued 0",
            "zlrs_engine_failed 0",
            "zlrs_requests_in_flight 0",
        )

        async def one_more() -> None:
            body = {"model": "any", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]}
            async with (
                aiohttp.ClientSession() as session,
                session.post(f"{serving.url}/v1/messages", json=body) as response,
            ):
                assert response.status == 200

        asyncio.run(one_more())
