"""Set up what the commands of the Makefile need: virtual environment, packages, the release build.

Only the standard library: this runs before anything is installed. Every step is skipped when nothing it
depends on has changed. Packages go through a folder of wheels in the cache (`$XDG_CACHE_HOME/zlrs/wheels`),
so that a second set-up, in this clone or another, needs no network.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = ROOT / "requirements" / "dev.txt"
RUST_FLOOR = (1, 89)
PYTHON_FLOOR = (3, 10)


def wheel_folder() -> Path:
    """The cache of downloaded wheels, one folder for each Python version."""
    explicit = os.environ.get("ZLRS_HOME")
    cache = os.environ.get("XDG_CACHE_HOME")
    home = Path(explicit) if explicit else (Path(cache) if cache else Path.home() / ".cache") / "zlrs"
    return home / "wheels" / f"cp{sys.version_info[0]}{sys.version_info[1]}"


def say(text: str) -> None:
    """One line about what is being done."""
    print(f"setup: {text}", flush=True)


def fail(text: str) -> None:
    """End with a clear reason."""
    print(f"setup: {text}", file=sys.stderr)
    raise SystemExit(1)


def run(*command: str | Path, quiet: bool = False) -> bool:
    """Run a command in the root; True when it succeeded.

    Standard output is dropped (installers talk), errors and cargo's progress are shown unless it is `quiet`.
    """
    errors = subprocess.DEVNULL if quiet else None
    arguments = [str(part) for part in command]
    result = subprocess.run(arguments, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors, check=False)
    return result.returncode == 0


def check_tools() -> None:
    """Name every missing tool at once."""
    missing: list[str] = []
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        missing.append(f"Linux on x86-64 (this is {platform.system()} on {platform.machine()})")
    if sys.version_info < PYTHON_FLOOR:
        missing.append(
            f"Python {'.'.join(map(str, PYTHON_FLOOR))} or newer (this is {platform.python_version()})"
        )
    if shutil.which("cc") is None:
        missing.append("a C compiler named cc")
    cargo = shutil.which("cargo")
    if cargo is None:
        missing.append("Rust (cargo is not on the PATH)")
    else:
        text = subprocess.run([cargo, "--version"], capture_output=True, text=True, check=False).stdout
        found = re.search(r"(\d+)\.(\d+)", text)
        if found is None or (int(found[1]), int(found[2])) < RUST_FLOOR:
            missing.append(
                f"Rust {'.'.join(map(str, RUST_FLOOR))} or newer (found: {text.strip() or 'none'})"
            )
    if missing:
        fail("needed and not found here: " + "; ".join(missing))


def stamp(name: str) -> Path:
    """The file that remembers what a step was done for."""
    return VENV / f".stamp-{name}"


def done_for(name: str, key: str) -> bool:
    """Whether the step was already done for this key."""
    file = stamp(name)
    return file.exists() and file.read_text() == key


def make_venv() -> None:
    """Create the virtual environment, unless one for this Python is there."""
    if PYTHON.exists() and run(PYTHON, "-c", "import pip", quiet=True):
        return
    say(f"creating {VENV.name} with Python {platform.python_version()}")
    shutil.rmtree(VENV, ignore_errors=True)
    venv.create(VENV, with_pip=True)


def install_packages() -> None:
    """Install the pinned packages from the folder of wheels; what it lacks is fetched into it first."""
    key = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()
    if done_for("packages", key):
        return
    wheels = wheel_folder()
    wheels.mkdir(parents=True, exist_ok=True)
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    install = [*pip, "install", "--quiet", "--no-index", "--find-links", wheels, "-r", REQUIREMENTS]
    if not run(*install, quiet=True):
        count = sum(1 for line in REQUIREMENTS.read_text().splitlines() if line and not line.startswith("#"))
        say(f"fetching {count} packages into the cache")
        download = [*pip, "download", "--quiet", "--only-binary=:all:", "--dest", wheels, "-r", REQUIREMENTS]
        if not run(*download):
            fail("the packages could not be fetched: check the network and run the command again")
        say("installing them")
        if not run(*install):
            fail("the packages could not be installed (see above)")
    stamp("packages").write_text(key)


def source_key() -> str:
    """A digest over everything the native module and the metadata are built from."""
    digest = hashlib.sha256()
    files = [
        ROOT / "Cargo.toml",
        ROOT / "Cargo.lock",
        ROOT / "pyproject.toml",
        ROOT / "proxy" / "pyproject.toml",
    ]
    files += sorted(path for path in (ROOT / "rust").rglob("*") if path.suffix in {".rs", ".toml"})
    for path in files:
        digest.update(str(path.relative_to(ROOT)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def build() -> None:
    """Build the native module in release mode and install both distributions in place."""
    key = source_key()
    built = list((ROOT / "python" / "zlrs").glob("_core*.so"))
    if done_for("build", key) and built:
        return
    say("building the native module (release); the first time takes some minutes on two cores")
    started = time.monotonic()
    os.environ["PATH"] = f"{VENV / 'bin'}{os.pathsep}{os.environ['PATH']}"
    os.environ["VIRTUAL_ENV"] = str(VENV)
    if not run(PYTHON, "-m", "maturin", "develop", "--release", "--locked", "--quiet"):
        fail("the native module did not build (see above)")
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    if not run(
        *pip, "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "-e", ROOT / "proxy"
    ):
        fail("the sidecar's package could not be installed (see above)")
    stamp("build").write_text(key)
    say(f"built in {time.monotonic() - started:.0f} s")


def main() -> None:
    """Do the steps in order."""
    check_tools()
    make_venv()
    install_packages()
    build()


if __name__ == "__main__":
    main()
