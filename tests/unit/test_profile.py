"""The profiler and the search for a mask, on the small real model and short texts; bounds by known values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.real_model import small_model
from zlrs import _core
from zlrs.cli.dispatch import main
from zlrs.errors import InvalidRequestError
from zlrs.masks import load_mask
from zlrs.profile import (
    Budget,
    Domain,
    bootstrap_upper,
    build,
    harm_of,
    proportion_upper,
    report_of,
    survey,
)
from zlrs.profile.domains import DomainText, read_domains, read_texts, sum_of
from zlrs.profile.heatmap import page

if TYPE_CHECKING:
    from pathlib import Path

WINDOW = 16
LAYERS = 30


@pytest.fixture(scope="module")
def meter() -> _core.Meter:
    return _core.Meter.load(small_model(), window_tokens=WINDOW)


@pytest.fixture(scope="module")
def domains(meter: _core.Meter) -> list[Domain]:
    texts = [text for text in read_texts([]) if text.name in {"prose", "code"}]
    return read_domains(meter, texts, window_tokens=WINDOW, windows=2)


def test_bounds_have_the_values_of_the_tables() -> None:
    # Clopper and Pearson: no event in n trials gives 1 - 0.05 ** (1 / n); 1 of 10 gives 0.3942.
    assert proportion_upper(0, 100) == pytest.approx(1 - 0.05 ** (1 / 100), abs=1e-9)
    assert proportion_upper(1, 10) == pytest.approx(0.3942, abs=1e-4)
    assert proportion_upper(10, 10) == 1.0
    assert proportion_upper(0, 0) == 1.0


def test_the_bound_of_a_mean_is_above_it_and_shrinks_with_the_sample() -> None:
    few = [[0.0, 1.0], [0.0, 1.0]]
    many = few * 50
    assert 0.5 <= bootstrap_upper(many) < bootstrap_upper(few)
    assert bootstrap_upper([[0.25] * 5]) == pytest.approx(0.25)
    assert bootstrap_upper(many) == bootstrap_upper(many)


def test_harm_is_summed_up_by_rows() -> None:
    rows = [(0.0, False, 0.0, True)] * 98 + [(1.0, True, 0.5, False), (3.0, True, 0.5, False)]
    harm = harm_of("some", [rows[:50], rows[50:]])
    assert (harm.rows, harm.kl_mean, harm.kl_p99) == (100, pytest.approx(0.04), 1.0)
    assert (harm.top1_disagreement, harm.identical) == (0.02, 0.98)
    assert harm.top1_upper == pytest.approx(proportion_upper(2, 100))
    assert harm.perplexity_ratio > 1


def test_of_nothing_nothing_is_known() -> None:
    with pytest.raises(InvalidRequestError, match="no row of prose was compared"):
        harm_of("prose", [[], []])


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--every", "0"], "--every is 0; at least 1"),
        (["--every", "-4"], "--every is -4; at least 1"),
        (["--windows", "1"], "--windows is 1; at least 2"),
        (["--window-tokens", "1"], "--window-tokens is 1; at least 2"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        ["profile", "no-such-model"],
        ["profile", "no-such-prompts.txt", "--model", "no-such-model"],
        ["mask", "build", "no-such-model", "--out", "some.mask"],
        ["drafts", "train", "no-such-model", "--out", "some.mask"],
        ["neurons", "train", "no-such-model", "--out", "some.neurons"],
    ],
    ids=lambda command: "-".join(command[:2]),
)
def test_sizes_that_would_measure_nothing_are_refused_before_anything_is_loaded(
    command: list[str], option: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, *option]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.t1
def test_the_last_token_is_compared_however_few_there_are(meter: _core.Meter) -> None:
    ids = meter.encode("The mill stood by the river, and its wheel had not turned for years.")[:12]
    mask = meter.empty_mask().without(3, "mlp")
    meter.reference([ids, ids[:5], ids[:2]], 1)
    by_token = meter.measure(mask, [0, 1, 2])
    for every, kept in ((5, [[4, 9, 11], [4], [1]]), (12, [[11], [4], [1]]), (1000, [[11], [4], [1]])):
        meter.reference([ids, ids[:5], ids[:2]], every)
        measured = meter.measure(mask, [0, 1, 2])
        assert measured == [[rows[i] for i in some] for rows, some in zip(by_token, kept, strict=True)]
        # The same from kept states.
        meter.trace(meter.empty_mask(), [0, 1, 2])
        assert meter.measure(mask, [0, 1, 2]) == measured
    with pytest.raises(_core.CoreError, match="every"):
        meter.reference([ids], 0)


def test_texts_are_domains_and_their_sum_covers_names_and_order(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.txt").write_text("two")
    assert [text.name for text in read_texts([tmp_path])] == ["a", "b"]
    assert sum_of([DomainText("a", "bc")]) != sum_of([DomainText("ab", "c")])
    with pytest.raises(InvalidRequestError, match="named after its file"):
        read_texts([tmp_path / "a.txt", tmp_path / "a.txt"])
    with pytest.raises(InvalidRequestError, match="cannot be read"):
        read_texts([tmp_path / "none.txt"])
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidRequestError, match="cannot be read as text"):
        read_texts([tmp_path / "binary.txt"])


@pytest.mark.t1
def test_a_text_that_is_too_short_is_refused(meter: _core.Meter) -> None:
    with pytest.raises(InvalidRequestError, match="two windows"):
        read_domains(meter, [DomainText("short", "Hello.")], window_tokens=WINDOW, windows=2)


@pytest.mark.t1
def test_the_profile_has_every_part_and_ablates_what_it_is_told(
    meter: _core.Meter, domains: list[Domain]
) -> None:
    done: list[tuple[int, int]] = []
    profile = survey(
        meter,
        domains,
        model="small",
        calibration_sha256="00" * 32,
        every=8,
        ablate=("layer",),
        progress=lambda *pair: done.append(pair),
    )
    assert done[-1] == (LAYERS, LAYERS)
    assert profile.rows == {"code": 4, "prose": 4}
    rows = survey(
        meter,
        [Domain("short", [domains[0].windows[0][:9], domains[0].windows[0][:3]])],
        model="small",
        calibration_sha256="00" * 32,
        every=8,
        ablate=(),
        progress=lambda *_: None,
    ).rows
    assert rows == {"short": 3}
    kinds = {kind: [part for part in profile.parts if part.kind == kind] for kind in ("layer", "head", "mlp")}
    assert (len(kinds["layer"]), len(kinds["head"])) == (LAYERS, LAYERS * 9)
    assert all(domain.kl is not None for part in kinds["layer"] for domain in part.domains)
    assert all(domain.kl is None for part in kinds["mlp"] for domain in part.domains)
    assert all(0 < entry.domains["prose"] < 2 for entry in profile.influence)
    # Heads are compared with the mean of their layer.
    first = [part.domains[0].relative_norm for part in kinds["head"] if part.layer == 0]
    assert sum(first) / len(first) == pytest.approx(1.0)
    assert profile.never_contribute == []
    text = page(profile)
    assert "<script" not in text
    assert "Never contributed: 0 of" in text


@pytest.mark.t1
def test_a_mask_keeps_its_budget_on_texts_that_the_search_did_not_see(
    meter: _core.Meter, domains: list[Domain]
) -> None:
    budget = Budget(kl=0.5, rejections=1, kinds=("attention",))
    built = build(meter, domains, model="small", calibration_sha256=b"\x01" * 32, budget=budget, every=8)
    report = built.report
    assert [harm.domain for harm in report.held_out] == ["code", "prose"]
    assert all(harm.kl_upper <= budget.kl for harm in report.held_out)
    assert all(harm.kl_upper <= budget.kl for step in built.steps for harm in step.harms or [])
    assert report_of(built.mask) == report
    assert built.mask.calibration_sha256 == "01" * 32
    left_out = sum(layer[0] for layer in built.mask.layers())
    assert left_out == len(report.parts)
    assert report.gain.token_bytes < report.gain.token_bytes_full or not left_out
    assert (report.gain.kv_token_bytes_full - report.gain.kv_token_bytes) == left_out * 2 * 2 * 3 * 64


@pytest.mark.t1
def test_the_commands_write_their_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "some.mask"
    (tmp_path / "prose.txt").write_text("The mill stood by the river. " * 40)
    arguments = [
        "--data",
        str(tmp_path / "prose.txt"),
        "--window-tokens",
        "16",
        "--windows",
        "2",
        "--every",
        "16",
    ]
    build_arguments = [
        "mask",
        "build",
        str(small_model()),
        *arguments,
        "--budget",
        "kl=50",
        "--rejections",
        "1",
    ]
    assert main([*build_arguments, "--budget", "kl=x", "--out", str(out)]) == 1
    assert "allowed: kl=X" in capsys.readouterr().err
    mask = _core.Meter.load(small_model(), window_tokens=16).empty_mask().without(3, "mlp")
    out.write_bytes(mask.to_bytes())
    assert main(["mask", "show", str(out), "--card"]) == 1
    assert load_mask(out).layers()[3][1]
    assert json.loads(load_mask(out).report) == {}
