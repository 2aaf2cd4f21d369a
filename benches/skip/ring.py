"""Provisional streams and the validation ring: time to see a token, final texts, and how well a head marks.

Questions are asked again, as people ask them again, so that drafts are accepted; exact and provisional
streams take turns. A token is seen in an exact stream when its delta comes, in a provisional one when its
last text is shown.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from report import ROOT, Figure, versus

from zlrs import Engine, _core
from zlrs.models import resolve
from zlrs.results import Delta, Token
from zlrs.ring import read_pairs, train

if TYPE_CHECKING:
    from skip.setting import Setting

CONTEXT_TOKENS = 2048
PAIRS = (
    ROOT / "benches" / "engine" / "wikitext2_excerpt.txt",
    ROOT / "benches" / "skip" / "gsm8k_excerpt.jsonl",
)
"""What the head is fitted to and tried on."""
HEAD_TOKENS = 40_000
STREAMS = 500
"""Provisional streams whose final text is compared."""
TIMED_TOKENS = 96
COMPARED_TOKENS = 32
ANSWER_ABOUT = (
    "The ferry Aurora leaves the harbour of Lunden at 06:40, 09:15, 13:05 and 18:30. It carries 240 "
    "passengers and 38 cars, and the crossing to Hemsey takes 55 minutes. A ticket costs 14.50 for adults "
    "and 7.25 for children, a car 32.00. The ferry was built in 1987 by the yard of Norsund and rebuilt "
    "in 2009."
)
ASKED = (
    "Repeat the text word for word.", "List the departure times, one a line.", "Write the text as JSON.",
    "Quote the sentence about tickets, then the one about the yard.", "Copy the first two sentences.",
    "Say what the ferry is called, when it leaves and what it costs, in the words of the text.",
)  # fmt: skip


@dataclass
class Seen:
    """When the tokens of one answer were seen, in seconds from the question."""

    text: str = ""
    ids: tuple[int, ...] = ()
    at: list[float] = field(default_factory=list)
    accepted: int = 0


def exact(engine: Engine, prompt: list[dict[str, str]], tokens: int) -> Seen:
    """A plain stream."""
    seen = Seen()
    started = time.perf_counter()
    stream = engine.stream(prompt, max_tokens=tokens)
    for piece in stream:
        now = time.perf_counter() - started
        seen.at += [now] * len(piece.token_ids)
    done = stream.completion
    seen.text, seen.ids, seen.accepted = done.text, done.token_ids, done.usage.accepted_tokens
    return seen


def provisional(engine: Engine, prompt: list[dict[str, str]], tokens: int) -> Seen:
    """A provisional stream, read by its events alone."""
    seen = Seen()
    texts: list[tuple[str, float]] = []
    started = time.perf_counter()
    stream = engine.stream(prompt, max_tokens=tokens, stream_mode="provisional")
    for piece in stream:
        read(piece, texts, time.perf_counter() - started)
    done = stream.completion
    shown = "".join(text for text, _ in texts)
    if shown != done.text:
        raise AssertionError(f"shown {shown!r}, answered {done.text!r}")
    seen.at = [at for _, at in texts][: len(done.token_ids)]
    seen.text, seen.ids, seen.accepted = done.text, done.token_ids, done.usage.accepted_tokens
    return seen


def read(piece: Delta, texts: list[tuple[str, float]], now: float) -> None:
    """Keep the latest text of every token and when it came."""
    for event in piece.events:
        text = event.text if isinstance(event, Token) else event.corrected
        if event.index == len(texts):
            texts.append((text, now))
        elif texts[event.index][0] != text:
            texts[event.index] = (text, now)


def prompts(count: int) -> list[list[dict[str, str]]]:
    """Questions about one text, each with a number of its own, so that none is another's beginning."""
    return [
        [{"role": "user", "content": f"{ANSWER_ABOUT}\n\n({index}) {ASKED[index % len(ASKED)]}"}]
        for index in range(count)
    ]


def timing(engine: Engine, rounds: int) -> list[Figure]:
    """Time to see tokens, exact and provisional by turns."""
    first: tuple[list[float], list[float]] = ([], [])
    gaps: tuple[list[float], list[float]] = ([], [])
    means: tuple[list[float], list[float]] = ([], [])
    leads: list[float] = []
    accepted = tokens = 0
    for turn, prompt in enumerate(prompts(rounds * len(ASKED))):
        # The first time it is new; what is timed is asked again.
        engine.generate(prompt, max_tokens=TIMED_TOKENS)
        if turn % 2:
            late = provisional(engine, prompt, TIMED_TOKENS)
            pair = (exact(engine, prompt, TIMED_TOKENS), late)
        else:
            pair = (exact(engine, prompt, TIMED_TOKENS), provisional(engine, prompt, TIMED_TOKENS))
        if pair[0].ids != pair[1].ids:
            raise AssertionError("the streams differ")
        for index, seen in enumerate(pair):
            first[index].append(seen.at[0] * 1000)
            between = [(b - a) * 1000 for a, b in zip(seen.at, seen.at[1:], strict=False)]
            gaps[index].extend(between)
            means[index].append(statistics.mean(between) if between else 0.0)
        leads.extend((a - b) * 1000 for a, b in zip(pair[0].at, pair[1].at, strict=True))
        accepted += pair[1].accepted
        tokens += len(pair[1].ids)
    note = f"{tokens} tokens, {accepted / tokens:.0%} of them accepted drafts; questions asked again"
    ahead = statistics.mean(lead > 1 for lead in leads)
    middle = [statistics.median(gap) for gap in gaps]
    return [
        versus(
            "ring: first visible token, median", "ms", statistics.median(first[1]), "exact stream",
            statistics.median(first[0]), "<= 0.99 x", note,
        ),
        between_p50(middle[1], middle[0]),
        versus(
            "ring: between tokens, mean", "ms", statistics.mean(means[1]), "exact stream",
            statistics.mean(means[0]), "<= 0.99 x",
            "the first token is seen earlier and the last when it is decided, so that the gaps grow",
        ),
        Figure(
            "ring: a token is seen earlier by, median", "ms", statistics.median(leads),
            note=f"{ahead:.0%} of the tokens more than 1 ms earlier",
        ),
    ]  # fmt: skip


def between_p50(provisional_ms: float, exact_ms: float) -> Figure:
    """The gap between tokens in the middle: better means shorter, so that it is missed where both are 0."""
    name, target, note = (
        "ring: between tokens, p50", "<= 0.99 x",
        "0 where most tokens come together with the one before them, in both streams",
    )  # fmt: skip
    if exact_ms:
        return versus(name, "ms", provisional_ms, "exact stream", exact_ms, target, note)
    return Figure(name, "ms", provisional_ms, "exact stream", exact_ms, target=target, met=False, note=note)


def identical(engine: Engine, streams: int) -> Figure:
    """Final texts of provisional streams beside plain answers."""
    same = 0
    for prompt in prompts(streams):
        plain = engine.generate(prompt, max_tokens=COMPARED_TOKENS)
        seen = provisional(engine, prompt, COMPARED_TOKENS)
        same += (plain.text, plain.token_ids) == (seen.text, seen.ids)
    return Figure(
        "ring: provisional streams whose final text is the plain answer", "", same,
        target=f"= {streams}", met=same == streams, note=f"of {streams}",
    )  # fmt: skip


def head(setting: Setting) -> list[Figure]:
    """Fit a head and say what it does on texts it was not fitted to."""
    file, report = train(
        resolve(setting.model), read_pairs(PAIRS), tokens=HEAD_TOKENS, threads=setting.threads, progress=print
    )
    weights = _core.RingHead(file).weights
    about = f"{report.documents[0]} sources, {report.documents[1]} held out; {report.tokens[0]} tokens"
    return [
        versus(
            "ring: head, AUROC of faults of kinds it was shown", "", report.auroc, "-ln p alone",
            report.auroc_surprise, note=about,
        ),
        Figure(
            "ring: head, AUROC in-domain beside its target", "", report.auroc, target=">= 0.75",
            met=report.auroc >= 0.75,
            note=f"marks {report.marked_wrong:.0%} of the wrong and {report.marked_right:.1%} of the right",
        ),
        versus(
            f"ring: head, AUROC of faults in {report.transfer_kind}s, a kind it was not shown", "",
            report.transfer_auroc, "-ln p alone", report.transfer_auroc_surprise,
            note=f"marks {report.transfer_marked_wrong:.0%} of the wrong tokens",
        ),
        Figure(
            "ring: head, training", "min", report.seconds / 60, target="<= 25 min",
            met=report.seconds <= 25 * 60, note=f"{weights} weights, {len(file)} bytes",
        ),
    ]  # fmt: skip


def measure(setting: Setting) -> list[Figure]:
    """All of it."""
    with Engine.load(
        setting.model, threads=setting.threads, context_tokens=CONTEXT_TOKENS, progress=False
    ) as engine:
        figures = timing(engine, setting.rounds)
        figures.append(identical(engine, STREAMS))
    return figures + head(setting)
