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
from zlrs.masks import save_mask
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
def test_thresholds_are_for_the_mask_they_were_measured_with(tmp_path: Path) -> None:
    model = str(small_model())
    empty = _core.Meter.load(small_model(), window_tokens=16).empty_mask()
    weights, layers = bytes.fromhex(empty.weights_sha256), len(empty.layers())
    masks = {"one": empty.without(7, "mlp"), "other": empty.without(3, "mlp")}
    for name, mask in masks.items():
        save_mask(mask, tmp_path / f"{name}.mask")
    plain, masked = tmp_path / "plain.neurons", tmp_path / "masked.neurons"
    save_neurons(_core.Neurons(weights, SUM, [0.4] * layers, "{}"), plain)
    save_neurons(_core.Neurons(weights, SUM, [0.4] * layers, "{}", masks["one"]), masked)
    with Engine.load(
        model, mask=tmp_path / "one.mask", neurons=masked, context_tokens=CONTEXT, progress=False
    ) as engine:
        assert load_neurons(masked).mask_sum == engine.info["mask_sum"]
        aggressive = engine.generate(PROMPT, max_tokens=24, compute="aggressive")
        assert aggressive.text != engine.generate(PROMPT, max_tokens=24).text
    assert load_neurons(plain).mask_sum == ""
    for used, neurons in ((tmp_path / "one.mask", plain), (tmp_path / "other.mask", masked), (None, masked)):
        for fallback in (False, True):
            with pytest.raises(ConfigurationError, match="another mask than the one in use"):
                Engine.load(model, mask=used, neurons=neurons, mask_fallback=fallback, progress=False)


@pytest.mark.t1
def test_a_meter_measures_from_the_model_without_the_parts_of_a_mask() -> None:
    meter = _core.Meter.load(small_model(), window_tokens=16)
    empty = meter.empty_mask()
    mask = empty.without(7, "mlp").without(3, "attention")
    with pytest.raises(_core.CoreError, match="weights"):
        meter.leave_out(mask.for_weights(SUM))
    meter.leave_out(mask)
    meter.reference([meter.encode(PROMPT * 2)[:16]], 1)
    assert all(identical for *_, identical in meter.measure(mask, [0])[0])
    assert not any(identical for *_, identical in meter.measure(empty, [0])[0])
    keep_all = [-1.0] * len(empty.layers())
    assert all(identical for *_, identical in meter.measure_neurons(keep_all, [0])[0])
    # A block that is not there has no gates.
    (thresholds,) = meter.gate_thresholds([0], [0.5])
    assert [layer for layer, threshold in enumerate(thresholds) if threshold < 0] == [7]


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
    shown = capsys.readouterr().out
    assert "if they were sorted" in shown
    assert "mask         none" in shown
    mask = _core.Meter.load(small_model(), window_tokens=16).empty_mask().without(7, "mlp")
    save_mask(mask, tmp_path / "some.mask")
    with_mask = ["--mask", str(tmp_path / "some.mask"), *size, "--bound", "0.5"]
    assert main(["neurons", "train", str(small_model()), "--out", str(out), *with_mask]) == 0
    masked = load_neurons(out)
    assert masked.mask_sum
    assert masked.thresholds[7] < 0 < masked.thresholds[6]
    assert report_of(masked).up_bytes_saved <= report_of(masked).reach.strips
    capsys.readouterr()
    assert main(["neurons", "show", str(out)]) == 0
    assert f"mask         {masked.mask_sum}" in capsys.readouterr().out
    assert main(["neurons", "train", str(small_model()), "--out", str(out), "--bound", "2"]) != 0
