"""Which ways a workflow may go at all: `policies` of the workflow, and `capabilities` of a node, as the reference documents write them.

Owns their shape, and the edges that a node may have. What a policy says about an edge is judged where its condition can be
(`nodes/transition_checks.py`), and what it says about calls and routes of agents when those are wanted (`agents/call_guard.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from perdure.model.fields import Fields, as_fields
from perdure.model.problems import Path, Problems

MOST_POLICIES = 100
MOST_FANOUT = 250_000
POLICY_KEYS = ("when", "then", "approvers")
THEN = ("ask", "deny")
CAPABILITY_KEYS = ("can_emit_to", "max_fanout", "requires_approval", "allowed_tools")


def read_policies(workflow: Fields) -> list[dict[str, Any]]:
    """The policies of a workflow, in order: the first that holds decides."""
    items = workflow.items("policies") or ()
    if len(items) > MOST_POLICIES:
        message = f"the workflow has {len(items)} policies, at most {MOST_POLICIES} are allowed"
        workflow.error("wrong_value", "policies", message)
        return []
    found = []
    for number, item in enumerate(items):
        what = f"policy[{number}] of the workflow"
        fields = as_fields(item, ("policies", number), what, workflow.problems, POLICY_KEYS)
        if fields is None:
            continue
        for key in ("when", "then"):
            if not fields.has(key):
                fields.error("missing_key", "", f"{what} has no '{key}'; write {{when: CONDITION, then: ask}}")
        policy = {
            "when": fields.text("when"),
            "then": fields.choice("then", THEN),
            "approvers": fields.texts("approvers") or None,
        }
        found.append({key: value for key, value in policy.items() if value is not None})
    return found


def find_emits(node: Fields) -> list[str]:
    """The nodes that a node says it may lead to, as far as they can be read."""
    value = node.data.get("capabilities")
    emits = value.get("can_emit_to") if isinstance(value, dict) else None
    return [one for one in emits if isinstance(one, str)] if isinstance(emits, list) else []


def read_capabilities(node: Fields, canonical: dict[str, Any]) -> None:
    """Say `capabilities` of a node in the words that mean the same: where an agent may go, how far a node fans out, whether a
    person is asked about a route, and the tools of an agent. The nodes that it may lead to are kept, to judge every edge by."""
    what = f"capabilities of {node.what}"
    fields = as_fields(node.data["capabilities"], (*node.path, "capabilities"), what, node.problems, CAPABILITY_KEYS)
    if fields is None:
        return
    is_agent = canonical["type"] == "agent"
    emits = fields.texts("can_emit_to")
    if emits is not None:
        canonical["capabilities"] = {"can_emit_to": emits}
        if is_agent and emits and "branch" not in canonical:
            canonical["branch"] = {"type": "agent_driven", "available_next_nodes": emits}
    if (most := fields.integer("max_fanout", 1, MOST_FANOUT)) is not None:
        limits = canonical.setdefault("limits", {})
        if limits.setdefault("max_fanout", most) != most:
            fields.error("conflicting_keys", "max_fanout", f"{what} and its limits name another max_fanout; keep one")
    if fields.flag("requires_approval"):
        branch = canonical.get("branch")
        if not is_agent or branch is None or branch.get("type") != "agent_driven":
            message = (
                f"'requires_approval' of {what} is for agents that choose where the run goes on; "
                "put a node of type human before what needs an approval"
            )
            fields.error("misplaced_key", "requires_approval", message)
        elif branch.setdefault("approve", True) is not True:
            fields.error(
                "conflicting_keys", "requires_approval", f"{what} and 'approve' of its branch say the opposite"
            )
    tools = fields.texts("allowed_tools")
    if tools is None:
        return
    if not is_agent:
        fields.error("misplaced_key", "allowed_tools", f"'allowed_tools' of {what} is for nodes of type agent")
    elif {"tools", "available_tools"} & (canonical.get("config") or {}).keys():
        message = f"'allowed_tools' of {what} is another word for the tools in its config; keep one of them"
        fields.error("conflicting_keys", "allowed_tools", message)
    else:
        canonical["config"] = {**(canonical.get("config") or {}), "available_tools": tools}


def check_emits(
    nodes: Mapping[str, Any], place_of: Callable[[str], Path], pairs: Collection[tuple[str, str]], problems: Problems
) -> None:
    """Refuse edges that lead where their node may not."""
    allowed = {id: node["capabilities"]["can_emit_to"] for id, node in nodes.items() if "capabilities" in node}
    for source, target in sorted(pairs) if allowed else ():
        if source in allowed and target not in allowed[source]:
            path = (*place_of(source), "capabilities", "can_emit_to")
            listed = ", ".join(allowed[source]) or "no node"
            message = f"node '{source}' leads to '{target}', and can_emit_to allows {listed}; add '{target}', or remove the edge"
            problems.error("transition_denied", path, message)
