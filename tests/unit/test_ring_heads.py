"""Faults put into answers by rule, texts to learn from, and `zlrs ring` on the small real model."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from support.head_files import head_file
from support.provisional import ProvisionalReader
from support.real_model import small_model
from zlrs import Engine, _core
from zlrs.cli.dispatch import main
from zlrs.errors import InvalidRequestError
from zlrs.results import Token
from zlrs.ring import KINDS, corrupt, read_pairs

ANSWER = (
    "Anna paid 1,250 euros on 3 March 1904 and was not late, said Bruno to the clerk. "
    "It is 12 already, and has been."
)
NAMES = ("Carla", "Dieter")
SYLLABLES = ("bel", "kor", "lin", "mas", "nor", "tal", "ver", "win")


@pytest.mark.parametrize("kind", KINDS)
def test_faults_are_where_they_are_said_to_be(kind: str) -> None:
    seen = set()
    for seed in range(40):
        faulty = corrupt(ANSWER, kind, Random(seed), NAMES)
        assert faulty is not None
        assert faulty.text != ANSWER
        seen.add(faulty.text)
        data = faulty.text.encode()
        for start, end in faulty.wrong:
            assert 0 <= start < end <= len(data) + 1
        # Up to the first fault the answer is the right one.
        first = faulty.wrong[0][0]
        assert ANSWER.encode()[:first] == data[:first]
        if kind in {"number", "date"}:
            assert len(faulty.text) in range(len(ANSWER) - 8, len(ANSWER) + 9)
    assert len(seen) > 1


def test_an_answer_without_such_a_thing_gets_no_fault() -> None:
    for kind in KINDS:
        assert corrupt("so, then", kind, Random(1), NAMES) is None


def test_pairs_from_lines_and_paragraphs(tmp_path: Path) -> None:
    lines = tmp_path / "pairs.jsonl"
    lines.write_text(
        json.dumps({"source": "a", "reference": "b"})
        + "\n\n"
        + json.dumps({"question": "c", "answer": "d <<1+1=2>>2"})
    )
    assert read_pairs([lines]) == [("a", "b"), ("c", "d 2")]
    prose = tmp_path / "prose.txt"
    paragraph = (
        "The mill stood by the river for a very long time, and many people came to look at it. It was old. "
        "In 1931 it burned down near Ulm. Nobody was hurt on that day, and all of them went home again."
    )
    prose.write_text(f"short\n\n{paragraph}\n\nshort\n")
    ((source, answer),) = read_pairs([prose])
    assert source == paragraph
    assert "1931" in answer
    assert answer != paragraph


@pytest.mark.parametrize("line", ["no json", "[]", '{"source": 1, "reference": "b"}', '{"source": "a"}'])
def test_lines_that_are_no_pairs_are_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"source": "a", "reference": "b"}\n' + line)
    with pytest.raises(InvalidRequestError, match="line 2"):
        read_pairs([path])


def some_pairs(count: int) -> str:
    """Sources that an answer can be held to, and answers."""
    random = Random(5)
    lines = []
    for _ in range(count):
        year, sum_, name = (
            random.randrange(1500, 2020),
            random.randrange(100, 999),
            "".join(random.choices(SYLLABLES, k=3)).title(),
        )
        source = f"In {year} the town of {name} had {sum_} houses. The mill of {name} was open in May {year}."
        answer = f"There were {sum_} houses in {year} and the mill of {name} was open in May."
        lines.append(json.dumps({"source": source, "reference": answer}))
    return "\n".join(lines)


def test_a_head_is_fitted_shown_and_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = small_model()
    data, out = tmp_path / "pairs.jsonl", tmp_path / "ring.safetensors"
    data.write_text(some_pairs(60))
    assert (
        main(
            [
                "ring",
                "train",
                str(model),
                "--data",
                str(data),
                "--out",
                str(out),
                "--int8",
                "--tokens",
                "2500",
            ]
        )
        == 0
    )
    assert capsys.readouterr().out.strip() == str(out)
    assert main(["ring", "show", str(out)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["bytes"] == out.stat().st_size <= 384 << 10
    assert shown["weights"] <= 300_000
    report = shown["report"]
    assert report["documents"] == [60, 18]
    # So few texts of one shape teach what stands in the source.
    assert report["auroc"] > 0.75
    assert 0.0 <= report["transfer_auroc"] <= 1.0
    head = _core.RingHead(out.read_bytes())
    validation = _core.Validation(reach_tokens=32, head=head)
    with Engine.load(model, context_tokens=256, progress=False) as engine:
        answer = engine.generate(
            "The mill of Ulm was built in 1904 by Anna.", max_tokens=24, validation=validation
        )
        # The same each time, whatever is guessed and shown.
        stream = engine.stream(
            "The mill of Ulm was built in 1904 by Anna.",
            max_tokens=24, validation=validation, stream_mode="provisional",
        )  # fmt: skip
        for _ in stream:
            pass
        assert stream.completion.text == answer.text
        assert stream.completion.notes == answer.notes
        other = _core.RingHead(out.read_bytes())
        assert other.metadata["model_sha256"] == engine.info["file_sha256"]


def test_too_few_texts_and_bad_files_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "pairs.jsonl"
    data.write_text(some_pairs(3))
    model = small_model()
    assert main(["ring", "train", str(model), "--data", str(data)]) == 1
    assert "20 are the least" in capsys.readouterr().err
    assert main(["ring", "show", str(data)]) == 1
    assert "safetensors" in capsys.readouterr().err


def test_numbers_are_copied_from_the_prompt() -> None:
    with Engine.load(small_model(), context_tokens=256, progress=False) as engine:
        prompt = "The bill is 4711 euros.\nQuestion: what is the bill? Answer: the bill is 47"
        validation = _core.Validation(reach_tokens=32, numbers=True)
        answer = engine.generate(prompt, max_tokens=12, validation=validation)
        plain = engine.generate(prompt, max_tokens=12)
        assert plain.notes == ()
        for note in answer.notes:
            assert note.by == "numbers"
            assert note.text not in prompt.replace(".", " ").split()


def test_what_a_rule_misses_before_a_stop_sequence_is_copied() -> None:
    rule = ("icd", "A[a-z]+", r" \([A-Z]\d\d\)", 64)
    validation = _core.Validation(reach_tokens=32, rules=[rule])
    prompt = "Codes: Asthma (J45).\n" + "".join(f"Patient {number}: Asthma\n" for number in (1, 2, 3))
    with Engine.load(small_model(), context_tokens=256, progress=False) as engine:
        stream = engine.stream(
            prompt + "Patient 4:", stop=["\n"], temperature=0.0,
            validation=validation, stream_mode="provisional",
        )  # fmt: skip
        reader, text = ProvisionalReader(), ""
        for piece in stream:
            text += piece.text
            for event in piece.events:
                if isinstance(event, Token):
                    # Until it is in the text it may be taken back.
                    assert event.provisional
                    reader.token(event.index, event.text, provisional=True, reach=32)
                else:
                    reader.update(event.index, event.original, event.corrected, reach=32)
        answer = stream.completion
        assert answer.text == text == reader.text == " Asthma (J45)"
        assert [note.outcome for note in answer.notes] == ["redone"]
        assert answer.usage.output_tokens == len(answer.token_ids)
        # One token more cannot hold it.
        cut = engine.generate(prompt + "Patient 4:", max_tokens=2, temperature=0.0, validation=validation)
        assert [note.outcome for note in cut.notes] == ["left"]


@pytest.mark.parametrize("report", ["no json", "", "[" * 3_000], ids=["text", "empty", "deep"])
def test_a_report_in_a_head_that_is_no_json_is_said_to_be(
    report: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.safetensors"
    path.write_bytes(head_file(report='{"auroc": 0.5}'))
    assert main(["ring", "show", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["report"] == {"auroc": 0.5}
    path.write_bytes(head_file(report=report))
    assert main(["ring", "show", str(path)]) == 1
    assert "report of the head cannot be read" in capsys.readouterr().err
