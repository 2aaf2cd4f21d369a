"""Traffic for the decision graph: questions with a known truth, and an upstream that answers from a table.

The truth is a function of what is asked and of the values in it, finer than the intent: the same question
about another order has another answer. Everything follows from a seed.
"""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple


class Family(NamedTuple):
    """A kind of question: usual wording, true answer, other wordings, what the truth depends on."""

    text: str
    answer: str
    others: tuple[str, ...] = ()
    by_tier: bool = False
    """Whether the answer depends on the customer's tier, a fact beside the question."""


FAMILIES: tuple[Family, ...] = (
    Family(
        "When was order {n} shipped?", "Order {n} was shipped on {date}.", ("When did order {n} go out?",)
    ),
    Family(
        "When was order {n} paid?", "Order {n} was paid on {date}.", ("On which date was order {n} paid?",)
    ),
    Family("When was order {n} not shipped?", "Order {n} was held back on {date}."),
    Family(
        "What is in order {n}?", "Order {n} contains {count} books.", ("Which items does order {n} contain?",)
    ),
    Family(
        "What is the total of order {n}?", "The total of order {n} is {money}.", ("How much is order {n}?",)
    ),
    Family("What is the total of invoice {n}?", "The total of invoice {n} is {money}."),
    Family("Who is the contact for ticket {n}?", "The contact for ticket {n} is {person}."),
    Family(
        "Who closed ticket {n}?",
        "Ticket {n} was closed by {person}.",
        ("Which colleague closed ticket {n}?",),
    ),
    Family("How many days does a return of order {n} take?", "A return of order {n} takes {count} days."),
    Family("How long is the warranty of item {n}?", "The warranty of item {n} is {count} months."),
    Family("Can I return item {n}?", "Item {n} can be returned until {date}."),
    Family("Can I cancel order {n}?", "Order {n} can be cancelled until {date}."),
    Family("When did {name} place the first order?", "{name} placed the first order on {date}."),
    Family("Which discount does item {n} have?", "The discount on item {n} is {count} percent.", (), True),
)
FIRST_NAMES = (
    "Ada",
    "Boris",
    "Chen",
    "Dana",
    "Elif",
    "Farid",
    "Gita",
    "Hugo",
    "Ines",
    "Jonas",
    "Kira",
    "Liam",
)
LAST_NAMES = (
    "Novak",
    "Lindt",
    "Wei",
    "Okafor",
    "Kaya",
    "Rahimi",
    "Rao",
    "Brandt",
    "Costa",
    "Berg",
    "Sato",
    "Moreau",
)
TIERS = ("basic", "gold")
PEOPLE = (
    "Ada Novak",
    "Boris Lindt",
    "Chen Wei",
    "Dana Okafor",
    "Elif Kaya",
    "Farid Rahimi",
    "Gita Rao",
    "Hugo Brandt",
)
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October")
COURTESY = " Let me know if you need anything else."
USUAL_MS, SLOW_MS = 1000.0, 10_000.0
REFUSAL = "I'm sorry, but I can't help with that."


class Question(NamedTuple):
    """A meaning with its values."""

    family: int
    number: int
    tier: str = "basic"


class Ask(NamedTuple):
    """A question in one wording."""

    question: Question
    text: str
    form: str
    """What wordings share that the canonical rules merge; others have another."""


@dataclass
class Faults:
    """How often the upstream does what it should not."""

    wrong: float = 0.0
    truncated: float = 0.005
    refusing: float = 0.0
    failing: float = 0.002
    reworded: float = 0.05
    slow: float = 0.01
    """Answers that take ten times as long."""


@dataclass
class Upstream:
    """Answers from the table. `epoch` of a question changes its truth."""

    seed: int
    faults: Faults
    epochs: dict[Question, int] = field(default_factory=dict)
    calls: int = 0
    milliseconds: float = 0.0
    """Time the calls would have taken: a second each, ten for the slow ones."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - a simulation

    def truth(self, question: Question) -> str:
        """The right answer now."""
        return _answer(question, self.epochs.get(question, 0))

    def answer(self, question: Question) -> tuple[int, bytes]:
        """Status and body of one call."""
        self.calls += 1
        draw, faults = self._random.random(), self.faults
        self.milliseconds += SLOW_MS if self._random.random() < faults.slow else USUAL_MS
        text = self.truth(question)
        if (draw := draw - faults.failing) < 0:
            return 529, b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}'
        if (draw := draw - faults.truncated) < 0:
            return 200, body_of(text[: len(text) // 2], "max_tokens")
        if (draw := draw - faults.refusing) < 0:
            return 200, body_of(REFUSAL, "end_turn")
        if (draw := draw - faults.wrong) < 0:
            return 200, body_of(_answer(question, 1_000_000 + self.calls), "end_turn")
        if draw - faults.reworded < 0:
            return 200, body_of(text + COURTESY, "end_turn")
        return 200, body_of(text, "end_turn")


def says(text: str, truth: str) -> bool:
    """Whether an answer states this truth and nothing else."""
    return text.removesuffix(COURTESY) == truth


def traffic(count: int, questions: int, seed: int) -> list[Ask]:
    """Asks whose questions follow Zipf's law with exponent 1, each in a wording drawn for it."""
    rng = random.Random(seed)  # noqa: S311 - a simulation
    table = [_question(index, rng) for index in range(questions)]
    weights = list(accumulate(1 / (rank + 1) for rank in range(questions)))
    return [_worded(question, rng) for question in rng.choices(table, cum_weights=weights, k=count)]


def _question(index: int, rng: random.Random) -> Question:
    family = rng.randrange(len(FAMILIES))
    tier = rng.choice(TIERS) if FAMILIES[family].by_tier else TIERS[0]
    # Two customers in the two tiers ask about one item.
    return Question(family, 1000 + (index // 2 * 2 if FAMILIES[family].by_tier else index), tier)


def usual(question: Question) -> Ask:
    """The question in its usual wording."""
    form = FAMILIES[question.family].text
    return Ask(question, form.format(n=question.number, name=name(question.number)), form)


def name(number: int) -> str:
    """The customer of a number."""
    first, last = number % len(FIRST_NAMES), number // len(FIRST_NAMES) % len(LAST_NAMES)
    rest = number // (len(FIRST_NAMES) * len(LAST_NAMES))
    middle = f"{chr(ord('A') + rest // 26 % 26)}. {chr(ord('A') + rest % 26)}."
    return f"{FIRST_NAMES[first]} {middle} {LAST_NAMES[last]}"


def request(ask: Ask, tenant: str = "bench") -> tuple[str, str, str, list[tuple[bytes, bytes]], bytes, str]:
    """The arguments of `decide`, but for the time."""
    body = {
        "model": "table",
        "max_tokens": 64,
        "temperature": 0,
        "system": "You are the support assistant of a bookshop.",
        "messages": [{"role": "user", "content": ask.text}],
    }
    # The tier is a header of the request, and so part of its scope.
    tier = (b"x-customer-tier", ask.question.tier.encode())
    headers = [(b"x-api-key", tenant.encode()), (b"content-type", b"application/json"), tier]
    return "POST", "/v1/messages", "", headers, json.dumps(body).encode(), "table"


def _worded(question: Question, rng: random.Random) -> Ask:
    first, _, others, _ = FAMILIES[question.family]
    form = first
    if others and rng.random() < 0.1:
        form = rng.choice(others)
    text = form.format(n=question.number, name=name(question.number))
    if rng.random() < 0.25:
        text = text.removesuffix("?")
    if rng.random() < 0.25:
        text = text[0].lower() + text[1:]
    if rng.random() < 0.15:
        text = f"Please, {text[0].lower()}{text[1:]}"
    if rng.random() < 0.1:
        words = text.split(" ")
        at = rng.randrange(1, len(words))
        text = f"{' '.join(words[:at])}  {' '.join(words[at:])}"
    return Ask(question, text, form)


def _answer(question: Question, epoch: int) -> str:
    digest = hashlib.sha256(f"{question.family} {question.number} {question.tier} {epoch}".encode()).digest()
    pick = int.from_bytes(digest[:4], "little")
    return FAMILIES[question.family].answer.format(
        n=question.number,
        name=name(question.number),
        date=f"{pick % 28 + 1} {MONTHS[pick // 28 % len(MONTHS)]}",
        count=pick % 88 + 2,
        money=f"{pick % 90_000 / 100 + 1:.2f} EUR",
        person=PEOPLE[pick % len(PEOPLE)],
    )


def body_of(text: str, stop_reason: str) -> bytes:
    """A Messages answer."""
    return json.dumps(
        {
            "id": "msg_table", "type": "message", "role": "assistant", "model": "table-1",
            "content": [{"type": "text", "text": text}], "stop_reason": stop_reason, "stop_sequence": None,
            "usage": {"input_tokens": 30, "output_tokens": 12},
        }
    ).encode()  # fmt: skip
