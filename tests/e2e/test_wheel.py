"""The built wheel in an empty environment: it installs, imports, links no CUDA library, and answers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from support.real_model import small_model

ROOT = Path(__file__).resolve().parents[2]
CUDA = re.compile(r"cuda|cublas|cudart|nvrtc|nvidia", re.IGNORECASE)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, from the crates that are already compiled."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "maturin",
        "build",
        "--release",
        "--locked",
        "--quiet",
        "--out",
        str(folder),
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("zlrs-*.whl"))


@pytest.mark.timeout(900)
def test_one_wheel_for_every_python_from_3_10(wheel: Path) -> None:
    assert re.fullmatch(r"zlrs-[\d.]+-cp310-abi3-\w*linux\w*_x86_64\.whl", wheel.name), wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    for needed in ("zlrs/_core.abi3.so", "zlrs/_core.pyi", "zlrs/py.typed", "zlrs/models/registry.json"):
        assert needed in names
    assert not [name for name in names if "__pycache__" in name or name.startswith(("tests/", "proxy/"))]
    licence = [name for name in names if name.endswith("LICENSE")]
    assert licence, "the wheel carries its licence"


def test_links_no_cuda_library(wheel: Path, tmp_path: Path) -> None:
    library = zipfile.ZipFile(wheel).extract("zlrs/_core.abi3.so", tmp_path)
    text = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"NEEDED.*\[(.*)\]", text)
    assert "libc.so.6" in needed
    assert not [name for name in needed if CUDA.search(name)], needed


@pytest.mark.t1
@pytest.mark.timeout(300)
def test_installed_in_an_empty_environment_it_answers(wheel: Path, tmp_path: Path) -> None:
    model = small_model()
    home = tmp_path / "environment"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    pip = [
        python,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
    ]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True, timeout=120)
    # Its dependencies come from this environment: the test needs no network.
    site = next(Path(entry) for entry in sys.path if entry.endswith("site-packages"))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
    program = (
        "import sys, zlrs\n"
        f"sys.path.append({str(site)!r})\n"
        f"engine = zlrs.Engine.load({str(model)!r}, progress=False)\n"
        "print(zlrs.__file__)\n"
        "print(engine.generate('def fib(n):', max_tokens=24).text)\n"
    )
    result = subprocess.run(
        [python, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=clean,
        cwd=tmp_path,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    where, _, text = result.stdout.partition("\n")
    assert where.startswith(str(home)), "the installed package answers, not the source tree"
    assert "return" in text
