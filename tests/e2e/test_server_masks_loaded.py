"""A server with a mask beside its full model, as users configure, ask and verify it."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING

import pytest

from support.real_model import small_model
from support.serve_process import Serving, serve_process, wait_for_metrics
from zlrs import _core
from zlrs.cli.dispatch import main
from zlrs.masks import save_mask

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.t1

EMPTIED = 20


def ask(serving: Serving, **headers: str) -> tuple[dict[str, object], dict[str, str]]:
    body = {
        "model": "anything",
        "max_tokens": 12,
        "temperature": 0,
        "messages": [{"role": "user", "content": "Name three colours."}],
    }
    request = urllib.request.Request(
        f"{serving.url}/v1/messages",
        json.dumps(body).encode(),
        {"content-type": "application/json", **headers},
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response), dict(response.headers)


def test_exact_and_aggressive_requests_beside_one_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = _core.Meter.load(small_model(), window_tokens=16).empty_mask()
    mask = empty.without(EMPTIED, "attention").without(EMPTIED, "mlp").without(3, "mlp")
    save_mask(mask, tmp_path / "small.mask")
    other = tmp_path / "unsure.mask"
    save_mask(empty.without(5, "mlp"), other)
    settings = tmp_path / "zlrs.toml"
    settings.write_text(
        f'[engine]\ncontext_tokens = 256\n[server]\nmodel_aliases = ["*"]\nlog_level = "debug"\n'
        f"[zero_layer]\nconfidence = 0.0\nsample = 1.0\n"
        f'[[zero_layer.masks]]\npath = "{tmp_path / "small.mask"}"\n'
    )
    with serve_process(str(small_model()), "--config", str(settings)) as serving:
        exact, headers = ask(serving)
        assert headers["X-ZLRS-Zero-Active"] == "false"
        masked, headers = ask(serving, **{"X-ZLRS-Compute": "aggressive"})
        assert headers["X-ZLRS-Zero-Active"] == "true"
        assert f"zero-layer={EMPTIED};" in headers["X-ZLRS-Model-Info"]
        assert masked["content"] != exact["content"]
        saved = masked["zlrs"]["zero_layer"]["saved_share"]  # type: ignore[index]
        assert 0.02 < saved < 0.1
        # The re-run compares every token of the answer, and that it ends there.
        ended = masked["stop_reason"] == "end_turn"
        tokens = masked["usage"]["output_tokens"] + ended  # type: ignore[index]
        wait_for_metrics(serving, f'zlrs_zero_layer_checked_tokens_total{{mask="small"}} {tokens}')
        capsys.readouterr()
        arguments = ["--repeats", "4", "--max-tokens", "6"]
        assert main(["verify", serving.url, *arguments]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["zombie_layers"] == [EMPTIED]
        # Other prompts have other shares of tokens that need no head.
        assert report["token_saving_pct"] == pytest.approx(100 * saved, rel=0.5)
        assert (report["repeats"], report["prompts"]) == (4, 4)
        lines = [json.loads(line) for line in serving.errors.read_text().splitlines() if line[:1] == "{"]
    layers = [line for line in lines if line["event"] == "layer" and line["mask"] == "small"]
    assert [line["layer"] for line in layers if line["is_empty"]] == [EMPTIED]
    assert [line["layer"] for line in layers if not line["mlp_bytes"]] == [3, EMPTIED]
    (loaded,) = (line for line in lines if line["event"] == "mask_loaded")
    assert loaded["weight_bytes"] > 0
    assert loaded["kv_bytes"] > 0


def test_a_mask_below_the_least_confidence_is_not_loaded(tmp_path: Path) -> None:
    empty = _core.Meter.load(small_model(), window_tokens=16).empty_mask()
    save_mask(empty.without(5, "mlp"), tmp_path / "unmeasured.mask")
    settings = tmp_path / "zlrs.toml"
    settings.write_text(
        f"[engine]\ncontext_tokens = 256\n[server]\nmodel_aliases = ['*']\n"
        f'[[zero_layer.masks]]\npath = "{tmp_path / "unmeasured.mask"}"\n'
    )
    with serve_process(str(small_model()), "--config", str(settings)) as serving:
        _, headers = ask(serving, **{"X-ZLRS-Compute": "aggressive"})
        assert headers["X-ZLRS-Zero-Active"] == "false"
        assert "unavailable=aggressive" in headers["X-ZLRS-Compute-Profile"]
        assert '"mask_not_used","mask":"unmeasured","confidence":0.0' in serving.errors.read_text()


def test_a_model_is_compared_with_itself_and_a_mask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mask = _core.Meter.load(small_model(), window_tokens=16).empty_mask().without(3, "mlp")
    save_mask(mask, tmp_path / "small.mask")
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("Name three colours.\n")
    arguments = ["--mask", str(tmp_path / "small.mask"), "--prompts", str(prompts), "--repeats", "2"]
    assert main(["verify", str(small_model()), *arguments, "--max-tokens", "3"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["repeats"], report["prompts"], report["zombie_layers"]) == (2, 1, [])
    assert 1 < report["token_saving_pct"] < 5
