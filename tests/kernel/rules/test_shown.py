"""What is shown beside the journal (rule 74), and which edges may carry a stream (rule 71)."""

from perdure.kernel import snapshot
from perdure.kernel.readings.run_view import run_view
from perdure.kernel.readings.seen import Seen, Working
from perdure.model import compile_definition
from tests.kernel.rules.graphs import node, start


def test_rule_74_progress_is_shown_over_the_journal_and_changes_nothing():
    run = start(node("a"))
    before = snapshot.encode(run.state)
    [key] = run.state.activations
    told = run_view(run.state, seen=Seen({key: Working("w1", 1.0, progress='{"done":1}')}))["nodes"]["a"]
    assert (told["state"], told["progress"]) == ("running", {"done": 1})
    assert "progress" not in run_view(run.state)["nodes"]["a"]
    assert snapshot.encode(run.state) == before


def test_rule_71_an_edge_with_ports_leads_from_a_task_to_a_task():
    nodes = [node("a"), {"id": "b", "type": "wait", "config": {"seconds": 1}}]
    found = compile_definition({"name": "w", "nodes": nodes, "edges": [{"from": "a.out", "to": "b.words"}]})
    assert "no_such_port" in {problem.code for problem in found.problems}
