"""What is asked: a file of prompts, or some short questions of several kinds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zlrs.errors import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path

FILE_LIMIT_BYTES = 16 << 20

BUILT_IN = (
    "Explain in two sentences why the sky is blue.",
    "Write a Python function that returns the n-th Fibonacci number.",
    "A farmer sells 16 eggs at 2 dollars each and buys feed for 9 dollars. How much is left?",
    'Give this as JSON with the keys name, date and sum: "Miller paid 120.50 euros on 3 May 2024."',
    "Translate into French: The train to Lyon leaves at half past seven.",
    "Name three differences between a contract of sale and a lease.",
    "What does the command `git rebase` do?",
    "Summarise in one sentence: The mill had not turned for forty years; now it grinds flour again.",
)


def read_prompts(path: Path) -> list[str]:
    """One prompt a line; in a `.jsonl` file each line is a text or an object with `prompt`.

    Raises:
        InvalidRequestError: The file cannot be read, is too long, has no prompt, or a line is something else.
    """
    try:
        if path.stat().st_size > FILE_LIMIT_BYTES:
            raise InvalidRequestError(
                f"{path} has {path.stat().st_size} bytes, the limit is {FILE_LIMIT_BYTES}"
            )
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"{path} cannot be read as text: {error}") from error
    numbered = [(number, line.strip()) for number, line in enumerate(lines, start=1) if line.strip()]
    if path.suffix == ".jsonl":
        prompts = [_prompt(path, number, line) for number, line in numbered]
    else:
        prompts = [line for _, line in numbered]
    if not prompts:
        raise InvalidRequestError(f"{path} has no prompt; write one a line")
    return prompts


def _prompt(path: Path, number: int, line: str) -> str:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise InvalidRequestError(f"line {number} of {path} is not JSON: {error}") from error
    prompt = value.get("prompt") if isinstance(value, dict) else value
    if not isinstance(prompt, str) or not prompt:
        raise InvalidRequestError(f"line {number} of {path} is neither a text nor an object with `prompt`")
    return prompt
