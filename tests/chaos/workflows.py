"""What runs while things break: fan-out and fan-in, a loop, a retry, waits, children, effects that must not be repeated."""

from __future__ import annotations

from typing import Any

WIDTH = 4
MANY = {"max_crashes": 1000}
"""Worker after worker is killed here, and none of that is the handler's fault."""


def node(id: str, function: str = "slowly", needs: list[str] | None = None, **more: Any) -> dict[str, Any]:
    config = {"function": f"tests.chaos.tasks:{function}", "args": more.pop("args", {})}
    made = {"id": id, "type": "task", "config": config, **MANY, **more}
    return made if needs is None else {**made, "dependencies": needs}


def wait(id: str, seconds: float, needs: list[str]) -> dict[str, Any]:
    return {"id": id, "type": "wait", "config": {"seconds": seconds}, "dependencies": needs}


CHILD = {"name": "chaos-child", "nodes": [node("inner"), node("outer", needs=["inner"])]}
"""Called by `MIXED`; registered first."""

_wide = [f"n{number}" for number in range(WIDTH)]
MIXED = {
    "name": "chaos-mixed",
    "nodes": [
        node("begin"),
        *[node(name, needs=["begin"]) for name in _wide],
        node("join", needs=_wide),
        node("again", needs=["join"], loop={"condition": "!output.done", "max_iterations": 5}),
        node("twice", "fail_first", ["join"], retry={"max_attempts": 1000, "backoff_ms": 20, "jitter": False}),
        wait("pause", 0.1, ["again"]),
        {"id": "call", "type": "workflow", "config": {"workflow": "chaos-child"}, "dependencies": ["pause"]},
        node("end", needs=["call", "twice"]),
    ],
}
EFFECTS = {"begin", *_wide, "join", "again[1]", "again[2]", "again[3]", "twice", "end"}
CHILD_EFFECTS = {"inner", "outer"}

ONCE = {
    "name": "chaos-once",
    "nodes": [node("begin"), node("pay", needs=["begin"], effect="at_most_once"), node("end", needs=["pay"])],
}
"""If nobody knows whether it was paid, the node is parked: somebody has to look."""

PERSON = {
    "name": "chaos-person",
    "nodes": [
        node("begin"),
        {"id": "ask", "type": "human", "config": {"show": "Go on?"}, "dependencies": ["begin"]},
        node("end", needs=["ask"]),
    ],
}
"""Waits until the test approves it."""

LONG = {"name": "chaos-long", "nodes": [node("long", "long")]}
"""Long enough to do something to its worker meanwhile."""
