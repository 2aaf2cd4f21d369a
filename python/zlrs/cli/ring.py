"""`zlrs ring`: fit and show re-scoring heads of the validation ring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from zlrs import _core
from zlrs.cli.output import note
from zlrs.cli.parser import Parser
from zlrs.errors import ConfigurationError, InvalidRequestError
from zlrs.streams import reraise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EPILOG = """\
examples:
  zlrs ring train smollm2-135m-instruct-q4_1 --data pairs.jsonl prose.txt --out ring.safetensors
  zlrs ring show ring.safetensors

A .jsonl file has a line {"source": …, "reference": …} for each answer; of other texts every paragraph is a
source. Faults are put into the answers by rule; 30 % of the sources and one kind of fault are kept for the
report.
"""
VERBS = "actions: train, show; `zlrs ring ACTION --help` describes one"


def command(arguments: Sequence[str]) -> int:
    """Run one of the actions."""
    actions: dict[str, Callable[[Sequence[str]], int]] = {"train": _train, "show": _show}
    parser = Parser("zlrs ring", f"Fit and show re-scoring heads. {VERBS}.", EPILOG)
    parser.add_argument("action", choices=list(actions), metavar="ACTION")
    action = parser.parse_args(arguments[:1]).action
    return actions[action](arguments[1:])


def _train(arguments: Sequence[str]) -> int:
    parser = Parser("zlrs ring train", "Fit a head to a model and to texts.", EPILOG)
    add = parser.add_argument
    add("model", help="name from `zlrs models list`, path or URL of a GGUF file")
    add("--data", nargs="+", type=Path, required=True, metavar="PATH", help="texts, or pairs as .jsonl")
    add("--out", type=Path, default=Path("ring.safetensors"), metavar="PATH", help="the head's file")
    add("--tokens", type=int, default=60_000, metavar="N", help="answer tokens to fit to (60000)")
    add("--seed", type=int, default=1, metavar="N", help="decides faults, held-out texts, first weights (1)")
    add("--int8", action="store_true", help="write the large tensors in int8: half the size")
    add("--threads", type=int, metavar="N", help="worker threads (the cores this process has)")
    options = parser.parse_args(arguments)
    from zlrs.models import resolve
    from zlrs.ring import read_pairs, train

    pairs = read_pairs(options.data)
    try:
        head, report = train(
            resolve(options.model),
            pairs,
            tokens=options.tokens,
            threads=options.threads,
            seed=options.seed,
            int8=options.int8,
            progress=note,
        )
    except _core.CoreError as error:
        reraise(error)
    options.out.write_bytes(head)
    print(options.out)
    note(
        f"AUROC {report.auroc:.3f} on held-out texts (-ln p alone {report.auroc_surprise:.3f}), "
        f"{report.transfer_auroc:.3f} on faults of a kind it was not shown "
        f"({report.transfer_auroc_surprise:.3f}). Marks {100 * report.marked_wrong:.0f} % of the wrong and "
        f"{100 * report.marked_right:.1f} % of the right tokens. {report.seconds:.0f} s."
    )
    return 0


def _show(arguments: Sequence[str]) -> int:
    parser = Parser("zlrs ring show", "Check a head's file and print what it says of itself.", EPILOG)
    parser.add_argument("head", type=Path, help="a file of `zlrs ring train`")
    options = parser.parse_args(arguments)
    try:
        data = options.head.read_bytes()
    except OSError as error:
        raise InvalidRequestError(f"{options.head} cannot be read: {error}") from error
    try:
        head = _core.RingHead(data)
    except _core.CoreError as error:
        reraise(error)
    known: dict[str, object] = {
        "bytes": len(data), "weights": head.weights, "width": head.width, "threshold": head.threshold,
    }  # fmt: skip
    for name, value in sorted(head.metadata.items()):
        known[name] = _report(value) if name == "report" else value
    print(json.dumps(known, indent=2))
    return 0


def _report(text: str) -> object:
    """What a file says was measured of it; a file may say anything.

    Raises:
        ConfigurationError: It is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"the report of the head cannot be read: {error}") from error
