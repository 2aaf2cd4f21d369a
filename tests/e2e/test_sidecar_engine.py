"""The official clients through the sidecar to the engine with a real model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anthropic
import openai
import pytest

from support.real_model import small_model
from support.serve_process import serve_process
from zlrs.graph import DecisionGraph, GraphSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.t1, pytest.mark.timeout(180)]

TURN = [{"role": "user", "content": "What is the capital of France? Answer with one word."}]
MESSAGE = {"model": "any", "max_tokens": 16, "messages": TURN, "extra_body": {"temperature": 0}}
CHAT = {"model": "any", "max_tokens": 16, "messages": TURN, "temperature": 0}


@pytest.fixture(scope="module")
def engine_url() -> Iterator[str]:
    with serve_process(str(small_model()), "--alias", "*") as serving:
        yield serving.url


@pytest.fixture
async def sidecar(start_sidecar, engine_url, tmp_path):
    patient = GraphSettings(read_deadline_ms=1000)
    return await start_sidecar(upstream=engine_url, opener=lambda: DecisionGraph(tmp_path / "g", patient))


async def test_anthropic(sidecar) -> None:
    async with anthropic.AsyncAnthropic(base_url=sidecar.url, api_key="any", max_retries=0) as client:
        async with client.messages.stream(**MESSAGE) as stream:
            first = await stream.get_final_message()
            assert stream.response.headers["x-zlrs-decision"].startswith("miss")
        raw = await client.messages.with_raw_response.create(**MESSAGE)
        second = await raw.parse()
        assert raw.headers["x-zlrs-decision"].startswith("hit;route=same")
        async with client.messages.stream(**MESSAGE) as stream:
            third = await stream.get_final_message()
    assert first.content[0].text
    assert first.content[0].text == second.content[0].text == third.content[0].text
    assert first.usage.output_tokens == second.usage.output_tokens == third.usage.output_tokens
    assert len({first.id, second.id, third.id}) == 3


async def test_openai(sidecar) -> None:
    async with openai.AsyncOpenAI(base_url=sidecar.url + "/v1", api_key="any", max_retries=0) as client:
        raw = await client.chat.completions.with_raw_response.create(**CHAT)
        first = raw.parse().choices[0].message.content
        assert raw.headers["x-zlrs-decision"].startswith("miss")
        pieces = []
        async for chunk in await client.chat.completions.create(**CHAT, stream=True):
            pieces += [choice.delta.content or "" for choice in chunk.choices]
    assert first
    assert "".join(pieces) == first
