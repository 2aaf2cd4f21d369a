"""Neurons that count for nothing in aggressive rows: files, the choice, loading with them, the command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.real_model import small_model
from zlrs import _core
from zlrs.cli.dispatch import main
from zlrs.engine import Engine
from zlrs.errors import ConfigurationError, ZeroLayerMismatchError
from zlrs.neurons import Reach, load_neurons, report_of, save_neurons
from zlrs.profile.harm import harm_of
from zlrs.profile.neurons import Level, choose

if TYPE_CHECKING:
    from pathlib import Path

CONTEXT = 128
PROMPT = "The town by the river had three bridges, and each of them"
SUM = bytes(range(32))


def level(share: float, differing: int, rows: int = 1000) -> Level:
    row = [(0.001, index < differing, 0.0, False) for index in range(rows)]
    reach = Reach(neurons=share, strips=0.0, sorted_strips=0.0, blocks_of_32=0.0, blocks_of_256=0.0)
    return Level(share, [share, share], [harm_of("prose", [row])], reach, 0.01)


def test_the_largest_share_that_keeps_the_bound_is_chosen() -> None:
    found = [level(0.1, 1), level(0.2, 3), level(0.3, 60), level(0.4, 0)]
    neurons = choose(found, model="m", weights_sha256=SUM, calibration_sha256=SUM, bound=0.01)
    assert report_of(neurons).share == 0.2
    assert neurons.thresholds == pytest.approx([0.2, 0.2])
    none = choose(found[2:], model="m", weights_sha256=SUM, calibration_sha256=SUM, bound=0.01)
    assert (none.thresholds, report_of(none).share) == ([-1.0, -1.0], 0.0)


def test_files_are_what_was_written_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "some.neurons"
    neurons = choose([level(0.1, 0)], model="m", weights_sha256=SUM, calibration_sha256=SUM, bound=0.01)
    save_neurons(neurons, path)
    assert load_neurons(path).to_bytes() == neurons.to_bytes()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ConfigurationError, match="damaged"):
        load_neurons(path)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_neurons(tmp_path / "none")
    with pytest.raises(_core.CoreError, match="not finite"):
        _core.Neurons(SUM, SUM, [float("nan")], "{}")


@pytest.mark.t1
def test_exact_answers_do_not_know_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(small_model())
    meter = _core.Meter.load(small_model(), window_tokens=16)
    weights = bytes.fromhex(meter.empty_mask().weights_sha256)
    layers = len(meter.parts())
    path, other = tmp_path / "most.neurons", tmp_path / "other.neurons"
    save_neurons(_core.Neurons(weights, SUM, [0.4] * layers, "{}"), path)
    save_neurons(_core.Neurons(SUM, SUM, [0.4] * layers, "{}"), other)
    with Engine.load(model, context_tokens=CONTEXT, progress=False) as plain:
        expected = plain.generate(PROMPT, max_tokens=24)
        # Nothing is installed: it runs exact.
        assert plain.generate(PROMPT, max_tokens=24, compute="aggressive").text == expected.text
    with Engine.load(model, neurons=path, context_tokens=CONTEXT, progress=False) as engine:
        aggressive = engine.generate(PROMPT, max_tokens=24, compute="aggressive")
        assert engine.generate(PROMPT, max_tokens=24).text == expected.text
        assert engine.generate(PROMPT, max_tokens=24, compute="aggressive").text == aggressive.text
        assert aggressive.text != expected.text
    # What becomes of answers is shown by asking both.
    few = ["--repeats", "2", "--max-tokens", "24"]
    assert main(["verify", model, "--neurons", str(path), *few]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert compared["identical_answers_pct"] < 100
    assert compared["token_saving_pct"] is None
    with pytest.raises(ZeroLayerMismatchError):
        Engine.load(model, neurons=other, progress=False)
    Engine.load(model, neurons=other, mask_fallback=True, context_tokens=64, progress=False).close()


@pytest.mark.t1
@pytest.mark.timeout(240)
def test_the_command_measures_and_says_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found.neurons"
    size = ["--window-tokens", "32", "--windows", "2", "--every", "4"]
    assert main(["neurons", "train", str(small_model()), "--out", str(out), *size, "--bound", "0.5"]) == 0
    assert "of the neurons" in capsys.readouterr().err
    report = report_of(load_neurons(out))
    reach = report.reach
    assert report.share > 0
    assert reach.blocks_of_256 <= reach.blocks_of_32 <= reach.strips <= reach.neurons <= report.share + 0.1
    assert main(["neurons", "show", str(out)]) == 0
    assert "if they were sorted" in capsys.readouterr().out
    assert main(["neurons", "train", str(small_model()), "--out", str(out), "--bound", "2"]) != 0
