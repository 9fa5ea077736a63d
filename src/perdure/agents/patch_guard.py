"""What the nodes of a patch will do, judged before they are there: each as the call of a tool that it comes to.

A node that an agent adds is not guarded when it runs. So a patch is judged like the calls that its nodes make, by everything that
their arguments may yet be made of: the answer of the agent comes after all that it may still read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from perdure.agents.call_guard import Ruling, Wish
from perdure.agents.tool import Tool
from perdure.expressions.leaves import has_leaf
from perdure.model.labels import UNTRUSTED, Label
from perdure.nodes.registry import has_template

_STRICT = {"allow": 0, "ask": 1, "deny": 2}


def list_wishes(wish: Wish, tools: Sequence[Tool]) -> Iterator[Wish]:
    """The calls that the nodes of a patch come to, each with the label of what it may be made of. `tools`: those of the agent."""
    reach = wish.label
    for tool in tools:
        reach |= tool.returns
    for one in wish.arguments["patch_spec"]["operations"]:
        node = one["value"]
        config = node.get("config") if one["path"] == "/nodes/-" and isinstance(node.get("config"), dict) else None
        found = None if config is None else _tool_of(node["type"], config, tools)
        if found is None or config is None:
            continue
        label: Label = reach if has_leaf(config, has_template) else wish.label
        arguments = config.get("args") if node["type"] == "task" else config
        given: dict[str, Any] = arguments if isinstance(arguments, dict) else {"args": arguments}
        yield msgspec.structs.replace(wish, tool=found, arguments=given, label=label)


def _tool_of(type: str, config: dict[str, Any], tools: Sequence[Tool]) -> Tool | None:
    if type == "task":
        called = config.get("function") or config.get("action")
        return next((tool for tool in tools if tool.kind == "function" and tool.target == called), None)
    steps = config.get("pipeline") if isinstance(config.get("pipeline"), list) else []
    requests = [step for step in steps or () if isinstance(step, dict) and step.get("step") == "http_request"]
    if type == "http" or requests:
        return Tool(name="http", kind="pipeline", effect="send", returns=UNTRUSTED)
    return None


def strictest(found: Ruling, others: Sequence[Ruling]) -> Ruling:
    """The ruling that holds for all: a denial before a question, and that before leave. The approvers of each question are those of all."""
    most = found
    for one in others:
        if _STRICT[one.verdict] > _STRICT[most.verdict]:
            most = one
    approvers = [set(one.approvers) for one in (found, *others) if one.verdict == "ask" and one.approvers]
    if most.verdict == "ask" and approvers:
        common = sorted(set.intersection(*approvers))
        if not common:
            return Ruling("deny", most.rule, "no one person may decide about all of it")
        return msgspec.structs.replace(most, approvers=tuple(common))
    return most
