"""`zlrs cost report`: the ledger of the sidecar, with the prices of `zlrs.toml`."""

from __future__ import annotations

import argparse
import csv
import sys
import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import msgspec

from zlrs.config import ConfigError, load
from zlrs_proxy import ledger
from zlrs_proxy.cost import Line, report
from zlrs_proxy.state import default_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLUMNS = (
    "name", "spent_requests", "spent_input", "spent_output", "spent_cache_read", "spent_cache_write",
    "declared_output", "spent_cost", "saved_requests", "saved_input", "saved_output", "saved_cost", "merged",
    "unpriced", "unknown",
)  # fmt: skip


def command(argv: Sequence[str]) -> int:
    """Print the report; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="zlrs cost",
        description="What calls through the sidecar cost, and apart from it what the graph saved: the tokens "
        "that the upstream reported, at the prices of [[price]] in zlrs.toml. Saved is what the stored "
        "answers had cost when they were made.",
        allow_abbrev=False,
    )
    parser.add_argument("action", choices=["report"])
    parser.add_argument("--by", choices=["model", "day", "upstream", "cohort"], default="model")
    parser.add_argument("--days", type=float, metavar="N", help="only the last N days")
    parser.add_argument("--state", metavar="FOLDER", help="instead of proxy.state_path")
    parser.add_argument("--config", metavar="FILE", help="instead of ./zlrs.toml")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true")
    form.add_argument("--csv", action="store_true")
    options = parser.parse_args(list(argv))
    try:
        config = load(file=options.config).config
        folder = options.state or config.proxy.state_path or default_folder()
        since = 0 if options.days is None else int(time.time() / 60 - options.days * 24 * 60)
        rows = (row for row in ledger.read(folder) if row.minute >= since)
        lines = report(rows, config.price, options.by)
    except (ConfigError, OSError, ValueError) as error:
        print(f"zlrs cost: {error}", file=sys.stderr)  # noqa: T201 - the command line's own message
        return 1
    if options.by == "day":
        for line in lines[:-1]:
            line.name = _date(int(line.name))
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(lines)).decode())  # noqa: T201 - this command's output
    elif options.csv:
        _table(lines)
    else:
        _text(lines, options.by)
    return 0


def _table(lines: list[Line]) -> None:
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(_COLUMNS)
    for line in lines:
        spent, saved = line.spent, line.saved
        table.writerow(
            [
                line.name, spent.requests, spent.input, spent.output, spent.cache_read, spent.cache_write,
                spent.declared, f"{spent.cost:.6f}", saved.requests, saved.input + saved.cache_read
                + saved.cache_write, saved.output, f"{saved.cost:.6f}", line.merged,
                spent.unpriced + saved.unpriced, line.unknown,
            ]
        )  # fmt: skip


def _text(lines: list[Line], by: str) -> None:
    if len(lines) == 1:
        print("nothing has been recorded")  # noqa: T201 - this command's output
        return
    heads = (by, "calls", "in", "cached", "out", "of declared", "spent", "saved calls", "saved")
    rows = [heads, *map(_cells, lines)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(heads))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        print("  ".join(cells).rstrip())  # noqa: T201 - this command's output
    total = lines[-1]
    unpriced = total.spent.unpriced + total.saved.unpriced
    if unpriced:
        print(f"{unpriced} calls have no price: add [[price]] entries to zlrs.toml")  # noqa: T201
    if total.unknown:
        print(f"{total.unknown} answers did not say what they used and are in no sum")  # noqa: T201


def _cells(line: Line) -> tuple[str, ...]:
    spent, saved = line.spent, line.saved
    used = f"{spent.output / spent.declared:.0%}" if spent.declared else "-"
    return (
        line.name,
        f"{spent.requests:,}",
        f"{spent.input + spent.cache_write:,}",
        f"{spent.cache_read:,}",
        f"{spent.output:,}",
        used,
        f"{spent.cost:,.4f}",
        f"{saved.requests:,}",
        f"{saved.cost:,.4f}",
    )


def _date(day: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(days=day)).date().isoformat()
