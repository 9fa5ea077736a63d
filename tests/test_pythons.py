"""Every place that says which Pythons are good says the same."""

import re
import sys
import tomllib
from pathlib import Path

from scripts import setup

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSIONS = ["3.11", "3.12", "3.13", "3.14"]
LISTED = "3.11, 3.12, 3.13 or 3.14"


def minor(version: str) -> tuple[int, int]:
    return 3, int(version.removeprefix("3."))


def test_the_package_names_them():
    assert PROJECT["requires-python"] == ">=3.11,<3.15"
    prefix = "Programming Language :: Python :: "
    assert [one.removeprefix(prefix) for one in PROJECT["classifiers"] if one.startswith(prefix)] == VERSIONS


def test_setup_takes_these_and_no_other(monkeypatch):
    taken = []
    for number in range(16):
        monkeypatch.setattr(sys, "version_info", (3, number, 0, "final", 0))
        if setup.usable():
            taken.append((3, number))
    assert taken == [minor(version) for version in VERSIONS]


def test_make_tries_each_of_them_and_says_so_when_none_is_there():
    makefile = (ROOT / "Makefile").read_text()
    tried = re.search(r'\$\(if \$\(PYTHON\),"\$\(PYTHON\)",([^)]*)\)', makefile)
    assert tried
    assert tried[1].split() == ["python3", *(f"python{version}" for version in reversed(VERSIONS)), "python"]
    assert f"need {LISTED} with" in makefile
    assert f"Needs Python {VERSIONS[0]} to {VERSIONS[-1]} with" in makefile


def test_the_documents_name_them():
    assert f"You need Python {LISTED} with pip" in (ROOT / "README.md").read_text()
    said = (ROOT / "CONTRIBUTING.md").read_text()
    assert [version for version in VERSIONS if f"| {version}" not in said] == []
