"""Exit heads trained on the small real model, loaded, and what they do to aggressive and to exact answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.real_model import small_model
from zlrs import _core
from zlrs.cli.dispatch import main
from zlrs.cli.exits import skip_caps
from zlrs.engine import Engine
from zlrs.errors import ComputeProfileMismatchError, ConfigurationError, InvalidRequestError
from zlrs.exits import load_exits, report_of, save_exits

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.t1

CONTEXT = 512
WINDOWS, WINDOW_TOKENS = 10, 48
TEXTS = {
    "counting": "one two three four five six seven eight nine ten. " * 90,
    "prose": "The river ran past the old mill, and the children of the village came to swim in it. " * 60,
}
PROMPT = "one two three four five six seven eight nine ten. one two three four five six seven"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Heads of a lenient bound, which let rows leave, and of a bound that so few rows cannot show."""
    folder = tmp_path_factory.mktemp("exits")
    for name, text in TEXTS.items():
        (folder / f"{name}.txt").write_text(text)
    data = [str(folder / f"{name}.txt") for name in TEXTS]
    paths = []
    for name, bound in (("lenient", "0.9"), ("strict", "0.0001")):
        path = folder / f"{name}.exits"
        options = ["--bound", bound, "--skip-cap", "1", "--windows", str(WINDOWS)]
        options += ["--window-tokens", str(WINDOW_TOKENS), "--out", str(path)]
        assert main(["exits", "train", str(small_model()), "--data", *data, *options]) == 0
        paths.append(path)
    return paths[0], paths[1]


def test_the_report_says_what_was_held_out_and_seen(files: tuple[Path, Path]) -> None:
    lenient, strict = (report_of(load_exits(path)) for path in files)
    assert len(lenient.fits) == 4
    rows = WINDOWS * WINDOW_TOKENS * len(TEXTS)
    assert all(fit.rows == rows * 2 // 5 for fit in lenient.fits)
    assert lenient.chosen is not None
    level = lenient.levels[lenient.chosen]
    assert [domain.domain for domain in level.domains] == sorted(TEXTS)
    assert all(domain.rows == WINDOWS * WINDOW_TOKENS * 2 // 5 for domain in level.domains)
    assert all(domain.differing / domain.rows <= domain.upper <= 0.9 for domain in level.domains)
    assert sum(domain.left for domain in level.domains) > 0
    assert 0 < lenient.saving() < 1
    # 192 rows cannot show that fewer than one in 10,000 differ.
    assert strict.chosen is None
    assert strict.saving() == 0
    assert not load_exits(files[1]).is_active


def test_aggressive_answers_leave_early_and_exact_ones_do_not(files: tuple[Path, Path]) -> None:
    model = str(small_model())
    with Engine.load(model, context_tokens=CONTEXT, progress=False) as full:
        plain = full.generate(PROMPT, max_tokens=24)
        unavailable = full.generate(PROMPT, max_tokens=8, compute="aggressive")
        assert unavailable.compute == "exact"
        with pytest.raises(ComputeProfileMismatchError, match="not installed"):
            full.generate(PROMPT, compute="aggressive", require_exits=True)
    with Engine.load(model, context_tokens=CONTEXT, exits=files[0], progress=False) as engine:
        assert engine.info["can_skip"] is True
        aggressive = engine.generate(PROMPT, max_tokens=24, compute="aggressive")
        exact = engine.generate(PROMPT, max_tokens=24)
        assert exact.token_ids == plain.token_ids
        assert (exact.compute, exact.usage.sparse_skips, exact.usage.row_layer_skips) == ("exact", 0, 0)
        assert exact.usage.cached_tokens == 0
        assert aggressive.compute == "aggressive"
        assert 0 < aggressive.usage.sparse_skips <= aggressive.usage.row_layer_skips
        deepest = aggressive.usage.most_layer_skips
        assert 0 < deepest < int(engine.info["layers"])
        assert aggressive.usage.row_layer_skips <= deepest * aggressive.usage.sparse_skips
        with engine.session() as session:
            session.generate("Count to ten.", max_tokens=8, compute="aggressive")
            again = session.generate("Go on.", max_tokens=4, compute="aggressive")
            assert again.usage.cached_tokens > 0


def test_heads_without_thresholds_change_nothing(files: tuple[Path, Path]) -> None:
    with Engine.load(str(small_model()), context_tokens=64, exits=files[1], progress=False) as engine:
        assert engine.info["can_skip"] is False
        assert engine.generate("One", max_tokens=2, compute="aggressive").compute == "exact"


def test_the_command_shows_a_file(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exits", "show", str(files[0])]) == 0
    shown = capsys.readouterr().out
    assert load_exits(files[0]).weights_sha256 in shown
    assert "rows leave below" in shown
    assert main(["exits", "show", str(files[1])]) == 0
    assert "nothing is skipped" in capsys.readouterr().out
    assert main(["exits", "show", str(files[0]), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bound"] == 0.9


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["plain", "json"])
@pytest.mark.parametrize("change", ["no json", '"chosen":9', '"chosen":-1'], ids=["text", "beyond", "before"])
def test_a_report_that_is_none_of_ours_is_said_to_be(
    files: tuple[Path, Path],
    change: str,
    flags: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    heads = load_exits(files[1])
    report = heads.report.replace('"chosen":null', change) if change.startswith('"') else change
    assert report != heads.report
    path = tmp_path / "hostile.exits"
    save_exits(heads.measured(report), path)
    assert main(["exits", "show", str(path), *flags]) == 1
    assert "report of the exit heads cannot be read" in capsys.readouterr().err


def test_damaged_and_missing_files_are_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    data = files[0].read_bytes()
    wrong = tmp_path / "wrong.exits"
    for content in (b"", data[:-1], data[:200], b"\0" * (3 << 20), data[:90] + b"\xff" + data[91:]):
        wrong.write_bytes(content)
        with pytest.raises(ConfigurationError, match="exit heads"):
            load_exits(wrong)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Engine.load(str(small_model()), exits=tmp_path / "none.exits", progress=False)


def test_a_progress_function_can_end_a_training() -> None:
    trainer = _core.ExitTrainer.load(small_model(), window_tokens=16)
    ids = trainer.encode(TEXTS["prose"])[:80]
    windows = [ids[start : start + 16] for start in range(0, 80, 16)]

    def stop(_what: str, done: int, _all: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.train([("prose", windows, 1.0)], bytes(32), progress=stop)
    with pytest.raises(_core.CoreError, match="windows of a domain is 4"):
        trainer.train([("prose", windows[:4], 1.0)], bytes(32))
    with pytest.raises(_core.CoreError, match="a layer to leave before is 30"):
        trainer.train([("prose", windows, 1.0)], bytes(32), layers=[30])
    with pytest.raises(_core.CoreError, match="skip_cap"):
        trainer.train([("prose", windows, 0.0)], bytes(32))


@pytest.mark.parametrize(
    ("given", "caps"),
    [
        (["0.8"], {"law": 0.8, "code": 0.8}),
        (["0.5", "law=0.08"], {"law": 0.08, "code": 0.5}),
        (["law=1"], {"law": 1.0, "code": 0.8}),
    ],
)
def test_caps_by_domain(given: list[str], caps: dict[str, float]) -> None:
    assert skip_caps(given, ["law", "code"]) == caps


@pytest.mark.parametrize("given", ["0", "1.1", "law=", "prose=0.5", "much"])
def test_caps_that_mean_nothing_are_refused(given: str) -> None:
    with pytest.raises(InvalidRequestError, match="NAME one of law, code"):
        skip_caps([given], ["law", "code"])
