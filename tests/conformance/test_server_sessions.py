"""Sessions on the wire: who may use them, how long, and what a client that leaves takes with it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json

import pytest

from support.events import parse_events
from support.eventually import eventually
from support.fake_engine import Script
from support.serving import MODEL, serving
from support.session_client import KEYS, SESSION, Client, Clock, kind, rendered
from zlrs.config import ServerSettings, SessionSettings
from zlrs.server.errors import Refusal
from zlrs.server.session_lookup import require_names


async def test_turns_are_appended_or_sent_whole() -> None:
    async with serving(Script(reply="yes")) as served:
        anne = Client(served)
        first = await anne.say("one", system="be brief", zlrs={"append": True})
        assert anne.id.startswith("sess_")
        assert len(anne.secret) == 3 + 64
        assert first["zlrs"]["session"]["answers"] == 1
        await anne.say("two", zlrs={"append": True}, system="be brief")
        assert rendered(served) == ["be brief", "one", "yes", "two"]
        refused = await anne.say("two", zlrs={"append": True}, system="be long", status=400)
        assert "fixed by its first request" in refused["error"]["message"]
        # Whole conversations, by the body's own field, as Chat.
        turns = [{"role": "user", "content": "other"}]
        chat = {"model": MODEL, "messages": turns, "zlrs": {"session": anne.secret}}
        async with served.client.post("/v1/chat/completions", json=chat) as response:
            assert response.status == 200
            assert response.headers[SESSION] == anne.id
        assert rendered(served) == ["other"]
        facts = await anne.call("GET")
        assert (facts["answers"], facts["state"]) == (3, "open")
        assert facts["kept_tokens"] == facts["tokens"] > 0
        # The session's state is pinned once, for its owner.
        assert len(served.core.held) == 1
        assert served.core.held[0].tenant is not None


async def test_idle_sessions_expire_and_running_ones_do_not() -> None:
    clock = Clock()
    script = Script(reply="abc")
    async with serving(script, clock=clock, session=SessionSettings(idle_seconds=120)) as served:
        anne = Client(served)
        await anne.say("one")
        clock.now += 119
        await anne.say("two")
        watching = asyncio.ensure_future(_watch(anne))
        await eventually(lambda: served.context.sessions.all()[0].over._waiters, "watching")
        clock.now += 119
        assert served.context.sessions.sweep() == []
        clock.now += 2
        assert [session.id for session in served.context.sessions.sweep()] == [anne.id]
        events = await watching
        assert events[-1] == ("session_expired", {"type": "session_expired", "session": anne.id})
        assert kind(await anne.say("three", status=404)) == "session_expired"
        assert kind(await anne.call("GET", status=404)) == "session_expired"
        assert served.core.held == []
        # An answer that takes longer than the idle time is no idleness.
        script.hold_before = frozenset({1})
        bela = Client(served)
        answering = asyncio.ensure_future(bela.say("one"))
        await asyncio.to_thread(script.held.wait, 10)
        clock.now += 1000
        assert served.context.sessions.sweep() == []
        script.go.set()
        await answering
        await bela.say("two")


async def _watch(client: Client) -> list[tuple[str, dict]]:
    headers = {SESSION: client.secret, "accept": "text/event-stream"}
    async with client.served.client.get(f"/v1/sessions/{client.id}", headers=headers) as response:
        text = await response.text()
    return [(name, json.loads(data)) for name, data in parse_events(text)]


async def test_destroying_is_soft_for_the_grace_and_final_after_it() -> None:
    clock = Clock()
    async with serving(clock=clock, session=SessionSettings(grace_seconds=30)) as served:
        anne = Client(served)
        await anne.say("one")
        gone = await anne.call("DELETE")
        assert (gone["state"], gone["grace_seconds"]) == ("closing", 30.0)
        clock.now += 29
        assert (await anne.call("DELETE"))["grace_seconds"] == 1.0
        await anne.say("two")
        assert (await anne.call("GET"))["state"] == "open"
        await anne.call("DELETE")
        clock.now += 30
        assert kind(await anne.say("three", status=404)) == "session_expired"
        assert served.core.held == []


async def test_a_stream_tells_that_its_session_ended_meanwhile() -> None:
    clock = Clock()
    script = Script(reply="abc", hold_before=frozenset({1}))
    async with serving(script, clock=clock) as served:
        body = {
            "model": MODEL,
            "max_tokens": 9,
            "stream": True,
            "messages": [{"role": "user", "content": "x"}],
        }
        async with served.client.post("/v1/messages", json=body, headers={SESSION: "create"}) as response:
            anne = Client(served)
            anne.id, _, anne.secret = response.headers[SESSION].partition(";secret=")
            await anne.call("DELETE")
            clock.now += 30
            assert len(served.context.sessions.sweep()) == 1
            script.go.set()
            events = parse_events(await response.text())
        assert "session_expired" in [name for name, _ in events]
        assert events[-1][0] == "message_stop"
        assert served.core.held == []


async def test_forged_foreign_and_misnamed_sessions() -> None:
    async with serving(keys=KEYS) as served:
        anne, bela = Client(served, KEYS[0]), Client(served, KEYS[1])
        await anne.say("one")
        await bela.say("one")
        forged = anne.secret[:-1] + ("0" if anne.secret[-1] != "0" else "1")
        assert kind(await anne.say("two", forged, status=404)) == "session_expired"
        assert kind(await bela.say("two", anne.secret, status=403)) == "session_forbidden"
        # Anne's id with Bela's secret is as good as any unknown id, whoever asks.
        first = await bela.call("GET", id=anne.id, status=404)
        second = await bela.call("GET", id="sess_" + "0" * 32, status=404)
        assert first["error"] == second["error"]
        bela.secret, own = anne.secret, bela.secret
        for method, tail in [("GET", ""), ("DELETE", ""), ("POST", "/flush"), ("POST", "/draft")]:
            more = {"json": {"text": "x"}} if tail == "/draft" else {}
            assert kind(await bela.call(method, tail, id=anne.id, status=403, **more)) == "session_forbidden"
        bela.secret = own
        assert (
            "secret is required"
            in (await Client(served, KEYS[0]).call("GET", id=anne.id, status=400))["error"]["message"]
        )
        await anne.say("still there")
        assert "conflict" in kind(await anne.call("POST", "/flush", status=409))


async def test_compute_headers_are_fixed_by_the_first_request() -> None:
    async with serving() as served:
        anne = Client(served)
        await anne.say("one", headers={"X-ZLRS-Compute": "legacy"})
        answer = await anne.say("two")
        assert answer["zlrs"]["compute_profile"]["mode"] == "legacy"
        for name, value in [
            ("X-ZLRS-Compute", "exact"), ("X-ZLRS-KV-Policy", "anchor-first"),
            ("X-ZLRS-Guarantee", "fidelity-verified"), ("X-ZLRS-Context", "anchor-prioritized"),
        ]:  # fmt: skip
            refused = await anne.say("three", headers={name: value}, status=400)
            assert kind(refused) == "compute_profile_mismatch"
        refused = await anne.say("three", zlrs={"session": "create"}, status=400)
        assert kind(refused) == "compute_profile_mismatch"
        assert (await anne.call("GET"))["answers"] == 2


async def test_signatures_hold_the_clients_bookkeeping_to_ours() -> None:
    async with serving() as served:
        anne = Client(served)
        await anne.say("one")
        signed = ("user-1" + anne.id).encode()
        good = hashlib.sha256(signed).hexdigest()
        keyed = hmac.new(anne.secret.encode(), signed, hashlib.sha256).hexdigest()
        for signature in (good, keyed, good.upper()):
            more = {"metadata": {"user_id": "user-1"}, "headers": {"X-ZLRS-Context-Signature": signature}}
            await anne.say("two", **more)
        wrong = {"metadata": {"user_id": "user-2"}, "headers": {"X-ZLRS-Context-Signature": good}}
        assert kind(await anne.say("two", status=403, **wrong)) == "session_forbidden"
        await anne.say("two", status=400, headers={"X-ZLRS-Context-Signature": good})


async def test_one_answer_at_a_time() -> None:
    script = Script(reply="abc")
    async with serving(script) as served:
        anne = Client(served)
        await anne.say("one")
        script.hold_before = frozenset({1})
        answering = asyncio.ensure_future(anne.say("two"))
        await asyncio.to_thread(script.held.wait, 10)
        assert kind(await anne.say("three", status=409)) == "conflict_error"
        script.go.set()
        await answering
        script.hold_before = frozenset()
        await anne.say("four")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("phase", ["queued", "before the first token", "between tokens"])
@pytest.mark.parametrize("first", [True, False])
async def test_a_client_that_vanishes_leaves_the_conversation_as_it_was(
    stream: bool, phase: str, first: bool
) -> None:
    script = Script(reply="abc")
    async with serving(script) as served:
        anne = Client(served)
        if not first:
            await anne.say("one", zlrs={"append": True})
        before = [session.turns for session in served.context.sessions.all()]
        script.hold_begin = phase != "between tokens"
        script.hold_before = frozenset({0 if phase != "between tokens" else 2})
        blocker = None
        if phase == "queued":
            blocker = asyncio.ensure_future(Client(served).say("something else"))
            await asyncio.to_thread(script.held.wait, 10)
        asking = asyncio.ensure_future(anne.say("two", zlrs={"append": True}, stream=stream))
        count = len(served.core.generations)
        await eventually(lambda: len(served.core.generations) > count, "the request")
        if phase != "queued":
            await asyncio.to_thread(script.held.wait, 10)
        asking.cancel()
        await eventually(served.core.generations[-1].cancelled.is_set, "its end")
        script.go.set()
        if blocker is not None:
            await blocker
        mine = [session for session in served.context.sessions.all() if not session.answers or not first]
        await eventually(lambda: not any(session.answering for session in mine), "the session")
        if not first:
            assert [session.turns for session in served.context.sessions.all()][:1] == before
            script.hold_before, script.hold_begin = frozenset(), False
            await anne.say("three", zlrs={"append": True})
            assert rendered(served) == ["one", "abc", "three"]
        await eventually(lambda: served.context.admission.in_flight == 0, "idleness")
        if first:
            # A session begins with its first whole answer: whoever goes before it leaves none.
            await eventually(lambda: all(one.answers for one in served.context.sessions.all()), "its end")
            assert len(served.context.sessions) == (phase == "queued")
        for session in served.context.sessions.all():
            served.context.sessions.end(session)
        assert served.core.held == []


async def test_a_refused_first_request_opens_no_session() -> None:
    async with serving(Script(refuse=("overloaded_error", "full"))) as served:
        assert kind(await Client(served).say("one", status=529)) == "overloaded_error"
        assert len(served.context.sessions) == 0
        refused = await Client(served).say("one", status=504, headers={"X-ZLRS-Cache-Only": "true"})
        assert kind(refused) == "cache_only_miss"
        refused = await Client(served).say("", status=400, zlrs={"append": True}, messages=[])
        assert len(served.context.sessions) == 0
        served.script.refuse = None
        served.script.fail_before = 1
        await Client(served).say("one", status=500)
        assert len(served.context.sessions) == 0
        assert served.core.held == []


async def test_limits_on_number_and_memory() -> None:
    settings = SessionSettings(limit=2, kv_share=0.1)
    async with serving(Script(reply="y" * 60), session=settings, context_tokens=1600) as served:
        first, second = Client(served), Client(served)
        await first.say("x" * 60)
        await second.say("x" * 60)
        # 160 tokens may be kept in all, each has about 120: the one that was used last keeps its state.
        assert served.context.sessions.kept_tokens <= 160
        assert (await first.call("GET"))["kept_tokens"] == 0
        assert (await second.call("GET"))["kept_tokens"] > 100
        await first.say("x" * 60)
        assert (await second.call("GET"))["kept_tokens"] == 0
        assert kind(await Client(served).say("one", status=429)) == "rate_limit_error"


async def test_many_users_at_once_never_hear_each_other() -> None:
    def parrot(prompt: str) -> str:
        return prompt[-40:]

    async with serving(Script(reply=parrot), keys=KEYS, server=ServerSettings(queue_limit=100)) as served:
        users = [Client(served, KEYS[index % 2]) for index in range(12)]

        async def talk(index: int, user: Client) -> None:
            mark = f"<{index:02d}>"
            for turn in range(4):
                answer = await user.say(f"{mark}{turn}", zlrs={"append": True})
                said = answer["content"][0]["text"]
                assert said.endswith(f"{mark}{turn}")
                assert all(f"<{other:02d}>" not in said for other in range(12) if other != index)

        await asyncio.gather(*(talk(index, user) for index, user in enumerate(users)))
        sessions = served.context.sessions.all()
        assert len({session.id for session in sessions}) == len({user.secret for user in users}) == 12
        assert all(pin.tenant is not None for pin in served.core.held)


def test_names_of_a_migration_may_hold_the_word_between_them() -> None:
    require_names("a-to-b", "a", ["b"])
    require_names("up-to-date-to-b", "up-to-date", ["b"])
    require_names("a-to-way-to-go", "a", ["c", "way-to-go"])
    for migrate, model, served in [
        ("a-to-b", "x", ["b"]),
        ("a-to-b", "a", ["c"]),
        ("a-to-b", "a-to-b", ["b"]),
    ]:
        with pytest.raises(Refusal, match="cannot be used here"):
            require_names(migrate, model, served)
