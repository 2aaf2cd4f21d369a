"""Compile the kernels of `cuda/kernels` to the PTX of `cuda/ptx`, or check that it is what they compile to.

The compiler comes from the package index into an environment of its own (`requirements/nvcc.txt`); a GPU or a
driver is not needed. `--check` compiles to a temporary folder, compares, and assembles every kernel for the
capabilities it is meant for, which no interpretation on the host can show.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "cuda" / "kernels"
PTX = ROOT / "cuda" / "ptx"
REQUIREMENTS = ROOT / "requirements" / "nvcc.txt"
SUM = PTX / "sources.sha256"
"""What the committed files were made from: a test compares, without the compiler."""
CAPABILITY = "compute_80"
ASSEMBLED_FOR = ("sm_80", "sm_90", "sm_120")
NEWEST_VERSION = (9, 0)
# Products and sums stay apart, divisions and roots are correctly rounded: the bits of the host's kernels.
FLAGS = ("-std=c++17", "-fmad=false", "--prec-div=true", "--prec-sqrt=true", "-Werror", "all-warnings")


def fail(text: str) -> None:
    """End with a clear reason."""
    print(f"compile_ptx: {text}", file=sys.stderr)
    raise SystemExit(1)


def sources_sum() -> str:
    """SHA-256 of all that the PTX depends on: kernels, flags, the compiler's version."""
    total = hashlib.sha256(" ".join((CAPABILITY, *FLAGS)).encode())
    for path in (REQUIREMENTS, *sorted(KERNELS.glob("*.cu*"))):
        total.update(f"\n{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}".encode())
    return total.hexdigest()


def toolkit() -> Path:
    """The compiler's folder; installed on first use."""
    pinned = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    environment = ROOT / "target" / f"nvcc-{pinned}"
    found = sorted(environment.glob("lib/python*/site-packages/nvidia/*/bin/nvcc"))
    if not found:
        print("compile_ptx: installing the compiler", flush=True)
        venv.create(environment, with_pip=True, clear=True)
        pip = [environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*map(str, pip), "-r", str(REQUIREMENTS)], check=True)
        found = sorted(environment.glob("lib/python*/site-packages/nvidia/*/bin/nvcc"))
    if not found:
        fail(f"the packages of {REQUIREMENTS.name} have no nvcc")
    return found[0].parent


def compile_all(tools: Path, folder: Path) -> list[Path]:
    """One PTX file for every source, in `folder`."""
    sources = sorted(KERNELS.glob("*.cu"))

    def compile_one(source: Path) -> Path:
        target = folder / f"{source.stem}.ptx"
        command = [tools / "nvcc", "-ptx", f"-arch={CAPABILITY}", *FLAGS, "-o", target, source.name]
        done = subprocess.run(
            [str(part) for part in command], cwd=KERNELS, capture_output=True, text=True, check=False
        )
        if done.returncode:
            fail(f"{source.name} does not compile:\n{done.stdout}{done.stderr}")
        return target

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(compile_one, sources))


def check_version(file: Path) -> None:
    """Drivers refuse PTX of a newer language than theirs."""
    match = re.search(r"^\.version (\d+)\.(\d+)$", file.read_text(encoding="ascii"), re.MULTILINE)
    if match is None or (int(match[1]), int(match[2])) > NEWEST_VERSION:
        newest = "{}.{}".format(*NEWEST_VERSION)
        fail(f"{file.name} is of PTX version {match and match[0]}, at most {newest} is wanted")


def assemble(tools: Path, files: list[Path]) -> None:
    """Every kernel becomes machine code for each capability, without spilling more than a few words."""
    for file in files:
        for architecture in ASSEMBLED_FOR:
            command = [str(tools / "ptxas"), f"-arch={architecture}", str(file), "-o", "/dev/null"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                fail(f"{file.name} does not assemble for {architecture}:\n{done.stdout}{done.stderr}")


def main() -> None:
    """Compile, or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="compare with the committed files instead of writing"
    )
    check = parser.parse_args().check
    tools = toolkit()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = compile_all(tools, folder)
        for file in files:
            check_version(file)
        if check:
            assemble(tools, files)
            committed = {path.name: path.read_bytes() for path in PTX.glob("*.ptx")}
            compiled = {path.name: path.read_bytes() for path in files}
            differing = sorted(
                name
                for name in committed.keys() | compiled.keys()
                if committed.get(name) != compiled.get(name)
            )
            if differing:
                fail(
                    f"cuda/ptx is not what cuda/kernels compiles to ({', '.join(differing)}); run `make ptx`"
                )
            if SUM.read_text(encoding="ascii").strip() != sources_sum():
                fail(f"{SUM.name} is not the sum of the kernels; run `make ptx`")
            print(f"compile_ptx: {len(files)} files are what the kernels compile to")
            return
        PTX.mkdir(exist_ok=True)
        for stale in PTX.glob("*.ptx"):
            stale.unlink()
        for file in files:
            (PTX / file.name).write_bytes(file.read_bytes())
        SUM.write_text(sources_sum() + "\n", encoding="ascii")
        print(f"compile_ptx: wrote {len(files)} files to {PTX.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
