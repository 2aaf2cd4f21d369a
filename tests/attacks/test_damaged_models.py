"""Damaged model files under a memory limit: every load ends with a model or a clear error, never a crash."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ADDRESS_SPACE_BYTES = 1 << 30
EXAMPLES = ("damaged_loads", "synthetic")


def limit_memory() -> None:
    """In the child: one GiB of address space; an allocation past it fails, and an abort would be seen."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))


@pytest.fixture(scope="module")
def programs() -> dict[str, Path]:
    """The two example programs of zlrs-model, built as `cargo test` builds them."""
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "zlrs-model"]
    for name in EXAMPLES:
        command += ["--example", name]
    subprocess.run(command, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return {name: target / "release" / "examples" / name for name in EXAMPLES}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 100_000])
def test_five_hundred_whole_loads_of_damaged_files(programs: dict[str, Path], seed: int) -> None:
    command = [programs["damaged_loads"], "--count", "500", "--seed", str(seed)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limit_memory)
    assert result.returncode == 0, result.stderr
    outcomes = {line.split(None, 1)[1]: int(line.split()[0]) for line in result.stdout.splitlines()}
    assert sum(outcomes.values()) == 500
    refused = sum(count for outcome, count in outcomes.items() if outcome != "loaded")
    assert refused > 250, outcomes
    assert len(outcomes) >= 5, "the damage is too uniform to say much"


CHILD = """
import sys, pathlib, resource
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
import zlrs
from zlrs.errors import ZlrsError
good = pathlib.Path(sys.argv[1]).read_bytes()
path = pathlib.Path(sys.argv[1] + ".damaged.gguf")
ends = {"loaded": 0, "refused": 0}
for turn in range(120):
    data = bytearray(good)
    if turn % 3 == 0:
        data = data[: len(data) * turn // 120]
    for step in range(1 + turn % 5):
        if data:
            data[(7919 * (turn + 1) * (step + 1)) % min(len(data), 20000)] ^= 1 << (turn % 8)
    path.write_bytes(data)
    try:
        engine = zlrs.Engine.load(str(path), kv_bytes=1 << 22, progress=False)
    except ZlrsError as error:
        assert len(str(error)) > 20, error
        ends["refused"] += 1
    else:
        try:
            engine.generate("ab", max_tokens=2)
        except ZlrsError:
            pass
        engine.close()
        ends["loaded"] += 1
print(ends["loaded"], ends["refused"])
"""


@pytest.mark.timeout(300)
def test_damaged_files_through_the_python_face(programs: dict[str, Path], tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    subprocess.run([programs["synthetic"], model], check=True)
    command = [sys.executable, "-c", CHILD, str(model)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    loaded, refused = map(int, result.stdout.split())
    assert loaded + refused == 120
    assert refused > 40
