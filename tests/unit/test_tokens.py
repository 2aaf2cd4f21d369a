"""Counts with a model's own tokenizer, and what an estimate may claim."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.real_model import small_model
from zlrs import tokens
from zlrs.errors import ConfigurationError, ZlrsError
from zlrs.patterns import Patterns
from zlrs.tokens import Tokenizer, estimate

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_holds() -> None:
    assert doctest.testmod(tokens).failed == 0


@given(st.text(max_size=200), st.text(max_size=200))
def test_an_estimate_is_bounded_and_adds_up_at_white_space(one, other) -> None:
    assert 0 <= estimate(one) <= len(one)
    assert estimate(f"{one} {other}") == estimate(one) + estimate(other)


def test_a_model_that_is_none_is_refused(tmp_path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF nothing")
    with pytest.raises(ZlrsError):
        Tokenizer(tmp_path / "x.gguf")


def test_patterns_are_searched_together_and_refused_when_not_linear() -> None:
    assert Patterns(["^a", "(?i)ORDER", "z"]).matches("an order") == [0, 1]
    assert Patterns([]).matches("x") == []
    for bad in ("(?=a)", r"(a)\1", "(", "(a{1000}){1000}"):
        with pytest.raises(ConfigurationError):
            Patterns([bad])


def test_a_search_is_not_exponential() -> None:
    assert Patterns(["^(a+)+$", "(x+x+)+y"]).matches("a" * 100_000 + "!" + "x" * 100_000) == []


@pytest.mark.t1
def test_the_estimate_is_near_the_count_on_our_own_pages() -> None:
    counter = Tokenizer(small_model())
    assert counter.count("") == 0
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")]
    errors = sorted(abs(estimate(page) / counter.count(page) - 1) for page in pages)
    assert errors[len(errors) // 2] < 0.15
