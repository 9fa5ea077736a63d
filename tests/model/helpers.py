"""Short ways to write a definition and to look at what became of it."""

from typing import Any

from perdure.model import Compiled, compile_definition, compile_text
from perdure.model.ir import IR, Edge, Node


def node(id: str, *after: str, **keys: Any) -> dict[str, Any]:
    return {"id": id, "type": "task", "dependencies": list(after), **keys}


def workflow(*nodes: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"name": "w", "nodes": list(nodes), **keys}


def again(back_to: str | None = None, **keys: Any) -> dict[str, Any]:
    """A loop with everything it needs."""
    loop = {"condition": "output.again == true", "max_iterations": 3, **keys}
    return loop if back_to is None else {**loop, "loop_back_to": back_to}


def compiled(*nodes: dict[str, Any], **keys: Any) -> IR:
    result = compile_definition(workflow(*nodes, **keys))
    assert result.ir is not None, result.problems
    return result.ir


def codes(data: Any) -> set[str]:
    """The codes of all problems, warnings too."""
    result = compile_text(data) if isinstance(data, str | bytes) else compile_definition(data)
    assert (result.ir is None) == any(p.severity == "error" for p in result.problems)
    return {p.code for p in result.problems}


def message(result: Compiled, code: str) -> str:
    found = [p.message for p in result.problems if p.code == code]
    assert found, f"no {code} in {result.problems}"
    return found[0]


def by_id(ir: IR, id: str) -> Node:
    return next(n for n in ir.nodes if n is not None and n.id == id)


def index(ir: IR, id: str) -> int:
    return next(i for i, n in enumerate(ir.nodes) if n is not None and n.id == id)


def edge(ir: IR, source: str, target: str) -> Edge:
    return next(e for e in ir.edges if (e.source, e.target) == (index(ir, source), index(ir, target)))


def ids(ir: IR, indexes: Any) -> list[str]:
    return [n.id for i in indexes if (n := ir.nodes[i]) is not None]
