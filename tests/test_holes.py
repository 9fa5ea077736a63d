"""The page of holes names tests and planted bugs that exist, and leaves no hole out."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def rows():
    text = (ROOT / "docs" / "internals" / "holes.md").read_text(encoding="utf-8")
    return [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in re.findall(r"^\| H.*$", text, re.MULTILINE)
    ]


def test_every_hole_has_its_row():
    assert [row[0] for row in rows()] == [f"H{number}" for number in range(1, 32)]


def test_what_is_closed_has_a_test_and_tests_and_bugs_exist():
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    for hole, _, now, _, test, bug in rows():
        assert test != "–" or now.startswith("not built"), hole
        assert test == "–" or f"def {test.strip('`')}(" in source, hole
        assert bug == "–" or f'"{bug}"' in source, hole
