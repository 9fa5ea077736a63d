"""Two files that give different workflows one name: whoever registers the second is told both paths."""

import pytest

from tests.cli.helpers import workflow


def giving(value):
    return {"id": "a", "type": "transform", "config": {"value": value}}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    return workflow(tmp_path / "one", "child", giving(1)), workflow(tmp_path / "two", "child", giving(2))


@pytest.mark.parametrize("words", [("run",), ("workflows", "push")], ids=["run", "push"])
def test_a_name_that_another_file_takes_over_is_warned_about_with_both_paths(shell, files, words):
    first, second = files
    assert "warning" not in shell.run(*words, first).stderr
    told = shell.run(*words, second).stderr
    assert f"warning: workflow 'child' came from {first} until now, and is version 2 from {second}" in told
    assert "a start by its name gets this one; rename one of them" in told
    told = shell.run(*words, first).stderr
    assert f"warning: workflow 'child' of {first} is version 1, and version 2 came from {second}" in told
    assert "gets the latter" in told


def test_a_file_that_is_edited_takes_nothing_over(shell, tmp_path):
    for value in (1, 2, 1):
        assert "warning" not in shell.run("run", workflow(tmp_path, "child", giving(value))).stderr


def test_a_copy_of_a_file_takes_nothing_over(shell, tmp_path, files):
    shell.run("run", files[0])
    (tmp_path / "two" / "child.json").write_text((tmp_path / "one" / "child.json").read_text())
    assert "warning" not in shell.run("run", files[1]).stderr


def test_two_python_files_with_children_of_one_name_are_told_of_each_other(shell, tmp_path):
    for number in (1, 2):
        (tmp_path / f"flow{number}.py").write_text(
            f"import perdure\n\n@perdure.task\ndef give{number}() -> int:\n    return {number}\n\n"
            f"@perdure.workflow\ndef child():\n    return give{number}()\n\n"
            f"@perdure.workflow\ndef parent{number}():\n    return child()\n"
        )
    assert "warning" not in shell.run("run", "flow1.py:parent1").stderr
    told = shell.run("run", "flow2.py:parent2").stderr
    assert (
        f"workflow 'child' came from {tmp_path / 'flow1.py'} until now, and is version 2 from {tmp_path / 'flow2.py'}"
        in told
    )
