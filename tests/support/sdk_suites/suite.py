"""A client library's own tests, as its source distribution has them, in an environment of their own."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

NEEDED = [
    "pytest", "pytest-asyncio", "pytest-timeout", "respx", "time-machine", "dirty-equals", "rich", "trio",
    "hypothesis", "importlib-metadata", "inline-snapshot", "griffe", "http-snapshot[httpx]", "httpx-aiohttp",
    "standardwebhooks",
]  # fmt: skip
INSTALL_SECONDS = 600
RUN_SECONDS = 900


class NotHereError(Exception):
    """The suite cannot be had; the message says why."""


@dataclass
class Suite:
    """An unpacked source distribution and the interpreter to run its tests with."""

    library: str
    folder: Path
    python: Path

    def run(self, base_url: str, scratch: Path, tests: list[str]) -> dict[str, str]:
        """The outcome of every test against an address."""
        outcomes = scratch / f"outcomes-{self.library}.json"
        outcomes.unlink(missing_ok=True)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(scratch),
            "TEST_API_BASE_URL": base_url,
            "PYTHONPATH": str(Path(__file__).parent),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SDK_LIBRARY": self.library,
            "SDK_ANSWERS": str(scratch),
            "SDK_OUTCOMES": str(outcomes),
        }
        # One library mocks `httpx` and is built on its successor; its own plugin makes one of the two.
        alias = ["-p", "tests._alias_httpx"] if (self.folder / "tests" / "_alias_httpx.py").exists() else []
        command = [
            str(self.python), "-m", "pytest", *alias, "-p", "answers", "-p", "no:cacheprovider", "-q",
            "--tb=no", "--no-header", "-W", "ignore", "-o", "addopts=", "-o", "filterwarnings=",
            "--timeout=20", *tests,
        ]  # fmt: skip
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        if not outcomes.exists():
            raise AssertionError(done.stdout[-3000:] + done.stderr[-3000:])
        return json.loads(outcomes.read_text())


def suite_of(library: str) -> Suite:
    """The suite of the installed version, fetched into the cache folder on first use.

    Raises:
        NotHereError: It cannot be fetched or installed.
    """
    version = importlib.metadata.version(library)
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zlrs" / "sdk-suites"
    folder = root / f"{library}-{version}"
    python = root / f"{library}-{version}-env" / "bin" / "python"
    try:
        if not (folder / "tests").is_dir():
            root.mkdir(parents=True, exist_ok=True)
            fetch = [
                "download",
                "--quiet",
                "--no-deps",
                "--no-binary",
                ":all:",
                "-d",
                str(root),
                f"{library}=={version}",
            ]
            _call([sys.executable, "-m", "pip", *fetch])
            with tarfile.open(root / f"{library}-{version}.tar.gz") as archive:
                archive.extractall(root, filter="data")
        if not (python.parent / "pytest").exists():
            _call([sys.executable, "-m", "venv", str(python.parent.parent)])
            _call([str(python), "-m", "pip", "install", "--quiet", f"{library}[aiohttp]=={version}", *NEEDED])
    except (OSError, tarfile.TarError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise NotHereError(
            str(said).strip().splitlines()[-1] if str(said).strip() else type(error).__name__
        ) from error
    if not (folder / "tests").is_dir():
        raise NotHereError("its source distribution has no tests")
    return Suite(library, folder, python)


def _call(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)
