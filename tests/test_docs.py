"""Documents are true where a machine can tell: links lead somewhere, commands exist."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import blocks, execute, matches

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*/README.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    links = re.findall(r"\]\(([^)#\s]+)", document.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_commands_shown_exist(name):
    targets = set(re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = set(re.findall(r"(?:^|`|&& )make ([a-z]+)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))
    assert shown
    assert shown - targets == set()


def test_every_decision_is_in_the_list():
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in folder.glob("0*.md") if path.name not in listed] == []


def test_the_example_of_the_readme_is_the_one_in_the_folder_and_runs(tmp_path):
    example = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[0]
    file = ROOT / "examples" / "briefing" / "briefing.yaml"
    assert example == file.read_text(encoding="utf-8")
    assert example.count("\n") <= 20
    database = f"sqlite:///{tmp_path / 'weft.db'}"
    command = [sys.executable, "-m", "weft", "run", str(file), "-i", "city=Oslo", "--db", database, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout)["outputs"] == {"text": "Oslo: 21 °C, quiet day in oslo"}


EXECUTED = [
    path for path in DOCUMENTS if any(block[0] == "console" for block in blocks(path.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("document", EXECUTED, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_shows_is_what_happens(document, tmp_path):
    assert execute(document, tmp_path) > 0


@pytest.mark.parametrize(
    ("expected", "printed", "equal"),
    [
        (["a"], ["a"], True),
        (["a"], ["b"], False),
        (["a", "b"], ["a"], False),
        (["a"], ["a", "b"], False),
        (["…", "z"], ["a", "b", "z"], True),
        (["…", "z"], ["a", "b"], False),
        (["a … z"], ["a lot of z"], True),
        (["09:24:51  news  completed  0.1 s"], ["11:00:00   news    completed   12 ms"], True),
        (["run 01a1de8616257634bf2fadd026b2cac8"], ["run 11a1de8616257634bf2fadd026b2cac9"], True),
    ],
)
def test_a_document_is_compared_line_by_line(expected, printed, equal):
    assert matches(expected, printed) is equal
