"""Work done before anybody waits for it: typing ahead and preheating, behind all other requests."""

from __future__ import annotations

import asyncio

from support.eventually import eventually
from support.fake_engine import Script
from support.serving import MODEL, serving
from support.session_client import KEYS, Client, kind, rendered
from zlrs.config import ServerSettings
from zlrs.server.lifecycle import drain


async def test_typing_ahead_holds_the_last_word_back_and_cuts_back_on_edits() -> None:
    script = Script(reply="yes")
    async with serving(script) as served:
        anne = Client(served)
        await anne.say("one", zlrs={"append": True})
        session = served.context.sessions.all()[0]
        count = len(served.core.generations)
        for typed in ("How", "How do I bo", "How do I boil a", "How do you"):
            told = await anne.call("POST", "/draft", json={"text": typed})
            assert told["held_back_tokens"] > 0
            assert session.draft is not None
            await session.draft.settle()
        # An edit that only takes away finds all it needs; the next text pays for the difference.
        drafts = served.core.generations[count:]
        texts = ["".join(chr(token) for token in draft.ids if token < 0x110000) for draft in drafts]
        assert [text.removeprefix("oneyes") for text in texts] == ["", "How do I", "How do I boil"]
        assert all(draft.options["priority"] == "batch" for draft in drafts)
        script.cached_tokens = len(drafts[0].ids)
        answer = await anne.say("How do you do?", zlrs={"append": True})
        report = answer["zlrs"]["session"]["draft"]
        assert report["updates"] == 4
        assert report["wasted_tokens"] > 0
        assert report["first_token_ms"] > 0
        assert rendered(served) == ["one", "yes", "How do you do?"]
        whole = {"messages": [{"role": "user", "content": "a whole new talk"}]}
        assert (await anne.call("POST", "/draft", json=whole))["settled_tokens"] > 0
        for bad in ({}, {"text": "a", **whole}, {"text": 5}, {"typo": "a"}):
            assert kind(await anne.call("POST", "/draft", json=bad, status=400)) == "invalid_request_error"
        await anne.call("DELETE")
        served.context.sessions.end(session)
        assert served.core.held == []


async def test_preheat_computes_for_the_caller_alone() -> None:
    async with serving(keys=KEYS) as served:
        body = {"model": MODEL, "prompts": ["You are a clerk.", {"system": "s", "messages": []}]}
        async with served.client.post("/v1/preheat", json=body, headers={"x-api-key": KEYS[0]}) as response:
            assert response.status == 200
            told = await response.json()
        assert [prompt["tokens"] > 0 for prompt in told["prompts"]] == [True, True]
        tenants = {options["tenant"] for options in served.core.submitted}
        await Client(served, KEYS[0]).say("x")
        await Client(served, KEYS[1]).say("x")
        anne, bela = (options["tenant"] for options in served.core.submitted[-2:])
        assert tenants == {anne}
        assert bela != anne
        weights = {"model": MODEL, "weight_blocks": [0, 1]}
        async with served.client.post(
            "/v1/preheat", json=weights, headers={"x-api-key": KEYS[0]}
        ) as response:
            assert (await response.json())["layers"] == 2
        for bad in (
            {"model": MODEL}, {"model": "no", "prompts": ["x"]}, {"model": MODEL, "weight_blocks": [2]},
            {"model": MODEL, "weight_blocks": "some"}, {"model": MODEL, "prompts": ["x" * 5000]},
            {"model": MODEL, "prompts": ["x"] * 65},
        ):  # fmt: skip
            async with served.client.post(
                "/v1/preheat", json=bad, headers={"x-api-key": KEYS[0]}
            ) as response:
                assert response.status in {400, 404}, bad


async def test_what_is_computed_ahead_takes_places_of_low_priority() -> None:
    script = Script(reply="yes")
    # Of four places, three are for requests of low priority.
    async with serving(script, server=ServerSettings(queue_limit=4)) as served:
        anne, bela = Client(served), Client(served)
        for user in (anne, bela):
            await user.say("one", zlrs={"append": True})
        admission, body = served.context.admission, {"model": MODEL, "prompts": ["a", "b"]}
        count = len(served.core.generations)
        script.hold_before = frozenset({0})
        others = [asyncio.ensure_future(Client(served).say("else")) for _ in range(2)]
        await eventually(lambda: admission.in_flight == 2, "two requests")
        # The third place: a draft takes it, and no more than one.
        await anne.call("POST", "/draft", json={"text": "How do I boil"})
        assert admission.in_flight == 3
        await anne.call("POST", "/draft", json={"text": "How do I boil an egg"})
        assert admission.in_flight == 3
        # Another draft, and a preheat, are left out until there is room again; the last place is for others.
        await bela.call("POST", "/draft", json={"text": "How do I boil"})
        assert len(served.core.submitted) == count + 3
        async with served.client.post("/v1/preheat", json=body) as response:
            assert response.status == 529
            assert kind(await response.json()) == "overloaded_error"
        others.append(asyncio.ensure_future(Client(served).say("else")))
        await eventually(lambda: admission.in_flight == 4, "the last place")
        script.go.set()
        await asyncio.gather(*others)
        script.hold_before = frozenset()
        await eventually(lambda: admission.in_flight == 0, "all places are free")
        await bela.call("POST", "/draft", json={"text": "How do I boil an egg"})
        async with served.client.post("/v1/preheat", json=body) as response:
            assert response.status == 200
        await eventually(lambda: admission.in_flight == 0, "all places are free again")


async def test_what_is_computed_ahead_holds_up_no_shutdown() -> None:
    script = Script(reply="yes")
    async with serving(script) as served:
        anne = Client(served)
        await anne.say("one", zlrs={"append": True})
        script.hold_before = frozenset({0})
        await anne.call("POST", "/draft", json={"text": "How do I boil"})
        await eventually(lambda: served.context.admission.in_flight == 1, "the draft")
        await drain(served.context, None)
        assert served.context.admission.in_flight == 0
        assert served.core.generations[-1].cancelled.is_set()
