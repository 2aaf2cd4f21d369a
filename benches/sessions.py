"""What a session saves: its second turn beside the conversation sent whole, and a question typed ahead.

    python benches/sessions.py --model NAME [--threads 2] [--rounds 2]

Both ways ask the same engine in turn; the way without reuse asks as a tenant that has nothing computed. About
three minutes with the 0.5B model on two cores. Figures are medians over rounds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

from report import Figure, versus, write_report

from zlrs import Engine
from zlrs.types import Message

CONTEXT_TOKENS = 4096
ANSWER_TOKENS = 16
CONVERSATION_WORDS = 2000
QUESTION_WORDS = 100
"""Short words are about a token each."""
WORDS_PER_MINUTE = 40
SAVED_TARGET = 0.63
WORDS = (
    "river", "stone", "light", "house", "green", "paper", "window", "slow", "train", "garden", "silver",
    "road", "winter", "bread", "cloud", "music", "letter", "north", "table", "open", "field", "water",
)  # fmt: skip


def words(chosen: random.Random, count: int) -> str:
    """So many words, different each time."""
    return " ".join(chosen.choice(WORDS) for _ in range(count))


def tenant(chosen: random.Random) -> bytes:
    """Somebody who has asked nothing yet."""
    return chosen.randbytes(32)


def second_turn(engine: Engine, chosen: random.Random) -> tuple[float, float]:
    """Seconds of a session's second turn, and of the same conversation sent whole without reuse."""
    with engine.session(tenant=tenant(chosen)) as session:
        session.generate(words(chosen, CONVERSATION_WORDS), max_tokens=ANSWER_TOKENS)
        question = words(chosen, 30)
        whole = engine.prepare([*session.turns, Message("user", question)])
        started = time.perf_counter()
        turn = session.generate(question, max_tokens=ANSWER_TOKENS)
        in_session = time.perf_counter() - started
    started = time.perf_counter()
    alone = engine.complete(whole, max_tokens=ANSWER_TOKENS, tenant=tenant(chosen))
    sent_whole = time.perf_counter() - started
    if alone.token_ids != turn.token_ids:
        raise SystemExit("the two ways gave different answers")
    return in_session, sent_whole


def typed(engine: Engine, chosen: random.Random) -> tuple[float, float, float]:
    """Milliseconds to the first token after sending, typed ahead and not, and the slowest draft's seconds."""
    question = words(chosen, QUESTION_WORDS)
    first = []
    slowest = 0.0
    for assisted in (True, False):
        with engine.session(system="Answer briefly.", tenant=tenant(chosen)) as session:
            session.generate("Hello", max_tokens=4)
            typed_words = question.split(" ")
            for count in range(1, len(typed_words) + 1) if assisted else ():
                started = time.perf_counter()
                session.draft(" ".join(typed_words[:count]))
                slowest = max(slowest, time.perf_counter() - started)
            first.append(session.generate(question, max_tokens=1).timings.first_token_ms)
    return first[0], first[1], slowest


def main() -> None:
    """Measure, print, and write docs/benchmarks/sessions-NAME.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    chosen = random.Random(5)  # noqa: S311 - text to measure with
    with Engine.load(options.model, threads=options.threads, context_tokens=CONTEXT_TOKENS) as engine:
        turns = [second_turn(engine, chosen) for _ in range(options.rounds)]
        drafts = [typed(engine, chosen) for _ in range(options.rounds)]
    in_session, whole = (statistics.median(column) for column in zip(*turns, strict=True))
    ahead, unassisted, slowest = (statistics.median(column) for column in zip(*drafts, strict=True))
    saved = 1 - in_session / whole
    between = 60 / WORDS_PER_MINUTE
    figures = [
        Figure(
            "second turn of a session at 2k tokens: share of the time saved", "", saved, "sent whole",
            None, None, f">= {SAVED_TARGET}", saved >= SAVED_TARGET,
            f"{in_session:.2f} s against {whole:.2f} s, {ANSWER_TOKENS} tokens of answer in both",
        ),
        versus(
            f"first token after send, {QUESTION_WORDS} words typed ahead", "ms", ahead, "not typed ahead",
            unassisted, "<= 0.2 x",
            f"the slowest draft took {slowest:.2f} s, a word comes every {between:.1f} s",
        ),
    ]  # fmt: skip
    write_report(f"sessions-{options.model}", figures)


if __name__ == "__main__":
    main()
