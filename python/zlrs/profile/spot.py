"""Spot checks of a mask: short tasks with known answers, solved by the full and by the masked model.

They are few and say little about small harm; they are there because a model can lose arithmetic or the form
of an answer while its divergence still looks small.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from zlrs.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from zlrs.engine import Engine

FILE_LIMIT_BYTES = 64 << 20
GSM8K_TOKENS = 256
JSON_TOKENS = 64
GSM8K_SUFFIX = "\nSolve it step by step. End with a line `#### ` and the number."

_NAMES = ("Miller", "Okafor", "Tanaka", "Rossi", "Novak", "Silva", "Haddad", "Larsen", "Moreau", "Petrov")
_CITIES = ("Lyon", "Lagos", "Osaka", "Turin", "Brno", "Porto", "Amman", "Bergen", "Metz", "Plovdiv")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_OBJECT = re.compile(r"\{[^{}]*\}")


class SpotCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many tasks of one kind were solved.

    Attributes:
        name: `gsm8k` or `json`.
        asked: Tasks.
        full_right: Solved by the full model.
        masked_right: Solved by the masked model.
        same_answers: Answers with the same text.
    """

    name: str
    asked: int
    full_right: int
    masked_right: int
    same_answers: int


class Task(NamedTuple):
    """One task, and whether an answer solves it."""

    prompt: str
    solved: Callable[[str], bool]


def json_tasks(count: int) -> list[Task]:
    """Sentences to put into JSON, generated; the first ones are always the same."""

    def task(index: int) -> Task:
        name, city = _NAMES[index % len(_NAMES)], _CITIES[(index * 7 + 3) % len(_CITIES)]
        order, items = 10_007 + 613 * index, 2 + index % 17
        wanted = {"name": name, "city": city, "order": str(order), "items": str(items)}
        prompt = (
            "Put a sentence into one JSON object with the keys name, city, order and items, and write nothing"
            ' else. "Kim of Seoul ordered 1 chair, order number 9." is {"name": "Kim", "city": "Seoul",'
            ' "order": 9, "items": 1}. Now:'
            f' "{name} of {city} ordered {items} chairs, order number {order}."'
        )
        return Task(prompt, lambda answer: _object_in(answer) == wanted)

    return [task(index) for index in range(count)]


def gsm8k_tasks(path: Path, count: int) -> list[Task]:
    """The first tasks of a file of GSM8K: `question` and `answer` of each line, the number behind `####`.

    Raises:
        InvalidRequestError: The file cannot be read or a line is something else.
    """
    try:
        if path.stat().st_size > FILE_LIMIT_BYTES:
            raise InvalidRequestError(
                f"{path} has {path.stat().st_size} bytes, the limit is {FILE_LIMIT_BYTES}"
            )
        lines = path.read_text("utf-8").splitlines()[:count]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"{path} cannot be read as text: {error}") from error
    return [_gsm8k_task(path, number, line) for number, line in enumerate(lines, start=1)]


def _gsm8k_task(path: Path, number: int, line: str) -> Task:
    try:
        entry = json.loads(line)
        question, wanted = str(entry["question"]), _last_number(str(entry["answer"]).split("####")[1])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise InvalidRequestError(f"line {number} of {path} is not a problem of GSM8K: {error}") from error
    return Task(question + GSM8K_SUFFIX, lambda answer: wanted is not None and _last_number(answer) == wanted)


def check(full: Engine, masked: Engine, name: str, tasks: Sequence[Task], max_tokens: int) -> SpotCheck:
    """Let both solve the tasks, greedily, each all in one batch."""
    prompts = [_ask(full, task.prompt) for task in tasks]
    theirs = [answer.text for answer in full.generate_many(prompts, max_tokens=max_tokens)]
    ours = [answer.text for answer in masked.generate_many(prompts, max_tokens=max_tokens)]
    return SpotCheck(
        name=name,
        asked=len(tasks),
        full_right=sum(task.solved(text) for task, text in zip(tasks, theirs, strict=True)),
        masked_right=sum(task.solved(text) for task, text in zip(tasks, ours, strict=True)),
        same_answers=sum(one == other for one, other in zip(theirs, ours, strict=True)),
    )


def _ask(engine: Engine, prompt: str) -> str | list[dict[str, str]]:
    return [{"role": "user", "content": prompt}] if engine.info["has_chat_template"] else prompt


def _last_number(text: str) -> float | None:
    found = _NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


def _object_in(text: str) -> object:
    """The first JSON object of an answer, also in a code block."""
    found = _OBJECT.search(text)
    try:
        value = json.loads(found[0]) if found else None
    except ValueError:
        return None
    # A number in quotation marks is taken as the number.
    return {key: str(item) for key, item in value.items()} if isinstance(value, dict) else None
