"""Promises at the border of a process: what it acknowledges, what it gives to handlers, by which clock it fires timers.

Each function looks at one thing as it happens and says what is broken. The checker's view of the journal is the truth.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.blobs import parse_ref
from perdure.invariants.model import ENDED, ERROR, RUN_OVER, TAKEN, Act, Model
from perdure.kernel import events as e
from perdure.kernel.address import Address
from perdure.kernel.segments import decode as segments_of
from perdure.kernel.segments import find_refs, pack
from perdure.simulation import faults
from perdure.simulation.graphs import WHEN
from perdure.simulation.rules import why_skipped
from perdure.transport import Result, Task

if TYPE_CHECKING:
    from perdure.simulation.world import World

STOP_SECONDS = 30.0
"""Seconds after the end of its run in which a handler that can be cancelled is stopped, if nothing else goes wrong."""
LEFT_SECONDS = 100.0
"""Seconds in which a child whose parent's node has ended is stopped, once nothing goes wrong any more."""
_RUDE = frozenset((*faults.JOURNAL, *faults.TRANSPORT, *faults.WORLD))


class Promises:
    def __init__(self, world: World) -> None:
        self._world = world
        self._inputs: dict[tuple[Any, ...], bytes] = {}
        self._over_since: dict[str, float] = {}
        self._configs: dict[tuple[Any, ...], bytes] = {}
        self._given: dict[str, Any] = {}
        self._origins: dict[str, str] = {}
        self._left_since: dict[str, float] = {}
        self.busy: Counter[str] = Counter()
        """How many handlers have begun and not ended, by the process they run in."""

    def _fail(self, rule: str, message: str) -> None:
        self._world.checks.fail(rule, message)

    # -- appends -------------------------------------------------------------------------------------------------------

    def appended(self, run_id: str, event: e.Event, model: Model, now: float) -> None:
        """Check an event that was appended. `now` is the clock of the process that appends."""
        world = self._world
        if model.state in RUN_OVER:
            self._over_since.setdefault(run_id, world.loop.time())
        else:
            self._over_since.pop(run_id, None)
        self._check_blobs(run_id, event)
        self._check_adopted(run_id, event)
        if world.generated:
            self._check_when(run_id, event, model)
        if isinstance(event, e.NodeScheduled | e.NodeHeld) and event.unbegun:
            self._check_unbegun(run_id, event, model)
        if isinstance(event, e.TimerFired) and event.at > now + 0.001 and "clock_jump" not in world.plan.rates:
            self._fail("W1", f"timer {event.timer} of run {run_id} fires {event.at - now:.3f} s before its time")
        if isinstance(event, e.RunCreated) and event.parent is not None and not world.rolled_back:
            parent = world.checks.checkers.get(event.parent[0])
            if parent is None or run_id not in parent.model.children:
                self._fail("R6", f"run {run_id} is created for {event.parent[0]}, which started no such child")

    def _check_unbegun(self, run_id: str, event: e.NodeScheduled | e.NodeHeld, model: Model) -> None:
        """V6: what the journal says did not begin was not executed."""
        attempt = event.attempt - isinstance(event, e.NodeScheduled)
        task_id = Address(run_id, event.node, event.scope, event.item, attempt, model.generation).task_id
        self._world.checks.rules.note(33)
        if self._world.checks.executions[task_id] and not self._world.rolled_back:
            self._fail("V6", f"{task_id} was executed, and the journal says that it did not begin")

    def check_left(self, open_runs: list[str]) -> None:
        """Rule 35: a child is stopped when its parent's node has ended, and not by the child, or its parent. Asked when nothing
        goes wrong any more: whatever was lost before has to be found."""
        world, before, self._left_since = self._world, self._left_since, {}
        for run_id in open_runs:
            parent = world.checks.checkers.get(world.store.runs[run_id].row.parent or "")
            key = None if parent is None else parent.model.children.get(run_id)
            if parent is None or key is None:
                continue
            act, child = parent.model.acts[key], world.checks.checkers[run_id].model
            asked = act.brood.get(run_id)
            left = asked.open and not act.asks if asked is not None else act.child_open and act.state in ENDED
            if parent.model.state in RUN_OVER:  # a later generation was begun by a person
                waited_for = 1 + (act.child_ended if asked is None else asked.ended)
                left = (act.child_open if asked is None else asked.open) and child.generation <= waited_for
            if not left or child.state not in ("running", "paused"):
                continue
            since = self._left_since[run_id] = before.get(run_id, world.loop.time())
            if world.loop.time() - since > LEFT_SECONDS:
                self._fail(
                    "rule 35", f"run {run_id} goes on, its parent is {parent.model.state}, and {act.place} {act.state}"
                )

    def _check_when(self, run_id: str, event: e.Event, model: Model) -> None:
        """Rule 21, by what the generator knows of its own conditions: `when` was evaluated, and rightly."""
        if isinstance(event, e.RunCreated):
            self._given[run_id] = event.inputs
        inputs = self._given.get(run_id)
        if not isinstance(inputs, dict):
            return
        error = getattr(event, "error", None)
        if error is not None and error.code == "routing_failed" and error.message.startswith("`when`"):
            self._fail("rule 21", f"run {run_id} at {event.seq}: {error.message}")
        places: tuple[Any, ...] = (event,) if isinstance(event, e.NodeSkipped) else ()
        for place in event.places if isinstance(event, e.NodesSkipped) else places:
            act = model.acts.get((place.node, place.scope, place.item))
            node = None if act is None else model.graph_of(act).nodes.get(act.node)
            if act is None or act.discarded or node is None or why_skipped(model, act) != 21:
                continue
            condition = None if node.when is None else node.when.spec.get("expression")
            if condition is None or (condition in WHEN and WHEN[condition](inputs)):
                self._fail("rule 21", f"run {run_id} at {event.seq}: {act.place} is skipped, its `when` is {condition}")

    def _check_adopted(self, run_id: str, event: e.Event) -> None:
        """Rule 40: a run begins with outcomes that the run it comes from has, or had when it was read."""
        world = self._world
        if isinstance(event, e.RunCreated) and event.origin is not None:
            self._origins[run_id] = event.origin[0]
        source = self._origins.get(run_id, "")
        if not isinstance(event, e.NodeCompleted) or not event.adopted or world.rolled_back:
            return
        if source not in world.store.runs:
            self._fail("rule 40", f"run {run_id} begins with outcomes of {source}, which is not there")
            return
        state = world.checks.fold(source)
        had = ("completed", "compensated")
        done = [a for a in state.activations.values() if a.state in had and state.name(a.node) == event.node]
        if not any((a.output, a.output_ref) == (event.output, event.output_ref) for a in done):
            self._fail("rule 40", f"run {run_id} begins with an output of {event.node} that {source} does not have")

    def _check_stored(self, run_id: str, event: e.StreamClosed) -> None:
        """F5: what an edition has come to is what its pieces hold."""
        for end in event.ports if event.reason == "end" else ():
            pieces = [self._world.find_blob(part.ref) for part in event.parts if part.port == end.port]
            stored = sum(len(msgspec.json.decode(piece)) for piece in pieces if piece is not None)
            if stored != end.chunks:
                self._fail("F5", f"run {run_id}: {event.node} has yielded {end.chunks} chunks, and {stored} are stored")

    def _check_blobs(self, run_id: str, event: e.Event) -> None:
        """V7: a blob that a journal names was written before, and so were the blobs named inside it."""
        waiting = [ref for name in ("output_ref", "outputs_ref") if (ref := getattr(event, name, None)) is not None]
        if isinstance(event, e.StreamKept):
            waiting.append(event.part.ref)
        elif isinstance(event, e.StreamClosed):
            waiting += [part.ref for part in event.parts]
            self._check_stored(run_id, event)
        while waiting:
            ref = waiting.pop()
            found = self._world.find_blob(ref)
            if found is None:
                self._fail("V7", f"run {run_id}: {event.type} names {ref[:30]}…, which was not written")
            elif parse_ref(ref)[1]:
                waiting += sorted(find_refs(segments_of(found, True)))

    # -- results -------------------------------------------------------------------------------------------------------

    def acknowledged(self, result: Result) -> None:
        """T1: a result that is acknowledged does not come again, so what it led to must be durable."""
        world = self._world
        checker = world.checks.checkers.get(result.run_id)
        if checker is None or result.kind == "checkpointed" or result.incarnation != world.store.incarnation:
            return
        model = checker.model
        act = model.acts.get((result.node, result.scope, result.item))
        record = world.store.runs.get(result.run_id)
        if act is None or record is None or record.quarantined is not None or result.generation != model.generation:
            return
        if result.undo:
            undone = (
                model.state != "compensating" or act.undo_attempt != result.attempt or act.undo_retry_at is not None
            )
            waits = act.state == "completed" and model.plan and model.plan[-1] == act.key and not act.undo_parked
            pending = not undone and bool(waits)
        else:
            pending = (
                act.state in ("queued", "running") and act.attempt == result.attempt and model.state not in RUN_OVER
            )
            if result.stopped and act.state == "running":  # it was held since, and sent again: another one runs now
                pending = False
        if pending:
            self._fail("T1", f"the result of {result.task_id} is acknowledged, and the journal does not have it")

    # -- handlers ------------------------------------------------------------------------------------------------------

    def executed(self, task: Task, model: Model) -> None:
        """E3: a handler is given exactly the outputs of the taken edges. Rule 13: the same over all attempts."""
        owner = model.acts.get((task.node, task.scope, None))
        if owner is None or task.undo or task.generation != model.generation:
            return
        self._check_edges(task, owner, model)
        place = (task.run_id, task.node, task.scope, task.item, task.generation, owner.undone)
        config = msgspec.json.encode(pack(task.config), order="deterministic")
        if self._configs.setdefault(place, config) != config:
            self._fail("rule 39", f"{task.task_id} is given another config than the attempt before it")
        inputs = msgspec.json.encode(pack(task.inputs), order="deterministic")
        if place in self._inputs and task.attempt > 1:
            self._world.checks.rules.note(13)
        if self._inputs.setdefault(place, inputs) != inputs:
            self._fail("rule 13", f"{task.task_id} is given other inputs than the attempt before it")

    def _check_edges(self, task: Task, owner: Act, model: Model) -> None:
        taken = {source for source, status in owner.edges.items() if status in (TAKEN, ERROR)}
        given = set(task.inputs)
        pinned = model.graphs[owner.graph]
        node = pinned.nodes.get(task.node)  # a patch may make an `all` of a join that fired with fewer
        known = {source for source in taken if pinned.has(source, task.node)}  # a patch may bring more, for others
        known -= {
            edge.source for edge in pinned.incoming.get(task.node, ()) if edge.streams
        }  # it reads while they yield
        if given - taken:
            self._fail("E3", f"{task.task_id} is given {sorted(given - taken)}; its taken edges are {sorted(taken)}")
        elif known - given and node is not None and node.join.at_least is None:
            self._fail("E3", f"{task.task_id} is not given {sorted(known - given)}, whose edges were taken")

    def begun(self, process: str) -> None:
        """Rule 32: no more handlers at a time than there are slots, those that cannot be stopped included."""
        self.busy[process] += 1
        if self.busy[process] > self._world.plan.concurrency:
            self._fail("rule 32", f"{self.busy[process]} handlers run in {process} at a time")

    def finished(self, task: Task) -> None:
        """Rule 29: a stop is delivered. This handler came to its end without being cancelled."""
        world = self._world
        since = self._over_since.get(task.run_id)
        if since is None or _RUDE & world.plan.rates.keys() or world.loop.time() - since < STOP_SECONDS:
            return
        self._fail("rule 29", f"{task.task_id} still works {world.loop.time() - since:.0f} s after its run was over")
