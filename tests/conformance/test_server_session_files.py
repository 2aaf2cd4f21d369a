"""What is written of a session and what is not; what has ended stays ended."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.eventually import eventually
from support.fake_engine import DAMAGED, FakeEngine, Script
from support.serving import MODEL, serving
from support.session_client import KEYS, SESSION, Client, kind, rendered
from zlrs.config import SessionSettings
from zlrs.server.errors import Refusal
from zlrs.server.lifecycle import save_sessions
from zlrs.server.state_files import StateFiles

if TYPE_CHECKING:
    from support.serving import Served
    from zlrs.kept import Saved
    from zlrs.server.sessions import Session


async def opened(served: Served) -> tuple[str, dict[str, str]]:
    """The path of a new session, and the header with its secret."""
    body = {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "private"}]}
    async with served.client.post("/v1/messages", json=body, headers={SESSION: "create"}) as response:
        assert response.status == 200
        name, _, secret = response.headers[SESSION].partition(";secret=")
    return f"/v1/sessions/{name}", {SESSION: secret}


async def test_a_destroyed_session_is_not_written(tmp_path: Path) -> None:
    async with serving(Script(), session=SessionSettings(path=str(tmp_path))) as served:
        path, secret = await opened(served)
        async with served.client.delete(path, headers=secret) as response:
            assert response.status == 200
        async with served.client.post(f"{path}/flush", headers=secret) as response:
            assert response.status == 409
            assert (await response.json())["error"]["type"] == "conflict_error"
        assert not served.core.saved


async def test_what_is_written_while_it_is_destroyed_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(Script(), session=SessionSettings(path=str(tmp_path))) as served:
        path, secret = await opened(served)
        files = served.context.state_files
        assert files is not None
        begun, may_end, save, forget = threading.Event(), threading.Event(), files.save, files.forget
        done: list[str] = []

        def slow_save(session: Session) -> Saved:
            begun.set()
            may_end.wait(20)
            saved = save(session)
            done.append("saved")
            return saved

        def noted_forget(digest: bytes) -> None:
            forget(digest)
            done.append("forgotten")

        monkeypatch.setattr(files, "save", slow_save)
        monkeypatch.setattr(files, "forget", noted_forget)
        flush = asyncio.ensure_future(served.client.post(f"{path}/flush", headers=secret))
        await asyncio.to_thread(begun.wait, 20)
        async with served.client.delete(path, headers=secret) as response:
            assert response.status == 200
        may_end.set()
        async with await flush as response:
            assert response.status == 409
        assert done == ["forgotten", "saved", "forgotten"]


async def test_a_session_that_ended_since_it_was_found_is_not_taken_up() -> None:
    async with serving(Script()) as served:
        await opened(served)
        (session,) = served.context.sessions.all()
        served.context.sessions.end(session)
        with pytest.raises(Refusal) as refused:
            served.context.sessions.use(session, session.tenant)
        assert refused.value.error.type == "session_expired"
        assert not session.is_open()


async def test_saved_sessions_outlive_the_process(tmp_path: Path) -> None:
    settings = SessionSettings(path=str(tmp_path / "sessions"))
    core = FakeEngine(Script(reply="yes"))
    async with serving(core=core, session=settings, keys=KEYS) as served:
        anne = Client(served, KEYS[0])
        await anne.say("one", zlrs={"append": True})
        assert (await anne.call("POST", "/flush"))["saved_tokens"] > 0
        other = Client(served, KEYS[0])
        await other.say("else")
        await save_sessions(served.context)
    assert len(core.saved) == 2
    assert (tmp_path / "sessions" / "key").stat().st_mode & 0o777 == 0o600
    assert anne.secret not in "".join(core.saved)
    again = FakeEngine(Script(reply="yes"))
    again.saved = core.saved
    async with serving(core=again, session=settings, keys=KEYS) as served:
        anne.served = served
        bela = Client(served, KEYS[1])
        assert kind(await bela.say("mine", anne.secret, status=403)) == "session_forbidden"
        await anne.say("two", zlrs={"append": True})
        assert rendered(served) == ["one", "yes", "two"]
        # Destroyed is destroyed on disk too (the fake keeps its files elsewhere).
        other.served = served
        again.fit = "nothing"
        assert kind(await other.say("x", status=400)) == "kv_incompatible"
        again.fit = "tokenizer"
        assert kind(await other.say("x", status=400)) == "kv_incompatible"
        moved = await other.say("x", headers={"X-ZLRS-KV-Migrate": f"{MODEL}-to-{MODEL}"})
        assert moved["zlrs"]["session"]["recompute"] == "tokenizer"
        assert len(again.held) == 2


async def test_a_damaged_state_is_told_or_computed_again(tmp_path: Path) -> None:
    settings = SessionSettings(path=str(tmp_path))
    core = FakeEngine(Script(reply="yes"))
    async with serving(core=core, session=settings) as served:
        anne = Client(served)
        await anne.say("one", zlrs={"append": True})
        await save_sessions(served.context)
    for append in (True, False):
        again = FakeEngine(Script(reply="yes"))
        again.saved = {path: (DAMAGED, *rest) for path, (_, *rest) in core.saved.items()}  # type: ignore[misc]
        async with serving(core=again, session=settings) as served:
            anne.served = served
            if append:
                refused = await anne.say("two", zlrs={"append": True}, status=409)
                assert (kind(refused), refused["error"]["code"]) == ("kv_corrupt", "ERR_KV_CORRUPT_0x7F")
                assert str(tmp_path) not in refused["error"]["message"]
            else:
                answer = await anne.say("two")
                assert answer["zlrs"]["session"]["recompute"] == "kv_corrupt"


def on_disk(core: FakeEngine) -> Path:
    """The place of the one saved session, with a file: the fake keeps its own elsewhere."""
    (place,) = core.saved
    path = Path(place)
    path.write_bytes(b"a state")
    return path


@pytest.mark.parametrize("cause", ["another key", "a lower limit"])
async def test_what_cannot_be_checked_or_is_too_long_is_kept(
    tmp_path: Path, cause: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = SessionSettings(path=str(tmp_path))
    core = FakeEngine(Script(reply="yes"))
    async with serving(core=core, session=settings) as served:
        anne = Client(served)
        await anne.say("one", zlrs={"append": True})
        await save_sessions(served.context)
    place = on_disk(core)
    changed = (
        SessionSettings(path=str(tmp_path), file_limit_bytes=16) if cause == "a lower limit" else settings
    )
    again = FakeEngine(Script(reply="yes"))
    again.saved = dict(core.saved)
    if cause == "another key":
        again.saved[str(place)] = (b"another key", *core.saved[str(place)][1:])
    async with serving(core=again, session=changed) as served:
        anne.served = served
        for whole in (False, True):
            refused = await anne.say("two", zlrs={"append": not whole}, status=400)
            assert (kind(refused), refused["error"]["code"]) == (
                "kv_incompatible",
                "ERR_KV_INCOMPATIBLE_0x1A",
            )
            assert str(tmp_path) not in str(refused)
        assert len(served.context.sessions) == 0
        assert served.context.restoring.locked() is False
    assert "session_kept" in capsys.readouterr().err
    assert place.read_bytes() == b"a state"
    # With the key and the limit of before it goes on.
    back = FakeEngine(Script(reply="yes"))
    back.saved = core.saved
    async with serving(core=back, session=settings) as served:
        anne.served = served
        await anne.say("two", zlrs={"append": True})
        assert rendered(served) == ["one", "yes", "two"]


async def test_a_clock_that_went_back_ends_no_saved_session_for_good(tmp_path: Path) -> None:
    settings = SessionSettings(path=str(tmp_path))
    core = FakeEngine(Script(reply="yes"))
    async with serving(core=core, session=settings) as served:
        anne = Client(served)
        await anne.say("one", zlrs={"append": True})
        await save_sessions(served.context)
    place = on_disk(core)
    again = FakeEngine(Script(reply="yes"))
    again.saved = core.saved
    async with serving(core=again, session=settings) as served:
        anne.served = served
        files, now = served.context.state_files, served.context.wall()
        assert files is not None
        files._wall = lambda: now - 3600
        assert kind(await anne.say("two", zlrs={"append": True}, status=404)) == "session_expired"
        assert place.exists()
        files._wall = lambda: now
        await anne.say("two", zlrs={"append": True})
        assert rendered(served) == ["one", "yes", "two"]


async def test_one_state_is_read_at_a_time_whoever_goes_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SessionSettings(path=str(tmp_path), kv_share=0.1)
    core = FakeEngine(Script(reply="y" * 60), context_tokens=1600)
    async with serving(core=core, session=settings) as served:
        clients = [Client(served) for _ in range(3)]
        for client in clients:
            await client.say("x" * 60)
        await save_sessions(served.context)
    again = FakeEngine(Script(reply="yes"), context_tokens=1600)
    again.saved = core.saved
    may_end = threading.Event()
    reading = [0, 0]
    restore = StateFiles.restore

    def slow(self: StateFiles, *arguments: object) -> object:
        reading[0] += 1
        reading[1] = max(reading)
        may_end.wait(20)
        reading[0] -= 1
        return restore(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(StateFiles, "restore", slow)
    async with serving(core=again, session=settings) as served:
        for client in clients:
            client.served = served
        leaves = asyncio.ensure_future(clients[0].call("GET"))
        await eventually(lambda: reading[0] == 1, "the first is read")
        leaves.cancel()
        others = [asyncio.ensure_future(client.call("GET")) for client in clients[1:]]
        for _ in range(20):
            # The one who left has set nobody free.
            await served.client.get("/livez")
        assert served.context.restoring.locked()
        assert reading == [1, 1]
        may_end.set()
        await asyncio.gather(*others)
        assert reading == [0, 1]
        # What was read for nobody is a session like the others, and all are held to their share: 160 tokens.
        assert len(served.context.sessions) == 3
        assert 0 < served.context.sessions.kept_tokens <= 160
        assert len(again.held) == 1
