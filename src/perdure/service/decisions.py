"""The decisions of people on which kept work rests, and the principals who asked for a run: the one place that answers
either question (X17).

A decision stands in the journal of the run that asked for it: the run itself, a child however deep, or the run whose
outcomes it began with. It must not know who wants to know, nor HTTP.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import msgspec

from perdure.access import Forbidden
from perdure.errors import Refused
from perdure.journal import RunFilter
from perdure.kernel import events as e
from perdure.kernel.continuations import next_id
from perdure.kernel.state import Key, State
from perdure.model.ir import Node

if TYPE_CHECKING:
    from perdure.engine import Engine

MOST_RUNS = 10_000
"""How many children are looked at for one answer."""
MOST_DECISIONS = 1_000
MOST_BEFORE = 100
"""How many states are read of runs that each began with the outcomes of the one before."""
MOST_REQUESTS = 1_000
"""How many runs that led to one another have their first events read."""
_PAGE = 1_000
_QUIET = frozenset({"http", "input", "map", "output", "task", "transform", "wait"})
"""Types of nodes that ask no person and start no child; a map does what its items do."""


class KeptDecision(msgspec.Struct, frozen=True):
    node: str
    """The node to rerun from, to have the decision asked for again."""
    approval: str = ""
    """Empty: there may be a decision, and it can no longer be told whose."""
    approvers: tuple[str, ...] = ()
    quorum: int = 1


class _Full(Exception):
    """There is more to look at than one answer may take."""


async def find_decisions(engine: Engine, state: State, kept: Collection[str] | None) -> list[KeptDecision]:
    """The decisions on which the outcomes of these nodes (None: all) rest, traced back to where each was made."""
    search = _Search(engine)
    names = set(kept) if kept is not None else {state.name(_node_of(key)) for key in state.activations}
    for _ in range(MOST_BEFORE):
        try:
            await search.look(state, names)
        except _Full:
            break
        names = _from_before(state, names)
        if not names or state.origin is None:
            return search.found
        record = await engine.journal.find_run(state.origin[0])
        if record is None:
            break
        try:
            before = await engine.runs.state_of(record)
        except Refused:  # that run cannot be read
            break
        state = before
    unknown = [KeptDecision(name) for name in sorted(names) if _may_ask(state, name)]
    return search.found + unknown


class _Search:
    def __init__(self, engine: Engine) -> None:
        self._journal = engine.journal
        self._runs = 0
        self.found: list[KeptDecision] = []

    async def look(self, state: State, names: Collection[str]) -> None:
        """Add the decisions of a run in these nodes, and those of the children they started."""
        for approval_id, approval in state.approvals.items():
            node = state.name(_node_of(approval.key))
            if node in names and approval.state == "decided":
                self._add(KeptDecision(node, approval_id, approval.approvers, approval.quorum))
        children = ((child, state.name(_node_of(key))) for child, key in state.children.items())
        await self._look_below((child, node) for child, node in children if node in names)

    async def _look_below(self, children: Iterable[tuple[str, str]]) -> None:
        """Add the decisions of these children by their rows: everything of a child is kept, so its state need not be
        known. A child is stored as long as its parent; one that is missing never began."""
        waiting = deque(children)
        while waiting:
            run_id, node = waiting.popleft()
            self._runs += 1
            if self._runs + len(waiting) > MOST_RUNS:
                raise _Full
            cursor: str | None = None
            while True:
                asked = await self._journal.list_approvals(state="decided", run_id=run_id, limit=_PAGE, cursor=cursor)
                for row in asked.items:
                    body = msgspec.json.decode(row.body)
                    self._add(KeptDecision(node, row.approval_id, tuple(body["approvers"]), body["quorum"]))
                cursor = asked.next_cursor
                if cursor is None:
                    break
            while True:
                below = await self._journal.list_runs(RunFilter(parent=run_id), limit=_PAGE, cursor=cursor)
                waiting.extend((record.run_id, node) for record in below.items)
                cursor = below.next_cursor
                if cursor is None or len(waiting) > MOST_RUNS:
                    break

    def _add(self, decision: KeptDecision) -> None:
        if len(self.found) >= MOST_DECISIONS:
            raise _Full
        self.found.append(decision)


def _from_before(state: State, names: Collection[str]) -> set[str]:
    """The nodes whose outcomes the run began with. A loop's outcome also rests on its iterations in the run that this
    one continues."""
    adopted = {
        state.name(one.node)
        for one in state.activations.values()
        if one.route is not None and one.route.rule == "adopted"
    }
    if state.origin is not None and next_id(state.origin[0]) == state.run_id:
        adopted.update(node.id for node in state.ir.nodes if node is not None and node.loops)
    return adopted.intersection(names)


def _may_ask(state: State, name: str) -> bool:
    """Whether a node may have asked a person, by any definition of the run: a patch leaves old outcomes alone."""
    nodes = (ir.nodes[ir.numbers[name]] for ir in state.irs if name in ir.numbers)
    return any(_asks(node) for node in nodes if node is not None)


def _asks(node: Node) -> bool:
    return node.type not in _QUIET or (node.item is not None and _asks(node.item))


def _node_of(key: Key) -> int:
    return key if isinstance(key, int) else key[0]


async def find_requesters(engine: Engine, run_id: str) -> dict[str, str]:
    """The principals who asked for a run, each with the run they started: this run, those that started it, and those it
    was rerun from or continues, as far as they are stored."""
    found: dict[str, str] = {}
    waiting, seen = deque([run_id]), {run_id}
    while waiting:
        if len(seen) > MOST_REQUESTS:
            raise Forbidden(f"more than {MOST_REQUESTS:,} runs led to run {run_id}; who asked for it cannot be found")
        name = waiting.popleft()
        first = await engine.journal.read_events(name, 0, 1)
        created = e.decode(first[0].body) if first else None
        if not isinstance(created, e.RunCreated):
            continue
        found.setdefault(created.by, name)
        for by in created.asked_by:  # the runs these principals started may be deleted by now
            found.setdefault(by, name)
        before = [] if created.parent is None else [created.parent[0]]
        if created.origin is not None:
            origin = created.origin[0]
            # The runs between the first of a chain of continuations and this one say the same as this one.
            before.append(origin.rpartition("~")[0] or origin if next_id(origin) == name else origin)
        waiting.extend(one for one in before if one not in seen)
        seen.update(before)
    return found
