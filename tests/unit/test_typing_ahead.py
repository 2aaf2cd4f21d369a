"""Which tokens of a half-typed text stay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zlrs.typing_ahead import WORD_LIMIT, settled_ids, settled_text


def words(text: str) -> list[int]:
    """A tokenizer by words: each with the space before it, as an id; then the end of the turn."""
    ids, start = [], 0
    for index in range(1, len(text) + 1):
        if index == len(text) or (text[index] == " " and text[index - 1] != " "):
            ids.append(hash(text[start:index]))
            start = index
    return [1, *ids, 2, 3]


def test_the_last_word_is_held_back() -> None:
    assert settled_text("") == ""
    assert settled_text("hel") == ""
    assert settled_text("hello wor") == "hello"
    assert settled_text("hello world ") == "hello world"
    assert settled_text("a  \n b") == "a"
    assert settled_text("北" * 100) == "北" * (100 - WORD_LIMIT)


@given(st.text(alphabet="ab c", max_size=60), st.integers(0, 60))
def test_what_is_settled_never_has_to_be_taken_back_by_a_tokenizer_of_words(text: str, cut: int) -> None:
    settled = settled_ids(text[:cut], words)
    # Behind a space at the end of what was typed, a word may begin or the space may grow.
    if not text[:cut].endswith(" "):
        assert words(text)[: len(settled)] == settled
    assert len(settled) <= len(words(text[:cut])) - 2
