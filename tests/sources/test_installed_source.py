"""A source of your own, as the guide has it, in a package that is built and installed: it is polled without being imported by name."""

import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
import yaml

from tests.api.test_hook_processes import launch
from tests.documents import blocks
from tests.engine.helpers import DEADLINE
from tests.forking import run
from tests.ports import free_port
from tests.processes import python_path
from tests.waiting import until_true

pytestmark = pytest.mark.slow

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "sources.md"
PROJECT = """
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "parcels"
version = "1.0"

[tool.hatch.build.targets.wheel]
include = ["parcels.py"]
"""
DEFINITION = {
    "name": "take",
    "nodes": [{"id": "a", "type": "transform", "config": {"value": "{{ inputs.parcel }}"}}],
    "triggers": [
        {
            "name": "mine",
            "poll": {"type": "parcels", "config": {"depot": "oslo"}, "every": "1s", "from": "start"},
            "inputs": {"parcel": "{{ item.data.parcel }}"},
        }
    ],
}


@pytest.fixture
def site(tmp_path):
    """The folder into which it was installed, with no network."""
    source = tmp_path / "source"
    source.mkdir()
    found = blocks(GUIDE.read_text(encoding="utf-8"))
    (code,) = (text for language, _, text in found if language == "python" and "class Parcels" in text)
    (entry,) = (text for language, _, text in found if language == "toml")
    (source / "parcels.py").write_text(code)
    (source / "pyproject.toml").write_text(PROJECT + entry)
    flags = ["--quiet", "--no-index", "--no-build-isolation", "--no-deps", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *flags, "--target", str(tmp_path / "site"), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    return tmp_path / "site"


async def test_a_source_that_an_installed_package_brings_is_polled(site, tmp_path):
    port = free_port()
    process = await launch(tmp_path, port, PYTHONPATH=python_path(site))
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1", timeout=DEADLINE) as client:
            answer = await client.post("/workflows", json=DEFINITION)
            assert answer.status_code == 201, answer.text

            async def all_ended():
                found = (await client.get("/runs", params={"tag": "trigger=mine", "state": "completed"})).json()
                return len(found["items"]) == 3

            await until_true(all_ended, "each parcel has its run")
            shown = (await client.get("/triggers/mine")).json()
            assert (shown["cursor"], shown["error"]) == ("3", None)
    finally:
        process.kill()
        process.wait()


def test_what_it_has_is_shown_without_importing_it_by_name(site, tmp_path):
    (tmp_path / "take.yaml").write_text(yaml.safe_dump(DEFINITION))
    command = ["-m", "perdure", "triggers", "test", "take.yaml", "--poll", "--count", "5"]
    without = run(command, cwd=tmp_path, env={"PYTHONPATH": python_path()}, python=True)
    assert without.returncode != 0, without.stdout
    assert "no source 'parcels'" in without.stderr
    done = run(command, cwd=tmp_path, env={"PYTHONPATH": python_path(site)}, python=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("oslo/")] == ["oslo/0", "oslo/1", "oslo/2"]
