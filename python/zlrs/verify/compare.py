"""The comparison itself: who is asked when, and what the times say. No I/O."""

from __future__ import annotations

import random
import statistics
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DEFAULT_REPEATS = 100
RESAMPLES = 2000
SURE = 0.95
"""From this confidence on a difference of the times is taken as real."""

Status = Literal["improved", "worse", "undecided", "no_difference"]


class Answer(NamedTuple):
    """One answer.

    Attributes:
        text: What was answered.
        total_ms: From the question to the last token.
        tokens: Tokens of the answer, as the usage counts them.
        saved_share: Share of its multiply-adds with weights that were not done, 0 … 1; `None` if it does not
            say.
        empty_layers: Layers that were not there; `None` if the answer does not say.
    """

    text: str
    total_ms: float
    tokens: int
    saved_share: float | None = None
    empty_layers: tuple[int, ...] | None = None


class Verification(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What two ways to answer differ in.

    Attributes:
        status: `improved` or `worse`: the times differ with a confidence of 95 %; `undecided`: they do not,
            though work was left out or answers differ; `no_difference`: nothing was left out and all answers
            are the same, whatever the times say.
        zombie_layers: Layers that the baseline computed and the other one does not have.
        token_saving_pct: Share of the multiply-adds with weights that were not done, in per cent, of those of
            the baseline; `null` where the answers do not say. Tokens are counted as ever.
        latency_improvement_ms: Median of the differences baseline - other of whole answers; below 0: slower.
        confidence: Share of 2,000 samples drawn from the differences (bootstrap) whose median is above 0: how
            sure it is that the other one is faster, 0 … 1; 0.5 knows nothing.
        repeats: Pairs of answers.
        prompts: Different prompts among them.
        identical_answers_pct: Pairs with the same text, in per cent.
        baseline_ms: Median time of an answer of the baseline.
        other_ms: Median time of an answer of the other.
        token_improvement_ms: As `latency_improvement_ms`, of the time a token: for answers of other lengths.
        notes: What to know when reading it.
    """

    status: Status
    zombie_layers: list[int]
    token_saving_pct: float | None
    latency_improvement_ms: float
    confidence: float
    repeats: int
    prompts: int
    identical_answers_pct: float
    baseline_ms: float
    other_ms: float
    token_improvement_ms: float
    notes: list[str]


class Turn(NamedTuple):
    """One question: which prompt, of whom (0 baseline, 1 the other), in which pair (-1: uncounted)."""

    pair: int
    prompt: int
    arm: int


class Schedule:
    """Who is asked when.

    First every prompt once of each, uncounted, so that nobody meets it cold; then pairs, the prompts in turn,
    and in every second pair the other one is asked first.
    """

    def __init__(self, prompts: int, repeats: int) -> None:
        self.prompts = prompts
        self.repeats = repeats

    def __iter__(self) -> Iterator[Turn]:
        for prompt in range(min(self.prompts, self.repeats)):
            yield from (Turn(-1, prompt, arm) for arm in (0, 1))
        for pair in range(self.repeats):
            order = (0, 1) if pair % 2 == 0 else (1, 0)
            yield from (Turn(pair, pair % self.prompts, arm) for arm in order)


class Tally:
    """Collects answers."""

    def __init__(self) -> None:
        self._pairs: dict[int, list[Answer | None]] = {}
        self._prompts: set[int] = set()

    def add(self, turn: Turn, answer: Answer) -> None:
        """Take an answer to a question of the schedule."""
        if turn.pair >= 0:
            self._pairs.setdefault(turn.pair, [None, None])[turn.arm] = answer
            self._prompts.add(turn.prompt)

    def report(self, notes: Sequence[str] = (), *, seed: int = 1) -> Verification:
        """What the complete pairs say. O(pairs · resamples).

        Args:
            notes: Further notes for the report.
            seed: Of the resampling.

        Raises:
            ValueError: There is no complete pair.
        """
        pairs = [(one, other) for one, other in self._pairs.values() if one is not None and other is not None]
        if not pairs:
            raise ValueError("no pair of answers is complete")
        differences = [one.total_ms - other.total_ms for one, other in pairs]
        confidence = confidence_of(differences, seed)
        same = sum(one.text == other.text for one, other in pairs) / len(pairs)
        first, last = pairs[-1]
        saved = _saved(pairs)
        missing = sorted(set(last.empty_layers or ()) - set(first.empty_layers or ()))
        return Verification(
            status=_status(confidence, same=same == 1, saved=saved, missing=missing),
            zombie_layers=missing,
            token_saving_pct=None if saved is None else round(100 * saved, 3),
            latency_improvement_ms=round(statistics.median(differences), 3),
            confidence=round(confidence, 4),
            repeats=len(pairs),
            prompts=len(self._prompts),
            identical_answers_pct=round(100 * same, 2),
            baseline_ms=round(statistics.median(one.total_ms for one, _ in pairs), 3),
            other_ms=round(statistics.median(other.total_ms for _, other in pairs), 3),
            token_improvement_ms=round(
                statistics.median(_token_ms(one) - _token_ms(other) for one, other in pairs), 4
            ),
            notes=[*notes, *_notes(saved, same)],
        )


def confidence_of(differences: Sequence[float], seed: int = 1) -> float:
    """Share of samples, drawn with replacement, whose median is above 0; a median of 0 counts half."""
    draw = random.Random(seed)  # noqa: S311 - resampling, not a secret
    above = 0.0
    for _ in range(RESAMPLES):
        median = statistics.median(draw.choices(differences, k=len(differences)))
        above += 1.0 if median > 0 else 0.5 if median == 0 else 0.0
    return above / RESAMPLES


def _saved(pairs: Sequence[tuple[Answer, Answer]]) -> float | None:
    """What the other left out of what the baseline did: the mean over all pairs that say so."""
    shares = []
    for one, other in pairs:
        if other.saved_share is not None:
            done = 1 - (one.saved_share or 0.0)
            shares.append(1 - (1 - other.saved_share) / done if done else 0.0)
    return statistics.fmean(shares) if shares else None


def _status(confidence: float, *, same: bool, saved: float | None, missing: Sequence[int]) -> Status:
    if same and saved == 0 and not missing:
        return "no_difference"
    if confidence >= SURE:
        return "improved"
    return "worse" if confidence <= 1 - SURE else "undecided"


def _notes(saved: float | None, same: float) -> list[str]:
    notes = []
    if saved is None:
        notes.append("the answers do not say what was computed, so that only texts and times are compared")
    elif saved == 0:
        notes.append("nothing was left out: both are computed in full")
    if same < 1:
        notes.append(f"{1 - same:.1%} of the pairs have different texts: the other way changes answers")
    return notes


def _token_ms(answer: Answer) -> float:
    return answer.total_ms / max(answer.tokens, 1)
