"""`zlrs graph stats|inspect|purge|export|import|warm|verify`: a decision graph's directory, from outside."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from zlrs.cli import graph_warm
from zlrs.cli.output import print_error
from zlrs.cli.parser import Parser
from zlrs.config import load
from zlrs.errors import InvalidRequestError, NotFoundError, ZlrsError
from zlrs.graph import (
    MEMORY,
    DecisionGraph,
    GraphFiles,
    GraphSettings,
    configured_remote,
    default_directory,
    repeat,
)

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
  zlrs graph purge --entity "order 1042"
  zlrs graph export --full > entries.jsonl
  zlrs graph import entries.jsonl --trusted 5f0c…
  zlrs graph warm questions.txt --model claude-sonnet-4-5 --key-env ANTHROPIC_API_KEY
  zlrs graph verify
  zlrs graph train --help"""
_EXPORT_LIMIT = 100_000_000
_INSPECT_LIMIT = 100
_TELL_SECONDS = 5.0
_TELL_PAUSE_SECONDS = 0.05


_NAMED: dict[PurgeBy, Callable[[StoredEntry], str]] = {
    "entry": lambda entry: entry.key,
    "node": lambda entry: entry.node,
    "scope": lambda entry: entry.scope,
    "tenant": lambda entry: entry.tenant,
}
_TOPICS: dict[PurgeBy, str] = {
    "model": "asked of this model, or answered by it",
    "entity": "whose ask names this: an order, a customer, a date (any value in TEXT is enough)",
    "factor": "under this fact, NAME=VALUE",
}


def command(arguments: Sequence[str]) -> int:
    """Look at, check or clear a decision graph."""
    if arguments[:1] == ["train"]:
        from zlrs.cli.graph_train import command as train

        return train(arguments[1:])
    parser = Parser("zlrs graph", "Look at, check and clear a decision graph.", _EXAMPLES)
    parser.add_argument(
        "action",
        choices=["stats", "inspect", "purge", "export", "import", "warm", "verify"],
        help="verify: exit 1 when something is not what was written",
    )
    parser.add_argument(
        "name",
        nargs="?",
        help="inspect: a decision (aud_…), or the first digits of an entry, node, …; import, warm: the file",
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
    for topic, meaning in _TOPICS.items():
        purge.add_argument(f"--{topic}", metavar="TEXT", help=meaning)
    purge.add_argument("--older-than-hours", type=float, metavar="H", help="entries written before")
    purge.add_argument("--expired", action="store_true", help="entries past their time")
    parser.add_argument("--full", action="store_true", help="export: with answers and signatures, for import")
    parser.add_argument("--trusted", metavar="HEX", default="", help="import: the public key that signed it")
    warm = parser.add_argument_group("warm: what asks the lines that are questions and no requests")
    warm.add_argument("--url", default="http://127.0.0.1:8787", help="of the sidecar or the engine")
    warm.add_argument("--system", metavar="TEXT", help="the system prompt, as the clients send it")
    warm.add_argument("--max-tokens", type=int, default=1024, metavar="N", help="as the clients send it")
    warm.add_argument("--chat", action="store_true", help="ask the Chat API instead of Messages")
    warm.add_argument("--key-env", metavar="VARIABLE", help="where the key is: entries belong to it")
    options = parser.parse_args(arguments)
    if options.action == "warm":
        return _warm(options)
    folder = _folder(options)
    if options.action == "import":
        return _import(folder, options)
    files = GraphFiles(folder)
    actions: dict[str, Callable[[], int]] = {
        "stats": lambda: _stats(files, as_json=options.json),
        "inspect": lambda: (
            _replay(files, options.replay) if options.replay else _inspect(files, options.name)
        ),
        "purge": lambda: _purge(folder, files, options),
        "export": lambda: _export(files, is_full=options.full),
        "verify": lambda: _verify(files, as_json=options.json),
    }
    return actions[options.action]()


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
    chosen += [(topic, given) for topic in _TOPICS if (given := getattr(options, topic)) is not None]
    for name in _NAMED:
        digits = getattr(options, name)
        if digits is not None:
            chosen.append((name, _whole(files, name, digits.lower())))
    if len(chosen) != 1:
        raise InvalidRequestError(
            "purge wants exactly one choice", suggestion="For example --all, or --node HEX"
        )
    what, which = chosen[0]
    remote = configured_remote(load(file=options.config).config.graph)
    with DecisionGraph(folder, GraphSettings(), remote) as graph:
        if graph.state() != "ready":
            raise ZlrsError(f"the graph cannot be opened: {graph.state()}")
        try:
            removed = graph.purge(what, which)
        except ValueError:
            raise InvalidRequestError(
                f"{which!r} names nothing that entries are kept by",
                suggestion='For example --entity "order 1042"',
            ) from None
        print(f"{removed} entries removed")
        if not _is_told(graph):
            raise ZlrsError(
                "the remote store of graph.remote does not answer: it and the other machines still have them",
                suggestion="Purge again when it answers",
            )
    return 0


def _is_told(graph: DecisionGraph) -> bool:
    """Whether the remote store, where there is one, has been told of everything; waits a while for it."""
    give_up = time.monotonic() + _TELL_SECONDS
    while graph.stats()["untold"]:
        if time.monotonic() >= give_up:
            return False
        time.sleep(_TELL_PAUSE_SECONDS)
    return True


def _whole(files: GraphFiles, what: PurgeBy, digits: str) -> str:
    """The one name of a kind that begins with these digits."""
    entries = files.entries(digits, _EXPORT_LIMIT)
    names = sorted({name for name in map(_NAMED[what], entries) if name.startswith(digits)})
    if len(names) != 1:
        raise NotFoundError(
            f"{len(names)} names of the kind {what} begin with {digits}", suggestion="Give more digits"
        )
    return names[0]


def _warm(options: argparse.Namespace) -> int:
    key = graph_warm.key_of(options.key_env)
    plan = graph_warm.Plan(
        options.url, options.model or "", options.system, options.max_tokens, options.chat, key
    )
    return graph_warm.command(_file(options.name), plan)


def _file(name: str | None) -> Path:
    if name is None or not Path(name).expanduser().is_file():
        raise InvalidRequestError(f"there is no file {name!r}" if name else "a file is missing")
    return Path(name).expanduser()


def _import(folder: Path, options: argparse.Namespace) -> int:
    path, now_ms = _file(options.name), time.time_ns() // 1_000_000
    seen: Counter[str] = Counter()
    with DecisionGraph(folder, GraphSettings()) as graph, path.open(encoding="utf-8") as lines:
        if graph.state() != "ready":
            raise ZlrsError(f"the graph cannot be opened: {graph.state()}")
        for line in lines:
            seen[_taken_in(graph, line.strip(), now_ms, options.trusted)] += 1
    for outcome, count in seen.most_common():
        print(f"{count:>6}  {outcome}")
    return 1 if seen["untrusted"] or seen["malformed"] else 0


def _taken_in(graph: DecisionGraph, line: str, now_ms: int, trusted: str) -> str:
    try:
        return graph.import_entry(line, now_ms, trusted)
    except ValueError as error:
        raise InvalidRequestError(f"--trusted: {error}") from None


def _export(files: GraphFiles, *, is_full: bool) -> int:
    if is_full:
        for line in files.export():
            print(line)
        return 0
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
