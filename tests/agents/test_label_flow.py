"""Labels over the graph: what an agent is told is believed as far as what it is made of."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure.agents.label_flow import find_lethal, find_reaches, find_unbounded, flow_of
from perdure.kernel import events as e
from perdure.llms.scripted.scripted_model import ScriptedModel
from perdure.model import compile_definition
from perdure.model.labels import UNTRUSTED, Label
from perdure.nodes import builtin
from tests.engine.helpers import compiled, ended, events, finish, running, task, transform, workflow

REGISTRY = builtin()
HTTP = {"id": "page", "type": "http", "config": {"url": "https://a.example"}}
KEYED = {
    "id": "crm",
    "type": "http",
    "config": {"url": "https://crm.example", "headers": {"authorization": "{{ secrets.CRM }}"}},
}


def agent(prompt: str, *needs: str, id: str = "agent", tools: Any = (), **more: Any) -> dict[str, Any]:
    config = {"model": "scripted", "prompt": prompt, "tools": list(tools)}
    return {"id": id, "type": "agent", "config": config, "dependencies": list(needs), **more}


def reads(*nodes: dict[str, Any], of: str = "agent", **more: Any) -> str:
    return str(flow_of(compiled(workflow(*nodes)).ir, REGISTRY, **more).reads[of])


HUMAN = {"id": "ok", "type": "human", "config": {"approvers": ["ann"], "show": "{{ page }}"}, "dependencies": ["page"]}
TRIAGE = {
    "id": "triage",
    "type": "classifier",
    "config": {"input": "{{ page }}", "labels": ["a", "b"], "rules": [{"label": "a", "pattern": "x"}]},
    "dependencies": ["page"],
}


@pytest.mark.parametrize(
    ("nodes", "label"),
    [
        ([agent("Hello.")], "trusted,public"),
        ([agent("{{ inputs.x }}")], "user,public"),
        ([HTTP, agent("{{ page.body }}", "page")], "untrusted,public"),
        ([HTTP, agent("Hello.", "page")], "trusted,public"),  # it only comes after it
        ([KEYED, agent("{{ crm.body }}", "crm")], "untrusted,private"),
        ([HTTP, transform("t", "{{ page.body }}", ["page"]), agent("{{ t }}", "t")], "untrusted,public"),
        ([HTTP, task("f", "echo", ["page"]), agent("{{ f }}", "f")], "untrusted,public"),  # a function sees its inputs
        ([task("f", "echo"), agent("{{ f }}", "f")], "user,public"),
        ([{**HTTP, "labels": {"integrity": "user"}}, agent("{{ page }}", "page")], "user,public"),
        ([task("f", "echo", labels={"confidentiality": "private"}), agent("{{ f }}", "f")], "user,private"),
        ([task("f", "echo", sensitive=["x"]), agent("{{ f }}", "f")], "user,private"),
        ([HTTP, HUMAN, agent("{{ ok.comments }}", "ok")], "trusted,public"),
        ([HTTP, HUMAN, agent("{{ ok }}", "ok")], "untrusted,public"),  # what was shown comes along (H3)
        ([HTTP, TRIAGE, agent("{{ triage.label }}", "triage")], "user,public"),
        ([HTTP, TRIAGE, agent("{{ triage.reason }}", "triage")], "untrusted,public"),
        ([{"id": "c", "type": "workflow", "config": {"workflow": "x"}}, agent("{{ c }}", "c")], "untrusted,private"),
        ([{"id": "c", "type": "unknown_type"}, agent("{{ c }}", "c")], "untrusted,public"),
    ],
)
def test_a_label_follows_what_is_read(nodes, label):
    assert reads(*nodes) == label


def test_agents_pass_on_what_their_tools_read():
    first = agent("Go.", id="first", tools=[{"function": "a:fetch", "effect": "read", "returns": "untrusted"}])
    assert reads(first, agent("{{ first.output }}", "first")) == "untrusted,public"
    assert reads(first, agent("{{ first.next_nodes }}", "first")) == "user,public"


def test_labels_go_round_loops_and_into_items():
    looped = [
        transform("begin", "{{ loop.previous | default('') }}"),
        {
            **HTTP,
            "dependencies": ["begin"],
            "loop": {"condition": "true", "loop_back_to": "begin", "max_iterations": 3},
        },
        agent("{{ begin }}", "page"),
    ]
    assert reads(*looped) == "untrusted,public"
    item = {"type": "agent", "config": {"model": "m", "prompt": "{{ item }}"}}
    mapped = {
        "id": "each",
        "type": "map",
        "config": {"over": "{{ page.body }}", "node": item},
        "dependencies": ["page"],
    }
    flow = flow_of(compiled(workflow(HTTP, mapped)).ir, REGISTRY)
    assert str(flow.items["each"]) == "untrusted,public"
    assert reads(agent("{{ inputs.x }}"), inputs=UNTRUSTED) == "untrusted,public"


TOOLS = [{"function": "a:mail", "effect": "send"}, {"function": "a:fetch", "effect": "read", "returns": "untrusted"}]


def test_the_three_that_are_dangerous_together_are_warned_about():
    ir = compiled(workflow(KEYED, agent("{{ crm.body }}", "crm", tools=TOOLS))).ir
    [(name, code, message)] = find_lethal(ir, REGISTRY)
    assert (name, code) == ("agent", "lethal_trifecta")
    assert "reads what strangers write (crm, tool fetch) and what is private (crm), and can send (mail)" in message
    assert not list(find_lethal(compiled(workflow(agent("{{ inputs.x }}", tools=TOOLS))).ir, REGISTRY))
    [reach] = find_reaches(ir, REGISTRY)
    assert (reach.sinks, sorted(reach.sources)) == ({"mail": "send"}, ["crm", "tool fetch", "tool mail"])


def test_h20_an_agent_that_strangers_can_keep_at_work_has_a_budget_of_its_own():
    def warned(*nodes):
        return [(node, code) for node, code, _ in find_unbounded(compiled(workflow(*nodes)).ir, REGISTRY)]

    assert warned(HTTP, agent("{{ page.body }}", "page")) == [("agent", "no_node_budget")]
    assert warned(agent("{{ inputs.x }}", tools=TOOLS)) == [("agent", "no_node_budget")]
    bounded = agent("{{ page.body }}", "page")
    bounded["config"]["budget"] = {"calls": 20}
    assert warned(HTTP, bounded) == []
    assert warned(agent("{{ inputs.x }}")) == []
    item = {"type": "agent", "config": {"model": "m", "prompt": "{{ item }}"}}
    mapped = {
        "id": "each",
        "type": "map",
        "config": {"over": "{{ page.body }}", "node": item},
        "dependencies": ["page"],
    }
    assert warned(HTTP, mapped) == [("each", "no_node_budget")]


def test_labels_of_a_node_are_checked():
    wrong = [{"integrity": "high"}, {"trust": "user"}, "untrusted"]
    for labels in wrong:
        assert compile_definition(workflow(task("f", "echo", labels=labels))).ir is None


async def test_the_label_of_the_graph_reaches_the_transcript(tmp_path):
    """What an agent is told by a run that another one started counts as a stranger's (H2)."""
    child = workflow(agent("{{ inputs.x }}"), name="child")
    nodes = [
        agent("{{ inputs.x }}"),
        {
            "id": "sub",
            "type": "workflow",
            "config": {"workflow": "child", "inputs": {"x": "{{ agent.output }}"}},
            "dependencies": ["agent"],
        },
    ]
    with ScriptedModel([{"say": "hello"}]):
        async with running(tmp_path) as engine:
            await engine.workflows.register(compiled(child))
            await finish(engine, workflow(*nodes), inputs={"x": 1})
            found = {}
            for run in ("r1", "r1:sub"):
                await ended(engine, run)
                said = await events(engine.journal, run)
                found[run] = [
                    one.data.get("label", {})
                    for one in said
                    if isinstance(one, e.NodeCheckpointed) and one.step == "prefix"
                ]
    labels = {run: [str(msgspec.convert(one, Label)) for one in found[run]] for run in found}
    assert labels == {"r1": ["user,public"], "r1:sub": ["untrusted,private"]}
