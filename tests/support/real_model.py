"""The small real model for tests of tier T1, where it is on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zlrs.models import models_folder

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def small_model() -> Path:
    """Its file: `ZLRS_TEST_MODEL`, else by name among the fetched models; skips with a reason."""
    named = os.environ.get("ZLRS_TEST_MODEL")
    path = Path(named) if named else models_folder() / FILE
    if not path.is_file():
        pytest.skip(f"needs the model file {path}: run `zlrs models pull smollm2-135m-instruct-q4_1`")
    return path
