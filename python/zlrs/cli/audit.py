"""`zlrs audit verify|show|explain|export`; `zlrs audit LOG`: what the graph would make of a traffic log."""

from __future__ import annotations

import csv
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from zlrs import audit
from zlrs.cli import traffic_audit
from zlrs.cli.audit_explain import captured, explained
from zlrs.cli.output import print_error
from zlrs.cli.parser import Parser
from zlrs.config import load
from zlrs.errors import ConflictError, InvalidRequestError, NotFoundError, ZlrsError
from zlrs.graph import MEMORY, default_directory

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

_COLUMNS = (
    "chain",
    "seq",
    "kind",
    "id",
    "decision",
    "outcome",
    "reason",
    "protocol",
    "route",
    "status",
    "node",
)
_ACTIONS = ("verify", "show", "explain", "export")


def command(arguments: Sequence[str]) -> int:
    """Check or read the audit log of a decision graph, or look at a log of traffic."""
    parser = Parser(
        "zlrs audit",
        "Check and read the audit log; or say which requests of a traffic log the graph could answer.",
        "examples:\n"
        "  zlrs audit verify\n"
        "  zlrs audit show --last 20\n"
        "  zlrs audit show aud_0198c0ffee\n"
        "  zlrs audit explain aud_0198c0ffee\n"
        "  zlrs audit export --csv > decisions.csv\n"
        "  zlrs audit traffic.jsonl\n"
        "  zlrs audit traffic.jsonl --learn --header x-api-key=ANTHROPIC_API_KEY --upstream anthropic\n",
    )
    parser.add_argument(
        "action",
        metavar="verify|show|explain|export|LOG",
        help="verify: exit 1 when a chain is not what was written; show: the last records; explain: what was "
        "decided and why, exit 1 when the recorded inputs give another decision; export: all; "
        "LOG: a file of requests, with answers where it has them (JSON lines, a JSON array, HAR)",
    )
    parser.add_argument("id", nargs="?", help="show, explain: the records of this decision")
    parser.add_argument("--graph", metavar="DIRECTORY", help="the graph's directory, instead of graph.path")
    parser.add_argument("--config", metavar="FILE", help="instead of ./zlrs.toml")
    parser.add_argument("--key", metavar="HEX", help="verify: public key the chains must be signed with")
    parser.add_argument("--last", type=int, default=20, metavar="N", help="show: how many (20)")
    parser.add_argument("--csv", action="store_true", help="export: a table instead of JSON lines")
    parser.add_argument("--bodies", action="store_true", help="show, explain: also what [capture] has kept")
    log = parser.add_argument_group("LOG")
    log.add_argument(
        "--learn", action="store_true", help="keep answers and evidence in the graph's directory"
    )
    log.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME=VARIABLE",
        help="what tells the tenant: a header, its value from the environment",
    )
    log.add_argument("--upstream", default="default", help="the upstream's name as configured (default)")
    log.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(arguments)
    if options.action not in _ACTIONS:
        return _traffic(options)
    folder = _folder(options)
    found = audit.chains(folder)
    if not found:
        raise NotFoundError(
            f"there is no audit log in {folder}", suggestion="Name the graph's directory with --graph"
        )
    if options.action == "verify":
        return _verify(found, options.key)
    if options.action == "show":
        return _show(found, options.id, options.last) or _bodies(options)
    if options.action == "explain":
        return _explain(found, options.id) | _bodies(options)
    return _export(found, as_table=options.csv)


def _traffic(options: argparse.Namespace) -> int:
    path = Path(options.action).expanduser()
    if not path.is_file():
        raise InvalidRequestError(
            f"{options.action!r} is neither {', '.join(_ACTIONS)} nor a file", suggestion="zlrs audit --help"
        )
    folder = _folder(options) if options.learn else None
    headers = traffic_audit.headers_of(options.header, dict(os.environ))
    report = traffic_audit.audit_log(path, folder, headers, options.upstream)
    return traffic_audit.show(report, as_json=options.json, kept_in=folder)


def _folder(options: argparse.Namespace) -> Path:
    if options.graph is not None:
        return Path(options.graph).expanduser()
    path = load(file=options.config).config.graph.path
    if path == MEMORY:
        raise NotFoundError("a graph in memory keeps no audit log")
    return Path(path).expanduser() if path else default_directory()


def _verify(found: list[Path], key: str | None) -> int:
    bad = 0
    for path in found:
        try:
            report = audit.verify(path, key)
        except ConflictError as error:
            bad += 1
            print_error(f"{path.name}: {error.message}")
            continue
        except ValueError as error:
            raise ZlrsError(f"--key: {error}") from None
        end = "ended" if report.ended else "open end"
        if report.cut_line:
            end += ", last line cut off"
        dropped = f", {report.dropped_records} dropped" if report.dropped_records else ""
        print(f"{path.name}: good, {report.records} records, {report.signed_records} signed{dropped}, {end}")
    return 1 if bad else 0


def _all(found: list[Path]) -> Iterator[tuple[Path, audit.Record]]:
    return ((path, record) for path in found for record in audit.records(path))


def _show(found: list[Path], wanted: str | None, last: int) -> int:
    rows = [
        record
        for _, record in _all(found)
        if wanted is None or wanted in {record.body.get("id"), record.body.get("decision")}
    ]
    if wanted is not None:
        if not rows:
            raise NotFoundError(f"no record has the id {wanted}", suggestion="`zlrs audit show` lists ids")
        print("\n".join(json.dumps(record.body, indent=2) for record in rows))
        return 0
    for record in rows[-last:] if last > 0 else []:
        body = record.body
        name = str(body.get("id") or body.get("decision") or "")
        print(f"{name}  {record.kind:<9}  {_happened(body)}")
    return 0


def _happened(body: dict[str, object]) -> str:
    if body.get("kind") == "purged":
        return f"{body.get('entries')} entries, by {body.get('what')}"
    reason = body.get("reason")
    return f"{body.get('outcome', '')}" + (f" ({reason})" if reason else "")


def _explain(found: list[Path], wanted: str | None) -> int:
    if wanted is None:
        raise InvalidRequestError(
            "explain wants an id", suggestion="It is in X-ZLRS-Audit; `zlrs audit show` lists them"
        )
    records = [
        record.body
        for _, record in _all(found)
        if wanted in {record.body.get("id"), record.body.get("decision")}
    ]
    lines, is_same = explained(records, wanted)
    print("\n".join(lines))
    return 0 if is_same else 1


def _bodies(options: argparse.Namespace) -> int:
    """What was kept of the bodies of one request."""
    if not options.bodies or options.id is None:
        return 0
    state = load(file=options.config).config.proxy.state_path
    folder = Path(state).expanduser() if state else default_directory().parent / "proxy"
    kept = captured(folder / "capture", options.id)
    print("\n".join(json.dumps(one, indent=2) for one in kept) or "bodies    none were kept")
    return 0


def _export(found: list[Path], *, as_table: bool) -> int:
    if not as_table:
        for path, record in _all(found):
            print(json.dumps({"chain": path.stem, "seq": record.sequence, **record.body}))
        return 0
    table = csv.DictWriter(sys.stdout, _COLUMNS, extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    for path, record in _all(found):
        table.writerow({"chain": path.stem, "seq": record.sequence, **record.body})
    return 0
