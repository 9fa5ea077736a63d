"""Documents are true where a machine can tell: links lead somewhere, commands exist."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


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
