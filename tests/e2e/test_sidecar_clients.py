"""The official clients against the sidecar: upstream or graph, they see no difference."""

from __future__ import annotations

import anthropic
import openai
import pytest

from support.memory_graph import MemoryGraph
from support.mock_upstream import Reply
from support.running import KEY

TURN = [{"role": "user", "content": "Where is order 1042? 注文 🚚"}]
TEXT = "You asked: Where is order 1042? 注文 🚚"
# The client has no argument for it any more; upstreams still take it.
ASK = {"model": "m", "max_tokens": 64, "messages": TURN, "extra_body": {"temperature": 0}}


@pytest.fixture
async def sidecar(start_sidecar):
    return await start_sidecar(graph=MemoryGraph())


@pytest.fixture
async def claude(sidecar):
    async with anthropic.AsyncAnthropic(base_url=sidecar.url, api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture
async def gpt(sidecar):
    async with openai.AsyncOpenAI(base_url=sidecar.url + "/v1", api_key=KEY, max_retries=0) as client:
        yield client


async def test_anthropic_message(claude, upstream) -> None:
    first = await claude.messages.with_raw_response.create(**ASK)
    second = await claude.messages.with_raw_response.create(**ASK)
    one, two = await first.parse(), await second.parse()
    assert one.content[0].text == two.content[0].text == TEXT
    assert two.stop_reason == "end_turn"
    assert one.id != two.id
    assert one._request_id == "req_upstream_1"
    assert two._request_id == second.headers["x-zlrs-request-id"]
    assert second.headers["x-zlrs-decision"].startswith("hit")
    assert len(upstream.calls) == 1


async def test_anthropic_stream(claude, sidecar, upstream) -> None:
    for decision in ("miss", "hit"):
        async with claude.messages.stream(**ASK) as stream:
            text = "".join([piece async for piece in stream.text_stream])
            final = await stream.get_final_message()
            assert stream.response.headers["x-zlrs-decision"].startswith(decision)
        assert text == final.content[0].text == TEXT
        assert final.stop_reason == "end_turn"
    assert len(upstream.calls) == 1


async def test_anthropic_stream_left_after_the_last_event_is_learned(claude, sidecar, upstream) -> None:
    async with await claude.messages.create(**ASK, stream=True) as stream:
        async for event in stream:
            if event.type == "message_stop":
                break
    again = await claude.messages.create(**ASK)
    assert again.content[0].text == TEXT
    assert len(upstream.calls) == 1


async def test_anthropic_errors(claude, upstream) -> None:
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_9"}'
    upstream.replies.append(
        Reply(status=529, body=body, headers=[("Content-Type", "application/json"), ("request-id", "req_9")])
    )
    with pytest.raises(anthropic.APIStatusError) as caught:
        await claude.messages.create(**ASK)
    assert (caught.value.status_code, caught.value.request_id) == (529, "req_9")
    fault = (
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    )
    upstream.replies.append(Reply(pieces=[fault], headers=[("Content-Type", "text/event-stream")]))
    with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
        async for _ in await claude.messages.create(**ASK, stream=True):
            pass
    await upstream.stop()
    with pytest.raises(anthropic.InternalServerError, match="cannot be reached"):
        await claude.messages.create(**{**ASK, "max_tokens": 65})


async def test_anthropic_betas_and_count_tokens_pass(claude, upstream) -> None:
    upstream.replies.append(
        Reply(body=b'{"input_tokens":42}', headers=[("Content-Type", "application/json")])
    )
    counted = await claude.beta.messages.count_tokens(
        model="m", messages=TURN, betas=["token-counting-2024-11-01", "zz-9"]
    )
    assert counted.input_tokens == 42
    assert upstream.calls[0].path == "/v1/messages/count_tokens"
    assert ",".join(upstream.calls[0].header("anthropic-beta")).startswith("token-counting-2024-11-01,zz-9")


CHAT = {"model": "m", "temperature": 0, "messages": TURN}


async def test_openai_completion(gpt, upstream) -> None:
    first = await gpt.chat.completions.with_raw_response.create(**CHAT)
    second = await gpt.chat.completions.with_raw_response.create(**CHAT)
    one, two = first.parse(), second.parse()
    assert one.choices[0].message.content == two.choices[0].message.content == TEXT
    assert one.id != two.id
    assert two._request_id == second.headers["x-zlrs-request-id"]
    assert second.headers["x-zlrs-decision"].startswith("hit")
    assert len(upstream.calls) == 1


async def test_openai_stream(gpt, upstream) -> None:
    for _ in range(2):
        pieces = []
        async for chunk in await gpt.chat.completions.create(**CHAT, stream=True):
            pieces += [choice.delta.content or "" for choice in chunk.choices]
        assert "".join(pieces) == TEXT
    assert len(upstream.calls) == 1


async def test_openai_errors(gpt, upstream) -> None:
    body = b'{"error":{"message":"slow down","type":"rate_limit","param":null,"code":"rl"}}'
    upstream.replies.append(
        Reply(status=429, body=body, headers=[("Content-Type", "application/json"), ("x-request-id", "r1")])
    )
    with pytest.raises(openai.RateLimitError) as caught:
        await gpt.chat.completions.create(**CHAT)
    assert (caught.value.code, caught.value.request_id) == ("rl", "r1")
    await upstream.stop()
    with pytest.raises(openai.InternalServerError, match="cannot be reached"):
        await gpt.chat.completions.create(**{**CHAT, "seed": 1})
