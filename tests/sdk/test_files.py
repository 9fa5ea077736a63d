"""Workflows in Python files through the command line, and what their functions are called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from perdure import functions
from perdure.sdk.loader import LoadError, is_python, load
from tests.forking import commands

pytestmark = pytest.mark.slow

FLOWS = """
import perdure

@perdure.task
def fetch(city: str) -> dict:
    return {"city": city, "module": __name__}

@perdure.task(isolation="process")
def apart(found: dict, loud: bool = False) -> str:
    return f"{found['city']} {__name__}{'!' if loud else ''}"

@perdure.workflow
def inner(city: str):
    return fetch(city)

@perdure.workflow
def outer(city: str, loud: bool = False):
    \"\"\"Greet a city.\"\"\"
    return {"apart": apart(inner(city), loud), "module": inner(city)["module"]}

if __name__ == "__main__":
    import sys
    print(perdure.run(outer, city="Oslo", run_id="r", db=sys.argv[1]).outputs)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "flows.py").write_text(FLOWS)
    return tmp_path


def shell(
    folder: Path, *arguments: str, code: int = 0, program: str | Path = sys.executable
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [program, *arguments],
        cwd=folder,
        env={**os.environ, "PERDURE_DATABASE_URL": f"sqlite:////{str(folder).lstrip('/')}/perdure.db"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def perdure(folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    # As the installed command: `python -m perdure` would put the folder first on the path, before the standard library.
    return shell(folder, *arguments, code=code, program=f"{commands()}/perdure")


def test_a_workflow_of_a_file_runs_with_its_children_and_isolated_tasks(folder):
    done = perdure(folder, "run", "flows.py:outer", "-i", "city=Oslo", "-i", "loud=true", "--json")
    assert json.loads(done.stdout)["outputs"] == {"apart": "Oslo flows!", "module": "flows"}


def test_a_script_and_the_command_line_name_the_same_run(folder):
    assert shell(folder, "flows.py", "perdure.db").stdout == "{'apart': 'Oslo flows', 'module': '__main__'}\n"
    again = perdure(folder, "run", "flows.py:outer", "--run-id", "r")
    assert json.loads(again.stdout) == {"apart": "Oslo flows", "module": "__main__"}


def test_a_file_is_checked_and_drawn_without_running_anything(folder):
    assert "flows.py:outer is valid: outer, 3 nodes" in perdure(folder, "validate", "flows.py:outer").stdout
    assert "apart" in perdure(folder, "graph", "flows.py:outer").stdout
    assert not (folder / "perdure.db").exists()


def test_a_single_task_can_be_run(folder):
    done = perdure(folder, "run", "flows.py:fetch", "-i", "city=Oslo", "--json")
    assert json.loads(done.stdout)["outputs"] == {"result": {"city": "Oslo", "module": "flows"}}


def test_what_cannot_become_a_graph_is_a_problem_with_its_line(folder):
    (folder / "bad.py").write_text(
        "import perdure\nfrom flows import fetch\n\n@perdure.workflow\ndef bad(x: str):\n    return len(fetch(x))\n"
    )
    told = json.loads(perdure(folder, "validate", "bad.py", "--json", code=2).stdout)
    [problem] = told["problems"]
    assert (told["valid"], problem["line"], problem["code"]) == (False, 6, "build_error")
    assert "has no length" in problem["message"]
    assert "bad.py:6" in perdure(folder, "run", "bad.py", "-i", "x=1", code=2).stderr


def test_a_script_that_runs_when_imported_is_told_to_guard_it(folder):
    (folder / "eager.py").write_text(FLOWS.partition("if __name__")[0] + "\nperdure.run(outer, city='x')\n")
    told = perdure(folder, "run", "eager.py:outer", "-i", "city=Oslo", code=2).stderr
    assert "cannot import eager.py, line 22" in told
    assert "if __name__ == '__main__':" in told


def test_a_file_in_a_package_may_import_from_it(folder):
    package = folder / "shop" / "flows"
    package.mkdir(parents=True)
    (folder / "shop" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "tasks.py").write_text(
        "import perdure\n\n@perdure.task(isolation='process')\ndef one() -> str:\n    return __name__\n"
    )
    (package / "main.py").write_text(
        "import perdure\nfrom .tasks import one\n\n@perdure.task\ndef two() -> str:\n    return __name__\n\n"
        "@perdure.workflow\ndef both():\n    return [one(), two()]\n"
    )
    done = perdure(folder, "run", "shop/flows/main.py", "--json")
    assert json.loads(done.stdout)["outputs"] == {"result": ["shop.flows.tasks", "shop.flows.main"]}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("none.py", "x = 1", "none.py has no workflow; decorate"),
        ("wrong.py", "import perdure\nimport nowhere_at_all", "cannot import wrong.py, line 2: ModuleNotFoundError"),
        ("syntax.py", "def", "cannot import syntax.py, line 1: SyntaxError"),
        ("json.py", "x = 1", "a module named json is loaded already; rename the file"),
        ("two.dots.py", "x = 1", "rename the file"),
        ("flows.py", FLOWS, "flows.py has 2 workflows: inner, outer; name one, such as flows.py:inner"),
        ("flows.py:oter", FLOWS, "flows.py has no workflow or task oter; did you mean 'outer'?"),
        ("missing.py", None, "there is no file missing.py"),
    ],
)
def test_a_file_that_gives_no_workflow_says_why(tmp_path, name, text, words):
    if text is not None:
        (tmp_path / name.partition(":")[0]).write_text(text)
    assert words in perdure(tmp_path, "run", name, code=2).stderr.replace("\n", " ")


def test_a_workflow_may_be_named_by_its_module(folder):
    (folder / "shop").mkdir()
    (folder / "shop" / "__init__.py").write_text("")
    (folder / "shop" / "flows.py").write_text(FLOWS)
    done = perdure(folder, "run", "shop.flows:outer", "-i", "city=Oslo")
    assert json.loads(done.stdout)["module"] == "shop.flows"
    assert "shop.flows:outer is valid" in perdure(folder, "validate", "shop.flows:outer").stdout
    assert (
        "has no workflow or task otter; did you mean 'outer'?"
        in perdure(folder, "run", "shop.flows:otter", code=2).stderr
    )
    assert "there is no module shop.flow: " in perdure(folder, "run", "shop.flow:outer", code=2).stderr


@pytest.mark.parametrize(
    ("file", "python"),
    [("a.py", True), ("a/b.py:c", True), ("C:\\a.py:b", True), ("a.yaml", False), ("a.python", False), ("-", False)],
)
def test_a_python_file_is_known_by_its_name(file, python):
    assert is_python(file) is python


def test_loading_gives_what_the_command_line_shows(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", list(sys.path))
    file = tmp_path / "loaded_by_a_test.py"
    file.write_text(FLOWS.partition("if __name__")[0])
    try:
        loaded = load(f"{file}:outer")
        assert loaded.compiled.ir is not None
        assert [child.ir and child.ir.name for child in loaded.children] == ["inner"]
        assert loaded.compiled.definition is not None
        assert "loaded_by_a_test:apart" in json.dumps(loaded.compiled.definition)
    finally:
        sys.modules.pop("loaded_by_a_test", None)
    with pytest.raises(LoadError, match="is no Python file"):
        load("a.yaml")


# -- names -------------------------------------------------------------------------------------------------------------


def make(n: Any) -> Any:
    def inner() -> Any:
        return n

    return inner


def test_functions_of_one_name_are_told_apart_by_their_module():
    def one() -> int:
        return 1

    def two() -> int:
        return 2

    two.__name__ = "one"
    two.__module__ = "tests.sdk.elsewhere"
    for function in (one, two):
        functions.define(function, function)
    with pytest.raises(
        functions.FunctionNotFound, match=r"has several meanings \(tests.sdk.elsewhere:.*name it as 'module:name'"
    ):
        functions.resolve("one")
    assert functions.resolve(functions._origin(two)) is two


def test_a_name_that_was_given_belongs_to_one_function():
    functions.define(make(1), make(1), "tests.sdk.given")
    with pytest.raises(ValueError, match="is taken by"):
        functions.define(test_functions_of_one_name_are_told_apart_by_their_module, print, "tests.sdk.given")


def test_functions_made_by_functions_are_one_function_only_if_they_do_the_same():
    first, same, other = make(1), make(1), make(2)
    reference = functions.define(first, first)
    assert functions.define(same, same) == reference
    different = functions.define(other, other)
    assert different == f"{reference}#2"
    assert (functions.resolve(reference)(), functions.resolve(different)()) == (1, 2)
    with pytest.raises(functions.FunctionNotFound, match="inside another function"):
        functions.resolve("tests.sdk.test_files:make.<locals>.nothing")


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (["flow.py"], "flow:task"),
        (["-m", "flow"], "flow:task"),
        (["-m", "pack.flow"], "pack.flow:task"),
        (["pack/flow.py"], "pack.flow:task"),
        (["my-flow.py"], "my-flow:task"),
        (["a.b.py"], "__main__:task"),
        (["json.py"], "json:task"),
        (["-c", "exec(open('flow.py').read())"], "__main__:task"),
    ],
)
def test_a_script_is_known_by_the_name_under_which_others_import_it(tmp_path, how, expected):
    text = textwrap.dedent(
        """
        import perdure

        @perdure.task
        def task() -> int:
            return 1

        print(task.about.reference)
        """
    )
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").touch()
    for name in ("flow.py", "pack/flow.py", "my-flow.py", "a.b.py", "json.py"):
        (tmp_path / name).write_text(text)
    if how == ["json.py"]:
        (tmp_path / "json.py").unlink()
        (tmp_path / "json.py").write_text("import sys; sys.path.pop(0)\nimport json\n" + text)
        expected = "__main__:task"
    else:
        (tmp_path / "json.py").unlink()
    assert shell(tmp_path, *how).stdout.strip() == expected
