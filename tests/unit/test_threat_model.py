"""Every threat has a test, and every test that the page names exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_row_names_tests_that_exist() -> None:
    page = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    there = set(re.findall(r"^(?:async )?def (test_\w+)\(", code, re.MULTILINE))
    for path in (ROOT / "rust").rglob("*.rs"):
        there |= set(re.findall(r"#\[test\]\s+fn (\w+)\(", path.read_text(encoding="utf-8")))
    rows = [line.split("|") for line in page.splitlines() if line.startswith("|")]
    rows = [row for row in rows if not set(row[1]) <= set("-") and row[1].strip() != "threat"]
    assert len(rows) > 25
    for _, threat, defence, tests, _ in rows:
        named = re.findall(r"`(\w+)`", tests)
        assert named, threat
        assert defence.strip(), threat
        assert set(named) <= there, f"{threat.strip()}: {set(named) - there}"
