"""Regular expressions whose search is linear in the text, so that none can hold up a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zlrs import _core
from zlrs.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Patterns:
    """A set of patterns, searched together.

    Args:
        patterns: In the syntax of the Rust crate `regex`: no look-around and no back references.

    Raises:
        ConfigurationError: One cannot be compiled.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        try:
            self._core = _core.Patterns(list(patterns))
        except ValueError as error:
            raise ConfigurationError(f"a pattern cannot be used: {error}") from None

    def matches(self, text: str) -> list[int]:
        """Which patterns are found, by their place in the list; O(patterns x text)."""
        return self._core.matches(text)
