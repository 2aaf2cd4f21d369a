"""Names of sections and keys, and the nearest known one to a typo."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import msgspec

from zlrs.config.graph import FactorSettings
from zlrs.config.model import Config
from zlrs.config.proxy import PriceSettings, RuleSettings, UpstreamSettings
from zlrs.config.section import Section

if TYPE_CHECKING:
    from collections.abc import Iterable

SIMILARITY = 0.5


def sections() -> list[str]:
    """Names of all tables, in the order of the reference."""
    return [field.name for field in msgspec.structs.fields(Config) if isinstance(field.default, Section)]


def lists() -> dict[str, type[Section]]:
    """Names of all lists of tables (`[[name]]`) and the struct behind an entry."""
    return {
        "upstream": UpstreamSettings,
        "rule": RuleSettings,
        "price": PriceSettings,
        "factor": FactorSettings,
    }


def section_type(name: str) -> type[Section]:
    """The struct behind a table."""
    default = getattr(Config(), name)
    if not isinstance(default, Section):
        raise TypeError(f"`{name}` is not a section")
    return type(default)


def section_keys(name: str) -> list[str]:
    """Keys of one table."""
    return [field.name for field in msgspec.structs.fields(section_type(name))]


def nearest(given: str, known: Iterable[str]) -> str:
    """`Did you mean …?`, or the list when nothing is near."""
    names = list(known)
    close = difflib.get_close_matches(given, names, n=1, cutoff=SIMILARITY)
    if close:
        return f"Did you mean `{close[0]}`?"
    return f"Known: {', '.join(names)}"
