"""The lock installs the same thing everywhere, and says nothing about the machine that made it."""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = (ROOT / "requirements" / "dev.lock").read_text()
ENTRY = re.compile(r"^([a-z0-9][a-z0-9-]*)==\S+.*?(?=^[a-z0-9]|\Z)", re.MULTILINE | re.DOTALL)


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\s<>=!~;\[]", requirement)[0].lower() for requirement in requirements}


def test_the_lock_holds_every_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = names(project["project"]["dependencies"]) | names(project["dependency-groups"]["dev"])
    assert wanted - {match[1] for match in ENTRY.finditer(LOCK)} == set()


def test_every_entry_has_hashes():
    entries = list(ENTRY.finditer(LOCK))
    assert entries
    assert [match[1] for match in entries if "--hash=sha256:" not in match[0]] == []


def test_the_lock_names_no_host_and_no_path():
    lines = [line for line in LOCK.splitlines() if re.search(r"//|@|^-|file:|index|find-links|\s/\w", line)]
    assert lines == []


def test_setup_installs_wheels_by_their_hashes_and_runs_nothing_of_theirs():
    setup = (ROOT / "scripts" / "setup.py").read_text(encoding="utf-8")
    calls = [
        [word.value for word in call.args if isinstance(word, ast.Constant)]
        for call in ast.walk(ast.parse(setup))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pip"
    ]
    locked, *rest = calls
    assert {"--require-hashes", "--only-binary=:all:", "-r"} <= set(locked)
    assert all({"--no-deps", "--no-build-isolation"} <= set(one) for one in rest), rest
