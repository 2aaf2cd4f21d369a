"""`zlrs version`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zlrs import _core
from zlrs.cli.parser import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence


def command(arguments: Sequence[str]) -> int:
    """Print the version."""
    Parser("zlrs version", "Print the version.").parse_args(arguments)
    print(f"zlrs {_core.build_info()['version']}")
    return 0
