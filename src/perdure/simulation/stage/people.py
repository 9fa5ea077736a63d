"""The people of a user's world: they start the run, decide, send signals and handle dead letters.

What the script plays happens as it says, at its time. In a lenient world the seed decides the rest: it
approves, rejects or lets the time pass, sends signals, and requeues or discards what is parked. A wait without
a time limit is always answered.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from perdure.invariants.model import Approval
from perdure.kernel.events import Scope
from perdure.model import Compiled
from perdure.runtime.coordinator.requests import Reply, Request
from perdure.simulation.history_checks import Failed
from perdure.simulation.stage import stubs as s
from perdure.simulation.users import PATIENCE_SECONDS, Users, _quietly

if TYPE_CHECKING:
    from perdure.simulation.stage.user_stage import UserStage

RUN = "run0"
TRIES = 100


class People(Users):
    _world: UserStage

    def __init__(self, world: UserStage, stubs: Mapping[str, Any], signals: Sequence[s.Signal]) -> None:
        super().__init__(world)
        self._stubs = stubs
        self._signals = signals
        self._agenda: list[tuple[float, int, list[Request]]] = []
        self._planned: set[Any] = set()
        self._asked: Counter[tuple[str, str]] = Counter()
        self.busy = 0

    # -- starting ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        while self.unstarted:
            await self.start_rest()
            await asyncio.sleep(0 if not self.unstarted else 1.0)

    def _start_request(self, run_id: str) -> Request:
        ir, version = self._world.versions[self._world.main.name]
        return Request(kind="start", run_id=run_id, ir=ir, workflow_version=version, inputs=self._inputs[run_id])

    async def start_rest(self) -> None:
        await super().start_rest()
        if not self.unstarted and "signals" not in self._planned:
            self._planned.add("signals")
            for number, signal in enumerate(self._signals):
                name, payload = signal.name, signal.payload
                request = Request(
                    kind="signal", run_id=RUN, name=name, payload=payload, signal=f"script{number}", by="test"
                )
                self._plan(signal.at, [request])

    # -- what there is to do -------------------------------------------------------------------------------------------

    def next_at(self) -> float | None:
        return self._agenda[0][0] if self._agenda else None

    def look(self) -> None:
        """Plan answers to what runs have begun to wait for."""
        for run_id, model in self._open_models():
            for name, approval in list(model.approvals.items()):
                known = (name, approval.approvers)
                if approval.pending and known not in self._planned:
                    self._planned.add(known)
                    self._plan_decision(run_id, name, approval)
            parked = model.state == "compensating" or any(act.state == "parked" for act in model.acts.values())
            if self._world.lenient and (parked or any(act.wait == "signal" for act in model.acts.values())):
                self._look_closer(run_id)

    def _open_models(self) -> Iterator[tuple[str, Any]]:
        for run_id, record in list(self._world.store.runs.items()):
            checker = self._world.checks.checkers.get(run_id)
            if record.row.ended_at is None and checker is not None:
                yield run_id, checker.model

    def _plan_decision(self, run_id: str, name: str, approval: Approval) -> None:
        world, node = self._world, approval.key[0]
        random = Random(f"people {world.plan.seed} {name} {len(approval.approvers)}")
        left = None if approval.expires_at is None else approval.expires_at - world.clock.now()
        asked = f"{node}{s.ASK}{approval.ask}" if approval.ask else node
        found = s.find(self._stubs, world.workflow_of(run_id), asked)
        if found is not None:
            turn = self._asked[run_id, asked]
            self._asked[run_id, asked] += 1
            script = s.pick_decision(found[0], turn, random)
        elif world.lenient:
            options = ["approve", "reject"] if left is None else ["approve", "reject", "none"]
            after = random.random() * (random.choice((1, 60, 3600)) if left is None else 1.1 * left)
            script = s.ScriptedDecision(decision=random.choice(options), after=after)  # type: ignore[arg-type]
        else:
            return
        if script.decision == "none":
            return
        decision: Literal["approve", "reject"] = script.decision
        everyone = approval.approvers or tuple(f"person{n}" for n in range(approval.quorum))
        needed = approval.quorum if decision == "approve" else len(everyone) - approval.quorum + 1
        common: dict[str, Any] = {"comments": script.comments, "data": script.data, "decision": decision}
        voters = script.by or everyone[:needed]
        votes = [Request(kind="vote", run_id=run_id, by=who, approval=name, **common) for who in voters]
        self._plan(script.after, votes)

    def _look_closer(self, run_id: str) -> None:
        """Plan answers to signals and dead letters, which only the seed gives."""
        world = self._world
        state = world.checks.fold(run_id)
        for activation in state.activations.values():
            node, item = state.name(activation.node), activation.item_index
            undo = activation.undo is not None and activation.undo.state == "parked"
            known = (
                run_id,
                node,
                activation.scope,
                item,
                activation.state,
                activation.attempt,
                undo and activation.undo,
            )
            mark = str(known)
            random = Random(f"people {world.plan.seed} {mark}")
            if mark in self._planned:
                continue
            if undo or activation.state == "parked":
                self._planned.add(mark)
                place = (node, activation.scope, item)
                self._plan(random.random() * 60, [self._rescue(random, run_id, place, undo=undo)])
            elif activation.state == "waiting" and activation.wait is not None and activation.wait.kind == "signal":
                self._planned.add(mark)
                if s.find(self._stubs, world.workflow_of(run_id), node) is None:
                    self._send(random, run_id, mark, activation.wait.name, activation.wait.until)

    def _rescue(self, random: Random, run_id: str, place: tuple[str, Scope, int | None], *, undo: bool) -> Request:
        node, scope, item = place
        about: dict[str, Any] = {
            "run_id": run_id,
            "by": "ann",
            "node": node,
            "scope": scope,
            "item": item,
            "undo": undo,
        }
        if random.random() < 0.4:
            return Request(kind="requeue", **about)
        return Request(kind="discard", as_=random.choice(("skip", "fail", "continue")), **about)

    def _send(self, random: Random, run_id: str, mark: str, name: str, until: float | None) -> None:
        left = 60.0 if until is None else 1.1 * (until - self._world.clock.now())
        if until is None or random.random() < 2 / 3:
            request = Request(kind="signal", run_id=run_id, name=name, payload={}, signal=mark, by="ann")
            self._plan(random.random() * left, [request])

    # -- doing it ------------------------------------------------------------------------------------------------------

    def _plan(self, after: float, requests: list[Request]) -> None:
        heapq.heappush(self._agenda, (self._world.clock.now() + after, self._next(), requests))

    def act(self) -> None:
        while self._agenda and self._agenda[0][0] <= self._world.clock.now():
            requests = heapq.heappop(self._agenda)[2]
            self.busy += 1
            self._call(self._insist(requests))

    async def _insist(self, requests: list[Request]) -> None:
        """Ask until there is an answer, like a person who sees an error and presses the button again."""
        try:
            for request in requests:
                for _ in range(TRIES):
                    record = self._world.store.runs.get(request.run_id)
                    if record is None or record.row.ended_at is not None:
                        return
                    if (reply := await self._ask(request)) is not None:
                        break
                    await asyncio.sleep(1.0)
                else:
                    continue
                if reply.refused and not self._world.lenient:
                    self._world.fail(
                        Failed("script", f"{request.kind} {request.approval or request.name}: {reply.message}")
                    )
        finally:
            self.busy -= 1

    async def _ask(self, request: Request, compiled: Compiled | None = None) -> Reply | None:
        world = self._world
        if world.lenient:
            return await super()._ask(request, compiled)
        while True:  # nothing goes wrong in this world, so a holder will appear
            holder = next((p for p in world.engines if p.engine is not None and p.engine.holds), None)
            if holder is not None:
                break
            await asyncio.sleep(0.01)
        world.trace("user", f"{request.kind} {request.run_id} {request.name}{request.approval} {request.decision}")
        call = world.loop.run_in(holder.host, _quietly(holder, request), "request")
        await asyncio.wait([call], timeout=PATIENCE_SECONDS)
        answer: Reply | None = call.result() if call.done() and not call.cancelled() else None
        return answer
