"""The GPU's check script: its JSON without a GPU, and its whole shape with one that is played."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace

import msgspec
import pytest

from support.scripts import SCRIPTS, load_script
from zlrs import _core

SCRIPT = SCRIPTS / "device_check.py"


class Attention(msgspec.Struct, forbid_unknown_fields=True):
    """One layer's attention of one row."""

    depth: int
    fused_us: float
    unfused_us: float
    unfused_over_fused: float
    fused_gigabytes_per_second: float
    exit_head_us: float
    exit_head_rows: int
    torch: str | None = None
    torch_us: float | None = None
    torch_over_fused: float | None = None


class Depth(msgspec.Struct, forbid_unknown_fields=True):
    """Speed behind so many tokens."""

    prefill_tokens_per_second: float
    decode_tokens_per_second: float
    decode_gigabytes_per_second: float
    decode_share_of_peak: float


class Speed(msgspec.Struct, forbid_unknown_fields=True):
    """One model shape."""

    weight_bytes: int
    load_seconds: float
    at_depth: dict[str, Depth]
    tokens_per_second_of_16_answers: float
    step_of_16_rows_over_step_of_1: float
    attention: Attention


class Trace(msgspec.Struct, forbid_unknown_fields=True):
    """What a governor decided."""

    peak_gigabytes_per_second: float
    decisions: list[dict[str, float | str | None]]


class Exactness(msgspec.Struct, forbid_unknown_fields=True):
    """Tokens against the processor's."""

    tokens_of_the_processor: bool
    alone_equals_together: bool
    share_of_tokens_before_the_first_other_one: float


class Report(msgspec.Struct, forbid_unknown_fields=True):
    """All of it."""

    build: dict[str, str]
    gpu: dict[str, str]
    skipped: str | None = None
    kernels: str | None = None
    exactness: Exactness | None = None
    governor: dict[str, Trace] | None = None
    speed: dict[str, Speed] | None = None


@dataclass
class Delta:
    """A token."""

    ids: list[int]


@dataclass
class Finished:
    """An end."""

    input_tokens: int = 600
    cached_tokens: int = 88
    prefill_ms: float = 10.0
    decode_ms: float = 63.0


@dataclass
class PlayedGeneration:
    """An answer that depends on its prompt alone."""

    ids: list[int]
    events: list[object] = field(default_factory=list)

    def wait(self, timeout_ms: int) -> list[object]:
        assert timeout_ms > 0
        return [Delta([sum(self.ids) % 256]), Finished(input_tokens=len(self.ids), cached_tokens=0)]


class PlayedEngine:
    """A model on a GPU."""

    loads: list[dict[str, object]]
    computes: set[object]

    @classmethod
    def load(cls, path: Path, **options: object) -> PlayedEngine:
        assert path.read_bytes()[:4] == b"GGUF"
        cls.loads.append(options)
        return cls()

    def submit(self, ids: list[int], **options: object) -> PlayedGeneration:
        self.computes.add(options["compute"])
        return PlayedGeneration(ids)

    def governor(self) -> tuple[float, list[dict[str, float | str | None]]]:
        decision: dict[str, float | str | None] = {"reading": 4, "hardware_mode": "hbm_optimized"}
        return 2e12, [{**decision, "temperature_c": None}]

    def close(self) -> None:
        return


def test_without_a_gpu_it_says_so_and_succeeds(tmp_path: Path) -> None:
    if _core.gpu_info()["found"] == "yes":
        pytest.skip("there is a GPU: make device-check runs on it")
    out = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, SCRIPT, "--out", out], capture_output=True, text=True, check=True, timeout=60
    )
    report = msgspec.json.decode(done.stdout, type=Report)
    assert report.skipped == _core.gpu_info()["reason"]
    assert report.speed is None
    assert json.loads(out.read_text(encoding="utf-8")) == json.loads(done.stdout)


def played_script(monkeypatch: pytest.MonkeyPatch, *arguments: str, **changed: object) -> ModuleType:
    """The script with a GPU that is played."""
    script = load_script("device_check")
    PlayedEngine.loads, PlayedEngine.computes = [], set()
    measured = {"fused_s": 1e-5, "unfused_s": 3e-5, "exit_head_s": 4e-6, "bytes": 1e6}
    played = {
        "Engine": PlayedEngine,
        "Finished": Finished,
        "build_info": _core.build_info,
        "gpu_info": lambda: {"found": "yes", "name": "played"},
        "gpu_self_test": lambda: None,
        "gpu_measure": lambda *_shape: measured,
    }
    monkeypatch.setattr(script, "_core", SimpleNamespace(**{**played, **changed}))
    tiny = script.SHAPES["small"]
    monkeypatch.setattr(script, "SHAPES", dict.fromkeys(script.SHAPES, tiny))
    monkeypatch.setattr(script, "scaled_dot_product_seconds", lambda *_shape: 2e-5)
    monkeypatch.setattr(sys, "argv", ["device_check.py", *arguments])
    return script


def test_what_fails_is_reported_and_the_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def other_bits() -> None:
        raise ValueError("attention gives other bits")

    out = tmp_path / "report.json"
    arguments = ("--shapes", "8B", "--depths", "0", "--out", str(out))
    script = played_script(monkeypatch, *arguments, gpu_self_test=other_bits)
    with pytest.raises(SystemExit) as ended:
        script.main()
    assert ended.value.code == 1
    report = json.loads(out.read_text(encoding="utf-8"))
    assert report == json.loads(capsys.readouterr().out)
    assert report["kernels"] == {"error": "ValueError: attention gives other bits"}
    assert report["exactness"]["tokens_of_the_processor"]
    assert report["speed"]["8B"]["at_depth"]["0"]

    late = played_script(monkeypatch, "--seconds", "-1", "--shapes", "8B", "--out", str(out))
    with pytest.raises(SystemExit):
        late.main()
    assert "not begun" in json.loads(out.read_text(encoding="utf-8"))["speed"]["8B"]["error"]


def test_with_a_gpu_the_report_has_every_figure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = played_script(monkeypatch, "--shapes", "0.5B,8B", "--depths", "0,300")
    script.main()
    report = msgspec.json.decode(capsys.readouterr().out, type=Report)
    assert report.kernels == script.KERNELS_TESTED
    assert report.exactness == Exactness(
        tokens_of_the_processor=True,
        alone_equals_together=True,
        share_of_tokens_before_the_first_other_one=1.0,
    )
    assert PlayedEngine.computes == {"exact", "aggressive"}, "only the latter are governed"
    assert report.governor is not None
    assert set(report.governor) == {"idle", "saturated"}
    assert report.speed is not None
    assert set(report.speed) == {"0.5B", "8B"}
    figures = report.speed["8B"]
    assert set(figures.at_depth) == {"0", "300"}
    assert figures.attention.unfused_over_fused == pytest.approx(3.0)
    assert figures.attention.torch_over_fused == pytest.approx(2.0)
    depth = figures.at_depth["0"]
    assert depth.decode_share_of_peak == pytest.approx(depth.decode_gigabytes_per_second / 2000, abs=1e-3)
    assert [load.get("governor_policy") for load in PlayedEngine.loads if load.get("kv_precision")] == [
        "idle",
        "saturated",
    ]
