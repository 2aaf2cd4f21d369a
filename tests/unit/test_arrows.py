"""Dependencies point one way; nothing below a room knows the room (docs/architecture.md)."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Each crate with every crate of ours that it may name. What is absent from a set is an arrow turned round.
CRATES = {
    "zlrs-text": set(),
    "zlrs-wire": set(),
    "zlrs-fingerprint": set(),
    "zlrs-graph": {"zlrs-text", "zlrs-wire"},
    "zlrs-store": {"zlrs-graph", "zlrs-fingerprint", "zlrs-text", "zlrs-wire"},
    "zlrs-remote": {"zlrs-graph", "zlrs-store"},
    "zlrs-kernels": set(),
    "zlrs-model": {"zlrs-kernels"},
    "zlrs-engine": {"zlrs-kernels", "zlrs-model"},
    "zlrs-cuda": {"zlrs-kernels", "zlrs-model", "zlrs-engine"},
    "zlrs-train": {"zlrs-kernels", "zlrs-model", "zlrs-engine", "zlrs-text"},
    "zlrs-py": {
        "zlrs-text", "zlrs-wire", "zlrs-fingerprint", "zlrs-graph", "zlrs-store", "zlrs-remote",
        "zlrs-kernels", "zlrs-model", "zlrs-engine", "zlrs-cuda", "zlrs-train",
    },
}  # fmt: skip

# Heavy or foreign crates with the only ones that may name them (crates edited hourly stay quick to build).
ONLY_IN = {
    "pyo3": {"zlrs-py"},
    "rusqlite": {"zlrs-store"},
    "redis": {"zlrs-remote"},
    "candle-core": {"zlrs-train"},
    "candle-transformers": {"zlrs-train"},
    "cudarc": {"zlrs-cuda"},
    "tokenizers": {"zlrs-model"},
    "minijinja": {"zlrs-model"},
}

# Python packages in the order of the arrow: a later one may import an earlier one, never the reverse.
# `zlrs` below stands for everything in python/zlrs that is not listed itself.
SERVER_ONLY = {"aiohttp"}


def manifests() -> dict[str, set[str]]:
    """Every workspace crate with the names of all its dependencies, of every kind."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {p["name"]: {d["name"] for d in p["dependencies"]} for p in json.loads(output)["packages"]}


def imports_of(path: Path) -> set[str]:
    """Absolute module names a file imports anywhere, also inside functions and for type checking."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def python_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def test_every_crate_is_in_the_map() -> None:
    assert set(manifests()) == set(CRATES)


@pytest.mark.parametrize("crate", sorted(CRATES))
def test_crates_point_one_way(crate: str) -> None:
    ours = {name for name in manifests()[crate] if name.startswith("zlrs-")}
    assert ours <= CRATES[crate], f"{crate} must not depend on {sorted(ours - CRATES[crate])}"


@pytest.mark.parametrize("dependency", sorted(ONLY_IN))
def test_heavy_crates_stay_in_their_rooms(dependency: str) -> None:
    users = {crate for crate, names in manifests().items() if dependency in names}
    assert users <= ONLY_IN[dependency]


def test_aiohttp_only_in_server_and_sidecar() -> None:
    allowed = ROOT / "python" / "zlrs" / "server"
    for path in python_files("python/zlrs"):
        if allowed not in path.parents:
            found = {name.split(".")[0] for name in imports_of(path)} & SERVER_ONLY
            assert not found, f"{path.relative_to(ROOT)} imports {found}"


def test_sidecar_sees_only_the_graph_the_wire_errors_and_configuration() -> None:
    allowed = ("zlrs.graph", "zlrs.wire", "zlrs.errors", "zlrs.config", "zlrs.progress")
    allowed += ("zlrs.patterns", "zlrs.texts", "zlrs.tokens")
    for path in python_files("proxy/zlrs_proxy"):
        for name in imports_of(path):
            if name == "zlrs" or name.startswith("zlrs."):
                assert name.startswith(allowed), f"{path.relative_to(ROOT)} imports {name}"


def test_core_package_never_imports_the_sidecar_or_server() -> None:
    for path in python_files("python/zlrs"):
        inside = path.relative_to(ROOT / "python" / "zlrs").parts[0]
        names = imports_of(path)
        assert not any(name.split(".")[0] == "zlrs_proxy" for name in names), path
        if inside not in {"server", "cli"}:
            assert not any(name.startswith("zlrs.server") for name in names), path
        if inside != "cli":
            assert not any(name.startswith("zlrs.cli") for name in names if inside != "__main__.py"), path


def test_plain_import_loads_no_web_server() -> None:
    program = (
        "import sys, zlrs; print([m for m in sys.modules if m.split('.')[0] in {'aiohttp', 'zlrs_proxy'}])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
