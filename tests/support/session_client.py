"""A user of sessions on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.serving import MODEL

if TYPE_CHECKING:
    from support.serving import Served

SESSION = "X-ZLRS-Session"
KEYS = ("key-of-anne-0123456789", "key-of-bela-0123456789")


class Clock:
    """Time that only the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Client:
    """One user of a server."""

    def __init__(self, served: Served, key: str | None = None) -> None:
        self.served = served
        self.headers = {} if key is None else {"x-api-key": key}
        self.id = self.secret = ""

    async def say(self, text: str, session: str | None = None, *, status: int = 200, **more: object) -> dict:
        """A request; the session is the client's own unless another is named."""
        headers = {**self.headers, SESSION: session or self.secret or "create"}
        headers |= more.pop("headers", {})  # type: ignore[arg-type]
        body = {"model": MODEL, "max_tokens": 50, "messages": [{"role": "user", "content": text}], **more}
        async with self.served.client.post("/v1/messages", json=body, headers=headers) as response:
            answer = await response.json(content_type=None)
            assert response.status == status, answer
            if status == 200 and not self.secret:
                self.id, _, self.secret = response.headers[SESSION].partition(";secret=")
        return answer

    async def call(self, method: str, tail: str = "", *, status: int = 200, **more: object) -> dict:
        headers = self.headers | ({SESSION: self.secret} if self.secret else {})
        url = f"/v1/sessions/{more.pop('id', self.id)}{tail}"
        async with self.served.client.request(method, url, headers=headers, **more) as response:  # type: ignore[arg-type]
            answer = await response.json(content_type=None)
            assert response.status == status, answer
        return answer


def kind(answer: dict) -> str:
    return answer["error"]["type"]


def rendered(served: Served) -> list[str]:
    return [content for _, content in served.core.rendered[-1]]
