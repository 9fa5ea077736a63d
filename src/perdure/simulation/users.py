"""People: they start runs and interfere at any moment, through the process that holds the journal or from a terminal.

After healing they do what runs wait for: resume, vote, signal, decide about dead letters.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from perdure.errors import PerdureError
from perdure.model import Compiled
from perdure.runtime.coordinator.requests import Reply, Request
from perdure.simulation import graphs
from perdure.simulation.faults import USER
from perdure.simulation.history_checks import Failed
from perdure.simulation.loop import SimTask
from perdure.simulation.process import EngineProcess, Terminal

if TYPE_CHECKING:
    from perdure.simulation.world import World

PATIENCE_SECONDS = 120.0
MOST_RERUNS = 3


class Users:
    def __init__(self, world: World) -> None:
        self._world = world
        plan = world.plan
        self._numbers = 0
        self.unstarted = [f"run{number}" for number in range(plan.runs)]
        self._inputs = dict(zip(self.unstarted, plan.inputs, strict=True))
        self._calls: list[SimTask] = []
        self._requests: list[SimTask] = []
        self._reruns = 0

    # -- in the time of faults -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        world, random = self._world, self._world.random
        names = [(name, world.plan.rates[name]) for name in USER if name in world.plan.rates]
        total = sum(rate for _, rate in names)
        for run_id in list(self.unstarted):
            await asyncio.sleep(random.random() * random.choice((0.0, 1.0, 10.0)))
            self._call(self._start(run_id))
        while total:
            await asyncio.sleep(random.expovariate(total / 10.0))
            number = random.random() * total
            for name, rate in names:
                number -= rate
                if number < 0:
                    self._interfere(name)
                    break

    def _interfere(self, name: str) -> None:
        world, random = self._world, self._world.random
        runs = list(world.checks.checkers)
        if not runs:
            return
        run_id = random.choice(runs)
        if name == "patch" and random.random() < 0.9:  # a run that has ended refuses it, which is soon known
            run_id = random.choice([one for one in runs if world.is_open(one)] or runs)
        if name in ("patch", "rerun"):
            self._call(self._patch(run_id) if name == "patch" else self._rerun(run_id))
            return
        request = self._request(name, run_id)
        if request is not None:
            world.chaos.happened(name)
            self._call(self._ask(request))

    def _request(self, name: str, run_id: str) -> Request | None:
        random, model = self._world.random, self._world.checks.checkers[run_id].model
        by = random.choice(("ann", "bob", "eve"))
        match name:
            case "retry":
                return Request(kind=name, run_id=run_id, by=by, budget=self._world.more_money(run_id))
            case "cancel" | "pause" | "resume" | "rollback":
                return Request(kind=name, run_id=run_id, by=by)
            case "force":
                return Request(kind="cancel", run_id=run_id, by=by, force=True)
            case "signal":
                self._numbers += 1
                word = random.choice(("go", "stop"))
                return Request(kind="signal", run_id=run_id, by=by, name=word, signal=f"s{self._numbers}", payload=1)
            case "vote":
                if not model.approvals:
                    return None
                approval = random.choice(list(model.approvals))
                decision: Any = random.choice(("approve", "reject"))
                return Request(kind="vote", run_id=run_id, by=by, approval=approval, decision=decision)
        parked = [act for act in model.acts.values() if act.state == "parked"] or list(model.acts.values())
        if not parked:
            return None
        act = random.choice(parked)
        undo = random.random() < 0.2
        place: dict[str, Any] = {"node": act.node, "scope": act.scope, "item": act.item, "undo": undo}
        if name == "requeue":
            return Request(kind="requeue", run_id=run_id, by=by, **place)
        return Request(kind="discard", run_id=run_id, by=by, as_=random.choice(("skip", "fail", "continue")), **place)

    async def _patch(self, run_id: str) -> None:
        """Patch a run under way with a definition that is legal, illegal, or not stored at all."""
        world, random = self._world, self._world.random
        record = world.store.runs.get(run_id)
        if record is None:
            return
        changed = graphs.change(random, world.sources[record.row.ir], world.plan.workflows)
        if random.random() < 0.1:  # back to a definition it had, or might have had
            changed = random.choice([one for one in world.sources.values() if one["name"] == record.row.workflow])
        if changed is None:
            return
        found = graphs.compiled(changed)
        if found.ir is None:
            world.checks.rules.refused({problem.code for problem in found.errors})
            return
        world.chaos.happened("patch")
        world.know(changed, found.ir)
        kept = None if random.random() < 0.05 else found
        request = Request(kind="patch", run_id=run_id, by="ann", ir=found.ir.hash if kept else "sha256:0", reason="so")
        incarnation = world.store.incarnation
        reply = await self._ask(request, kept)
        if reply is None or reply.refused or world.store.incarnation != incarnation:
            return
        if found.ir.hash not in world.checks.fold(run_id).ir_hashes:
            world.fail(Failed("J1", f"a patch of {run_id} was acknowledged and is not in the journal"))

    async def _rerun(self, run_id: str) -> None:
        """Start a new run out of this one, from some node on or from the start."""
        world, random = self._world, self._world.random
        if self._reruns >= MOST_RERUNS:
            return
        self._reruns += 1
        nodes = list(world.checks.checkers[run_id].model.graph.nodes)
        node = random.choice(nodes) if random.random() < 0.85 else ""
        inputs = {random.choice(nodes): {"ok": True, "n": 1}} if node and random.random() < 0.3 else None
        world.chaos.happened("rerun")
        request = Request(
            kind="rerun", run_id=f"again{self._reruns}", source=run_id, node=node, inputs=inputs, by="bob"
        )
        incarnation = world.store.incarnation
        reply = await self._ask(request)
        if reply is None or reply.refused or world.store.incarnation != incarnation:
            return
        if request.run_id not in world.store.runs:
            world.fail(Failed("J1", f"{request.run_id} was acknowledged and is not in the journal: {reply}"))

    def lose_a_caller(self) -> None:
        """Cancel one caller, and one of the requests that processes make for callers."""
        for calls in (self._calls, self._requests):
            calls[:] = [call for call in calls if not call.done()]
            if calls:
                self._world.random.choice(calls).cancel()

    def forget_lost(self) -> None:
        """Have runs started again that the journal no longer knows, because it went back."""
        for run_id in self._inputs:
            if run_id not in self._world.store.runs and run_id not in self.unstarted:
                self.unstarted.append(run_id)

    @property
    def asking(self) -> bool:
        """Whether a caller still waits for an answer."""
        return any(not call.done() for call in self._calls)

    # -- asking --------------------------------------------------------------------------------------------------------

    def _call(self, work: Any) -> None:
        self._calls = [call for call in self._calls if not call.done()]
        self._calls.append(self._world.loop.run_in(self._world.loop.world, work, "call"))

    def _start_request(self, run_id: str) -> Request:
        world = self._world
        names = [definition["name"] for definition in world.plan.workflows[1:]]
        ir, version = world.versions[names[int(run_id[3:]) % len(names)]]
        return Request(kind="start", run_id=run_id, ir=ir, workflow_version=version, inputs=self._inputs[run_id])

    async def _start(self, run_id: str) -> None:
        incarnation = self._world.store.incarnation
        reply = await self._ask(self._start_request(run_id))
        if reply is None or self._world.store.incarnation != incarnation:
            return
        if reply.refused and reply.code != "exists":
            self._world.fail(Failed("start", f"{run_id}: {reply}"))
        elif run_id not in self._world.store.runs and not (reply.refused and self._world.rolled_back):
            self._world.fail(Failed("J1", f"{run_id} was acknowledged and is not in the journal: {reply}"))
        else:
            self.unstarted = [one for one in self.unstarted if one not in self._world.store.runs]

    async def start_rest(self) -> None:
        self.unstarted = [run_id for run_id in self.unstarted if run_id not in self._world.store.runs]
        for run_id in list(self.unstarted):
            await self._start(run_id)

    async def _ask(self, request: Request, compiled: Compiled | None = None) -> Reply | None:
        """The answer, or None when there was none. A definition is stored first, by the process that asks."""
        world = self._world
        world.trace("user", f"{request.kind} {request.run_id} {request.node}{request.approval} {request.decision}")
        holder = next((p for p in world.engines if not p.down and p.engine is not None and p.engine.holds), None)
        if holder is not None and world.random.random() < 0.7:
            call = world.loop.run_in(holder.host, _quietly(holder, request, compiled), "request")
            self._requests.append(call)
            await asyncio.wait([call], timeout=PATIENCE_SECONDS)
            reply: Reply | None = call.result() if call.done() and not call.cancelled() else None
        else:
            reply = await Terminal(world, f"terminal{self._next()}").ask(request, PATIENCE_SECONDS, compiled)
        shown = "no answer" if reply is None else f"{reply.state}{reply.code} {reply.message}"
        world.trace("answer", f"{request.kind} {request.run_id}: {shown}")
        return reply

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    # -- after healing -------------------------------------------------------------------------------------------------

    def is_waiting(self, run_id: str) -> bool:
        """Whether a time that the run, or a child of it, waits for is still to come."""
        now = min(process.clock.now() for process in self._world.engines)
        timers = self._world.store.timers.items()
        return any(due_at > now for (owner, _), due_at in timers if f"{owner}:".startswith(f"{run_id}:"))

    def describe(self, run_id: str) -> str:
        model = self._world.checks.checkers[run_id].model
        acts = ", ".join(f"{a.place} {a.state} {a.wait} {a.attempt}" for a in model.acts.values() if a.state in _OPEN)
        timers = {name: due for (owner, name), due in self._world.store.timers.items() if owner == run_id}
        return f"{run_id} is {model.state} in generation {model.generation}: {acts or 'nothing open'}; timers {timers}"

    async def help(self, run_id: str) -> None:
        """Do what this run waits for a person to do."""
        world, random = self._world, self._world.random
        model = world.checks.checkers[run_id].model
        if model.state == "paused":
            await self._ask(Request(kind="resume", run_id=run_id, by="ann", budget=world.more_money(run_id)))
        for name, approval in list(model.approvals.items()):
            if approval.pending:
                voters = [who for who in approval.approvers if who not in approval.votes] or ["ann"]
                decision: Any = random.choice(("approve", "approve", "reject"))
                await self._ask(Request(kind="vote", run_id=run_id, by=voters[0], approval=name, decision=decision))
        state = world.checks.fold(run_id)
        for activation in list(state.activations.values()):
            place: dict[str, Any] = {
                "node": state.name(activation.node),
                "scope": activation.scope,
                "item": activation.item_index,
            }
            if activation.undo is not None and activation.undo.state == "parked":
                await self._ask(Request(kind="discard", run_id=run_id, by="ann", undo=True, **place))
            elif activation.state == "parked":
                as_: Any = random.choice(("skip", "fail", "continue"))
                again = random.random() < 0.4
                kind: Any = "requeue" if again else "discard"
                await self._ask(Request(kind=kind, run_id=run_id, by="ann", as_=as_, **place))
            elif activation.state == "waiting" and activation.asks:
                for ask in [one for one in activation.asks.values() if one.open and one.signal]:
                    self._numbers += 1
                    signal = f"h{self._numbers}"
                    await self._ask(
                        Request(kind="signal", run_id=run_id, name=ask.signal, signal=signal, payload=2, by="bob")
                    )
            elif activation.wait is not None and activation.wait.kind == "signal" and activation.state == "waiting":
                self._numbers += 1
                name = activation.wait.name
                await self._ask(
                    Request(kind="signal", run_id=run_id, name=name, signal=f"h{self._numbers}", payload=2, by="bob")
                )
            elif activation.wait is not None and activation.wait.kind in ("event", "trigger"):
                await world.happen(activation.wait)


_OPEN = {"held", "queued", "running", "waiting", "retrying", "parked", "pending"}


async def _quietly(holder: EngineProcess, request: Request, compiled: Compiled | None = None) -> Reply | None:
    try:
        return await holder.request(request, compiled)
    except PerdureError:
        return None
