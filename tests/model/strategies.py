"""Random definitions that compile: layered graphs with routing, loops, joins and templates."""

from typing import Any

from hypothesis import strategies as st

_NAMES = [f"n{i}" for i in range(9)]


@st.composite
def definitions(draw: st.DrawFn) -> dict[str, Any]:
    """Nodes in a random order of names; every edge points forward in that order, so there is no cycle."""
    count = draw(st.integers(1, 8))
    names = draw(st.permutations(_NAMES))[:count]
    nodes = []
    for i, name in enumerate(names):
        parents = draw(st.lists(st.sampled_from(names[:i]), unique=True, max_size=3)) if i else []
        node: dict[str, Any] = {"id": name, "type": draw(st.sampled_from(["task", "http", "human", "wait"]))}
        if parents:
            node["dependencies"] = [
                {"node": p, "required": True} if draw(st.integers(0, 5)) == 0 else p for p in parents
            ]
            node["config"] = {"x": f"{{{{ {parents[0]}.y | default('') }}}}"}
        later = names[i + 1 :]
        if later:
            _add_routing(draw, node, later)
        if draw(st.integers(0, 4)) == 0:
            # Loops of one node always nest.
            node["loop"] = {"condition": "output.again == true", "max_iterations": draw(st.integers(1, 3))}
        if draw(st.integers(0, 4)) == 0:
            node["retry"] = draw(st.integers(1, 5))
        nodes.append(node)
    _add_joins(draw, nodes)
    data: dict[str, Any] = {"name": "w", "nodes": nodes}
    if draw(st.booleans()):
        data["outputs"] = {"x": f"{{{{ {draw(st.sampled_from(names))}.y }}}}"}
    return data


def _add_routing(draw: st.DrawFn, node: dict[str, Any], later: list[str]) -> None:
    targets = st.lists(st.sampled_from(later), unique=True, max_size=2)
    kind = draw(st.sampled_from(["none", "none", "branch", "agent", "path", "policy"]))
    if kind == "branch":
        node["branch"] = {
            "rules": [{"condition": "output.x == 1", "next_nodes": draw(targets)}],
            "default": draw(targets),
        }
    elif kind == "agent":
        node["branch"] = {"type": "agent_driven", "available_next_nodes": [draw(st.sampled_from(later))]}
    elif kind == "path":
        node["on_failure"] = {"path": [draw(st.sampled_from(later))]}
    elif kind == "policy":
        node["on_failure"] = draw(st.sampled_from(["fail", "park", "continue"]))


def _add_joins(draw: st.DrawFn, nodes: list[dict[str, Any]]) -> None:
    for node in nodes:
        parents = len(node.get("dependencies", ()))
        if parents and draw(st.integers(0, 3)) == 0:
            node["join"] = draw(
                st.sampled_from(["any", "all", {"at_least": parents}, {"at_least": 1, "cancel_rest": True}])
            )
