"""What provisional streams and the validation ring bring: time to see a token, and how well a head marks.

Questions are asked again, as people ask them again, so that drafts are accepted; exact and provisional
streams take turns. A token is seen in an exact stream when its delta comes, in a provisional one when its
last text is shown.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from report import Figure, versus, write_report

from zlrs import Engine, _core
from zlrs.models import resolve
from zlrs.results import Delta, Token
from zlrs.ring import read_pairs, train

CONTEXT_TOKENS = 2048
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
    """Time to see tokens, exact and provisional in turns."""
    first: tuple[list[float], list[float]] = ([], [])
    gaps: tuple[list[float], list[float]] = ([], [])
    means: tuple[list[float], list[float]] = ([], [])
    leads: list[float] = []
    accepted = tokens = 0
    for prompt in prompts(rounds * len(ASKED)):
        # The first time it is new; what is timed is asked again.
        engine.generate(prompt, max_tokens=TIMED_TOKENS)
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
    share = accepted / tokens
    note = f"{tokens} tokens, {share:.0%} of them accepted drafts; asked for the second and third time"
    ahead = statistics.mean(lead > 1 for lead in leads)
    return [
        versus(
            "first visible token, median", "ms", statistics.median(first[1]), "exact stream",
            statistics.median(first[0]), "<= 0.99 x", note,
        ),
        versus(
            "between tokens, p50", "ms", statistics.median(gaps[1]), "exact stream",
            statistics.median(gaps[0]), "<= 0.99 x", note,
        ),
        versus(
            "between tokens, mean of an answer, median", "ms", statistics.median(means[1]), "exact stream",
            statistics.median(means[0]), note=note,
        ),
        Figure(
            "a token is seen earlier by, median", "ms", statistics.median(leads),
            note=f"{ahead:.0%} of the tokens more than 1 ms earlier",
        ),
    ]  # fmt: skip


def identical(engine: Engine, streams: int) -> Figure:
    """Final texts of provisional streams beside plain answers."""
    same = 0
    for prompt in prompts(streams):
        plain = engine.generate(prompt, max_tokens=COMPARED_TOKENS)
        seen = provisional(engine, prompt, COMPARED_TOKENS)
        same += (plain.text, plain.token_ids) == (seen.text, seen.ids)
    return Figure(
        "provisional streams whose final text is the plain answer", "", same,
        target=f"= {streams}", met=same == streams, note=f"of {streams}",
    )  # fmt: skip


def head(model: str, data: list[Path], tokens: int, threads: int) -> list[Figure]:
    """Fit a head and say what it does on texts it was not fitted to."""
    file, report = train(resolve(model), read_pairs(data), tokens=tokens, threads=threads, progress=print)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ring.safetensors"
        path.write_bytes(file)
        size = path.stat().st_size
    weights = _core.RingHead(file).weights
    about = f"{report.documents[0]} sources, {report.documents[1]} held out; {report.tokens[0]} tokens"
    return [
        versus(
            "ring head: AUROC, faults of kinds it was shown", "", report.auroc, "-ln p alone",
            report.auroc_surprise, note=about,
        ),
        Figure(
            "ring head: AUROC in-domain against its target", "", report.auroc, target=">= 0.75",
            met=report.auroc >= 0.75,
            note=f"marks {report.marked_wrong:.0%} of the wrong and {report.marked_right:.1%} of the right",
        ),
        versus(
            f"ring head: AUROC, faults in {report.transfer_kind}s, a kind it was not shown", "",
            report.transfer_auroc, "-ln p alone", report.transfer_auroc_surprise,
            note=f"marks {report.transfer_marked_wrong:.0%} of the wrong tokens",
        ),
        Figure(
            "ring head: training", "min", report.seconds / 60, target="<= 25 min",
            met=report.seconds <= 25 * 60, note=f"{weights} weights, {size} bytes",
        ),
    ]  # fmt: skip


def main() -> None:
    """Measure, print, and write docs/benchmarks/ring-NAME.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", nargs="*", type=Path, default=[], help="texts for the head; none = no head")
    parser.add_argument("--tokens", type=int, default=60_000, help="answer tokens that the head is fitted to")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    with Engine.load(
        options.model, threads=options.threads, context_tokens=CONTEXT_TOKENS, progress=False
    ) as engine:
        figures = timing(engine, options.rounds)
        figures.append(identical(engine, options.streams))
    if options.data:
        figures += head(options.model, options.data, options.tokens, options.threads)
    print(json.dumps([figure.value for figure in figures]))
    write_report(f"ring-{options.model}", figures)


if __name__ == "__main__":
    main()
