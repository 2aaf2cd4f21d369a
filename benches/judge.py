"""Local models as judges of answers: the wrong pairs they call equivalent, and the right ones they find.

    python benches/judge.py [--models NAME,...] [--pairs N] [--sentences FILE]

Two sets of pairs whose truth is known, each asked in both orders as the graph does:

- generated answers to one question that the rules leave undecided;
- with `--sentences`, a JSON list of {"origin", "similar"}: a sentence beside its rewording, and beside the
  rewording of the next one. The file of GPTCache's own benchmark has that form.

A judge whose error is over 5 % counts for nothing in the graph: it is asked and recorded. The rules alone are
the peer: what they call agreeing where they decide.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from report import Figure, write_report

from zlrs import _core
from zlrs.engine import Engine
from zlrs.judge import EngineJudge, measure

if TYPE_CHECKING:
    from zlrs.judge import Judge

MODELS = "smollm2-135m-instruct-q4_1,qwen2.5-coder-0.5b-instruct-q4_k_m,qwen2.5-coder-1.5b-instruct-q4_k_m"
ERROR_LIMIT = 0.05
ASK = "What is said here?"
ABOUT = (
    "Models in this process as judges of two answers. Each pair is asked in both orders, and both must be "
    "`equivalent`. The error is the 95 % upper limit of the share of wrong pairs that are called equivalent; "
    "over 5 % a judge changes nothing in the graph. Made by `python benches/judge.py`."
)


class Sentences(NamedTuple):
    """What a judge said of sentences and their rewordings."""

    right: int
    called_right: int
    wrong: int
    called_wrong: int


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", default=MODELS, help="names of models that are pulled, or files")
    parser.add_argument("--pairs", type=int, default=60, help="most pairs of each kind")
    parser.add_argument("--sentences", type=Path, help="JSON list of {origin, similar}")
    options = parser.parse_args()
    figures = []
    for name in options.models.split(","):
        with Engine.load(name, context_tokens=2048) as engine:
            figures += measured(name, EngineJudge(engine), options.pairs, options.sentences)
    write_report("judge", figures, about=ABOUT)


def measured(name: str, judge: Judge, pairs: int, sentences: Path | None) -> list[Figure]:
    """The figures of one judge."""
    found = measure(judge, pairs=pairs)
    note = f"{found.called_equivalent} of {found.wrong_pairs}, {found.failed} without a verdict"
    error = 100 * found.false_equivalent
    figures = [
        Figure(
            f"{name}: generated wrong pairs called equivalent, 95 % limit", "%", error, target="<= 5",
            met=found.false_equivalent <= ERROR_LIMIT, note=note,
        ),
        Figure(
            f"{name}: generated right pairs found", "%", 100 * found.recall,
            note=f"of {found.right_pairs}; {1000 * found.seconds_per_call:.0f} ms a call",
        ),
    ]  # fmt: skip
    if sentences is not None:
        seen = read(judge, json.loads(sentences.read_text(encoding="utf-8"))[:pairs])
        limit = 100 * _core.share_limit(seen.called_wrong, seen.wrong)
        figures += [
            Figure(
                f"{name}: other sentences called equivalent, 95 % limit", "%", limit, target="<= 5",
                met=limit <= 100 * ERROR_LIMIT, note=f"{seen.called_wrong} of {seen.wrong}",
            ),
            Figure(
                f"{name}: rewordings found", "%", 100 * seen.called_right / max(1, seen.right),
                "rules alone", 100 * by_rules(sentences, pairs), note=f"of {seen.right}",
            ),
        ]  # fmt: skip
    return figures


def read(judge: Judge, listed: list[dict[str, str]]) -> Sentences:
    """Ask about each sentence and its rewording, and about the rewording of the next."""
    right = [(pair["origin"], pair["similar"]) for pair in listed]
    wrong = [(origin, right[(at + 1) % len(right)][1]) for at, (origin, _) in enumerate(right)]

    def called(one: str, other: str) -> bool:
        return all(judge(ASK, *pair) == "equivalent" for pair in ((one, other), (other, one)))

    return Sentences(
        len(right), sum(called(*pair) for pair in right), len(wrong), sum(called(*pair) for pair in wrong)
    )


def by_rules(sentences: Path, pairs: int) -> float:
    """The share of rewordings that the rules find by themselves."""
    listed = json.loads(sentences.read_text(encoding="utf-8"))[:pairs]
    agreed = [_core.compare_answers(ASK, pair["origin"], pair["similar"]) == "agree" for pair in listed]
    return sum(agreed) / max(1, len(agreed))


if __name__ == "__main__":
    main()
