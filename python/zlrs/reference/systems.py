"""The systems zlrs consists of: what each promises, how it is measured, and what is real today."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Literal

import msgspec


class System(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of docs/systems.md."""

    id: str
    system: str
    claim: str
    """What the concept says; a target to be measured, never a statement about zlrs."""
    measure: str
    """Our definition and how it is measured."""
    state: Literal["works", "partly", "planned"]
    today: str
    """What is real today; empty while planned."""


class _Systems(msgspec.Struct, forbid_unknown_fields=True):
    systems: tuple[System, ...]


@lru_cache(maxsize=1)
def systems() -> tuple[System, ...]:
    """All systems in the order of their stable ids."""
    data = files("zlrs.reference").joinpath("systems.json").read_bytes()
    return msgspec.json.decode(data, type=_Systems).systems
