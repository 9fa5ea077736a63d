"""Where a failure is shown, so is the line of the user's code that it came from."""

import re

import pytest

from tests.cli.helpers import task, workflow
from tests.cli.work import dig

LINE = dig.__code__.co_firstlineno + 5
PLACE = f"work.py:{LINE}"
FRAME = f'work.py", line {LINE}, in dig'


@pytest.fixture
def failed(shell, tmp_path):
    file = workflow(tmp_path, "bad", task("a", "dig", retry={"max_attempts": 1}), task("b", "echo", "a"))
    return shell.error("run", file, "--run-id", "r1", code=1)


def test_a_failed_run_shows_the_lines_of_the_function_and_none_of_perdure(failed):
    assert f"error: KeyError: 'missing' ({PLACE})" in failed  # in the line of the node, and in that of the run
    assert FRAME in failed
    assert 'return found["missing"]' in failed
    assert "src/perdure/" not in failed


@pytest.mark.slow
def test_show_explain_and_the_node_have_them_too(shell, failed):
    for command in (("show", "r1"), ("show", "r1", "--node", "a"), ("explain", "r1"), ("explain", "r1", "a")):
        text = shell.run("runs", *command).stdout
        assert FRAME in text, command
    assert re.search(rf"a +failed +\d .*KeyError: 'missing' \({PLACE}\)", shell.run("runs", "show", "r1").stdout)


@pytest.mark.slow
def test_a_child_and_an_item_of_a_map_pass_theirs_on(shell, tmp_path):
    child = workflow(tmp_path, "child", task("inner", "dig", retry={"max_attempts": 1}))
    shell.run("run", child, code=1)
    parent = workflow(tmp_path, "parent", {"id": "sub", "type": "workflow", "config": {"workflow": "child"}})
    assert FRAME in shell.error("run", parent, code=1)
    node = {"type": "task", "config": {"function": "tests.cli.work:dig", "args": {"depth": "{{ item }}"}}}
    node["retry"] = {"max_attempts": 1}
    each = workflow(tmp_path, "each", {"id": "all", "type": "map", "config": {"over": [1, 2], "node": node}})
    text = shell.error("run", each, code=1)
    assert re.search(r"items_failed: 1 of 2 items failed; 0 are tolerated; #[01]: KeyError: 'missing'", text)
    assert FRAME in text


def test_a_secret_in_the_line_that_failed_stays_masked(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("PERDURE_SECRET_TOKEN", "echo-of-a-secret")
    (tmp_path / "leak.py").write_text(
        "def call(token):\n    raise ValueError(token) if token else 'echo-of-a-secret'\n"
    )
    config = {"function": "leak:call", "args": {"token": "{{ secrets.TOKEN }}"}}
    file = workflow(tmp_path, "leaky", {"id": "a", "type": "task", "config": config, "retry": {"max_attempts": 1}})
    text = shell.error("run", file, "--run-id", "r1", code=1) + shell.run("runs", "show", "r1", "--node", "a").stdout
    assert 'leak.py", line 2, in call' in text
    assert "echo-of-a-secret" not in text


def test_a_module_that_cannot_be_imported_shows_its_line(shell, tmp_path):
    (tmp_path / "half_written.py").write_text("import math\n\nRATE = math.unknown\n")
    file = workflow(tmp_path, "half", {"id": "a", "type": "task", "config": {"function": "half_written:go"}})
    assert 'half_written.py", line 3, in <module>' in shell.error("run", file, code=1)


def test_a_program_sees_them_below_the_error_it_catches(tmp_path):
    import perdure

    @perdure.task(retry=perdure.Retry(max_attempts=1))
    def compute() -> int:
        return dig()["more"]

    @perdure.workflow
    def flow() -> int:
        return compute()

    run = perdure.run(flow, db=":memory:")
    with pytest.raises(perdure.RunFailed) as caught:
        run.result()
    assert any(FRAME in note for note in caught.value.__notes__)


@pytest.mark.slow
def test_a_missing_secret_and_a_refused_host_are_named_with_the_line_to_type(shell, tmp_path):
    once = {"retry": {"max_attempts": 1}}
    args = {"value": "{{ secrets.SHOP_TOKEN }}"}
    text = shell.error("run", workflow(tmp_path, "secret", task("a", "echo", args=args, **once)), code=1)
    assert "export PERDURE_SECRET_SHOP_TOKEN=" in text
    call = {"id": "a", "type": "http", "config": {"url": "http://localhost:8000/x"}, **once}
    text = shell.error("run", workflow(tmp_path, "call", call), code=1)
    assert "export PERDURE_EGRESS_ALLOW='localhost:8000'" in text
