"""Promises at the border of a process: what it acknowledges, what it gives to handlers, by which clock it fires timers.

Each function looks at one thing as it happens and says what is broken. The journal as the checker knows it is the truth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from weft.invariants.model import ERROR, RUN_OVER, TAKEN, Act, Model
from weft.kernel import events as e
from weft.simulation import faults
from weft.transport import Result, Task

if TYPE_CHECKING:
    from weft.simulation.world import World

STOP_SECONDS = 30.0
"""After its run is over, a handler that can be cancelled has heard of it, when nothing else goes wrong."""
_RUDE = frozenset((*faults.JOURNAL, *faults.TRANSPORT, *faults.WORLD))


class Promises:
    def __init__(self, world: World) -> None:
        self._world = world
        self._inputs: dict[tuple[Any, ...], bytes] = {}
        self._over_since: dict[str, float] = {}

    def _fail(self, rule: str, message: str) -> None:
        self._world.checks.fail(rule, message)

    # -- appends -------------------------------------------------------------------------------------------------------

    def appended(self, run_id: str, event: e.Event, model: Model, now: float) -> None:
        """`now` is what the clock of the process that appends says."""
        world = self._world
        if model.state in RUN_OVER:
            self._over_since.setdefault(run_id, world.loop.time())
        else:
            self._over_since.pop(run_id, None)
        if isinstance(event, e.TimerFired) and event.at > now + 0.001 and "clock_jump" not in world.plan.rates:
            self._fail("W1", f"timer {event.timer} of run {run_id} fires {event.at - now:.3f} s before its time")
        if isinstance(event, e.RunCreated) and event.parent is not None and not world.rolled_back:
            parent = world.checks.checkers.get(event.parent[0])
            if parent is None or run_id not in parent.model.children:
                self._fail("R6", f"run {run_id} is created for {event.parent[0]}, which started no such child")

    # -- results -------------------------------------------------------------------------------------------------------

    def acknowledged(self, result: Result) -> None:
        """What is acknowledged does not come again: what it led to must be durable."""
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
        if pending:
            self._fail("T1", f"the result of {result.task_id} is acknowledged, and the journal does not have it")

    # -- handlers ------------------------------------------------------------------------------------------------------

    def executed(self, task: Task, model: Model) -> None:
        """E3: exactly the outputs of the taken edges. Rule 13: the same over all attempts."""
        owner = model.acts.get((task.node, task.scope, None))
        if owner is None or task.undo or task.generation != model.generation:
            return
        self._check_edges(task, owner, model)
        place = (task.run_id, task.node, task.scope, task.item, task.generation, owner.undone)
        inputs = msgspec.json.encode(task.inputs, order="deterministic")
        if self._inputs.setdefault(place, inputs) != inputs:
            self._fail("rule 13", f"{task.task_id} is given other inputs than the attempt before it")

    def _check_edges(self, task: Task, owner: Act, model: Model) -> None:
        taken = {source for source, status in owner.edges.items() if status in (TAKEN, ERROR)}
        given = set(task.inputs)
        node = model.graph_of(owner).nodes.get(task.node)
        if given - taken:
            self._fail("E3", f"{task.task_id} is given {sorted(given - taken)}; its taken edges are {sorted(taken)}")
        elif taken - given and not owner.redo and node is not None and node.join.at_least is None:
            self._fail("E3", f"{task.task_id} is not given {sorted(taken - given)}, whose edges were taken")

    def finished(self, task: Task) -> None:
        """The handler came to its end, and was not cancelled. Rule 29: a stop is delivered."""
        world = self._world
        since = self._over_since.get(task.run_id)
        if since is None or _RUDE & world.plan.rates.keys() or world.loop.time() - since < STOP_SECONDS:
            return
        self._fail("rule 29", f"{task.task_id} still works {world.loop.time() - since:.0f} s after its run was over")
