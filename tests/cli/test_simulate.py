"""`perdure simulate`: the table, what was never reached, the shortest bad history, and the exit code."""

import pytest

from tests.cli.helpers import ROOT, human, task, workflow

ORDER = ROOT / "examples" / "demo" / "order.yaml"
BRIEFING = ROOT / "examples" / "briefing" / "briefing.yaml"
STUBS = """
stock: {output: {available: 9}}
credit: {fails: 2, then: {rating: A}}
freight: {output: {cost: 5}, delay: 3}
offer: {one_of: [{output: {price: 110, agreed: true}}, {output: {price: 118, agreed: false}}]}
manager: {decision: approve, by: manager, after: 60}
charge: {one_of: [{output: {amount: 110}}, {error: card_declined, retryable: false}]}
ship: {output: {shipped: true}}
"""


@pytest.fixture
def stubs(tmp_path):
    (tmp_path / "stubs.yaml").write_text(STUBS)
    return "stubs.yaml"


@pytest.mark.slow
def test_the_order_ends_in_every_history(shell, stubs):
    text = shell.run("simulate", ORDER, "--stubs", stubs, "-i", "item=lamp", "--seeds", 40).stdout
    lines = text.splitlines()
    assert lines[0].split() == ["END", "STATE", "SEEDS", "SHARE", "EXAMPLE", "SEED", "WHY"]
    assert {line.split()[0] for line in lines[1:3]} == {"completed", "failed"}
    assert "charge: card_declined" in text
    assert "Never reached: declined." in text
    assert "order ended in every one of 40 histories, and every rule held." in text


@pytest.mark.slow
def test_where_nothing_goes_well_without_stubs_it_is_said_what_nodes_gave(shell, tmp_path):
    (tmp_path / "w.yaml").write_text(
        "name: w\nnodes:\n- {id: a, type: task, config: {function: 'm:f'}}\n"
        "- {id: b, type: transform, dependencies: [a], config: {value: '{{ a.total }}'}}\n"
    )
    assert "nodes gave {} here: `--stubs FILE`" in shell.run("simulate", "w.yaml", "--seeds", 2).stderr
    (tmp_path / "s.yaml").write_text("a: {output: {}}\n")
    assert "--stubs FILE" not in shell.run("simulate", "w.yaml", "--seeds", 2, "--stubs", "s.yaml").stderr
    (tmp_path / "s.yaml").write_text("a: {output: {total: 1}}\n")
    assert "completed" in shell.run("simulate", "w.yaml", "--seeds", 2, "--stubs", "s.yaml").stdout


@pytest.mark.slow
def test_the_briefing_as_json(shell):
    data = shell.json("simulate", BRIEFING, "--seeds", 5, "--start", 10)
    assert data.keys() == {
        *("workflow", "ok", "start", "seeds", "inputs", "ends", "never_reached", "bad"),
        *("faults", "virtual_seconds", "digest"),
    }
    assert (data["workflow"], data["ok"], data["start"], data["seeds"]) == ("briefing", True, 10, 5)
    assert data["inputs"] == {"city": "x"}
    message = data["ends"][0].pop("message")
    assert message.startswith("template ")
    assert data["ends"] == [
        {"state": "failed", "reason": "line: template_error", "seeds": 5, "share": 1.0, "example": 10}
    ]
    table = " ".join(shell.run("simulate", BRIEFING, "--seeds", 5, "--start", 10).stdout.split())
    assert f"line: template_error: {message[:20]}" in table, "the table says why, not only the code"
    data["ends"][0]["message"] = message
    assert data == shell.json("simulate", BRIEFING, "--seeds", 5, "--start", 10)


@pytest.mark.slow
def test_a_workflow_that_gets_stuck_is_shown_and_exits_with_1(shell, tmp_path):
    appeal = {"id": "appeal", "type": "wait", "config": {"signal": "appeal"}}
    file = workflow(tmp_path, "appeal", {**human("ask"), "rejection_path": ["appeal"]}, appeal, task("pay", "x", "ask"))
    (tmp_path / "stubs.json").write_text('{"appeal": {"decision": "none"}}')
    text = shell.run("simulate", file, "--stubs", "stubs.json", "--seeds", 8, code=1).stdout
    assert "stuck" in text
    assert "Shortest bad history (seed" in text
    assert "without any fault" in text
    assert "ask is decided: reject" in text
    assert "stuck: appeal waits for the signal 'appeal'." in text
    assert f"As it was: perdure simulate {file} --stubs stubs.json --seed" in text
    data = shell.json("simulate", file, "--stubs", "stubs.json", "--seeds", 8, code=1)
    assert (data["ok"], data["bad"]["kind"], data["bad"]["faults"]) == (False, "stuck", [])
    assert data["bad"]["history"]


@pytest.mark.slow
def test_one_seed_shows_its_history(shell, stubs):
    text = shell.run("simulate", ORDER, "--stubs", stubs, "--seed", 3).stdout
    assert "the run begins with" in text
    assert "credit is retrying after attempt 1: stubbed" in text
    assert "1 history, " in text


@pytest.mark.slow
def test_other_workflows_can_be_given(shell, tmp_path):
    child = workflow(tmp_path, "child", task("c", "x"))
    file = workflow(tmp_path, "parent", {"id": "sub", "type": "workflow", "config": {"workflow": "child"}})
    assert shell.json("simulate", file, "--seeds", 3)["ends"][0]["reason"] == "sub: child_failed"
    assert shell.json("simulate", file, "--seeds", 3, "--workflow", child)["ends"][0]["state"] == "completed"


def test_a_bad_definition_exits_with_2(shell, tmp_path):
    file = workflow(tmp_path, "bad", {"id": "a", "type": "input", "dependencies": ["b"]})
    assert "nothing was simulated" in shell.error("simulate", file, code=2)
    file = workflow(tmp_path, "cel", {"id": "a", "type": "input", "when": "((("})
    assert "nothing was simulated" in shell.error("simulate", file, code=2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stok: {output: 1}", "did you mean 'stock'?"),
        ("stock: {outptu: 1}", "unknown key 'outptu'; did you mean 'output'?"),
        ("stock: {available: 9}", "an output is written {output: {available: …}}"),
        ("stock: 9", "expected an object such as {output: …}"),
        ("stock: {fails: -1}", "fails is a whole number from 0"),
        ("stock: {delay: soon}", "delay is a number of seconds"),
        ("stock: {one_of: []}", "one_of is a list of stubs"),
        ("manager: {decision: maybe}", "decision is approve, reject or none"),
        ("manager: {output: 1}", "a person decides there"),
        ("[1, 2]", "expected an object of stubs by node id"),
        ("stock: [", "stubs.yaml"),
    ],
)
def test_mistakes_in_stubs_exit_with_2(shell, tmp_path, text, expected):
    (tmp_path / "stubs.yaml").write_text(text)
    assert expected in shell.error("simulate", ORDER, "--stubs", "stubs.yaml", code=2)


def test_inputs_that_do_not_fit_exit_with_2(shell):
    assert "quantity" in shell.error("simulate", ORDER, "-i", "quantity=many", code=2)


@pytest.mark.slow
def test_progress_is_for_terminals(shell):
    process = shell.start_on_terminal("simulate", BRIEFING, "--seeds", 20)
    text = process.wait()
    assert "20 of 20 histories, 0 bad" in text
    assert "histories" not in shell.run("simulate", BRIEFING, "--seeds", 2).stderr


def test_what_cannot_be_made_up_is_asked_for(shell, tmp_path):
    schema = {
        "type": "object",
        "required": ["code"],
        "properties": {"code": {"type": "string", "pattern": "^[A-Z]{3}$"}},
    }
    file = workflow(tmp_path, "strict", {"id": "a", "type": "input"}, inputs=schema)
    assert "give -i code=…" in shell.error("simulate", file, "--seeds", 2, code=2)
