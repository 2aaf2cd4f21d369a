"""The PTX that the package holds was made from the kernels beside it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "scripts" / "compile_ptx.py"


def test_the_ptx_is_of_these_sources() -> None:
    spec = importlib.util.spec_from_file_location("compile_ptx", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["compile_ptx"] = module
    spec.loader.exec_module(module)
    kept = (ROOT / "cuda" / "ptx" / "sources.sha256").read_text(encoding="ascii").strip()
    assert kept == module.sources_sum(), "cuda/kernels has changed since `make ptx`"
    sources = {path.stem for path in (ROOT / "cuda" / "kernels").glob("*.cu")}
    assert {path.stem for path in (ROOT / "cuda" / "ptx").glob("*.ptx")} == sources
