"""`zlrs doctor`, and what a device setting does where there is no GPU."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from zlrs import _core
from zlrs.cli.doctor import command

if TYPE_CHECKING:
    from pathlib import Path

FOUND = {"found": "yes", "name": "A GPU", "capability": "9.0", "memory_bytes": str(141 << 30)}


def test_says_what_there_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(_core, "gpu_info", lambda: FOUND)
    assert command([]) == 0
    assert "A GPU, compute capability 9.0, 141 GiB" in capsys.readouterr().out


def test_says_why_there_is_none(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(_core, "gpu_info", lambda: {"found": "no", "reason": "no CUDA driver"})
    assert command(["--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["gpu"] == "none (no CUDA driver)"
    assert facts["device"] == "cpu"


def test_the_native_module_answers_with_and_without_a_driver() -> None:
    facts = _core.gpu_info()
    assert facts["found"] in {"yes", "no"}
    assert facts.keys() >= ({"name", "memory_bytes"} if facts["found"] == "yes" else {"reason"})


def test_a_gpu_that_is_not_there_cannot_be_required(tmp_path: Path) -> None:
    if _core.gpu_info()["found"] == "yes":
        pytest.skip("this machine has a GPU")
    with pytest.raises(_core.CoreError, match=r'device is "cuda", but .*; use "auto" or "cpu"') as refused:
        _core.Engine.load(tmp_path / "none.gguf", device="cuda")
    assert refused.value.type == "configuration_error"
    with pytest.raises(_core.CoreError, match="allowed: auto, cpu, cuda"):
        _core.Engine.load(tmp_path / "none.gguf", device="tpu")
