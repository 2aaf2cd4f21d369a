"""Branches and many prompts in Python, over the stand-in."""

from __future__ import annotations

import pytest

from support.fake_engine import FakeEngine, Script
from zlrs.branches import BRANCH_LIMIT, Branch, require_branches
from zlrs.engine import Engine
from zlrs.errors import ZlrsError
from zlrs.languages import LANGUAGES
from zlrs.types import Message

USER = Message("user", "hi")


def test_branches_come_back_by_tag_with_their_limits() -> None:
    core = FakeEngine(Script(reply=lambda prompt: prompt[-9:]))
    with Engine(core, name="fake") as engine:
        answers = engine.branches(
            [USER], [Branch("fr"), Branch("short", "Be brief.", max_tokens=2)], max_tokens=20, seed=4
        )
    assert list(answers) == ["fr", "short"]
    assert answers["fr"].text == "n French."
    assert (answers["short"].text, answers["short"].finish_reason) == ("Be", "max_tokens")
    assert [options["max_tokens"] for options in core.submitted] == [20, 2]
    assert all(options["seed"] == 4 for options in core.submitted)


def test_many_prompts_are_answered_in_their_order() -> None:
    core = FakeEngine(Script(reply=lambda prompt: prompt.upper()))
    with Engine(core, name="fake") as engine:
        answers = engine.generate_many(["one", "two", [USER]])
        assert engine.generate_many([]) == []
    assert [answer.text for answer in answers[:2]] == ["ONE", "TWO"]
    assert len(answers) == 3


def test_one_failure_ends_all() -> None:
    core = FakeEngine(Script(reply="abc", fail_before=1))
    with Engine(core, name="fake") as engine, pytest.raises(ZlrsError):
        engine.generate_many(["one", "two", "three"])
    assert all(generation.cancelled.is_set() for generation in core.generations[1:])


@pytest.mark.parametrize(
    ("tag", "instruction", "says"),
    [
        ("", None, "a tag has"),
        ("a b", "x", "a tag has"),
        ("x" * 65, "x", "a tag has"),
        ("xx", "x", "no language"),
        ("long", None, "needs an `instruction`"),
    ],
)
def test_what_is_no_branch_says_why(tag: str, instruction: str | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Branch(tag, instruction)


def test_numbers_and_names_are_checked() -> None:
    for count in (0, BRANCH_LIMIT + 1):
        with pytest.raises(ValueError, match=f"given {count}"):
            require_branches([Branch(f"tag-{index}", "x") for index in range(count)])
    with pytest.raises(ValueError, match="two branches"):
        require_branches([Branch("en"), Branch("en")])
    for turns in ([], [Message("assistant", "x")]):
        with pytest.raises(ValueError, match="turn of the user"):
            Branch("en").turns(turns)


def test_every_language_has_a_code_of_two_letters_and_a_name() -> None:
    assert len(LANGUAGES) == 183
    assert all(len(code) == 2 and code.islower() and name[0].isupper() for code, name in LANGUAGES.items())
    assert LANGUAGES["nb"] == "Norwegian Bokmål"
