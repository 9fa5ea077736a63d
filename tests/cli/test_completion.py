"""TAB: commands, flags, files, and ids from the database, through click's completion protocol."""

import os
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import get_completion_class

from perdure.cli.app import HELPS, app
from tests.cli.helpers import human, task, workflow


def complete(*words):
    """What TAB offers after these words; the last one is being written."""
    *args, incomplete = words
    return get_completion_class("bash")(app, {}, "perdure", "_PERDURE_COMPLETE").get_completions(list(args), incomplete)


def values(*words):
    return [item.value for item in complete(*words)]


@pytest.fixture
def runs(shell, tmp_path):
    file = workflow(tmp_path, "refund", human("review", approvers=["x"]), task("pay", "echo", "review"))
    for name in ("alpha-1", "alpha-2", "beta-1"):
        shell.run("run", file, "--run-id", name, "--no-wait", code=3)
    return file


def test_commands_complete_with_what_they_do(shell):
    assert values("") == list(HELPS)
    assert [(item.value, item.help) for item in complete("val")] == [("validate", HELPS["validate"])]
    assert "list" in values("runs", "")
    assert values("runs", "li") == ["list"]


def test_flags_and_choices_complete(shell):
    assert "--no-wait" in values("run", "--no")
    assert values("runs", "list", "--state", "comp") == ["compensating", "completed"]
    assert values("graph", "--format", "") == ["mermaid", "dot", "svg"]
    assert values("completion", "") == ["bash", "fish", "zsh"]


@pytest.mark.slow
def test_run_ids_complete_newest_first_with_what_they_are(shell, runs):
    assert values("runs", "show", "") == ["beta-1", "alpha-2", "alpha-1"]
    assert values("runs", "cancel", "al") == ["alpha-2", "alpha-1"]
    assert values("graph", "--run", "be") == ["beta-1"]
    assert values("run", "--run-id", "be") == ["beta-1"]
    assert complete("runs", "show", "beta")[0].help.startswith("refund, running, ")


@pytest.mark.slow
def test_nodes_of_the_run_named_before_complete(shell, runs):
    assert values("runs", "explain", "alpha-1", "--node", "") == ["review", "pay"]
    assert values("runs", "explain", "alpha-1", "") == ["review", "pay"]
    assert values("runs", "show", "alpha-1", "--node", "p") == ["pay"]
    assert values("dlq", "requeue", "--run-id", "alpha-1", "--node-id", "") == ["review", "pay"]
    assert values("runs", "show", "no-such-run", "--node", "") == []


@pytest.mark.slow
def test_approvals_workflows_and_dead_letters_complete(shell, runs, tmp_path):
    assert values("approvals", "approve", "alpha-1") == ["alpha-1:review:1"]
    assert values("runs", "list", "--workflow", "") == ["refund"]
    assert values("dlq", "discard", "") == []
    parked = workflow(tmp_path, "parked", task("a", "boom", on_failure="park", retry={"max_attempts": 1}))
    shell.run("run", parked, "--run-id", "p", "--no-wait", code=3)
    assert values("dlq", "reprocess", "") == ["p:a"]


def test_node_types_complete(shell):
    assert values("node-types", "hu") == ["human"]


def test_another_database_is_asked_when_it_is_named(shell, tmp_path):
    file = workflow(tmp_path, "one", {"id": "a", "type": "input"})
    shell.run("run", file, "--run-id", "elsewhere", "--db", "other.db")
    assert values("runs", "show", "--db", "other.db", "") == ["elsewhere"]


def test_files_complete_where_files_are_taken(shell):
    for words in (["run", "or"], ["validate", "or"], ["run", "x.yaml", "--inputs", "or"], ["graph", "x", "-o", "or"]):
        (item,) = complete(*words)
        assert (item.type, item.value) == ("file", "or")


@pytest.mark.parametrize("trouble", ["nothing", "no database", "perdure.toml"])
def test_nothing_is_offered_and_nothing_said_when_something_is_wrong(shell, tmp_path, capfd, trouble):
    if trouble == "no database":
        (tmp_path / ".perdure").mkdir()
        (tmp_path / ".perdure" / "perdure.db").write_text("this is no database, but long enough to look like one" * 100)
    if trouble == "perdure.toml":
        (tmp_path / "perdure.toml").write_text("nonsense = 3")
    assert values("runs", "show", "") == []
    assert capfd.readouterr() == ("", "")


def test_completing_names_of_commands_imports_no_command():
    code = (
        "import sys\nfrom click.shell_completion import get_completion_class\nfrom perdure.cli.app import app\n"
        "found = get_completion_class('bash')(app, {}, 'perdure', '_PERDURE_COMPLETE').get_completions([], 'r')\n"
        "assert [item.value for item in found] == ['run', 'runs'], found\n"
        "sys.exit(', '.join(name for name in sys.modules if name in ('msgspec', 'perdure.cli.run', 'perdure.engine')) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# -- the scripts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_asks_perdure(shell, shell_name):
    script = shell.run("completion", shell_name).stdout
    assert f"_PERDURE_COMPLETE={shell_name}_complete" in script
    assert shell.json("completion", shell_name)["script"].strip() == script.strip()
    program = shutil.which(shell_name)
    if program is not None:  # it is well-formed, too
        subprocess.run([program, "-n"], input=script, text=True, check=True)


def test_an_unknown_shell_is_refused_with_those_there_are(shell):
    assert "bash" in shell.error("completion", "tcsh", code=2)


@pytest.mark.slow
def test_bash_completes_with_the_script(shell, runs, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "perdure").write_text(f'#!/bin/sh\nexec {sys.executable} -m perdure "$@"\n')
    (folder / "perdure").chmod(0o755)
    script = """
    eval "$(perdure completion bash)"
    COMP_WORDS=(perdure runs show alp); COMP_CWORD=3
    _perdure_completion perdure
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    path = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.run(["bash", "-c", script], env=path, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["alpha-2", "alpha-1"]
