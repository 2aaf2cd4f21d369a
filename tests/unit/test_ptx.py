"""The PTX that the package holds was made from the kernels beside it."""

from __future__ import annotations

from pathlib import Path

from support.scripts import load_script

ROOT = Path(__file__).parent.parent.parent


def test_the_ptx_is_of_these_sources() -> None:
    module = load_script("compile_ptx")
    kept = (ROOT / "cuda" / "ptx" / "sources.sha256").read_text(encoding="ascii").strip()
    assert kept == module.sources_sum(), "cuda/kernels has changed since `make ptx`"
    sources = {path.stem for path in (ROOT / "cuda" / "kernels").glob("*.cu")}
    assert {path.stem for path in (ROOT / "cuda" / "ptx").glob("*.ptx")} == sources
