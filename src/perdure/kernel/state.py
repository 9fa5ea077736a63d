"""The state of one run: what its journal folds to.

Records are changed in place, and only as events are folded (`evolve.py`). While a decision is being made, every change
is written to `undo`, so that a decision that needs to know more first leaves nothing behind.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from perdure.kernel.address import Address
from perdure.kernel.events import Scope
from perdure.kernel.lifecycle import TERMINAL, IntegrityError, NodeState, RunState
from perdure.kernel.run_ids import root_of
from perdure.kernel.triggers.mailbox import Mailbox
from perdure.kernel.values import Asked, AskedChild, Error, Fired, Flow, Lent, Money, Reserved, Route, Undo, Wait
from perdure.model.ir import IR, Node
from perdure.model.money import Usage

Key = int | tuple[int, Scope, int]
"""The key of an activation: the bare node index outside loops and maps, otherwise (node, scope, item or -1)."""
LoopKey = tuple[int, Scope]


def key_of(node: int, scope: Scope, item: int = -1) -> Key:
    return node if not scope and item < 0 else (node, scope, item)


class Activation(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    node: int
    scope: Scope = ()
    item: int = -1
    ir: int = 0
    """The index of the state's IR that the config is pinned to."""
    state: NodeState = NodeState.PENDING
    fired: bool = False
    edges: dict[int, int] = {}
    """How each incoming edge resolved, by source."""
    late: tuple[int, ...] = ()
    """Sources whose edges were taken after its inputs were fixed: they are absorbed and give it nothing (rules 8 and 13)."""
    taken: int = 0
    skipped: int = 0
    failed: int = 0
    errors: int = 0
    tokens: int = 0
    """Tokens that wait at this join because it has not fired."""
    guarded: bool = False
    """`when` was evaluated and let the activation pass."""
    refused: bool = False
    """A required dependency was skipped, and not because it lost to this node (rule 7)."""
    lost: tuple[Key, ...] = ()
    """The winners of races that it lost: that it was cancelled or skipped does not skip them, in no generation."""
    visit: int = 0
    attempt: int = 0
    """The fence, which grows with every dispatch. People are shown `tries`."""
    idle: int = 0
    """Attempts that no handler finished: withdrawn, held, handed back."""
    failures: int = 0
    crashes: int = 0
    hop: int = 0
    scheduled_seq: int = 0
    """The event at which the inputs were fixed: the activation sees what ended before it (rule 13)."""
    ended_seq: int = 0
    begun: bool = False
    """The current attempt is known to have been claimed by a worker."""
    ask: str = ""
    """The wish by which that worker may begin, if it had to wish."""
    output: Any = None
    output_ref: str | None = None
    size: int = 0
    error: Error | None = None
    handled: bool = False
    """The graph handles the failure (continue, path, absorbed)."""
    route: Route | None = None
    routed: bool = False
    renews: bool = False
    """Whether its handler wishes that the run goes on as a new one (rule 15)."""
    choice: tuple[str, ...] | None = None
    rejected: bool = False
    """People were asked here, and the decision is a no, possibly by timeout."""
    accepted: bool = False
    """The activation is parked with an outcome that stays: only its routing failed (R7)."""
    scheduled_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    retry_at: float | None = None
    wait: Wait | None = None
    items_started: int = 0
    items_open: int = 0
    items_completed: int = 0
    items_failed: int = 0
    child: str = ""
    child_workflow: str = ""
    child_inputs: Any = None
    child_generation: int = 0
    """The last generation of the child that is known to have ended."""
    child_open: bool = False
    """The generation after that was started, and is not known to have ended."""
    asks: dict[str, Asked] = {}
    """What its handlers asked for, by name (rule 77)."""
    ask_children: dict[str, AskedChild] | None = None
    """The child runs that those asks started, by id."""
    begun_steps: dict[str, str] | None = None
    """Steps that may happen at most once, have begun and have no result: the wish of each, by name. Never changed in place."""
    reserved: dict[str, Reserved] | None = None
    """What is set aside for the steps of the current attempt that have begun, by name. Never changed in place."""
    spent: Usage | None = None
    """What its steps have used (rule 83)."""
    wants: Usage | None = None
    """While held: what its next step may use, for which there was no room (rule 82)."""
    suspended: int = 0
    """The last attempt that asked for something: no result of it, or of one before it, counts any more."""
    total_left: float | None = None
    """How much of `total_timeout_seconds` was left when it began to wait for answers."""
    ignored: int = 0
    config: Any = None
    """Config given on requeue, which replaces the definition's."""
    checkpoint: Any = None
    checkpoints: int = 0
    """The number of the last checkpoint of the current attempt."""
    kept: int = 0
    """What the results of all steps take in the journal, in bytes."""
    reason: str = ""
    detail: str = ""
    """Which worker lacks what a held activation needs, for people."""
    worker: str = ""
    undo: Undo | None = None
    undone: int = 0
    """How often the activation was compensated; part of the idempotency key (rule 3)."""
    resume: NodeState | None = None
    """The state the activation was in when the run ended; a retry goes on from there."""
    flow: Flow | None = None
    """The last edition of its stream, if its handler ever yielded."""
    cursors: dict[str, tuple[int, ...]] | None = None
    """How far the streams it reads were read for the data of its checkpoint. Never changed in place."""

    @property
    def key(self) -> Key:
        return key_of(self.node, self.scope, self.item)

    @property
    def item_index(self) -> int | None:
        """The index of the item in its map, as events and addresses have it; None for anything else."""
        return None if self.item < 0 else self.item

    @property
    def tries(self) -> int:
        """The attempt of the handler as people count it, leaving out those that were only held or handed back."""
        return self.attempt - self.idle


class LoopRun(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One execution of a loop: a loop in the scope around it."""

    loop: int
    scope: Scope = ()
    ir: int = 0
    before: tuple[tuple[int, int], ...] = ()
    """The IRs of iterations before a patch, each with the last iteration that began with it."""
    iteration: int = 1
    status: Literal["open", "closing", "draining", "ended"] = "open"
    ended_seq: int = 0
    """The event since which the last iteration is known; 0 while the loop runs."""
    cause: Key | None = None
    """While closing: the activation whose outcome closes the iteration."""
    renewal: Key | None = None
    """The activation that wished last to go on as a new run."""
    members: list[Key] = []
    """Activations of the current iteration, those of inner loops included."""


class Timer(msgspec.Struct, frozen=True):
    due_at: float
    kind: Literal[
        "retry", "wait", "approval", "deadline", "grace", "queue", "total", "delay", "undo", "trigger", "ask", "budget"
    ]
    key: Key | None = None
    attempt: int = 0
    ask: str = ""


class Approval(msgspec.Struct, kw_only=True, omit_defaults=True):
    key: Key
    approvers: tuple[str, ...] = ()
    quorum: int = 1
    votes: dict[str, str] = {}
    persons: dict[str, str] = {}
    """The person who voted, by the entry of `approvers` the vote counts for, where that is not the person's own."""
    left: tuple[str, ...] = ()
    """Approvers who handed their seat over."""
    state: Literal["pending", "decided"] = "pending"
    on_timeout: Literal["reject", "approve", "fail", "escalate"] = "reject"
    escalate_to: tuple[str, ...] = ()
    requested_at: float = 0.0
    expires_at: float | None = None
    decided_at: float | None = None
    """When it was decided; None also if it is no longer pending because its node was cancelled."""
    escalated: bool = False
    shown: Any = None
    notify: dict[str, str] | None = None
    comments: str = ""
    data: Any = None
    ask: str = ""
    """The ask of the activation that this approval answers; empty: the node itself asks."""


class Line(msgspec.Struct):
    """Entries in order of arrival; changed only through `signal_lines.py`."""

    entries: list[tuple[Any, Any]] = []
    head: int = 0
    """How many entries at the front have left."""
    gone: int = 0
    """How many entries behind the head have left."""

    @property
    def first(self) -> tuple[Any, Any]:
        return self.entries[self.head]


_MISSING = object()
_PULLED = object()


class State(msgspec.Struct, kw_only=True):
    run_id: str = ""
    workflow: str = ""
    workflow_version: int = 0
    tenant: str = "default"
    tags: dict[str, str] = {}
    inputs: Any = None
    parent: tuple[str, str, Scope, int | None] | None = None
    origin: tuple[str, str] | None = None
    overrides: dict[str, dict[str, Any]] = {}
    depth: int = 0
    """How many runs this one is nested in."""
    pauses: dict[str, str] = {}
    """The reasons the run is paused for, and by whom. It goes on when none is left (rule 30)."""
    orphaned: bool = False
    """The parent cancelled this run, and may want it again."""
    submitted_by: str = ""
    alias: str = ""
    correlation_id: str = ""
    sealed_for: str = ""
    asked_by: tuple[str, ...] = ()
    imported: str = ""
    """The run whose journal was read from a file. Only the file vouches for it, so nothing of it is ever executed."""
    state: RunState = RunState.RUNNING
    generation: int = 1
    seq: int = 0
    tokens: int = 0
    open: int = 0
    undoing: int = 0
    created_at: float = 0.0
    started_at: float | None = None
    """When the first attempt that the journal knows of began."""
    ended_at: float | None = None
    deadline_seconds: float | None = None
    deadline_at: float | None = None
    error: Error | None = None
    failed_node: str | None = None
    outputs: Any = None
    outputs_ref: str | None = None
    continued_as: str | None = None
    ending: Literal["", "failed", "cancelled", "rolled_back"] = ""
    """The state that failing, cancelling or compensating ends in."""
    by: str = ""
    bytes: int = 0
    """The sum of outputs."""
    kept: int = 0
    """The sum, in bytes, of all that attempts kept and that counts: results of steps, and many or large checkpoints."""
    patching: int = 0
    """How many patches handlers wait for (rule 87)."""
    tally: dict[NodeState, int] = {}
    activations: dict[Key, Activation] = {}
    loops: dict[LoopKey, LoopRun] = {}
    entered: dict[tuple[int, int, Scope], tuple[int, int]] = {}
    """Entry edges that have resolved: (source, target, enclosing scope) to (status, hop). Read by every iteration."""
    visits: dict[int, int] = {}
    """How often a node inside loops was visited; a node outside is visited once."""
    timers: dict[str, Timer] = {}
    approvals: dict[str, Approval] = {}
    unconsumed: dict[str, Line] = {}
    """Signals that were not consumed, in lines by name: (seq, payload)."""
    unconsumed_count: int = 0
    signals_seen: dict[str, int] = {}
    heard: dict[str, int] = {}
    """The position of the event that each wait took last (`heard_as`), and when the first of a chain of runs began."""
    heard_since: float | None = None
    signal_waits: dict[str, Line] = {}
    """Activations that wait for a signal, in lines by its name: (key, wait)."""
    children: dict[str, Key] = {}
    undoable: list[Key] = []
    """Completed activations that have something to compensate, in order of completion."""
    plan: list[Key] = []
    """Activations still to be compensated, the next one last."""
    trigger: Fired | None = None
    """The firing of a trigger that this run was started by."""
    triggers: dict[str, Mailbox] = {}
    """What the triggers of this run hold, by node."""
    money: Money = Money()
    lent: dict[str, Lent] = {}
    """What child runs have of the budget, and have used, by id."""
    streams: dict[int, int] = {}
    """The streams that are open: the edition of each, by node."""
    ir_hashes: list[str] = []

    closed_approvals: dict[str, None] = {}
    """Approvals that ended without an event of their own, for the caller to take note of and clear."""
    whole: dict[Key, None] = {}
    """Activations known to have ended in this generation, with everything they build upon; recomputed when needed."""
    behind: dict[Key, dict[Key, None]] = {}
    """Activations that wait until another is done again (rule 26), by the one they wait for; recomputed when needed."""
    loose: dict[Key, None] = {}
    """Activations for which the next decision checks whether they still wait for their past."""
    short: dict[Key, None] = {}
    """Activations that are held because the budget has no room for them; recomputed when needed."""
    streaming: bool = False
    """Whether its definition has streams, which no patch changes."""
    unfed: dict[Key, None] = {}
    """Activations that are held until the streams they read are open; recomputed when needed."""
    irs: list[IR] = []
    library: dict[str, IR] = {}
    """IRs by hash, which the caller adds before a journal that names them is folded."""
    undo: list[tuple[Any, Any, Any]] | None = None
    saved: dict[int, bool] = {}
    """While deciding: records (by id) that are saved already; True for those this decision made."""
    touched: list[Key] | None = None
    """While deciding: activations whose joins may be decidable now."""
    timer_changes: dict[str, float | None] | None = None
    """While deciding: timers set (due time) and cleared (None)."""

    # -- reading -------------------------------------------------------------------------------------------------------

    @property
    def counter(self) -> int:
        return self.tokens + self.open + self.undoing

    @property
    def ir(self) -> IR:
        return self.irs[-1]

    @property
    def signals(self) -> list[tuple[int, str, Any]]:
        """Signals that were not consumed, oldest first: (seq, name, payload)."""
        lines = self.unconsumed.items()
        found = [(seq, name, payload) for name, line in lines for seq, payload in line.entries[line.head :]]
        return sorted(found, key=lambda signal: signal[0])

    @property
    def seal_name(self) -> str:
        """The run under whose name sensitive fields are sealed: one for a tree of runs and everything rerun from it."""
        return self.sealed_for or root_of(self.run_id)

    @property
    def requesters(self) -> tuple[str, ...]:
        """Who asked for this run and for those that led to it: none of them approves what it does (X17)."""
        return tuple(dict.fromkeys(name for name in (*self.asked_by, self.submitted_by) if name))

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL

    def node(self, index: int) -> Node:
        """A node of the current IR."""
        return self.node_in(len(self.irs) - 1, index)

    def node_in(self, ir: int, index: int) -> Node:
        node = self.irs[ir].nodes[index]
        if node is None:
            raise IntegrityError(f"run {self.run_id}: node {index} is not in IR {self.irs[ir].hash}")
        return node

    def pinned(self, activation: Activation) -> Node:
        """The definition this activation was made with, from which config, retry and compensator come (rule 39)."""
        node = self.irs[activation.ir].nodes[activation.node]
        if node is None:
            return self.node_in(activation.ir, activation.node)  # raises
        if activation.item >= 0:
            if node.item is None:
                raise IntegrityError(f"run {self.run_id}: node {node.id} has items but is not a map")
            return node.item
        return node

    def governing(self, activation: Activation) -> Node:
        """The node as the definition that governs its routing has it now: the current one; inside a loop, that of the
        iteration's start (rule 39)."""
        scope, index = activation.scope, activation.node
        ir = self.iteration_ir(scope, index) if scope else -1
        node = self.irs[ir].nodes[index]
        return self.node_in(ir, index) if node is None else node

    def name(self, index: int) -> str:
        try:
            node = self.irs[-1].nodes[index]
            if node is not None:
                return node.id
        except IndexError:
            pass  # a patch has removed it
        for ir in reversed(self.irs):
            if index < len(ir.nodes):
                node = ir.nodes[index]
                if node is not None:
                    return node.id
        raise IntegrityError(f"run {self.run_id}: no IR has a node {index}")

    def index(self, name: str) -> int:
        for ir in reversed(self.irs):
            index = ir.numbers.get(name)
            if index is not None:
                return index
        raise IntegrityError(f"run {self.run_id}: no node {name!r} in its workflow")

    def find(self, name: str, scope: Scope = (), item: int | None = None) -> Activation | None:
        irs = self.irs
        index = irs[-1].numbers.get(name) if irs else None
        if index is None:  # a patch has removed it, or there is none
            index = next((ir.numbers[name] for ir in reversed(irs) if name in ir.numbers), None)
            if index is None:
                return None
        if not scope and item is None:
            return self.activations.get(index)  # its `key_of`
        return self.activations.get((index, scope, -1 if item is None else item))

    def address(self, activation: Activation, *, undo: bool = False) -> Address:
        """The address of the current attempt; with `undo`, of the current attempt to compensate."""
        attempt = activation.undo.attempt if undo and activation.undo is not None else activation.attempt
        name, item = self.name(activation.node), activation.item_index
        return Address(self.run_id, name, activation.scope, item, attempt, self.generation, undo)

    def locate(self, address: Address) -> Activation | None:
        """The activation an address means, whichever its current attempt is."""
        return self.find(address.node, address.scope, address.item)

    def iteration_ir(self, scope: Scope, node: int) -> int:
        """The IR that governs an activation: inside a loop, the one its outermost iteration began with, also when that is
        over and something in it is done again (rule 39)."""
        latest = len(self.irs) - 1
        if not scope or not latest:
            return latest
        for ir in range(latest, -1, -1):
            nodes = self.irs[ir].nodes
            found = nodes[node] if node < len(nodes) else None
            if found is not None and found.loops:
                run = self.loops.get((found.loops[0], ()))
                if run is None:
                    return ir
                return next((before for last, before in run.before if scope[0] <= last), run.ir)
        return latest

    def loop_runs(self, activation: Activation) -> list[LoopRun]:
        """The loops around an activation, innermost first, where it belongs to their current iteration."""
        if not activation.scope:
            return []
        loops = self.node_in(activation.ir, activation.node).loops
        runs = []
        for depth in range(len(activation.scope) - 1, -1, -1):
            run = self.loops.get((loops[depth], activation.scope[:depth]))
            if run is not None and run.iteration == activation.scope[depth]:
                runs.append(run)
        return runs

    # -- changing (evolve only) ----------------------------------------------------------------------------------------

    def edit(self, record: Any) -> Any:
        """Announce a change of a record (activation, loop run, approval), so that it can be rolled back."""
        undo = self.undo
        if undo is not None and (number := id(record)) not in self.saved:
            self.saved[number] = False
            undo.append((record, record.__copy__(), None))
        return record

    def add(self, mapping: dict[Any, Any], key: Any, record: Any) -> None:
        """Put a record that was just made: a rollback forgets it whole."""
        self.put(mapping, key, record)
        if self.undo is not None:
            self.saved[id(record)] = True

    def put(self, mapping: dict[Any, Any], key: Any, value: Any) -> None:
        if self.undo is not None:
            self.undo.append((mapping, key, mapping.get(key, _MISSING)))
        mapping[key] = value

    def drop(self, mapping: dict[Any, Any], key: Any) -> None:
        if self.undo is not None:
            self.undo.append((mapping, key, mapping.get(key, _MISSING)))
        mapping.pop(key, None)

    def push(self, sequence: list[Any], value: Any) -> None:
        if self.undo is not None:
            self.undo.append((sequence, None, None))
        sequence.append(value)

    def pull(self, sequence: list[Any]) -> None:
        if self.undo is not None:
            self.undo.append((sequence, _PULLED, sequence[-1]))
        sequence.pop()

    def begin(self) -> State:
        """Begin a decision. Changes from here on can be rolled back to the state that is returned."""
        itself: Any = self
        before: State = itself.__copy__()
        self.undo, self.saved, self.tally = [], {}, dict(self.tally)
        return before

    def rollback(self, before: State) -> None:
        undo, self.undo, self.saved = self.undo, None, {}
        for target, key, old in reversed(undo or ()):
            if isinstance(target, dict):
                if old is _MISSING:
                    target.pop(key, None)
                else:
                    target[key] = old
            elif isinstance(target, list):
                if key is _PULLED:
                    target.append(old)
                else:
                    target.pop()
            else:
                for name in target.__struct_fields__:
                    setattr(target, name, getattr(key, name))
        for name in _SCALARS:
            setattr(self, name, getattr(before, name))

    def commit(self) -> None:
        self.undo, self.saved = None, {}


_SCALARS = tuple(
    name for name in State.__struct_fields__ if name not in ("undo", "saved", "library", "touched", "timer_changes")
)
