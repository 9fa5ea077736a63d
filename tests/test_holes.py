"""The page of holes names tests and planted bugs that exist, and leaves no hole out."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
TRIGGERS = range(1, 31)
"""The holes of triggers and streams."""


def tables():
    """The rows of the tables of the page, by what begins them."""
    text = (ROOT / "docs" / "internals" / "holes.md").read_text(encoding="utf-8")
    found: dict[str, list[list[str]]] = {"G": [], "H": [], "P": []}
    for kind, line in re.findall(r"^(\| ([GHP])\d.*)$", text, re.MULTILINE):
        found[line].append([cell.strip() for cell in kind.strip("| ").split(" | ")])
    return found


def sources():
    return "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))


def names(cell):
    """What a cell names: functions in backticks, or the words of a bug."""
    return re.findall(r"`(\w+)`", cell)


def test_every_hole_has_its_row():
    found = tables()
    assert [row[0] for row in found["H"]] == [f"H{number}" for number in range(1, 32)]
    assert [row[0] for row in found["G"]] == [f"G{number}" for number in TRIGGERS]
    assert [row[0] for row in found["P"]] == [f"P{number}" for number in range(1, 35)]


def test_what_is_closed_has_a_test_and_tests_and_bugs_exist():
    source, found = sources(), tables()
    for hole, _, now, _, test, bug in found["H"] + found["G"]:
        assert test != "–" or now.startswith("not built"), hole
        assert [one for one in names(test) if f"def {one}(" not in source] == [], hole
        assert test == "–" or names(test), hole
        assert [one for one in names(bug) if f"def {one}(" not in source] == [], hole
        assert bug == "–" or names(bug) or f'"{bug}"' in source, hole


def test_every_bug_that_the_design_names_is_planted():
    """A bug that no test calls is planted nowhere: its name stands where it is defined, and where it is used."""
    source = sources()
    for number, _, planted, _ in tables()["P"]:
        assert names(planted), number
        for one in names(planted):
            assert 0 < source.count(f"def {one}(") < source.count(one), number
