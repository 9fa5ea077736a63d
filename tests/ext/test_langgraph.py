"""LangGraph's checkpoints on Perdure, judged by LangGraph's own conformance kit, where it is: `make tools` fetches it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from scripts import judges
from tests.documents import blocks
from tests.ext.killed import run_until_it_ends

pytestmark = pytest.mark.slow


def need(judge: str) -> None:
    """Leave the test where the judge could not be fetched."""
    if not judges.is_here(judge):
        reason = f"{judge} is not here; `make tools` fetches it and says what went wrong"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


def judged(judge: str, *words: str) -> str:
    """What pytest says of cases that need a judge, in a process that has it."""
    need(judge)
    # their warnings are not ours
    options = ["-q", "-rA", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "filterwarnings=", "-W", "ignore"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *words],
        cwd=judges.ROOT,
        env=judges.environment(judge),
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_langgraph_finds_nothing_wrong_and_graphs_go_on():
    said = judged("langgraph", "tests/ext/judged/langgraph_cases.py")
    assert "7 passed" in said, said


def test_a_process_that_is_killed_in_a_node_goes_on_and_people_are_asked(tmp_path):
    need("langgraph")
    said, did = run_until_it_ends(tmp_path, "langgraph", judges.environment("langgraph"))
    assert said == "completed {'result': 'approve'}"
    assert did == ["first", "deadly", "deadly"]  # the node in which it died ran again, the one before did not


def test_the_program_of_the_guide_does_what_the_guide_says(tmp_path):
    need("langgraph")
    guide = (judges.ROOT / "docs/guides/bring-your-own-agent.md").read_text(encoding="utf-8")
    [program] = [text for _, name, text in blocks(guide) if name == "research.py"]
    (tmp_path / "research.py").write_text(program)

    def call(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=judges.environment("langgraph"),
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    assert call("research.py") == "running None"
    call("-m", "perdure", "approvals", "approve", "r1", "--by", "ann")
    assert call("research.py") == "completed {'result': 'what is known of rivers'}"
