"""The index has every example, and every example explains itself."""

import re
from pathlib import Path

import pytest

import perdure
from tests.documents import blocks
from tests.examples.helpers import EXAMPLES

NAMES = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__")
OTHERS = {"worker-any-language"}
"""What has no README: its page is docs/reference/worker-protocol.md."""


def test_the_index_lists_every_example_and_nothing_else():
    rows = re.findall(r"^\| \[([\w-]+)\]", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == NAMES
    assert len(rows) == len(set(rows))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OTHERS])
def test_an_example_has_a_readme_whose_commands_are_executed(name):
    text = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert [language for language, file, _ in blocks(text) if language == "console"]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs_no_text_as_code_and_hands_out_no_access(name):
    """Examples of others were CVEs: they were there by default, took what they were given for code, or had a password in them."""
    for file in sorted((EXAMPLES / name).rglob("*")):
        if file.suffix in (".py", ".yaml", ".yml", ".json", ".toml", ".env", ".sh") and file.is_file():
            text = file.read_text(encoding="utf-8")
            assert not re.search(r"\b(?:eval|exec|os\.system)\(|shell=True|pickle\.loads|yaml\.load\(", text), file
            assert not re.search(r"0\.0\.0\.0|PERDURE_AUTH=none|verify=False", text), file


def test_no_example_is_in_the_package():
    package = Path(perdure.__file__).parent
    assert EXAMPLES not in package.parents
    assert not [path for path in package.rglob("*") if "example" in path.name and path.is_dir()]
