"""`zlrs systems`: what zlrs consists of, and what is real today."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import msgspec

from zlrs.cli.parser import Parser
from zlrs.reference import systems

if TYPE_CHECKING:
    from collections.abc import Sequence

EPILOG = """examples:
  zlrs systems
  zlrs systems --state works --json"""


def command(arguments: Sequence[str]) -> int:
    """Print the table, or tab-separated lines where there is no terminal."""
    parser = Parser("zlrs systems", "What zlrs consists of, and what is real today.", EPILOG)
    parser.add_argument("--state", choices=("works", "partly", "planned"), help="only rows in this state")
    parser.add_argument("--json", action="store_true", help="whole rows, with claim and measure")
    options = parser.parse_args(arguments)
    rows = [row for row in systems() if options.state in {None, row.state}]
    if options.json:
        print(json.dumps(msgspec.to_builtins(rows), indent=1, ensure_ascii=False))
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table("id", "system", "state", "what is real today", box=None)
        for row in rows:
            table.add_row(row.id, row.system, row.state, row.today)
        Console().print(table)
    else:
        for row in rows:
            print(row.id, row.system, row.state, row.today, sep="\t")
    return 0
