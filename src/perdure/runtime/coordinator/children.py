"""Children: starts, retries, stops and rolls back child runs for their parents (rule 35)."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Any, Literal
from weakref import WeakValueDictionary

from perdure.blobs import BlobDamaged, BlobMissing
from perdure.budget import REQUEST_SECONDS, REQUEST_STEPS, Budget
from perdure.clock import Clock
from perdure.errors import StoreUnavailable
from perdure.expressions.errors import ContentLost, NotAtHand
from perdure.expressions.json_schema import SchemaInvalid
from perdure.journal import Journal
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.child_runs import find_generation, open_children
from perdure.kernel.decider import sorted_by_schedule
from perdure.kernel.lifecycle import N, R
from perdure.kernel.run_ids import root_of
from perdure.kernel.state import State
from perdure.kernel.values import Error
from perdure.limits import Bounds
from perdure.model.ir import IR
from perdure.runtime.coordinator.continuations import child_notice
from perdure.runtime.coordinator.library import Library
from perdure.runtime.coordinator.loaded import Loaded
from perdure.runtime.coordinator.loaded_runs import Memory
from perdure.runtime.coordinator.messages import Asked, Message, Noticed, Resumed
from perdure.runtime.coordinator.tasks.fetcher import Fetcher
from perdure.runtime.coordinator.tasks.renderer import Renderer
from perdure.runtime.filled_inputs import fill_in_aside

logger = logging.getLogger("perdure.children")

_TROUBLE_SECONDS = 0.05
MOST_IN_A_TREE = 200_000
"""Runs in one tree: twice what one `map` may start. A limit on depth alone is not enough: with two children at each of
a hundred levels a tree outgrows any store."""
_TREES = 10_000


def _can_go_on(child: State) -> bool:
    """Whether the child can be retried: it failed, or was cancelled only because its parent had stopped (rule 35)."""
    return child.state is R.FAILED or (child.state is R.CANCELLED and child.orphaned)


_LOOKED_AT = 100
"""How many children of one run are looked up to explain what it waits for."""


async def explain_children(journal: Journal, state: State) -> dict[str, str]:
    """An explanation, by node, for each node whose child is quarantined: a parent must not wait for it in silence."""
    waiting = sorted_by_schedule(state, N.WAITING) if state.children else []
    found = [(state.name(activation.node), child) for activation in waiting for child in open_children(activation)]
    said: dict[str, str] = {}
    for node, child in found[:_LOOKED_AT]:
        record = await journal.find_run(child)
        if record is not None and record.quarantined is not None:
            why = record.quarantined.split("\n")[0][:200]
            said[node] = (
                f" The child {child} is quarantined and cannot go on ({why}): `perdure doctor` says more, and"
                " cancelling this run gives it up."
            )
    return said


class _Order:
    """The start or retry of a child on its way to its decision. A stop calls it off."""

    __slots__ = ("__weakref__", "called_off")

    def __init__(self) -> None:
        self.called_off = False


class Children:
    def __init__(
        self,
        journal: Journal,
        library: Library,
        memory: Memory,
        renderer: Renderer,
        fetcher: Fetcher,
        clock: Clock,
        *,
        put: Callable[[Message], None],
        quarantine: Callable[[str, Exception], Awaitable[None]],
        bounds: Bounds,
    ) -> None:
        self._journal = journal
        self._library = library
        self._memory = memory
        self._renderer = renderer
        self._fetcher = fetcher
        self._clock = clock
        self._put = put
        self._quarantine = quarantine
        self._bounds = bounds
        self.waiting: deque[tuple[State, fx.StartChild | fx.StopChild]] = deque()
        """What is decided about children and not done yet, with the state of the parent."""
        self._orders: WeakValueDictionary[str, _Order] = WeakValueDictionary()
        """By child, the start or retry that is not decided yet: one lives as long as the message that carries it."""
        self._made: OrderedDict[str, int] = OrderedDict()
        """How many children were started, by the root run of their tree; only the `_TREES` most recent trees are
        counted."""
        self._fetching: dict[str, Resumed] = {}
        """By child, the message that waits until something the child needs is fetched."""

    def put(self, loaded: Loaded, effect: fx.StartChild | fx.StopChild) -> None:
        self.waiting.append((loaded.state, effect))

    async def act(self) -> None:
        while self.waiting:
            parent, effect = self.waiting.popleft()
            try:
                await self._act(parent, effect)
            except NotAtHand as need:  # always the same message, so that what was fetched for it before stays pinned
                message = self._fetching.setdefault(effect.child, Resumed(parent.run_id, None))
                self._fetcher.set_aside(message, need)
                continue
            except StoreUnavailable as error:
                logger.warning("child %s: %s; trying again", effect.child, error)
                await self._clock.sleep(_TROUBLE_SECONDS)
                self._put(Resumed(parent.run_id, None))
            except Exception as error:  # noqa: BLE001  the child cannot be understood; its parent waits for its repair
                await self._quarantine(effect.child, error)
            waited = self._fetching.pop(effect.child, None)
            if waited is not None:
                self._fetcher.handled(waited)

    async def _act(self, parent: State, effect: fx.StartChild | fx.StopChild) -> None:
        child = await self._memory.find(effect.child)
        if isinstance(effect, fx.StartChild):
            await self._start(parent, effect, child)
        else:
            self._stop(parent, effect, child)
        if child is not None:
            self._memory.rest(child)

    async def _start(self, parent: State, effect: fx.StartChild, child: Loaded | None) -> None:
        if child is None:
            await self._create(parent, effect)
        elif _can_go_on(child.state) and child.state.generation < effect.generation:
            by = f"run {parent.run_id}"
            self._order(parent, effect.child, lambda: c.Retry(at=self._now(), by=by, orphaned=True), starts=False)
        elif child.state.terminal:  # cancelled or rolled back: it cannot be retried, and ends as it ended (rule 35)
            self._tell(parent, child.state, effect.generation)

    async def _create(self, parent: State, effect: fx.StartChild) -> None:
        name, _, version = effect.workflow.partition("@")
        number = int(version) if version.isdigit() else None
        found = await self._journal.find_workflow(name, number, tenant=parent.tenant)
        if found is None or (version and number is None):
            todo = "register it (perdure workflows push FILE), or correct the name"
            problem = Error("workflow_not_found", f"no workflow {effect.workflow}; {todo}")
            self._end(parent, effect.child, "failed", problem)
            return
        try:
            ir = await self._library.get_now(found.ir_hash)
            inputs, problems = await self._fill_inputs(parent, effect, ir)
        except (BlobMissing, BlobDamaged, ContentLost, SchemaInvalid) as error:
            problem = Error(error.code, f"workflow {effect.workflow}: {error.message}")
            self._end(parent, effect.child, "failed", problem)
            return
        if excess := self._bounds.find_excess(ir):
            self._end(parent, effect.child, "failed", Error("limit_exceeded", f"{effect.workflow}: {excess}"))
            return
        if problems:
            message = f"the inputs do not fit {effect.workflow}: {'; '.join(problems)}"
            self._end(parent, effect.child, "failed", Error("invalid_inputs", message))
            return
        if not self._has_room(parent):
            message = f"{MOST_IN_A_TREE:,} runs have been started below {root_of(parent.run_id)}; a workflow that starts itself twice never ends"
            self._end(parent, effect.child, "failed", Error("limit_exceeded", message))
            return
        start = c.Start(
            at=self._now(),
            run_id=effect.child,
            ir=ir,
            workflow_version=found.version,
            inputs=inputs,
            tenant=parent.tenant,
            parent=(parent.run_id, effect.address.node, effect.address.scope, effect.address.item),
            depth=parent.depth + 1,
            by=f"run {parent.run_id}",
            correlation_id=parent.correlation_id,
            sealed_for=parent.sealed_for,
            asked_by=parent.requesters,
            budget=effect.budget,
            generation=effect.generation,  # the parent would take an older one for an end it has already heard of
        )
        self._order(parent, effect.child, lambda: start, starts=True)

    def _order(self, parent: State, child: str, command: Callable[[], c.Command], *, starts: bool) -> None:
        """Ask for the start or retry of a child. Until that is decided, a stop calls it off: what is stopped must not
        begin afterwards."""
        order = self._orders.get(child)
        if order is None or order.called_off:
            order = self._orders[child] = _Order()

        def make(state: State, order: _Order = order) -> c.Command:
            # A child that has ended refuses the cancel, and so does one that was never created.
            return self._cancel(parent) if order.called_off else command()

        self._put(Asked(child, make, starts=starts))

    def _has_room(self, parent: State) -> bool:
        """Whether the parent's tree may have another run. All runs of a tree are decided in one process, so a count in
        memory is enough: a process that takes over counts from zero, and stops a runaway tree as well."""
        root = root_of(parent.run_id)
        made = self._made.pop(root, 0) + 1
        self._made[root] = made
        while len(self._made) > _TREES:
            self._made.popitem(last=False)
        return made <= MOST_IN_A_TREE

    async def _fill_inputs(self, parent: State, effect: fx.StartChild, ir: IR) -> tuple[Any, list[str]]:
        """The child's inputs with the defaults of its schema filled in, and the problems the schema finds in them."""
        if ir.inputs_schema is None:
            return effect.inputs, []
        try:
            inputs = self._renderer.look_into(effect.inputs, "inputs", parent.tenant)
        except NotAtHand as need:
            need.tenant = parent.tenant
            raise
        budget = Budget(REQUEST_STEPS, seconds=REQUEST_SECONDS, now=self._clock.monotonic)
        whole, problems = await fill_in_aside(parent.tenant, ir.inputs_schema, inputs, budget)
        if whole is inputs or problems:
            return effect.inputs, problems
        try:
            return self._renderer.keep(whole, parent.tenant), []
        except NotAtHand as need:
            need.tenant = parent.tenant
            raise

    def _stop(self, parent: State, effect: fx.StopChild, child: Loaded | None) -> None:
        order = self._orders.get(effect.child)
        if order is not None:
            order.called_off = True
        if effect.rollback:
            if child is None:
                self._end(parent, effect.child, "cancelled", None)
            elif child.state.state is R.ROLLED_BACK:
                self._tell(parent, child.state)
            else:
                self._ask(effect.child, lambda state: c.Rollback(at=self._now(), by=f"run {parent.run_id}"))
        elif child is None or self._is_heard(parent, child.state):  # stopped before the generation waited for began
            self._end(parent, effect.child, "cancelled", None, begun=False)
        elif child.state.terminal:
            self._tell(parent, child.state)
        else:
            self._ask(effect.child, lambda state: self._cancel(parent))

    def _is_heard(self, parent: State, child: State) -> bool:
        """Whether the child has ended and its parent knows of that: it would wait for a generation after this one."""
        heard = find_generation(parent, child.run_id)
        return child.terminal and heard is not None and child.generation <= heard

    def _cancel(self, parent: State) -> c.Cancel:
        return c.Cancel(at=self._now(), by=f"run {parent.run_id}", orphaned=True)

    def _end(
        self, parent: State, child: str, end: Literal["failed", "cancelled"], error: Error | None, *, begun: bool = True
    ) -> None:
        """Tell the parent that a child has ended which was never created, or not begun again."""
        heard = find_generation(parent, child)
        if heard is not None:
            about: dict[str, Any] = {"child": child, "generation": heard + 1, "state": end, "error": error}
            command = c.EndChild(at=self._now(), begun=begun, **about)
            self._ask(parent.run_id, lambda state: command)

    def _tell(self, parent: State, child: State, generation: int = 0) -> None:
        self._put(Noticed(parent.run_id, 0, child_notice(child, generation)))

    def _ask(self, run_id: str, make: Callable[[State], c.Command]) -> None:
        self._put(Asked(run_id, make, None))

    def _now(self) -> float:
        return self._clock.now()
