"""Reading event streams in tests, strictly: every line must be one the format knows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

Item = TypeVar("Item")


class Event(NamedTuple):
    """One server-sent event; `name` is empty where there was no `event:` line."""

    name: str
    data: str

    @property
    def json(self) -> dict[str, object]:
        parsed = json.loads(self.data)
        assert isinstance(parsed, dict)
        return parsed


async def collect(source: AsyncIterable[Item], into: list[Item]) -> None:
    """Read a stream to its end or failure; what came before a failure is kept."""
    async for item in source:
        into.append(item)  # noqa: PERF401


def parse_events(text: str) -> list[Event]:
    """All events; comments are left out. Fails on an event that does not end."""
    assert text.endswith("\n\n"), text[-80:]
    events = []
    for block in text[:-2].split("\n\n"):
        name, data = "", []
        for line in block.split("\n"):
            field, _, value = line.partition(": ")
            assert field in {"event", "data", ""}, line
            if field == "event":
                name = value
            elif field == "data":
                data.append(value)
        if data:
            events.append(Event(name, "\n".join(data)))
    return events
