"""Mask files, loading with them, and the commands around them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.real_model import small_model
from zlrs import _core
from zlrs.cli.dispatch import main
from zlrs.engine import Engine
from zlrs.errors import ConfigurationError, ZeroLayerMismatchError
from zlrs.masks import load_mask, save_mask

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.t1

CONTEXT = 128
EMPTIED = 7


@pytest.fixture(scope="module")
def meter() -> _core.Meter:
    return _core.Meter.load(small_model(), window_tokens=64)


@pytest.fixture
def mask(meter: _core.Meter) -> _core.Mask:
    """Without a layer, a KV group of another, and a third one's MLP, whose mean is a constant."""
    empty = meter.empty_mask()
    size = len(empty.layers()[3][2]) // empty.layers()[3][3]
    without = empty.without(EMPTIED, "attention").without(EMPTIED, "mlp")
    return without.without_heads(3, list(range(size))).without(11, "mlp", [0.0] * empty.width)


@pytest.fixture
def mask_file(mask: _core.Mask, tmp_path: Path) -> Path:
    path = tmp_path / "some.mask"
    save_mask(mask, path)
    return path


@pytest.fixture
def full() -> Iterator[Engine]:
    with Engine.load(str(small_model()), context_tokens=CONTEXT, progress=False) as engine:
        yield engine


def test_an_emptied_layer_is_a_placeholder(mask_file: Path, full: Engine) -> None:
    with Engine.load(str(small_model()), mask=mask_file, context_tokens=CONTEXT, progress=False) as engine:
        layer, whole = engine.model.layers[EMPTIED], full.model.layers[EMPTIED]
        assert layer.is_empty
        assert (layer.parameter_bytes, layer.kv_shape) == (0, (0,))
        group, before = engine.model.layers[3], full.model.layers[3]
        assert group.kv_shape == (2, before.kv_heads - 1, before.head_dim)
        assert group.attention_bytes * before.kv_heads == before.attention_bytes * group.kv_heads
        without_mlp = engine.model.layers[11]
        assert (without_mlp.mlp_bytes, without_mlp.is_empty) == (0, False)
        saved = int(full.info["weight_bytes"]) - int(engine.info["weight_bytes"])
        parts = whole.parameter_bytes + full.model.layers[11].mlp_bytes
        assert saved == parts + before.attention_bytes - group.attention_bytes
        assert int(engine.info["kv_bytes"]) < int(full.info["kv_bytes"])
        assert engine.info["mask"] == "used"
        assert full.info["mask"] == "none"
        assert engine.generate("The capital of France is", max_tokens=4).usage.output_tokens > 0


def test_an_empty_mask_answers_as_the_full_model(meter: _core.Meter, full: Engine, tmp_path: Path) -> None:
    save_mask(meter.empty_mask(), tmp_path / "empty.mask")
    with Engine.load(
        str(small_model()), mask=tmp_path / "empty.mask", context_tokens=CONTEXT, progress=False
    ) as engine:
        prompt = "Once upon a time"
        assert engine.generate(prompt, max_tokens=16).text == full.generate(prompt, max_tokens=16).text


def test_a_mask_for_other_weights_stops_the_load_unless_told_otherwise(
    mask: _core.Mask, tmp_path: Path
) -> None:
    save_mask(mask.for_weights(bytes(32)), tmp_path / "other.mask")
    with pytest.raises(ZeroLayerMismatchError) as caught:
        Engine.load(str(small_model()), mask=tmp_path / "other.mask", progress=False)
    assert caught.value.code == "ERR_ZERO_LAYER_MISMATCH"
    with Engine.load(
        str(small_model()),
        mask=tmp_path / "other.mask",
        mask_fallback=True,
        context_tokens=CONTEXT,
        progress=False,
    ) as engine:
        assert not engine.model.layers[EMPTIED].is_empty
        assert "made for weights 0000" in str(engine.info["mask"])


def test_damaged_masks_are_refused(mask_file: Path, tmp_path: Path) -> None:
    data = mask_file.read_bytes()
    for damaged in (b"", data[:-1], data + b"x", data[:40] + b"\xff" + data[41:], b"GGUF" + data):
        (tmp_path / "bad.mask").write_bytes(damaged)
        with pytest.raises(ConfigurationError, match="the mask cannot be used"):
            load_mask(tmp_path / "bad.mask")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_mask(tmp_path / "none.mask")


def test_a_mask_that_leaves_no_attention_is_refused(meter: _core.Meter, tmp_path: Path) -> None:
    mask = meter.empty_mask()
    for layer in range(len(mask.layers())):
        mask = mask.without(layer, "attention")
    save_mask(mask, tmp_path / "deaf.mask")
    with pytest.raises(ConfigurationError, match="no attention block"):
        Engine.load(str(small_model()), mask=tmp_path / "deaf.mask", progress=False)


def test_what_is_measured_is_nothing_without_a_mask_and_something_with_one(
    meter: _core.Meter, mask: _core.Mask
) -> None:
    ids = meter.encode("The mill stood by the river, and its wheel had not turned for forty years. " * 4)[:64]
    meter.reference([ids], 4)
    (same,) = meter.measure(meter.empty_mask(), [0])
    assert len(same) == 16
    assert all(row == (0.0, False, 0.0, True) for row in same)
    (lost,) = meter.measure(mask, [0])
    assert sum(row[0] for row in lost) > 0
    assert not any(row[3] for row in lost)


def test_a_trace_changes_what_is_computed_and_not_what_is_found(meter: _core.Meter, mask: _core.Mask) -> None:
    text = "The mill stood by the river, and its wheel had not turned for forty years. " * 8
    ids = meter.encode(text)[:128]
    meter.reference([ids[:64], ids[64:]], 4)
    later = mask.without(20, "mlp")
    layers = len(mask.layers())

    def measured(windows: list[int]) -> tuple[list[list[tuple[float, bool, float, bool]]], int]:
        before = meter.computed_layers
        return meter.measure(later, windows), meter.computed_layers - before

    whole, cost = measured([0, 1])
    assert cost == 2 * layers
    meter.trace(mask, [0])
    # The second text was not traced.
    assert measured([0, 1]) == (whole, layers - 20 + layers)
    meter.trace(meter.empty_mask(), [0, 1])
    assert measured([0, 1]) == (whole, 2 * (layers - 3))


def test_commands_show_check_and_compare(
    mask_file: Path, meter: _core.Meter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mask", "show", str(mask_file), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["left_out"] == [
        "layer 3: without heads 0, 1, 2 (groups 0)",
        "layer 7: without attention",
        "layer 7: without mlp",
        "layer 11: without mlp, its mean in its place",
    ]
    assert main(["mask", "verify", str(mask_file), str(small_model())]) == 0
    save_mask(load_mask(mask_file).for_weights(bytes(32)), tmp_path / "other.mask")
    assert main(["mask", "verify", str(tmp_path / "other.mask"), str(small_model())]) == 1
    assert "does not fit" in capsys.readouterr().err
    rehashed = tmp_path / "again.mask"
    assert (
        main(["mask", "rehash", str(tmp_path / "other.mask"), str(small_model()), "--out", str(rehashed)])
        == 0
    )
    assert main(["mask", "diff", str(mask_file), str(rehashed)]) == 0
    save_mask(meter.empty_mask(), tmp_path / "empty.mask")
    assert main(["mask", "diff", str(mask_file), str(tmp_path / "empty.mask")]) == 1
    assert "- layer 7: without mlp" in capsys.readouterr().out


GAIN = {
    "weight_bytes": 9, "weight_bytes_full": 10, "token_bytes": 4, "token_bytes_full": 5,
    "kv_token_bytes": 3, "kv_token_bytes_full": 4,
}  # fmt: skip
REPORT = {
    "model": "small", "budget_kl": 0.01, "parts": ["layer 7 mlp"], "searched": [], "held_out": [],
    "steps_back": 0, "gain": GAIN, "evaluations": 1,
}  # fmt: skip


def test_a_report_from_before_speeds_were_measured_is_shown(
    mask: _core.Mask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "old.mask"
    save_mask(mask.measured(json.dumps(REPORT), bytes(32)), path)
    for flags in ([], ["--card"], ["--json"]):
        assert main(["mask", "show", str(path), *flags]) == 0
        shown = capsys.readouterr().out
        assert "tok/s" not in shown
        assert "tokens_s" not in shown
    save_mask(
        mask.measured(
            json.dumps({**REPORT, "gain": {**GAIN, "tokens_s": 60.5, "tokens_s_full": 50.25}}), bytes(32)
        ),
        path,
    )
    assert main(["mask", "show", str(path)]) == 0
    assert "decoding: 60.5 tok/s, in full 50.2 tok/s" in capsys.readouterr().out
    assert main(["mask", "show", str(path), "--card"]) == 0
    assert "  tokens_s: 60.50\n  tokens_s_full: 50.25\n" in capsys.readouterr().out


@pytest.mark.parametrize("flags", [[], ["--json"], ["--card"]], ids=["plain", "json", "card"])
@pytest.mark.parametrize(
    "report",
    [
        "",
        "no json",
        "[" * 100_000,
        json.dumps({**REPORT, "gain": {**GAIN, "token_bytes_full": 0}}),
        json.dumps({**REPORT, "gain": {**GAIN, "kv_token_bytes_full": 0}}),
        json.dumps({**REPORT, "gain": {**GAIN, "token_bytes": 10**400}}),
        json.dumps({**REPORT, "gain": {**GAIN, "tokens_s": -1}}),
        json.dumps({**REPORT, "more": 1}),
    ],
    ids=["empty", "text", "deep", "no-bytes", "no-kv-bytes", "endless", "backwards", "unknown"],
)
def test_a_report_that_is_none_of_ours_is_said_to_be(
    report: str, flags: list[str], mask: _core.Mask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hostile.mask"
    save_mask(mask.measured(report, bytes(32)), path)
    assert main(["mask", "show", str(path), *flags]) == 1
    assert "report cannot be read" in capsys.readouterr().err
