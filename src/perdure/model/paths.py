"""The parts of a node that name where control goes next, in canonical form: `branch`, `loop`, `on_failure`, paths.

Checks shapes only. Whether the named nodes exist is for `graph.py`, whether loops nest for `loops.py`.
"""

from __future__ import annotations

from typing import Any

from perdure.model.conditions import read_condition
from perdure.model.fields import YEAR_MS, Fields, as_fields
from perdure.model.problems import describe
from perdure.model.transitions import find_emits

_BRANCH_KEYS = frozenset({"enabled", "type", "rules", "default", "available_next_nodes", "approve"})
_LOOP_KEYS = frozenset(
    {"enabled", "condition", "max_iterations", "loop_back_to", "break_path", "timeout_path", "delay_ms", "endless"}
)

MOST_RULES = 100
_BRANCH_TYPES = ("conditional", "agent_driven")
_RULE_KEYS = ("condition", "next_nodes")
_DEPENDENCY_KEYS = ("node", "required")
_EDGES = "an edge with from and to stands in the list `edges` of the workflow"
_ON_FAILURE = ("fail", "park", "continue")


def _enabled(fields: Fields) -> bool:
    return fields.flag("enabled") is not False


def read_branch(node: Fields) -> dict[str, Any] | None:
    value = node.data.get("branch")
    if value is None:
        return None
    fields = as_fields(value, (*node.path, "branch"), f"branch of {node.what}", node.problems, _BRANCH_KEYS)
    if fields is None or not _enabled(fields):
        return None
    kind = fields.choice("type", _BRANCH_TYPES) or "conditional"
    canonical: dict[str, Any] = {}
    default = fields.texts("default")
    if default:
        canonical["default"] = default
    if kind == "agent_driven":
        canonical["type"] = kind
        available = fields.texts("available_next_nodes") or find_emits(node)
        if not available:
            fields.error(
                "missing_key", "", f"{fields.what} has no 'available_next_nodes'; list the nodes the agent may choose"
            )
        canonical["available_next_nodes"] = available or []
        approve = fields.flag("approve")
        if approve is not None:
            canonical["approve"] = approve
        if fields.data.get("rules"):
            fields.error("misplaced_key", "rules", f"'rules' of {fields.what} are for type: conditional; remove them")
        return canonical
    if fields.has("approve"):
        fields.error("misplaced_key", "approve", f"'approve' of {fields.what} is for type: agent_driven")
    if fields.data.get("available_next_nodes"):
        fields.error(
            "misplaced_key",
            "available_next_nodes",
            f"'available_next_nodes' of {fields.what} is for type: agent_driven",
        )
    rules = fields.items("rules")
    if rules is None and not fields.has("rules"):
        fields.error("missing_key", "", f"{fields.what} has no 'rules'; add [{{condition: …, next_nodes: […]}}]")
    if rules is not None and len(rules) > MOST_RULES:
        why = "every rule is asked for by itself; look up the next node in a function, or branch in two steps"
        fields.error(
            "wrong_value", "rules", f"{fields.what} has {len(rules)} rules, at most {MOST_RULES} are allowed: {why}"
        )
    canonical["rules"] = [
        rule for index, item in enumerate(rules or []) if (rule := _read_rule(fields, index, item)) is not None
    ]
    return canonical


def _read_rule(branch: Fields, index: int, value: Any) -> dict[str, Any] | None:
    path = (*branch.path, "rules", index)
    what = f"rule {index + 1} of {branch.what}"
    fields = as_fields(value, path, what, branch.problems, _RULE_KEYS)
    if fields is None:
        return None
    for key in _RULE_KEYS:
        if not fields.has(key):
            fields.error("missing_key", "", f"{what} has no '{key}'")
    canonical: dict[str, Any] = {"next_nodes": fields.texts("next_nodes") or []}
    if fields.has("condition"):
        canonical["condition"] = read_condition(
            fields.data["condition"], (*path, "condition"), f"condition of {what}", branch.problems
        )
    return canonical


def read_loop(node: Fields, id: str, endless_workflow: bool) -> tuple[dict[str, Any] | None, bool]:
    """The canonical loop, and whether it declares itself endless."""
    value = node.data.get("loop")
    if value is None:
        return None, False
    fields = as_fields(value, (*node.path, "loop"), f"loop of {node.what}", node.problems, _LOOP_KEYS)
    if fields is None or not _enabled(fields):
        return None, False
    canonical: dict[str, Any] = {}
    if fields.has("condition"):
        canonical["condition"] = read_condition(
            fields.data["condition"], (*fields.path, "condition"), f"condition of {fields.what}", node.problems
        )
    else:
        fields.error("missing_key", "", f"{fields.what} has no 'condition'; say when it goes back")
    endless = bool(fields.flag("endless"))
    if fields.has("max_iterations"):
        canonical["max_iterations"] = fields.integer("max_iterations", 1, 1_000_000_000)
    elif not (endless or endless_workflow):
        fields.error(
            "loop_without_maximum",
            "",
            f"{fields.what} has no 'max_iterations'; add one, or endless: true with a wait in its body",
        )
    head = fields.text("loop_back_to")
    if head is not None and head != id:
        canonical["loop_back_to"] = head
    for key in ("break_path", "timeout_path"):
        targets = fields.texts(key)
        if targets is not None:
            canonical[key] = targets
    delay = fields.integer("delay_ms", 0, YEAR_MS)
    if delay:
        canonical["delay_ms"] = delay
    return canonical, endless


def read_on_failure(node: Fields) -> Any:
    """The canonical `on_failure`: None for `fail`, otherwise `park`, `continue` or {path: […]}."""
    value = node.data.get("on_failure")
    if value is None:
        return None
    if isinstance(value, str):
        choice = node.choice("on_failure", _ON_FAILURE)
        return None if choice == "fail" else choice
    if not isinstance(value, dict):
        node.wrong_type("on_failure", "fail, park, continue or {path: [node, …]}")
        return None
    what = f"on_failure of {node.what}"
    fields = Fields(value, (*node.path, "on_failure"), what, node.problems, ("path",))
    targets = fields.texts("path")
    if not targets:
        if not fields.has("path") or fields.data.get("path") == []:
            fields.error("missing_key", "", f"{what} has no nodes in 'path'; name some, or write on_failure: continue")
        return None
    return {"path": targets}


def read_dependency(item: Any, path: tuple[str | int, ...], node: Fields) -> tuple[str, bool] | None:
    """One entry of `dependencies`, an id or {node, required}, as the id and whether it is required."""
    if isinstance(item, str) and item:
        return item, False
    if isinstance(item, dict):
        what, hint = f"a dependency of {node.what}", "" if "from" not in item and "to" not in item else _EDGES
        fields = Fields(item, path, what, node.problems, _DEPENDENCY_KEYS, hint)
        target = fields.text("node")
        if target is None:
            if not fields.has("node"):
                fields.error("missing_key", "", f"{what} has no 'node'")
            return None
        return target, bool(fields.flag("required"))
    node.problems.error(
        "wrong_type", path, f"a dependency of {node.what} must be an id or {{node, required}}, got {describe(item)}"
    )
    return None
