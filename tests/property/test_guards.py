"""E6 over random histories: whatever people reject and however the graph is patched meanwhile, nothing runs that only their
approval could have let run. The checker that says so knows nothing of the kernel's proof.
"""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from perdure.kernel import commands as c
from perdure.kernel import guards
from tests.property import graphs
from tests.property.walk import Walk

TASK = {"type": "task", "config": {"function": "m:f"}}


def approvals(random: Random) -> graphs.Definition:
    """A small graph in which every second node asks a person; some go another way when they are rejected."""
    nodes: list[dict[str, Any]] = [{"id": "n0", **TASK}]
    for number in range(1, random.randint(4, 8)):
        before = random.sample(range(number), min(number, random.choice((1, 1, 2))))
        node: dict[str, Any] = {"id": f"n{number}", "dependencies": [f"n{one}" for one in before], **TASK}
        if random.random() < 0.5:
            node |= {"type": "human", "config": {"approvers": ["ann", "bob"], "quorum": 1}}
            if random.random() < 0.6:
                node["rejection_path"] = []
            elif random.random() < 0.5:
                node["on_failure"] = random.choice(("continue", "park"))
        elif random.random() < 0.2:
            node["when"] = "inputs.x"
        if len(before) > 1 and random.random() < 0.3:
            node["join"] = "any"
        nodes.append(node)
    return {"name": "w", "nodes": nodes}


def wander(seed: int) -> Walk:
    random = Random(seed)
    definition, ir = graphs.make_valid(random, approvals)
    walk = Walk(random, definition, ir, faults=0.1)
    with walk.noted(f"wander({seed})"):
        for _ in range(40):
            if walk.state.terminal:
                break
            if random.random() < 0.3:
                walk.patch()
            else:
                walk.step()
    return walk


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_no_patch_leads_around_an_approval(part: int) -> None:
    patched = 0
    for seed in range(part * 1000, part * 1000 + 150):
        patched += sum(event.type == "run.patched" for event in wander(seed).run.journal)
    assert patched > 100, "the walks patch their runs"


def test_without_the_proof_the_checker_finds_a_way_around() -> None:
    """The checker is checked: the same walks, and a kernel that takes every patch."""
    with patch.object(guards, "check", lambda state, old, new: iter(())):
        for seed in range(300):
            try:
                wander(seed)
            except AssertionError as error:
                assert "E6" in str(error)  # noqa: PT017
                return
    pytest.fail("300 walks, and nothing ran that an approval guarded")


@pytest.mark.slow
def test_a_patch_of_a_large_graph_is_proven_in_one_pass() -> None:
    """Many approvals in a wide graph: work grows with the edges, not with the edges of each approval."""
    from tests.kernel.driver import Run, compiled

    nodes: list[dict[str, Any]] = [{"id": "a", **TASK}]
    for number in range(300):
        nodes.append({"id": f"h{number}", "type": "human", "config": {}, "dependencies": ["a"], "rejection_path": []})
        nodes += [{"id": f"p{number}_{one}", **TASK, "dependencies": [f"h{number}"]} for one in range(5)]
    run = Run(compiled(*nodes))
    run.replay_each_step = False
    answer = run.tell(c.Patch, ir=compiled(*nodes, {"id": "z", **TASK, "dependencies": ["a"]}))
    assert isinstance(answer, c.Ruling)
