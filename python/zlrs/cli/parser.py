"""Argument parsing with suggestions: a typo names the nearest option or choice."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from typing import TYPE_CHECKING, NoReturn

from zlrs.cli.output import print_error

if TYPE_CHECKING:
    from collections.abc import Iterable

USAGE_ERROR = 2


class Parser(argparse.ArgumentParser):
    """`argparse` without abbreviations; errors say what to do and end with exit code 2."""

    def __init__(self, prog: str, description: str, epilog: str | None = None) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """Print the problem and the nearest known name, then exit with 2."""
        print_error(f"{self.prog}: {message}", self._suggestion(message))
        sys.exit(USAGE_ERROR)

    def _suggestion(self, message: str) -> str:
        unknown = re.match(r"unrecognized arguments: (-\S+)", message)
        if unknown:
            options = [name for action in self._actions for name in action.option_strings]
            return did_you_mean(unknown[1].partition("=")[0], options) or f"See `{self.prog} --help`"
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if choice:
            return did_you_mean(choice[1], [c.strip(" '") for c in choice[2].split(",")])
        return f"See `{self.prog} --help`"


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`Did you mean …?`, or nothing when no name is near."""
    close = difflib.get_close_matches(given, list(known), n=1, cutoff=0.5)
    return f"Did you mean `{close[0]}`?" if close else ""
