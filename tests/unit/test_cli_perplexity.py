"""`zlrs perplexity` on the small model."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest

from support.real_model import small_model
from zlrs.cli import main

if TYPE_CHECKING:
    from pathlib import Path

PROSE = "The library opens at nine in the morning and closes at six in the evening on every day but Sunday. "
SHORT = ["--window", "64", "--windows", "2"]


def measured(model: str, text: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, float]:
    assert main(["perplexity", model, str(text), *SHORT, "--json", *options]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_what_repeats_is_foreseen_and_noise_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(small_model())
    text = tmp_path / "text.txt"
    text.write_text(PROSE * 20, encoding="utf-8")
    known = measured(model, text, capsys)
    assert known["windows"] == 2
    assert known["scored_tokens"] == 2 * 31
    assert 1.0 < known["perplexity"] < 4.0
    assert known["error"] > 0
    text.write_text(" ".join(str(hash((7, index)) % 99991) for index in range(200)), encoding="utf-8")
    assert measured(model, text, capsys)["perplexity"] > 2 * known["perplexity"]
    assert measured(model, text, capsys, "--threads", "1") == measured(model, text, capsys, "--threads", "2")


def test_standard_input_and_a_line_for_people(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((PROSE * 20).encode())))
    assert main(["perplexity", str(small_model()), "-", *SHORT]) == 0
    out, notes = capsys.readouterr()
    assert out.startswith("perplexity ")
    assert "62 tokens scored in 2 windows" in out
    assert "window 2 of 2" in notes


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (b"\xff\xfe", [], "not UTF-8"),
        (b"short", ["--window", "64"], "give a longer text"),
        (None, [], "cannot be read"),
    ],
)
def test_what_cannot_be_measured_is_a_message(
    content: bytes | None,
    options: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = tmp_path / "text.txt"
    if content is not None:
        text.write_bytes(content)
    assert main(["perplexity", str(small_model()), str(text), *options]) == 1
    assert words in capsys.readouterr().err
