"""`zlrs models`: fetch, list, find, check and remove model files."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from zlrs.cli.output import note
from zlrs.cli.parser import Parser
from zlrs.models import installed, pull, remove, resolve, verify

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from zlrs.models import Model

EPILOG = """examples:
  zlrs models pull smollm2-135m-instruct-q4_1
  zlrs models list --json
  zlrs models verify qwen2.5-coder-0.5b-instruct-q4_k_m"""


class _ActionParser(Parser):
    """A parser for one action; argparse hands over the names it knows."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, "")


def _list(*, as_json: bool) -> None:
    """All known models; on a terminal a table, else tab-separated lines, or JSON."""
    rows = installed()
    if as_json:
        print(json.dumps([_facts(model, path) for model, path in rows], indent=1))
        return
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table("name", "size", "licence", "here", "note", box=None)
        for model, path in rows:
            table.add_row(model.name, _size(model), model.licence, "yes" if path else "", model.note)
        Console().print(table)
        note("Fetch one with `zlrs models pull NAME`; any other GGUF file works by path or https URL.")
        return
    for model, path in rows:
        print(model.name, _size(model), model.licence, path or "-", sep="\t")


def _size(model: Model) -> str:
    return f"{model.bytes / 1e6:.0f} MB"


def _facts(model: Model, path: Path | None) -> dict[str, str | int | None]:
    return {
        "name": model.name,
        "bytes": model.bytes,
        "sha256": model.sha256,
        "licence": model.licence,
        "path": str(path) if path else None,
    }


def command(arguments: Sequence[str]) -> int:
    """Run one of the actions; the path of a file goes to standard output."""
    parser = Parser("zlrs models", "Fetch, list, find, check and remove model files.", EPILOG)
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="ACTION", parser_class=_ActionParser
    )
    listing = actions.add_parser("list", help="known models and which are here")
    listing.add_argument("--json", action="store_true", help="as JSON, with sums and paths")
    for name, text in (
        ("pull", "fetch a model unless it is here; resumes, checks, prints the path"),
        ("path", "print where a fetched model lies"),
        ("verify", "read the file and compare its SHA-256"),
        ("remove", "delete the file and what is left of its downloads"),
    ):
        actions.add_parser(name, help=text).add_argument(
            "model", help="a known name (pull and path: or an https URL)"
        )
    options = parser.parse_args(arguments)
    if options.action == "list":
        _list(as_json=options.json)
    elif options.action == "pull":
        print(pull(options.model))
    elif options.action == "path":
        print(resolve(options.model, download=False))
    elif options.action == "verify":
        print(verify(options.model))
        note("The file is what it should be.")
    else:
        gone = remove(options.model)
        for path in gone:
            note(f"removed {path}")
        if not gone:
            note("There was nothing to remove.")
    return 0
