"""Provisional streams: what is told of single tokens, beside the text that every client adds up."""

from __future__ import annotations

import anthropic
import openai
import pytest

from support.events import parse_events
from support.fake_engine import Correction, Script, Token
from support.provisional import ProvisionalReader
from support.serving import MODEL, serving

PATHS = ("/v1/messages", "/v1/chat/completions")
ASK: dict[str, object] = {
    "model": MODEL, "messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 50,
}  # fmt: skip
PROVISIONAL = {"X-ZLRS-Stream-Mode": "provisional"}
GUESSED = Script(
    reply="abcd",
    told={
        0: (
            Token(0, "a", provisional=False), Token(1, "b", provisional=True),
            Token(2, "x", provisional=True),
        ),
        2: (Correction(2, "x", "c"),),
        3: (Token(3, "d", provisional=False),),
    },
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
async def test_events_come_beside_the_text(path: str) -> None:
    async with serving(GUESSED) as served:
        async with served.client.post(path, json=ASK) as response:
            plain = parse_events(await response.text())
        async with served.client.post(path, json=ASK, headers=PROVISIONAL) as response:
            events = parse_events(await response.text())
    reader = ProvisionalReader()
    rest = []
    for event in events:
        if path == "/v1/messages" and event.name in {"token", "validation_update"}:
            assert event.json["type"] == event.name
            reader.read(event.name, {k: v for k, v in event.json.items() if k != "type"})
        elif '"zlrs":{"token"' in event.data or '"zlrs":{"validation_update"' in event.data:
            assert event.json["choices"] == [
                {"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}
            ]
            about = event.json["zlrs"]
            assert isinstance(about, dict)
            ((name, fields),) = about.items()
            reader.read(name, fields)
        else:
            rest.append(event)
    assert (reader.text, reader.guesses, reader.corrections) == ("abcd", 2, 1)
    # Without them the stream is the plain one: as many events of the same names.
    assert [event.name for event in rest] == [event.name for event in plain]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("headers", "stream", "asked"),
    [
        ({}, True, "plain"),
        ({"X-ZLRS-Stream-Mode": "token"}, True, "plain"),
        (PROVISIONAL, False, "plain"),
        (PROVISIONAL, True, "provisional"),
        ({**PROVISIONAL, "X-ZLRS-Validation": "off"}, True, "verified"),
        ({"X-Anthropic-Stream-Mode": "provisional", "X-ZLRS-Ring": "5"}, True, "provisional"),
    ],
)
async def test_guesses_are_told_where_they_are_asked_for(
    path: str, headers: dict[str, str], stream: bool, asked: str
) -> None:
    async with (
        serving(GUESSED) as served,
        served.client.post(path, json={**ASK, "stream": stream}, headers=headers) as response,
    ):
        text = await response.text()
        assert response.status == 200
        assert served.core.submitted[0].get("stream_mode", "plain") == asked
    assert ("provisional" in text) is (asked != "plain")


async def test_several_answers_have_no_provisional_stream() -> None:
    branches = {
        "zlrs": {"branches": [{"tag": "a", "instruction": "one"}, {"tag": "b", "instruction": "two"}]}
    }
    async with (
        serving() as served,
        served.client.post("/v1/messages", json={**ASK, **branches}, headers=PROVISIONAL) as response,
    ):
        assert response.status == 400
        assert "one answer" in await response.text()


async def test_the_clients_add_up_the_verified_text() -> None:
    async with serving(GUESSED) as served:
        async with (
            anthropic.AsyncAnthropic(base_url=served.url, api_key="any", max_retries=0) as messages,
            messages.messages.stream(
                model=MODEL,
                max_tokens=9,
                messages=[{"role": "user", "content": "hi"}],
                extra_headers=PROVISIONAL,
            ) as stream,
        ):
            pieces = [piece async for piece in stream.text_stream]
            final = await stream.get_final_message()
        assert "".join(pieces) == "abcd" == final.content[0].text  # type: ignore[union-attr]
        async with openai.AsyncOpenAI(base_url=served.url + "/v1", api_key="any", max_retries=0) as chat:
            chunks = await chat.chat.completions.create(
                model=MODEL,
                messages=[{"role": "user", "content": "hi"}],
                stream=True,
                extra_headers=PROVISIONAL,
            )
            # As examples do it, without a look at what else a chunk may hold.
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])
            assert text == "abcd"
            async with chat.chat.completions.stream(
                model=MODEL, messages=[{"role": "user", "content": "hi"}], extra_headers=PROVISIONAL
            ) as helper:
                async for _ in helper:
                    pass
                whole = await helper.get_final_completion()
            assert whole.choices[0].message.content == "abcd"
