"""Twelve workflows, each with one right end. Their handlers do what their config says, so that only faults are left to chance.

Config of a task: `give` is its output (a list: one per iteration), `seconds` how long it takes, `fails` how many attempts
fail first, `fails_in` the generation in which it fails for good.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    nodes: list[dict[str, Any]]
    keys: dict[str, Any] = {}
    """Of the workflow, besides its nodes."""
    child: list[dict[str, Any]] = []
    inputs: dict[str, Any] = {}
    ends: str = "completed"
    retried: bool = False
    """When it has failed, somebody retries it."""


def task(name: str, *after: Any, give: Any = None, **keys: Any) -> dict[str, Any]:
    config = {"give": {"ok": True} if give is None else give}
    config |= {key: keys.pop(key) for key in ("seconds", "fails", "fails_in") if key in keys}
    node: dict[str, Any] = {"id": name, "type": "task", "config": config, **keys}
    return node | {"dependencies": list(after)} if after else node


def loop(back_to: str, **keys: Any) -> dict[str, Any]:
    return {"condition": "output.again", "max_iterations": 3, "loop_back_to": back_to, **keys}


AGAIN, DONE = {"again": True}, {"again": False}
UNDO = {"type": "task", "config": {"give": "undone"}}

REFERENCES = [
    Reference(
        name="diamond",
        nodes=[task("a"), task("b", "a", seconds=2), task("c", "a"), task("z", "b", "c")],
    ),
    Reference(
        name="branch with a join",
        nodes=[
            task(
                "a",
                give={"n": 2},
                branch={"rules": [{"condition": "output.n == 2", "next_nodes": ["b"]}], "default": ["c"]},
            ),
            task("b"),
            task("c"),
            task("z", "b", "c"),
        ],
    ),
    Reference(
        name="loop",
        nodes=[task("a"), task("b", "a", give=[AGAIN, DONE], loop=loop("a")), task("z", "b")],
    ),
    Reference(
        name="loop in a loop",
        nodes=[
            task("a"),
            task("b", "a", give=[AGAIN, DONE], loop=loop("b")),
            task("c", "b", give=[AGAIN, DONE], loop=loop("a")),
            task("z", "c"),
        ],
    ),
    Reference(
        name="race that cancels the rest",
        nodes=[
            task("quick", seconds=1),
            task("slow", seconds=300),
            task("z", "quick", "slow", join={"at_least": 1, "cancel_rest": True}),
        ],
    ),
    Reference(
        name="retry, then success",
        nodes=[task("a", fails=2, retry={"max_attempts": 3, "backoff_ms": 500}), task("z", "a")],
    ),
    Reference(
        name="failure, and the run is retried",
        nodes=[task("a"), task("b", "a", fails_in=1, retry={"max_attempts": 1}), task("c", "a"), task("z", "b", "c")],
        retried=True,
    ),
    Reference(
        name="compensation",
        nodes=[
            task("a", compensator=UNDO),
            task("b", "a", compensator=UNDO),
            task("z", "b", fails_in=1, retry={"max_attempts": 1}),
        ],
        keys={"on_failure": {"compensate": True}},
        ends="failed",
    ),
    Reference(
        name="approval that times out",
        nodes=[
            {
                "id": "ask",
                "type": "human",
                "config": {"approvers": ["nobody"], "timeout_seconds": 20, "on_timeout": "reject"},
                "rejection_path": ["no"],
            },
            task("yes", "ask"),
            task("no"),
        ],
    ),
    Reference(
        name="signal and timer",
        nodes=[
            {"id": "s", "type": "wait", "config": {"signal": "go", "seconds": 3600}},
            {"id": "t", "type": "wait", "config": {"seconds": 5}},
            task("z", "s", "t"),
        ],
    ),
    Reference(
        name="map",
        nodes=[
            {
                "id": "m",
                "type": "map",
                "config": {
                    "over": "{{ inputs.list }}",
                    "max_concurrency": 2,
                    "node": {"type": "task", "config": {"give": "{{ item }}", "seconds": 1}},
                },
            },
            task("z", "m"),
        ],
        inputs={"list": [1, 2, 3]},
    ),
    Reference(
        name="child",
        nodes=[{"id": "w", "type": "workflow", "config": {"workflow": "child"}}, task("z", "w")],
        child=[task("i"), task("j", "i")],
    ),
]
