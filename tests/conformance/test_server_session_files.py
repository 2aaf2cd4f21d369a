"""What is written of a session and what is not; what has ended stays ended."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from support.fake_engine import Script
from support.serving import MODEL, serving
from zlrs.config import SessionSettings
from zlrs.server.errors import Refusal

if TYPE_CHECKING:
    from pathlib import Path

    from support.serving import Served
    from zlrs.kept import Saved
    from zlrs.server.sessions import Session

SESSION = "X-ZLRS-Session"


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
