"""The index has every example, and every example explains itself."""

import re

import pytest

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
