"""Which edges may carry a stream (rule 71); every mistake is in `tests/model/test_streams.py`."""

from tests.model.helpers import codes, node, workflow


def test_rule_71_only_tasks_have_ports():
    flow = [{"from": "a.out", "to": "b.in"}]
    assert "no_such_port" in codes(workflow({"id": "a", "type": "human"}, node("b"), edges=flow))
