"""The page of security names every class and finding, and only tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "internals" / "security.md").read_text(encoding="utf-8")
ROWS = {
    found[1]: found[0] for found in re.finditer(r'^\| <a id="[xs]\d\d"></a>([XS]\d\d) \|.*$', PAGE, flags=re.MULTILINE)
}
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))


@cache
def functions(path: Path) -> dict[str, list[str]]:
    """The tests of a file, each with the findings it closes."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            calls = [one for one in node.decorator_list if isinstance(one, ast.Call)]
            marks = [ast.literal_eval(one.args[0]) for one in calls if ast.unparse(one.func) == "attack"]
            found[node.name] = marks
    return found


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_the_page_names_exists(file, name):
    assert name in functions(TESTS / file)


def test_every_class_and_every_finding_has_a_row():
    assert list(ROWS) == [f"X{n:02}" for n in range(1, 39)] + [f"S{n:02}" for n in range(1, 31)]


def test_what_has_no_test_is_called_open():
    assert [name for name, row in ROWS.items() if "::" not in row and "**open**" not in row] == []


def test_every_attack_has_a_number_that_is_on_the_page_and_every_finding_an_attack():
    numbers = set()
    for path in TESTS.rglob("test_*.py"):
        if "@attack(" in path.read_text(encoding="utf-8"):
            for marks in functions(path).values():
                numbers.update(marks)
    assert numbers <= ROWS.keys()
    assert {name for name in ROWS if name.startswith("S")} - numbers == set()


def test_every_attack_is_named_on_the_page():
    """Both ways: what a row names exists, and what closes a class is named, so that whoever reads the row finds all of it."""
    unnamed = [
        f"{path.relative_to(TESTS)}::{name}"
        for path in TESTS.rglob("test_*.py")
        if "@attack(" in path.read_text(encoding="utf-8")
        for name, marks in functions(path).items()
        if marks and f"`{path.relative_to(TESTS)}::{name}`" not in PAGE
    ]
    assert unnamed == []
