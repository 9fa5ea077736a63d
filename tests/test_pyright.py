"""What an editor shows: pyright accepts the code of the documents, the examples, and what mypy must accept.

It is basedpyright, in the mode of pyright, because that comes with its node and needs no network when it runs.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import judges
from tests.documents import blocks

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("README.md"))]
SETTINGS = {
    "typeCheckingMode": "standard",
    "reportUnusedExpression": False,  # pages show what an expression gives
    "extraPaths": [str(ROOT / "src"), "examples/plugin/src", str(judges.folder_of("langgraph"))],
}


def test_pyright_accepts_the_documents_and_the_examples(tmp_path):
    for page in PAGES:
        _write_page(page, tmp_path / str(page.relative_to(ROOT).with_suffix("")).replace("/", "_").replace("-", "_"))
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    shutil.copy(ROOT / "tests" / "typing" / "good.py", tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(SETTINGS))
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "--outputjson",
        "--pythonpath",
        sys.executable,
        "-p",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    report = json.loads(done.stdout)
    wrong = [
        f"{Path(one['file']).relative_to(tmp_path)}:{one['range']['start']['line'] + 1}: {one['message']}"
        for one in report["generalDiagnostics"]
        if one["severity"] == "error" and (judges.is_here("langgraph") or '"langgraph' not in one["message"])
    ]
    assert not wrong, "\n".join(wrong)
    assert report["summary"]["filesAnalyzed"] > 30


def _write_page(page, folder):
    """Blocks without a name go on with each other, as a reader takes them."""
    found = [(name, text) for language, name, text in blocks(page.read_text(encoding="utf-8")) if language == "python"]
    loose = "\n\n".join(text for name, text in found if not name)
    for name, text in [*((name, text) for name, text in found if name), *([("page.py", loose)] if loose else [])]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
