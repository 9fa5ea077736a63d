"""The film of a run: every change of a state, in order, as columns of numbers.

Folding it is trivial, so that a screen can show a run at any event without asking: the last row about a node that is
`shown` is what a view of the run has for it. What an event does is decided in one place, by `evolve`; here it is only
watched, by the changes that a state announces. It must not know how a film is stored or sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from perdure.kernel import events as e
from perdure.kernel.evolve import evolve
from perdure.kernel.lifecycle import ERROR, SKIPPED, TAKEN, N, NodeState, R
from perdure.kernel.readings.explain import find_latest
from perdure.kernel.state import Activation, Key, LoopRun, State

STATES = tuple(state.value for state in NodeState)
FATES = ("open", "taken", "skipped")
_NUMBERS = {state: number for number, state in enumerate(NodeState)}
_FAILING = (R.FAILING, R.FAILED)


class Frame(msgspec.Struct, frozen=True, gc=False):
    """What an activation shows after an event."""

    state: int
    visit: int = 0
    attempt: int = 0
    started_at: float | None = None


_PENDING = Frame(_NUMBERS[N.PENDING])


class Row(msgspec.Struct, frozen=True, gc=False):
    seq: int
    at: float
    node: int
    scope: e.Scope
    item: int
    """The number of an item of a map; -1: the node itself."""
    frame: Frame
    shown: bool
    """From here on this is what the node shows."""


class Turn(msgspec.Struct, frozen=True, gc=False):
    """A change of what became of an edge."""

    seq: int
    source: int
    target: int
    fate: int


class Film:
    """Fed with the events of a run from the first on. The caller adds the definitions to the state's library before."""

    def __init__(self, run_id: str) -> None:
        self.state = State(run_id=run_id)
        self.rows: list[Row] = []
        self.turns: list[Turn] = []
        self._frames: dict[Key, Frame] = {}
        self._latest: dict[int, e.Scope] = {}
        """The newest iteration in which a node is known."""
        self._below: set[int] = set()
        """Nodes that were not reached because a node before them failed."""
        self._veiled: set[int] = set()
        """The nodes that are shown now as not reached, because a node before them failed."""
        self._fates: dict[tuple[int, int], list[int]] = {}
        """How many activations have an edge as taken, and how many as skipped."""
        self._statuses: dict[Any, int] = {}
        self._edges: dict[Key, dict[int, int]] = {}
        """The edges of each activation, to notice when they are other ones."""

    def feed(self, events: Iterable[e.Event]) -> None:
        for event in events:
            self._watch(event)

    def names(self) -> list[str]:
        """The nodes by their numbers, of every definition the run has followed."""
        return [self.state.name(number) for number in range(max((len(ir.nodes) for ir in self.state.irs), default=0))]

    # -- one event -----------------------------------------------------------------------------------------------------

    def _watch(self, event: e.Event) -> None:
        state = self.state
        state.undo, state.saved = [], {}
        evolve(state, event)
        changes, state.undo, state.saved = state.undo, None, {}
        touched: dict[Key, Activation] = {}
        loops: list[LoopRun] = []
        resolved: dict[int, list[int]] = {}
        for target, key, _ in changes:
            if isinstance(target, Activation):
                touched[target.key] = target
            elif target is state.activations:
                if key in state.activations:
                    touched[key] = state.activations[key]
                else:
                    self._forget(event.seq, key)
            elif isinstance(target, LoopRun):
                loops.append(target)
            elif target is state.entered:
                status = state.entered.get(key, (0, 0))[0]
                self._turn(event.seq, key[0], key[1], ("entered", key), status if status != SKIPPED else 0)
            elif isinstance(target, dict):
                resolved.setdefault(id(target), []).append(key)
        for activation in touched.values():
            self._resolve(event.seq, activation, resolved)
            self._note(event, activation)
        for run in loops:
            self._back(event.seq, run)
        if isinstance(event, e.RunPatched):
            self._look_again(event)
        self._veil(event, touched.values())

    def _note(self, event: e.Event, activation: Activation) -> None:
        frame = _frame(activation)
        # Without a row a node is pending; a new iteration has to say so.
        known = self._frames.get(activation.key, None if activation.scope else _PENDING)
        if frame == known:
            return
        self._frames[activation.key] = frame
        if activation.item < 0 and activation.scope >= self._latest.get(activation.node, ()):
            self._latest[activation.node] = activation.scope
        self._add(event, activation, frame, shown=self._is_shown(activation))

    def _is_shown(self, activation: Activation) -> bool:
        if activation.item >= 0:
            return False
        state = self.state
        nodes = state.ir.nodes
        node = nodes[activation.node] if activation.node < len(nodes) else None
        if node is None:  # removed by a patch
            return False
        if len(state.irs) > 1:  # a patch may have moved the node into a loop, or out of one
            return find_latest(state, activation.node) is activation
        return activation.scope == self._latest[activation.node] if node.loops else not activation.scope

    def _add(self, event: e.Event, activation: Activation, frame: Frame, *, shown: bool) -> None:
        about = (activation.node, activation.scope, activation.item)
        self.rows.append(Row(event.seq, event.at, *about, frame, shown))

    def _forget(self, seq: int, key: Key) -> None:
        """Forget an activation that a patch has dropped."""
        self._frames.pop(key, None)
        for source in self._edges.pop(key, {}):
            self._turn(seq, source, key if isinstance(key, int) else key[0], (key, source), 0)

    def _look_again(self, event: e.Event) -> None:
        """Say anew what nodes show that a patch has moved."""
        for number, node in enumerate(self.state.ir.nodes):
            if node is None:
                continue
            latest = find_latest(self.state, number)
            if latest is None:
                self.rows.append(Row(event.seq, event.at, number, (), -1, _PENDING, True))
            else:
                self._add(event, latest, _frame(latest), shown=True)

    # -- nodes below a failure -----------------------------------------------------------------------------------------

    def _veil(self, event: e.Event, touched: Iterable[Activation]) -> None:
        """Nodes that wait for one that failed show that, as long as the run fails or has failed."""
        state = self.state
        if state.state not in _FAILING:
            for number in sorted(self._veiled):
                self._show(event, number)
            self._below.clear()
            self._veiled.clear()
            return
        whole = not self._below or isinstance(event, e.RunFailing | e.RunFailed | e.RunPatched)
        if isinstance(event, e.RunPatched):
            self._below.clear()
            self._veiled.clear()
        candidates = list(state.activations.values() if whole else touched)
        new = self._spread([one.node for one in candidates if _is_failed(one)])
        for number in sorted(new | {one.node for one in touched if one.node in self._below}):
            latest = find_latest(state, number)
            if latest is None or latest.state is N.PENDING:
                if number not in self._veiled:
                    self._veiled.add(number)
                    self._show(event, number, veiled=True)
            else:
                self._veiled.discard(number)

    def _spread(self, failed: list[int]) -> set[int]:
        ir = self.state.ir
        new: set[int] = set()
        while failed:
            node = ir.nodes[failed.pop()]
            for number in node.edges_out if node is not None else ():
                target = ir.edges[number].target
                if target not in self._below:
                    self._below.add(target)
                    new.add(target)
                    failed.append(target)
        return new

    def _show(self, event: e.Event, number: int, *, veiled: bool = False) -> None:
        nodes = self.state.ir.nodes
        if number >= len(nodes) or nodes[number] is None:
            return
        latest = find_latest(self.state, number)
        frame = _PENDING if latest is None else _frame(latest)
        scope = () if latest is None else latest.scope
        if veiled:
            frame = msgspec.structs.replace(frame, state=_NUMBERS[N.UPSTREAM_FAILED])
        self.rows.append(Row(event.seq, event.at, number, scope, -1, frame, True))

    # -- edges ---------------------------------------------------------------------------------------------------------

    def _resolve(self, seq: int, activation: Activation, resolved: dict[int, list[int]]) -> None:
        """Note the edges that an event resolved, or took back: only those, as a join may have very many."""
        if activation.item >= 0:
            return
        key, edges = activation.key, activation.edges
        before = self._edges.get(key)
        sources = resolved.get(id(edges), ()) if before is edges else {*edges, *(before or ())}
        self._edges[key] = edges
        for source in sources:
            self._turn(seq, source, activation.node, (key, source), edges.get(source, 0))

    def _back(self, seq: int, run: LoopRun) -> None:
        loop = self.state.node_in(run.ir, run.loop).loop
        if loop is not None:
            self._turn(seq, run.loop, loop.head, ("back", run.loop, run.scope), TAKEN if run.iteration > 1 else 0)

    def _turn(self, seq: int, source: int, target: int, key: Any, status: int) -> None:
        """Count what an activation has for an edge; taken by one of them, it is taken."""
        status = TAKEN if status == ERROR else status
        before = self._statuses.get(key, 0)
        if before == status:
            return
        self._statuses[key] = status
        counts = self._fates.setdefault((source, target), [0, 0, 0])
        was = _fate(counts)
        for one, step in ((before, -1), (status, 1)):
            if one == TAKEN:
                counts[1] += step
            elif one == SKIPPED:
                counts[2] += step
        now = _fate(counts)
        if now != was:
            self.turns.append(Turn(seq, source, target, now))


def _fate(counts: list[int]) -> int:
    return 1 if counts[1] else 2 if counts[2] else 0


def _frame(activation: Activation) -> Frame:
    return Frame(_NUMBERS[activation.state], activation.visit, activation.tries, activation.started_at)


def _is_failed(activation: Activation) -> bool:
    return activation.state in (N.FAILED, N.UPSTREAM_FAILED) and not activation.handled
