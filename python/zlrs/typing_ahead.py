"""Which tokens of a text that is still being typed will stay.

A tokenizer cuts text into words before it makes tokens, so the tokens before the last word do not change
when the text goes on. Where this guess fails, work is wasted and nothing else: what a request reuses is
decided on its own tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WORD_LIMIT = 32
"""Characters of a last word that are held back; longer ones (languages without spaces) count as settled."""


def settled_text(text: str) -> str:
    """The text without its last word and the white space before it, which may still change."""
    tail = text[-WORD_LIMIT:]
    for index in range(len(tail) - 1, -1, -1):
        if tail[index].isspace():
            return text[: len(text) - len(tail) + index].rstrip()
    return text[:-WORD_LIMIT]


def settled_ids(typed: str, render: Callable[[str], Sequence[int]]) -> list[int]:
    """The leading ids that `typed` has in common with every way it is likely to go on.

    Args:
        typed: The text so far.
        render: Ids of the whole prompt with this text in the place of the last turn.
    """
    settled = settled_text(typed)
    # What follows the text in the prompt falls away too: it is not where the text will go on.
    longest = list(render(typed))
    for other in (settled + " a", settled + "\n"):
        longest = longest[: common(longest, render(other))]
    return longest


def common(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the common beginning."""
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return min(len(left), len(right))
