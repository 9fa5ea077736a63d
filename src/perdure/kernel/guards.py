"""What runs only if a person approves, and whether a patch keeps it so: the proof behind E6. Reads state, changes nothing.

An approval guards a node when the node cannot run unless the approval is given: not when it is rejected, skipped or
timed out. For every node one number is computed, with a bit for each approval: set when the node may run although
that approval is not given. Edges may be taken or skipped as their sources allow; a completed node keeps the way it
took. What is not known (a condition, a failure) may turn out either way, so a bit too many may be set, never one too
few: of two exclusive ways, both count. All of it is asked twice, of both definitions: by what runs do by themselves,
and with all that repair can do to them (rule 28). Where an outcome may be undone, it is asked for the next generation
too, in which that node goes whichever way it likes (rule 26). And in a generation that does something again, it is asked
once as if what was kept goes on anyway, and once as if it goes on only when what it waits for is given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import product
from typing import Any

from perdure.budget import Budget, OverBudget
from perdure.kernel.causal_past import is_unrouted
from perdure.kernel.edges import is_new, is_unlet, went_aside
from perdure.kernel.generations import decided_anew, kept_waiting, may_run_again, waits_for
from perdure.kernel.lifecycle import ERROR, OPEN, SKIPPED, TAKEN, N
from perdure.kernel.state import Activation, State, key_of
from perdure.model.ir import ANSWERED_TYPES, IR, Edge, Node, is_approval

_SHOWN = frozenset({"title", "show", "approval_ui_url"})
"""Keys of an approval's config that approvers are shown. The others say who approves and what counts as a yes."""
_THE_RUN = -1
"""The root of nodes without dependencies: the run itself."""
_HAS_RUN = OPEN | {N.COMPLETED, N.FAILED, N.COMPENSATED}

MOST_STEPS = 20_000
"""Nodes and edges that one proof may look at, each as often as it is looked at. Some 100 ms; a graph is looked at
four times and more, and twice as often where something may be undone."""
BITS_A_STEP = 2_000
"""Approvals that fit into one step."""


def check(state: State, old: IR, new: IR) -> Iterator[str]:
    """The reasons against a patch that makes an approval avoidable, or a node run without the one that guards it."""
    people = sorted({index for ir in state.irs for index in ir.approvals})
    if not people:
        return
    try:
        yield from _check(state, old, new, people)
    except OverBudget:
        size = f"{len(people)} approvals, {len(new.nodes)} nodes and {len(new.edges)} edges"
        yield f"with {size} the run is too large to prove that the patch leads around no approval; rerun instead"


def _check(state: State, old: IR, new: IR, people: list[int]) -> Iterator[str]:
    undone = may_run_again(state)
    yield from _asks_otherwise(state, old, new, undone)
    bit = {node: 1 << n for n, node in enumerate(people)}
    forced_before, forced_after = _unavoidable(state, old), _unavoidable(state, new)
    for index in people:
        if index in forced_before and index not in forced_after:
            yield f"the approval {state.name(index)!r} was unavoidable and would no longer be"
    given = sum(bit[index] for index in people if _is_given(state, index, undone))
    told = set[int]()
    budget = Budget(steps=MOST_STEPS)
    generations = [set[int](), undone] if undone else [undone]
    none, waiting = dict[int, Activation](), kept_waiting(state)
    for again, kept, repaired in product(generations, [none, waiting] if waiting else [waiting], (False, True)):
        for index, lost in _lost(state, old, new, bit, budget, again, kept, repaired=repaired):
            person = next((person for person in people if bit[person] & lost & ~given), None)
            if person is None or index in told:
                continue
            told.add(index)
            name = state.name(person)
            why = f"{state.name(index)!r} runs only after the approval {name!r}; it would run without it"
            if again:
                why += " once what is done is undone and the run retried"
            if repaired:
                why += f" where a person discards what comes before {name!r}; require what leads there (required: true)"
            yield why


def _lost(
    state: State,
    old: IR,
    new: IR,
    bit: dict[int, int],
    budget: Budget,
    again: set[int],
    kept: dict[int, Activation],
    *,
    repaired: bool,
) -> Iterator[tuple[int, int]]:
    """The nodes that may run after the patch without approvals that guard them, with those. Both definitions are read in
    the same way: what only repair gets around is guarded against everything else, and what not even repair gets around
    stays so."""
    trusted = {i for i in bit if _branch(old, i) == _branch(new, i)}
    anew = decided_anew(state, again)
    after = _Ways(state, new, len(state.irs), bit, trusted, budget, again, anew, kept, repaired=repaired).free
    known: dict[int, _Ways] = {}
    for index, node in enumerate(new.nodes):
        before = next((n for n in range(len(state.irs) - 1, -1, -1) if _node(state.irs[n], index) is not None), None)
        if node is None or before is None or (_has_run(state, index) and index not in anew):
            continue
        ways = known.get(before)
        if ways is None:
            ways = known[before] = _Ways(
                state, state.irs[before], before, bit, set(bit), budget, again, anew, kept, repaired=repaired
            )
        lost = ways.above[index] & ~ways.free[index] & after[index]
        if lost:
            yield index, lost


def _asks_otherwise(state: State, old: IR, new: IR, undone: set[int]) -> Iterator[str]:
    """The reasons against a patch that changes an approval, which could make it a formality: other approvers, a lower
    quorum, a timeout that approves. A run keeps the approvals it began with, also in later iterations. What approvers
    are shown may change, and an approval that is given for good is over."""
    for index, before in enumerate(old.nodes):
        after = _node(new, index)
        if before is None or after is None or not is_approval(before) or not is_approval(after):
            continue
        if _is_given(state, index, undone):
            continue
        if before.type != after.type:
            yield f"the approval {before.id!r} asks as it did when the run began, so its type cannot change; rerun instead"
            continue
        yield from asks_otherwise(before, after.config, after.config_ref)
        if before.item is not None and after.item is not None:
            yield from asks_otherwise(before.item, after.item.config, after.item.config_ref)


def asks_otherwise(before: Node, config: Any, config_ref: str | None = None) -> Iterator[str]:
    """The reasons against requeuing a parked approval with config that asks otherwise."""
    if not is_approval(before):
        return
    was, now = _asked_with(before, before.config or {}), _asked_with(before, config or {})
    if isinstance(now, dict):
        found = [key for key in sorted(was.keys() | now.keys()) if key not in _SHOWN and was.get(key) != now.get(key)]
    else:  # a blob, whose content cannot be seen here
        found = ["config"]
    if before.config_ref != config_ref:
        found.append("config_ref")
    if found:
        keys = ", ".join(repr(key) for key in found)
        yield f"the approval {before.id!r} asks as it did when the run began, so {keys} cannot change; rerun instead"


def _asked_with(node: Node, config: Any) -> Any:
    """The config without the item of a map, which is a node of its own."""
    if node.item is None or not isinstance(config, dict):
        return config
    return {key: value for key, value in config.items() if key != "node"}


def _node(ir: IR, index: int) -> Node | None:
    return ir.nodes[index] if index < len(ir.nodes) else None


def _branch(ir: IR, index: int) -> object:
    node = _node(ir, index)
    return None if node is None else node.branch


def _is_given(state: State, index: int, again: set[int]) -> bool:
    """Whether the approval is given for good: only an approve counts, inside a loop every iteration asks anew, and so does
    the next generation when it is undone."""
    activation = state.activations.get(key_of(index, ()))
    if activation is None or activation.state is not N.COMPLETED or activation.rejected:
        return False
    return index not in again


def _has_run(state: State, index: int) -> bool:
    """Whether the node has run, and so was allowed to; the next generation may decide a skipped one anew. One that is
    parked because its join failed has not."""
    activation = state.activations.get(key_of(index, ()))
    return activation is not None and activation.state in _HAS_RUN and not is_unlet(state, activation)


class _Ways:
    """Which nodes may run, and which may be skipped, although an approval is not given."""

    def __init__(
        self,
        state: State,
        ir: IR,
        number: int,
        bit: dict[int, int],
        trusted: set[int],
        budget: Budget,
        redone: Collection[int] = (),
        anew: Collection[int] = (),
        kept: dict[int, Activation] | None = None,
        *,
        repaired: bool,
    ) -> None:
        """`number`: the place of the definition among those of the run.
        `trusted`: approvals whose branch has not changed, and leads on without approval only if it did so before.
        `redone`: nodes whose outcome does not stay. `anew`: nodes that have begun and whose join is decided anew.
        `kept`: nodes that have run and lead on when what they build upon has been done again.
        `repaired`: workers may die and effects be uncertain, so that a person discards what should have run (rule 28)."""
        self._budget = budget
        self._cost = 1 + len(bit) // BITS_A_STEP
        self._state = state
        self._ir = ir
        self._number = number
        self._bit = bit
        self._trusted = trusted
        self._redone = redone
        self._anew = anew
        self._kept = kept or {}
        self._repaired = repaired
        self._all = (1 << len(bit)) - 1
        size = len(ir.nodes)
        self.free = [0] * size
        """Approvals without which the node may run."""
        self.above = [0] * size
        """Approvals that come before the node."""
        self._skip = [0] * size
        self._broken = [0] * size
        """Approvals without which the node may fail by its join instead of running: what was not given failed,
        and the run goes on (rule 10)."""
        self._root = list(range(size))
        """The node it is always reached together with: of two nodes with one root, neither is reached without
        the other. By default itself."""
        called = [0] * size
        over = {index for index in range(size) if _is_over(state, ir, index)} - {*redone, *anew}
        turning = over | {index for index in range(size) if _is_turning(state, ir, index)}
        order = topological(ir)
        while True:
            before = (list(self.free), list(self._skip), list(self._broken)) if self._kept or self._is_mixed() else None
            for index in order:
                self._look(index, called[index] | (self._past(index) if index in turning else 0))
            again = before is not None and before != (self.free, self._skip, self._broken)
            for index in order:  # a loop that goes back activates its head, whatever the head depends on
                node = ir.nodes[index]
                if node is not None and node.loop is not None and self.free[index] & ~called[node.loop.head]:
                    called[node.loop.head] |= self.free[index]
                    again = again or bool(self.free[index] & ~self.free[node.loop.head])
            if not again:
                return

    def _is_mixed(self) -> bool:
        """Whether an iteration is under way by another definition, whose edges the order of this one does not follow."""
        return any(not scope and run.status != "ended" for (_, scope), run in self._state.loops.items())

    def _definitions(self, node: Node, index: int) -> Iterator[tuple[IR, Node]]:
        """The definitions that the node may run by: this one, and that of an iteration under way, which began before it
        (rule 39). One that began by a later definition says nothing here: its nodes may be unknown to this one, and would
        count as free."""
        yield self._ir, node
        run = self._state.loops.get((node.loops[0], ())) if node.loops else None
        if run is not None and run.status != "ended" and run.ir < self._number:
            began = self._state.irs[run.ir]
            other = _node(began, index)
            if other is not None:
                yield began, other

    def _look(self, index: int, called: int) -> None:
        node = self._ir.nodes[index]
        if node is None:
            return
        found = list(self._definitions(node, index))
        for ir, one in found:
            for number in one.edges_in:
                source = ir.edges[number].source
                self.above[index] |= self._above(source) | self._bit.get(source, 0)
        if self._settled(node, index) is not None or self._is_done(index):
            self.free[index], self._skip[index] = self._past(index), 0
            return
        free, skip, broken = 0, 0, self._broken[index]
        for ir, one in found:
            self._weigh(index, ir, one, called)
            free, skip, broken = free | self.free[index], skip | self._skip[index], broken | self._broken[index]
        self.free[index], self._skip[index], self._broken[index] = free, skip, broken
        if len(found) > 1:
            self._root[index] = index

    def _settled(self, node: Node, index: int) -> Activation | None:
        return None if index in self._redone else _settled(self._state, node, index)

    def _is_done(self, index: int) -> bool:
        """Whether the node has an outcome that is kept, and is not routed yet."""
        if index not in self._kept or index in self._redone:
            return False
        return not self._kept[index].scope and is_unrouted(self._kept[index])

    def _above(self, index: int) -> int:
        return self.above[index] if index < len(self.above) else 0

    def _weigh(self, index: int, ir: IR, node: Node, called: int) -> None:
        """What the node may do by one of its definitions."""
        edges = [ir.edges[number] for number in node.edges_in]
        self._budget.spend((1 + len(edges)) * self._cost)
        seen = [(edge, *self._edge(ir, edge)) for edge in edges]
        if not edges:
            self.free[index], self._root[index] = self._all, _THE_RUN
        elif node.join.at_least is None:
            self._join_all(index, seen)
        else:
            self.free[index] = at_least(node.join.at_least, [take for _, take, _, _ in seen], self._all)
            most = len(seen) - node.join.at_least + 1
            self._skip[index] = at_least(most, [skip for _, _, skip, _ in seen], self._all)
        self.free[index] |= called
        if not node.loops and _has_run(self._state, index) and index not in self._anew:
            # The node has begun: what a patch put before it since does not hold it back.
            self.free[index], self._root[index] = self._past(index), index
        for edge, _, skip, late in seen:
            if edge.required:
                self._skip[index] |= skip
                if late:
                    self._root[index] = index
        if node.when is not None:
            self._skip[index] |= self.free[index]
        if _was_skipped(self._state, node, index):
            self._skip[index] = self._all
        if node.when is not None or node.loop is not None or called:
            self._root[index] = index
        for edge in edges:
            self._broken[index] |= self._breaks(ir, edge, node)
        if self._broken[index] and node.on_failure != "fail":
            self._root[index] = index

    def _past(self, index: int) -> int:
        """Approvals without which a node that has run leads on, and the head of a loop that has begun. One that is kept
        waits for all it was activated by."""
        if index not in self._kept:
            return self._all
        activation, found = self._kept[index], self._all
        ir = self._state.irs[activation.ir]
        sources = waits_for(self._state, activation)
        for number in self._state.pinned(activation).edges_in:
            edge = ir.edges[number]
            if edge.source in sources:
                self._budget.spend(self._cost)
                known = edge.source in self._kept and edge.source < len(self.free)
                found &= self.free[edge.source] if known else self._edge(ir, edge)[0]
        return found

    def _join_all(self, index: int, seen: list[tuple[Edge, int, int, int]]) -> None:
        """Whether an `all` join may fire: every edge is taken or skipped, and one is taken. Edges from one root are not
        skipped beside each other unless one of their sources goes aside by itself."""
        groups: dict[int, tuple[int, int, int]] = {}
        skipped = self._all
        for edge, take, skip, late in seen:
            root = self._root[edge.source]
            any_, beside, apart = groups.get(root, (0, self._all, self._all))
            may = 0 if edge.required else self._all
            groups[root] = (any_ | take, beside & (take | late & may), apart & (take | skip & may))
            skipped &= skip
        parts = list(groups.values())
        rest = [self._all]
        for _, _, apart in reversed(parts):
            rest.append(rest[-1] & apart)
        before, free = self._all, 0
        for position, (any_, beside, apart) in enumerate(parts):
            free |= any_ & beside & before & rest[len(parts) - position - 1]
            before &= apart
        self.free[index], self._skip[index] = free, skipped
        late = self._all
        for _, _, _, one in seen:
            late &= one
        if len(groups) == 1 and not late:
            self._root[index] = next(iter(groups))

    def _edge(self, ir: IR, edge: Edge) -> tuple[int, int, int]:
        """Whether the edge may be taken, may be skipped, and may be skipped although the root of its source has run."""
        state, source = self._state, ir.nodes[edge.source]
        if source is None:
            return 0, self._all, self._all
        if _node(self._ir, edge.source) is None:  # removed, and still there in an iteration under way
            return self._all, self._all, self._all
        done = self._settled(source, edge.source)
        if done is not None:
            status = _went(state, ir, done, edge)
            skipped = self._all if status == SKIPPED else 0
            leads = self.free[edge.source] if edge.source in self._kept else self._all
            return (leads if status in (TAKEN, ERROR) else 0), skipped, skipped
        free, handled = self.free[edge.source], 0
        if source.on_failure == "continue" or (source.on_failure == "path" and edge.target in source.failure_path):
            handled = self._broken[edge.source]
        take = free
        if _asks(state, source, edge.source) and not leads_on_anyway(
            source, edge, trusted=edge.source in self._trusted
        ):
            take &= ~self._bit.get(edge.source, 0)
        if _was_skipped(state, source, edge.source):
            return take | handled, self._all, self._all
        goes = edge.named or _may_go_aside(ir, source, edge)
        aside = free if goes or _may_park(source, repaired=self._repaired) else 0
        if goes and source.on_failure != "fail":
            aside |= self._broken[edge.source]
        return take | handled, self._skip[edge.source] | aside, aside

    def _breaks(self, ir: IR, edge: Edge, node: Node) -> int:
        """Approvals without which the edge may be what makes the join of `node` fail."""
        source = ir.nodes[edge.source]
        if source is None or not _may_break(source, edge, node, repaired=self._repaired):
            return 0
        if _node(self._ir, edge.source) is None:
            return self._all
        done = self._settled(source, edge.source)
        if done is not None:
            return 0 if _went(self._state, ir, done, edge) in (TAKEN, SKIPPED) else self._all
        return self.free[edge.source] | self._broken[edge.source]


def at_least(needed: int, masks: list[int], every: int) -> int:
    """The bits that at least as many masks have. `every`: all bits there are."""
    if needed <= 0:
        return every
    # For each bit, the number of masks that have it, written in base two down the planes.
    planes: list[int] = []
    for mask in masks:
        for place, plane in enumerate(planes):
            planes[place], mask = plane ^ mask, plane & mask
        if mask:
            planes.append(mask)
    more, equal = 0, every
    for place in range(max(len(planes), needed.bit_length()) - 1, -1, -1):
        plane = planes[place] if place < len(planes) else 0
        if needed >> place & 1:
            equal &= plane
        else:
            more, equal = more | equal & plane, equal & ~plane
    return more | equal


def _settled(state: State, node: Node, index: int) -> Activation | None:
    """The activation of a node that has an outcome and a route, which stay; otherwise None."""
    if node.loops:
        return None
    found = state.activations.get(key_of(index, ()))
    if found is None or not found.routed or found.route is None:
        return None
    return found if found.state is N.COMPLETED or (found.state is N.FAILED and found.handled) else None


def _was_skipped(state: State, node: Node, index: int) -> bool:
    """Whether the node was skipped, and its edges with it, for whatever reason it had then."""
    found = None if node.loops else state.activations.get(key_of(index, ()))
    return found is not None and found.routed and found.state in (N.SKIPPED, N.CANCELLED)


def _is_turning(state: State, ir: IR, index: int) -> bool:
    """Whether the node is the head of a loop that has begun: what a patch puts before it since does not hold back its next
    iterations."""
    node = ir.nodes[index]
    for loop in node.loops[:1] if node is not None else ():
        run, looping = state.loops.get((loop, ())), ir.nodes[loop]
        if (
            run is None
            or run.status == "ended"
            or looping is None
            or looping.loop is None
            or looping.loop.head != index
        ):
            continue
        head = state.activations.get(key_of(index, (run.iteration,)))
        return run.iteration > 1 or (head is not None and head.fired)
    return False


def _is_over(state: State, ir: IR, index: int) -> bool:
    """Whether the node is the head of a loop that has ended: what a patch puts before it since does not hold back what follows
    the loop."""
    node = ir.nodes[index]
    for loop in node.loops[:1] if node is not None else ():
        run, looping = state.loops.get((loop, ())), ir.nodes[loop]
        if run is not None and run.status == "ended" and looping is not None and looping.loop is not None:
            return looping.loop.head == index
    return False


def _went(state: State, ir: IR, done: Activation, edge: Edge) -> int:
    """How the edge resolved or will resolve; an edge that a patch brings follows the way its source went (rule 39)."""
    target = state.activations.get(key_of(edge.target, ()))
    if target is not None and edge.source in target.edges:
        return target.edges[edge.source]
    entered = state.entered.get((edge.source, edge.target, ()))
    if entered is not None:
        return entered[0]
    route = done.route
    if route is not None and route.taken is not None and not is_new(state, edge, len(state.irs) - 1):
        node = ir.nodes[edge.target]
        return TAKEN if node is not None and node.id in route.taken else SKIPPED
    return SKIPPED if edge.named or went_aside(state, len(state.irs) - 1, done) else TAKEN


def _asks(state: State, node: Node, index: int) -> bool:
    """Whether a person is asked here, or is being asked by the definition the node was activated with."""
    if is_approval(node):
        return True
    found = state.activations.get(key_of(index, ()))
    return found is not None and found.state in OPEN and is_approval(state.pinned(found))


def leads_on_anyway(node: Node, edge: Edge, *, trusted: bool) -> bool:
    """Whether the edge may be taken without approval (rejected, timed out, failed). `trusted`: its branch is unchanged."""
    target, loop = edge.target, node.loop
    if node.on_failure == "continue" or (node.on_failure == "path" and target in node.failure_path):
        return True
    if node.rejection_path is not None and target in node.rejection_path:
        return True
    if loop is not None and loop.timeout_path is not None:
        if target in loop.timeout_path or (not edge.named and (not loop.timeout_path or loop.break_path is not None)):
            return True
    if node.item is not None:  # a map completes when all its items were approved, or as many as it needs
        return bool((node.config or {}).get("tolerated_failures"))
    if node.branch is not None and (node.rejection_path is None or loop is not None):
        return not edge.named or not trusted  # the branch decides, and what it does not name is taken anyway
    return False


def _may_park(node: Node, *, repaired: bool) -> bool:
    """Whether the node may park, and so be discarded: as skipped, or as a failure that its `on_failure` does not handle
    (rule 28). Beyond its policy that is what a worker may have begun: a lost effect parks, and so does poison."""
    begins = node.effect == "at_most_once" or node.type not in ANSWERED_TYPES
    return node.on_failure == "park" or (repaired and begins)


def _may_break(source: Node, edge: Edge, node: Node, *, repaired: bool) -> bool:
    """Whether the source may fail and the run go on, so that the join of `node` fails: the source leads only into
    races, or into one that is over; it failed in a closing iteration, and the end of its loop says so; or its error
    counts for nothing there (rules 9 to 11, 17)."""
    if source.on_failure in ("continue", "path") and node.join.at_least is not None:
        return True
    absorbed = source.lenient or source.region is not None or edge.common < len(source.loops)
    return absorbed and (source.on_failure == "fail" or _may_park(source, repaired=repaired))


def _may_go_aside(ir: IR, node: Node, edge: Edge) -> bool:
    """Whether the node may end without taking an edge that no routing names, and the run goes on."""
    if node.rejection_path is not None or node.on_failure in ("path", "park"):
        return True
    if node.loop is None:
        return len(node.loops) > edge.common  # it may not have been reached in the last iteration
    others = (ir.edges[number] for number in node.loop.exits)
    return node.loop.timeout_path is not None or any(one.named and one.source != edge.source for one in others)


def _unavoidable(state: State, ir: IR) -> set[int]:
    """Approvals that are certain to be asked for, or have been. One pass: a node may be skipped when its join can
    resolve without enough tokens."""
    skippable, forced = [False] * len(ir.nodes), set[int]()
    ran = {(activation.node, activation.scope[:1]) for activation in state.activations.values()}
    for index in topological(ir):
        node = ir.nodes[index]
        if node is None:
            continue
        certain, refusable, broken = 0, False, False
        for number in node.edges_in:
            edge = ir.edges[number]
            source = ir.nodes[edge.source]
            broken = broken or (source is not None and _may_break(source, edge, node, repaired=False))
            if skippable[edge.source] or edge.named or source is None or _may_go_aside(ir, source, edge):
                refusable = refusable or edge.required
            else:
                certain += 1
        skippable[index] = bool(node.edges_in) and certain < (node.join.at_least or 1)
        skippable[index] = skippable[index] or refusable or node.when is not None
        skippable[index] = skippable[index] or (broken and node.on_failure in ("continue", "path"))
        activation = state.activations.get(key_of(index, ()))
        if activation is not None and activation.fired:
            skippable[index] = activation.state is N.SKIPPED
        skippable[index] = skippable[index] or _comes_too_late(state, node, index, ran)
        if is_approval(node) and not skippable[index]:
            forced.add(index)
    return forced


def _comes_too_late(state: State, node: Node, index: int, ran: set[tuple[int, tuple[int, ...]]]) -> bool:
    """Whether the node stands in a loop that is over, and was not there when it ran. `ran`: the nodes that were, with the
    outermost iteration."""
    run = state.loops.get((node.loops[0], ())) if node.loops else None
    return run is not None and run.status == "ended" and (index, (run.iteration,)) not in ran


def topological(ir: IR) -> list[int]:
    waiting = [0 if node is None else len(node.edges_in) for node in ir.nodes]
    ready = [i for i, node in enumerate(ir.nodes) if node is not None and not node.edges_in]
    for index in ready:
        node = ir.nodes[index]
        if node is None:
            continue
        for number in node.edges_out:
            target = ir.edges[number].target
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return ready
