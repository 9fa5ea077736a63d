"""The proof behind E6, held to its word: what it says at any moment of a run holds for all that follows, whatever people reject,
discard, patch and retry. This finds a way around an approval before somebody makes a patch of it.
"""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from perdure.budget import Budget
from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.kernel import guards
from perdure.kernel.decide import advance
from perdure.kernel.lifecycle import NodeState, RunState
from perdure.kernel.values import Error
from tests.property import graphs
from tests.property.walk import Walk

TASK = {"type": "task", "config": {"function": "m:f"}}
ASK = {"type": "human", "config": {"approvers": ["ann", "bob"], "quorum": 1}}
N, R = NodeState, RunState


def policy(random: Random) -> dict[str, Any]:
    return random.choice(({}, {}, {}, {"on_failure": "continue"}, {"on_failure": "park"}))


def join(random: Random, count: int) -> dict[str, Any]:
    if count < 2 or random.random() < 0.65:
        return {}
    return {"join": {"at_least": random.choice((1, 1, 2)), "cancel_rest": random.random() < 0.4}}


def make(random: Random) -> graphs.Definition:
    """A small graph of approvals and of work that may park, with a loop at times."""
    nodes: list[dict[str, Any]] = [{"id": "n0", **TASK, **random.choice(({}, {"effect": "at_most_once"}))}]
    for number in range(1, random.randint(4, 8)):
        before = random.sample(range(number), min(number, random.choice((0, 1, 1, 1, 2, 2, 3))))
        needs = [{"node": f"n{one}", "required": random.random() < 0.15} for one in before]
        node: dict[str, Any] = {"id": f"n{number}", "dependencies": needs, **policy(random), **join(random, len(needs))}
        if random.random() < 0.4:
            node |= ASK | ({"rejection_path": []} if random.random() < 0.25 else {})
        else:
            node |= TASK | {"max_crashes": random.choice((1, 5))}
            if random.random() < 0.3:
                node |= {"compensator": {"type": "task", "config": {"function": "m:u"}}}
        if random.random() < 0.15:
            node["when"] = "inputs.x"
        nodes.append(node)
    looping = random.choice(nodes)
    if random.random() < 0.3 and looping["type"] == "task" and looping.get("dependencies"):
        back = random.choice((looping["id"], looping["dependencies"][0]["node"]))
        looping["loop"] = {"condition": "inputs.x", "max_iterations": 3, "loop_back_to": back}
    return {"name": "w", "nodes": nodes, "on_failure": {"compensate": random.random() < 0.5}}


class Claims(Walk):
    """A walk that looks at nothing but what the proof claims."""

    def do(self, command: c.Command) -> c.Ruling | c.Refused:
        self.steps.append(f"{type(command).__name__} {getattr(command, 'address', '')}")
        verdicts: dict[c.Need, c.Verdict] = {}
        while isinstance(result := advance(self.state, command, verdicts), c.Needs):
            for question in result.questions:
                answer = self.answer(question)
                wrong = isinstance(answer, Error)
                verdicts[question.need] = c.Verdict(error=answer) if wrong else c.Verdict(value=answer)
        if isinstance(result, c.Ruling):
            self._heed(result.effects)
            for event in result.events:
                places = event.places if isinstance(event, e.NodesScheduled) else (event,)
                if isinstance(event, e.NodesScheduled | e.NodeScheduled):
                    self._run(places)
            if self.state.state in (R.RUNNING, R.PAUSED) and self.random.random() < 0.4:
                self._claim()
        return result

    def step(self) -> None:
        rules: list[tuple[float, Any]] = [(10, self.work), (1, self.time)]
        if self.state.approvals:
            rules.append((4, self.vote))
        if self.state.tally.get(N.PARKED) or self.state.state is R.COMPENSATING:
            rules.append((5, self.repair))
        if self.state.state is R.FAILED:
            rules.append((10, self.retry))
        self.random.choices([rule for _, rule in rules], [weight for weight, _ in rules])[0]()

    def _is_given(self, person: str) -> bool:
        found = self.state.find(person)
        return found is not None and found.state in (N.COMPLETED, N.COMPENSATED) and not found.rejected

    def _run(self, places: tuple[Any, ...]) -> None:
        for place in places:
            for person in self.claimed.get(place.node, set()) if not place.scope else ():
                assert self._is_given(person), f"{place.node} runs, and {person} is not given"

    def _claim(self) -> None:
        state, ir = self.state, self.state.ir
        people = [i for i, node in enumerate(ir.nodes) if node is not None and node.type == "human" and not node.loops]
        bit = {person: 1 << number for number, person in enumerate(people)}
        ways = guards._Ways(
            state, ir, len(state.irs) - 1, bit, set(people), Budget(steps=guards.MOST_STEPS), repaired=True
        )
        for index, node in enumerate(ir.nodes):
            if node is None or node.loops or guards._has_run(state, index):
                continue
            held = ways.above[index] & ~ways.free[index]
            names = {state.name(person) for person in people if bit[person] & held}
            self.claimed.setdefault(node.id, set()).update(name for name in names if not self._is_given(name))

    @property
    def claimed(self) -> dict[str, set[str]]:
        """Approvals by the nodes that were said not to run without them."""
        found: dict[str, set[str]] = self.__dict__.setdefault("_claimed", {})
        return found


def wander(seed: int) -> Claims:
    random = Random(seed)
    definition, ir = graphs.make_valid(random, make)
    walk = Claims(random, definition, ir, faults=random.choice((0.1, 0.3, 0.5)))
    patches = random.choice((0.0, 0.0, 0.15))
    with walk.noted(f"wander({seed})"):
        for _ in range(60):
            if walk.state.terminal and (walk.state.state is not R.FAILED or random.random() < 0.2):
                break
            if random.random() < patches and not walk.state.terminal:
                walk.patch()
            else:
                walk.step()
    return walk


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_what_the_proof_says_is_guarded_does_not_run_without_its_approval(part: int) -> None:
    claims = sum(
        len(people) for seed in range(part * 1000, part * 1000 + 250) for people in wander(seed).claimed.values()
    )
    assert claims > 100, "the proof says something"


def test_a_proof_that_forgets_about_rejections_is_found_out() -> None:
    with patch.object(guards, "leads_on_anyway", lambda node, edge, *, trusted: False):
        for seed in range(400):
            try:
                wander(seed)
            except AssertionError:
                return
    pytest.fail("400 walks, and nothing ran that was said to be guarded")
