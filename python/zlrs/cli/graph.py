"""`zlrs graph stats|inspect|purge|export|verify`: a decision graph's directory, from outside."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from zlrs.cli.output import print_error
from zlrs.cli.parser import Parser
from zlrs.config import load
from zlrs.errors import InvalidRequestError, NotFoundError, ZlrsError
from zlrs.graph import MEMORY, DecisionGraph, GraphFiles, GraphSettings, default_directory, repeat

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from zlrs.graph import Pool, PurgeBy, StoredEntry

_EXAMPLES = """examples:
  zlrs graph stats
  zlrs graph inspect 3f9a52c1
  zlrs graph inspect aud_0198c0ffee
  zlrs graph inspect --replay aud_0198c0ffee
  zlrs graph purge --older-than-hours 6
  zlrs graph purge --node 3f9a52c1d08e4477
  zlrs graph export > entries.jsonl
  zlrs graph verify"""
_EXPORT_LIMIT = 100_000_000
_INSPECT_LIMIT = 100


_NAMED: dict[PurgeBy, Callable[[StoredEntry], str]] = {
    "entry": lambda entry: entry.key,
    "node": lambda entry: entry.node,
    "scope": lambda entry: entry.scope,
    "tenant": lambda entry: entry.tenant,
}


def command(arguments: Sequence[str]) -> int:
    """Look at, check or clear a decision graph."""
    parser = Parser("zlrs graph", "Look at, check and clear a decision graph.", _EXAMPLES)
    parser.add_argument(
        "action",
        choices=["stats", "inspect", "purge", "export", "verify"],
        help="verify: exit 1 when something is not what was written",
    )
    parser.add_argument(
        "name", nargs="?", help="inspect: a decision (aud_…), or the first digits of an entry, node, …"
    )
    parser.add_argument("--graph", metavar="DIRECTORY", help="the graph's directory, instead of graph.path")
    parser.add_argument("--config", metavar="FILE", help="instead of ./zlrs.toml")
    parser.add_argument("--json", action="store_true", help="stats, verify: for programs")
    parser.add_argument(
        "--replay", metavar="ID", help="inspect: make this decision again; exit 1 if it differs"
    )
    purge = parser.add_argument_group("purge, one of")
    purge.add_argument("--all", action="store_true", help="every entry")
    for name in _NAMED:
        purge.add_argument(f"--{name}", metavar="HEX", help=f"of this {name}; first digits are enough")
    purge.add_argument("--older-than-hours", type=float, metavar="H", help="entries written before")
    purge.add_argument("--expired", action="store_true", help="entries past their time")
    options = parser.parse_args(arguments)
    folder = _folder(options)
    files = GraphFiles(folder)
    if options.action == "stats":
        return _stats(files, as_json=options.json)
    if options.action == "inspect":
        return _replay(files, options.replay) if options.replay else _inspect(files, options.name)
    if options.action == "purge":
        return _purge(folder, files, options)
    if options.action == "export":
        return _export(files)
    return _verify(files, as_json=options.json)


def _folder(options: argparse.Namespace) -> Path:
    if options.graph is not None:
        return Path(options.graph).expanduser()
    path = load(file=options.config).config.graph.path
    if path == MEMORY:
        raise NotFoundError("a graph in memory leaves nothing to look at")
    return Path(path).expanduser() if path else default_directory()


def _stats(files: GraphFiles, *, as_json: bool) -> int:
    routes: dict[str, int] = {}
    size = 0
    for entry in files.entries("", _EXPORT_LIMIT):
        routes[entry.route] = routes.get(entry.route, 0) + 1
        size += entry.body_bytes
    pools = files.pools()
    if as_json:
        shown = {"entries": routes, "body_bytes": size, "pools": msgspec.to_builtins(pools)}
        print(json.dumps(shown, indent=1))
        return 0
    for route, count in sorted(routes.items()):
        print(f"entries  {route:<10} {count}")
    print(f"answers  {size} bytes")
    for pool in pools:
        print(_line(pool))
    return 0


def _line(pool: Pool) -> str:
    about, seen = pool.class_, pool.evidence
    return (
        f"class    {about.route} {about.kind} {about.language} model={about.model} tenant={about.tenant} "
        f"stage={seen.progress.step} bound={pool.bound:.5f} n={seen.trials} s={seen.wrong} "
        f"ever n={seen.total_trials} s={sum(seen.causes)}"
    )


def _inspect(files: GraphFiles, name: str | None) -> int:
    if name is None:
        raise InvalidRequestError(
            "inspect wants a name", suggestion="Give the node of a header, or an audit id: aud_…"
        )
    if name.startswith("aud_"):
        records = files.records(name)
        if not records:
            raise NotFoundError(f"no audit record has the id {name}")
        print("\n".join(json.dumps(record, indent=2) for record in records))
        return 0
    entries = files.entries(name.lower(), _INSPECT_LIMIT)
    if not entries:
        raise NotFoundError(f"no entry, node, scope or tenant begins with {name}")
    for entry in entries:
        print(json.dumps(msgspec.to_builtins(entry), indent=2))
    return 0 if all(entry.holds for entry in entries) else 1


def _replay(files: GraphFiles, name: str) -> int:
    decisions = [record for record in files.records(name) if record.get("kind") == "decision"]
    if not decisions:
        raise NotFoundError(f"no decision has the audit id {name}")
    recorded, repeated = repeat(decisions[0])
    print(f"recorded  {recorded}\nrepeated  {repeated}")
    if recorded != repeated:
        print_error("the same inputs give another decision now", "The record was written by another version")
        return 1
    return 0


def _purge(folder: Path, files: GraphFiles, options: argparse.Namespace) -> int:
    chosen: list[tuple[PurgeBy, str]] = []
    now_ms = time.time_ns() // 1_000_000
    if options.all:
        chosen.append(("all", ""))
    if options.expired:
        chosen.append(("expired", str(now_ms)))
    if options.older_than_hours is not None:
        chosen.append(("written_before", str(max(0, now_ms - round(options.older_than_hours * 3_600_000)))))
    for name in _NAMED:
        digits = getattr(options, name)
        if digits is not None:
            chosen.append((name, _whole(files, name, digits.lower())))
    if len(chosen) != 1:
        raise InvalidRequestError(
            "purge wants exactly one choice", suggestion="For example --all, or --node HEX"
        )
    what, which = chosen[0]
    with DecisionGraph(folder, GraphSettings(audit=False)) as graph:
        if graph.state() != "ready":
            raise ZlrsError(f"the graph cannot be opened: {graph.state()}")
        print(f"{graph.purge(what, which)} entries removed")
    return 0


def _whole(files: GraphFiles, what: PurgeBy, digits: str) -> str:
    """The one name of a kind that begins with these digits."""
    entries = files.entries(digits, _EXPORT_LIMIT)
    names = sorted({name for name in map(_NAMED[what], entries) if name.startswith(digits)})
    if len(names) != 1:
        raise NotFoundError(
            f"{len(names)} names of the kind {what} begin with {digits}", suggestion="Give more digits"
        )
    return names[0]


def _export(files: GraphFiles) -> int:
    for entry in files.entries("", _EXPORT_LIMIT):
        print(json.dumps({"kind": "entry", **msgspec.to_builtins(entry)}))
    for pool in files.pools():
        print(json.dumps({"kind": "pool", **msgspec.to_builtins(pool)}))
    return 0


def _verify(files: GraphFiles, *, as_json: bool) -> int:
    report = files.verify()
    if as_json:
        print(json.dumps(msgspec.to_builtins(report)))
        return 1 if report.faults else 0
    for fault in report.named:
        print_error(fault)
    if report.faults > len(report.named):
        print_error(f"and {report.faults - len(report.named)} more")
    print(
        f"entries  {report.entries} good ({_rate(report.entries, report.entries_ms)})\n"
        f"pools    {report.pools} good\n"
        f"chains   {report.chains} good, {report.open_chains} without an end, {report.records} records "
        f"({_rate(report.records, report.records_ms)}), {report.dropped_records} dropped\n"
        f"key      {files.public_key()}"
    )
    sys.stdout.flush()
    return 1 if report.faults else 0


def _rate(count: int, milliseconds: float) -> str:
    return f"{count / milliseconds * 1000:,.0f} a second" if milliseconds > 0 else "at once"
