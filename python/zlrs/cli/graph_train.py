"""`zlrs graph train`: make the fingerprint's weights again, or from other questions."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from zlrs import _core
from zlrs.cli.parser import Parser
from zlrs.errors import InvalidRequestError, from_core

if TYPE_CHECKING:
    from collections.abc import Sequence

Pairs = list[tuple[str, str]]

_EXAMPLES = """examples:
  zlrs graph train --banking77 banking77_train.csv --clinc150 clinc150_train_val.json
  zlrs graph train --banking77 A.csv --clinc150 B.json --write fingerprint.bin
  zlrs graph train --banking77 A.csv --clinc150 B.json --evaluate"""
SEED = 1
STEPS = 5000
"""What the shipped weights were made with."""
THRESHOLDS = (0.5, 0.6, 0.72, 0.8, 0.85, 0.9, 0.95)
_HELD_OUT_ONE_IN = 5


def command(arguments: Sequence[str]) -> int:
    """Train the fingerprint and say what it is worth; exit 1 when `--check` finds other weights."""
    parser = Parser(
        "zlrs graph train",
        "Train the fingerprint that proposes edges, on the CPU, in minutes. The same data, seed and steps "
        "give the same bytes on every machine.",
        _EXAMPLES,
    )
    parser.add_argument("--banking77", metavar="CSV", required=True, help="columns text and category")
    parser.add_argument(
        "--clinc150", metavar="JSON", required=True, help="lists train and val of [text, label]"
    )
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of 128 texts each; default {STEPS}")
    parser.add_argument("--write", metavar="FILE", help="where the weights go")
    parser.add_argument("--evaluate", action="store_true", help="do not train; the shipped weights' figures")
    parser.add_argument("--check", action="store_true", help="exit 1 unless the result is the shipped file")
    parser.add_argument("--json", action="store_true", help="the figures, for programs")
    options = parser.parse_args(arguments)
    if options.steps < 1 or options.seed < 0:
        raise InvalidRequestError("--steps is 1 or more, --seed 0 or more")
    sets = {"banking77": banking77(Path(options.banking77)), "clinc150": clinc150(Path(options.clinc150))}
    known = [pair for held in sets.values() for pair in held[0]]
    try:
        file = _core.shipped_fingerprint() if options.evaluate else _train(known, options.seed, options.steps)
        figures = {
            name: _core.fingerprint_quality(file, *held, list(THRESHOLDS)) for name, held in sets.items()
        }
    except _core.CoreError as error:
        raise from_core(error) from None
    if options.write and not options.evaluate:
        Path(options.write).write_bytes(file)
    if options.json:
        print(json.dumps({name: _figures(*figure) for name, figure in figures.items()}))
    else:
        print(f"weights  {len(file)} bytes, sha256 {hashlib.sha256(file).hexdigest()}")
        for name, (texts, nearest, at) in figures.items():
            print(f"{name}: {texts} held-out questions, nearest known one asks the same for {nearest:.1%}")
            for threshold, recall, precision in at:
                print(f"  cosine >= {threshold:.2f}: recall {recall:.1%}, precision {precision:.1%}")
    if options.check and file != _core.shipped_fingerprint():
        print("these are not the shipped weights", file=sys.stderr)
        return 1
    return 0


def _figures(texts: int, nearest: float, at: Sequence[tuple[float, float, float]]) -> dict[str, object]:
    names = ("threshold", "recall", "precision")
    return {"texts": texts, "nearest": nearest, "at": [dict(zip(names, row, strict=True)) for row in at]}


def _train(known: Pairs, seed: int, steps: int) -> bytes:
    started = time.monotonic()

    def report(step: int, loss: float) -> None:
        took = time.monotonic() - started
        print(f"step {step}/{steps}  loss {loss:.4f}  {took:.0f} s", file=sys.stderr, flush=True)

    return _core.train_fingerprint(known, seed, steps, os.cpu_count() or 1, report)


def banking77(path: Path) -> tuple[Pairs, Pairs]:
    """Known and held-out questions: one in five, chosen by the hash of its text, is held out."""
    known: Pairs = []
    held: Pairs = []
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            text = row["text"]
            digest = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
            (held if digest % _HELD_OUT_ONE_IN == 0 else known).append((text, f"banking/{row['category']}"))
    return known, held


def clinc150(path: Path) -> tuple[Pairs, Pairs]:
    """Known and held-out questions: the set's own training and validation parts."""
    parts: dict[str, list[list[str]]] = json.loads(path.read_text(encoding="utf-8"))
    known, held = ([(text, f"clinc/{label}") for text, label in parts[name]] for name in ("train", "val"))
    return known, held
