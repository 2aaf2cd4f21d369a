"""Every known fault has a test, and every test that the page names exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OF_CACHES = [f"T{number:02}" for number in range(1, 34)]
OF_SERVERS = [f"E{number}" for number in (*range(14, 21), 24, *range(32, 36), 37, 38)]


def _tests_there_are() -> set[str]:
    python = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    rust = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "rust").glob("*/tests/*.rs"))
    found = set(re.findall(r"^(?:async )?def (test_\w+)\(", python, re.MULTILINE))
    return found | set(re.findall(r"#\[test\]\n(?:\s*#\[[^\n]*\n)*\s*fn (\w+)\(", rust))


def test_every_fault_names_tests_that_exist() -> None:
    page = (ROOT / "docs" / "known-faults.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in page.splitlines() if re.match(r"\| [TE]\d\d ", line)]
    assert [row[0].strip() for row in rows] == OF_CACHES + OF_SERVERS
    there = _tests_there_are()
    for name, fault, right, tests in rows:
        named = re.findall(r"`(\w+)`", tests)
        assert named, name
        assert fault.strip(), name
        assert right.strip(), name
        assert set(named) <= there, f"{name.strip()}: {set(named) - there}"
