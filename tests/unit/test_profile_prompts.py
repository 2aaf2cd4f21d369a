"""Prompt libraries, spot checks and the picture of a profile."""

from __future__ import annotations

import io
import json
import random
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from support.real_model import small_model
from zlrs import _core
from zlrs.cli.dispatch import main
from zlrs.engine import Engine
from zlrs.errors import InvalidRequestError
from zlrs.masks import save_mask
from zlrs.profile.greedy import HELD_OUT_TESTS, held_back
from zlrs.profile.harm import DomainHarm, harm_of
from zlrs.profile.picture import png
from zlrs.profile.prompts import QUIET_KL, profile_prompts
from zlrs.profile.report import confidence_of
from zlrs.profile.search import Step
from zlrs.profile.speed import PROMPT, decoding_speeds
from zlrs.profile.spot import check, gsm8k_tasks, json_tasks
from zlrs.profile.survey import Influence, PartEntry, PartProfile, Profile
from zlrs.results import Completion, Timings, Usage

if TYPE_CHECKING:
    from pathlib import Path

    from zlrs.profile.parts import Kind

PROMPTS = [
    "List the colours of the rainbow in their order, please.",
    "def add(a, b):\n    return a + b\n\n\ndef subtract(a, b):\n",
]


def some_profile(layers: int = 3, heads: int = 2, domains: tuple[str, ...] = ("prose", "code")) -> Profile:
    draw = random.Random(7)

    def entry(layer: int, kind: Kind, index: int, *, ablated: bool) -> PartEntry:
        return PartEntry(
            layer=layer,
            kind=kind,
            index=index,
            weight_bytes=10,
            domains=[
                PartProfile(
                    domain=name,
                    output_norm=1,
                    relative_norm=draw.random(),
                    peak=1,
                    kl=draw.random() if ablated else None,
                )
                for name in domains
            ],
        )

    kinds: tuple[Kind, ...] = ("layer", "attention", "mlp")
    return Profile(
        model="small",
        weights_sha256="00" * 32,
        calibration_sha256="00" * 32,
        tokens=dict.fromkeys(domains, 128),
        rows=dict.fromkeys(domains, 32),
        layers=layers,
        influence=[Influence(layer=layer, domains=dict.fromkeys(domains, 0.1)) for layer in range(layers)],
        parts=[entry(layer, kind, 0, ablated=True) for layer in range(layers) for kind in kinds]
        + [entry(layer, "head", head, ablated=False) for layer in range(layers) for head in range(heads)],
        never_contribute=[],
    )


def test_the_picture_has_a_cell_for_every_part_and_a_panel_for_every_domain() -> None:
    small, large = (Image.open(io.BytesIO(png(some_profile(layers)))) for layers in (3, 6))
    assert small.format == "PNG"
    assert large.height - small.height == 2 * 3 * 14  # two domains, three layers more
    one = Image.open(io.BytesIO(png(some_profile(domains=("prose",)))))
    assert one.height < small.height
    # Low and high values differ in colour; the paper is not the picture.
    assert len(small.convert("RGB").getcolors(1 << 20) or []) > 20


def test_tasks_of_the_spot_checks_know_their_answers(tmp_path: Path) -> None:
    tasks = json_tasks(3)
    assert "Miller of Turin ordered 2 chairs, order number 10007" in tasks[0].prompt
    assert tasks[0].solved('```json\n{"items": 2, "name": "Miller", "city": "Turin", "order": 10007}\n```')
    assert tasks[0].solved('{"items": 2, "name": "Miller", "city": "Turin", "order": "10007"}')
    assert not tasks[0].solved('{"items": 3, "name": "Miller", "city": "Turin", "order": "10007"}')
    assert not tasks[0].solved("Miller of Lagos")
    assert not tasks[1].solved('{"name": "Miller"}')
    assert len({task.prompt for task in json_tasks(50)}) == 50
    path = tmp_path / "g.jsonl"
    path.write_text('{"question": "1 + 1?", "answer": "It is 2.\\n#### 1,002"}\n')
    (task,) = gsm8k_tasks(path, 5)
    assert task.solved("so it is 3, no: 1002.")
    assert not task.solved("1002 or 3")
    assert not task.solved("no number")
    for wrong in ("{}", "[", '{"question": "x", "answer": "no mark"}'):
        path.write_text(wrong + "\n")
        with pytest.raises(InvalidRequestError, match="line 1"):
            gsm8k_tasks(path, 5)


@pytest.mark.t1
def test_the_full_model_agrees_with_itself_in_a_spot_check() -> None:
    with Engine.load(str(small_model()), context_tokens=256, progress=False) as engine:
        result = check(engine, engine, "json", json_tasks(2), 8)
    assert (result.asked, result.same_answers) == (2, 2)
    assert result.full_right == result.masked_right


@pytest.mark.t1
def test_every_prompt_is_profiled_by_itself() -> None:
    meter = _core.Meter.load(small_model(), window_tokens=16)
    mask = meter.empty_mask().without(0, "mlp")
    found = profile_prompts(
        meter, PROMPTS, model="small", window_tokens=16, every=4, kinds=("mlp",), mask=mask
    )
    layers = len(meter.parts())
    assert len(found.parts) == layers
    for entry in found.prompts:
        assert entry.needed + entry.quiet == layers == len(entry.kl)
        assert entry.needed == sum(kl >= QUIET_KL for kl in entry.kl)
        assert entry.strongest[0].kl == max(entry.kl)
        # The mask leaves out what was left out alone before.
        assert entry.mask_kl == pytest.approx(entry.kl[0])
        assert any("the mask costs it" in line for line in entry.advice)
    alone = profile_prompts(meter, PROMPTS[1:], model="small", window_tokens=16, every=4, kinds=("mlp",))
    assert alone.prompts[0].kl == found.prompts[1].kl
    # Shorter than `every` tokens: the last one is compared, so that nothing is quiet unseen.
    short = profile_prompts(meter, PROMPTS, model="small", window_tokens=9, every=100, kinds=("mlp",))
    assert all(max(entry.kl) > QUIET_KL for entry in short.prompts)
    with pytest.raises(InvalidRequestError, match="prompt 1 has"):
        profile_prompts(meter, ["Hi"], model="small", window_tokens=16, every=4)


@pytest.mark.t1
def test_the_command_tells_prompts_from_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = tmp_path / "library.jsonl"
    library.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS))
    save_mask(_core.Meter.load(small_model(), window_tokens=16).empty_mask(), tmp_path / "empty.mask")
    assert main(["profile", str(library)]) == 1
    assert "--model" in capsys.readouterr().err
    arguments = ["--model", str(small_model()), "--window-tokens", "8", "--every", "8"]
    arguments += ["--mask", str(tmp_path / "empty.mask"), "--out", str(tmp_path / "out")]
    assert main(["profile", str(library), *arguments]) == 0
    printed = capsys.readouterr().out
    assert "1. needs" in printed
    assert "with the mask 0.0000 nats" in printed
    assert len(json.loads((tmp_path / "out.json").read_text())["prompts"]) == 2


@pytest.mark.t1
def test_a_built_mask_brings_its_spot_checks_and_confidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from zlrs.masks import load_mask
    from zlrs.profile import report_of

    (tmp_path / "prose.txt").write_text("The mill stood by the river, and its wheel had not turned. " * 12)
    out = tmp_path / "some.mask"
    arguments = ["--data", str(tmp_path / "prose.txt"), "--window-tokens", "16", "--windows", "2"]
    arguments += ["--every", "8", "--budget", "kl=3", "--rejections", "1", "--checks", "2", "--out", str(out)]
    assert main(["mask", "build", str(small_model()), *arguments]) == 0
    report = report_of(load_mask(out))
    assert report is not None
    assert report.parts
    assert [found.name for found in report.spot_checks] == ["json"]
    assert report.spot_checks[0].asked == 2
    assert confidence_of(report) == pytest.approx(1 - max(harm.top1_upper for harm in report.held_out))
    assert report.search_s > 0
    assert report.gain.tokens_s > 0
    assert report.gain.tokens_s_full > 0
    assert "decoding: " in capsys.readouterr().err
    assert main(["mask", "show", str(out), "--card"]) == 0
    card = capsys.readouterr().out
    assert "spot_checks:" in card
    assert f"  tokens_s: {report.gain.tokens_s:.2f}\n" in card
    assert f"  tokens_s_full: {report.gain.tokens_s_full:.2f}\n" in card
    assert main(["mask", "build", str(small_model()), *arguments, "--checks", "201"]) == 1
    assert "0 to 200" in capsys.readouterr().err


def test_progress_tells_the_time_left_by_the_steps_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from zlrs import progress

    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.delenv("ZLRS_NO_PROGRESS", raising=False)
    bar = progress.StepProgress("search")
    now[0] = 200.0  # a model was loaded
    bar.update("alone", 1, 100)
    now[0] = 220.0
    bar.update("alone", 11, 100, "layer 3 mlp")
    now[0] = 221.0
    bar.update("alone", 12, 100)
    bar.update("alone", 100, 100)
    assert capsys.readouterr().err.splitlines() == [
        "search, alone: 1 of 100",
        "search, alone: 11 of 100, 2 min 58 s left; layer 3 mlp",
        "search, alone: 100 of 100",
    ]


class Decodes:
    """A model whose answers take as long as they are told to; notes when it is asked."""

    def __init__(self, took_ms: list[float], asked: list[object], tokens: int = 65) -> None:
        self.took_ms, self.asked, self.tokens = took_ms, asked, tokens

    def generate(self, prompt: str, **options: object) -> Completion:
        self.asked.append(self)
        assert (prompt, options) == (PROMPT, {"max_tokens": 64})
        timings = Timings(0.0, 1.0, self.took_ms.pop(0), 1.0)
        return Completion("", (), "max_tokens", None, Usage(9, self.tokens), 0, timings)


def test_speeds_are_medians_of_turns() -> None:
    asked: list[object] = []
    full, masked = Decodes([640.0, 64.0, 320.0], asked), Decodes([160.0, 640.0, 64.0], asked)
    assert decoding_speeds(full, masked) == (200, 400)  # type: ignore[arg-type]  # engines that are played
    assert asked == [full, masked] * 3
    ended = Decodes([0.0] * 3, asked, tokens=1), Decodes([5.0] * 3, asked, tokens=0)
    assert decoding_speeds(*ended) == (0, 0)  # type: ignore[arg-type]  # engines that are played


class Scripted:
    """A search whose masks are numbers: how many parts are out; the harm on held-out texts is given."""

    def __init__(self, held_out: list[float]) -> None:
        self.kls = held_out
        self.asked: list[int] = []

    def held_out(self, mask: int) -> list[DomainHarm]:
        self.asked.append(mask)
        return [harm_of("only", [[(self.kls[mask], False, 0.0, False)] * 4])]


def test_a_load_beside_the_full_model_takes_nothing_that_was_measured_on_it() -> None:
    from zlrs.cli.serve import _beside
    from zlrs.config.model import Config, EngineSettings, ZeroLayerSettings

    config = Config(
        engine=EngineSettings(device="auto", threads=3), zero_layer=ZeroLayerSettings(exits="some.exits")
    )
    beside = _beside(config)
    assert (beside.engine.device, beside.engine.threads) == ("cpu", 3)
    assert beside.zero_layer.exits is None
    assert config.zero_layer.exits == "some.exits"


@pytest.mark.parametrize(
    ("kls", "chosen"),
    [([0, 1, 2, 3, 9], 3), ([0, 1, 2, 3], 3), ([0, 9, 9], 0), ([0], 0), ([0, 1, 9, 2, 2], 1)],
)
def test_what_held_out_texts_refuse_is_put_back(kls: list[float], chosen: int) -> None:
    steps = [Step(number, [], None) for number in range(len(kls))]  # type: ignore[arg-type]  # numbers stand for masks
    search = Scripted(kls)
    found, harms = held_back(search, steps, 3.0)  # type: ignore[arg-type]  # a search that is played
    assert (found, harms[0].kl_mean) == (chosen, kls[chosen])
    # From careful to daring, and not beyond the first that is refused: no second chance.
    assert search.asked == list(range(min(chosen + 2, len(kls))))


def test_of_many_steps_some_are_tested_and_the_last_is() -> None:
    steps = [Step(number, [], None) for number in range(301)]  # type: ignore[arg-type]  # numbers stand for masks
    search = Scripted([0.0] * 301)
    assert held_back(search, steps, 3.0)[0] == 300  # type: ignore[arg-type]  # a search that is played
    assert search.asked == sorted(set(search.asked))
    assert len(search.asked) == HELD_OUT_TESTS + 1
    refused = Scripted([0.0] * 100 + [9.0] * 201)
    found, harms = held_back(refused, steps, 3.0)  # type: ignore[arg-type]  # a search that is played
    assert found == max(place for place in search.asked if place < 100)
    assert harms[0].kl_mean == 0
    assert [place for place in refused.asked if place >= 100] == refused.asked[-1:]
