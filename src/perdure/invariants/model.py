"""The checker's picture of a run: activations, loops, tokens, and the list of violations."""

from __future__ import annotations

import copy
from typing import NamedTuple, TypeVar

import msgspec

from perdure.invariants.box import Box
from perdure.invariants.graph import Graph, Library
from perdure.invariants.purse import Purse
from perdure.kernel.events import Scope
from perdure.model.ir import Node

Key = tuple[str, Scope, int | None]

TAKEN, SKIPPED, FAILED, ERROR = "taken", "skipped", "failed", "error"

OPEN = frozenset({"held", "queued", "running", "waiting", "retrying", "parked"})
ENDED = frozenset({"completed", "failed", "upstream_failed", "skipped", "cancelled", "compensated"})
RUN_OVER = frozenset({"completed", "failed", "cancelled", "rolled_back"})


class Violation(NamedTuple):
    id: str
    seq: int
    message: str


class Child(NamedTuple):
    """A child run of an ask."""

    ended: int = 0
    """The last generation that ended."""
    open: bool = True
    done: bool = False
    """True if the child completed and was not rolled back."""


class Act(msgspec.Struct, kw_only=True):
    """One activation."""

    node: str
    scope: Scope
    item: int | None
    graph: int
    state: str = "pending"
    fired: bool = False
    called: bool = False
    """A loop went back to this node, so it needs no edge."""
    won: bool = False
    """The join has fired and its losers are being cancelled: how their edges resolve no longer matters."""
    lost: frozenset[Key] = frozenset()
    """The joins it lost to, itself or by what is before it: that it did not run does not skip them, in no generation (rule 7)."""
    unlet: bool = False
    """True if the join failed and the policy for failures decided what became of the node, which never ran."""
    edges: dict[str, str] = {}
    tokens: int = 0
    hop: int = 0
    attempt: int = 0
    claimed: int = 0
    """The largest attempt that is known to have started."""
    accepted: bool = False
    routed: bool = False
    handled: bool = False
    rule: str = ""
    """The rule that chose the route."""
    has_route: bool = False
    spent: bool = False
    ask: str = ""
    """The wish to begin that was granted last."""
    """The effect of an at_most_once node has started, and nothing has allowed it to start again."""
    discarded: bool = False
    checkpointed: tuple[int, int] = (0, 0)
    """The last checkpoint: attempt and number."""
    steps: frozenset[str] = frozenset()
    """The steps that have a result."""
    asks: tuple[tuple[str, str], ...] = ()
    """What it waits for that its handler asked for: name and kind of each ask."""
    asked: frozenset[str] = frozenset()
    """All names under which its handlers asked for something."""
    begun: frozenset[str] = frozenset()
    """Steps that may happen at most once, have begun, and have no result."""
    suspended: int = 0
    """The last attempt that asked for something."""
    total_left: float | None = None
    brood: dict[str, Child] = {}
    """The children of its asks, by id. Never changed in place."""
    planned: bool = False
    """True if it was to be compensated: when it is done again, so are its steps."""
    rejected: bool = False
    """People were asked here, and the decision is a no, possibly by timeout."""
    for_loop: bool = False
    """The activation was cancelled because its iteration closed."""
    retry_at: float | None = None
    wait: str = ""
    wait_name: str = ""
    cut: str = ""
    """The state the activation was in when the run ended."""
    redo: bool = False
    """A new generation made the activation ready again."""
    undone: int = 0
    undo_attempt: int = 0
    undo_retry_at: float | None = None
    undo_parked: bool = False
    child_ended: int = 0
    child_open: bool = False
    """The generation after that was started, and has not ended."""
    completed_seq: int = 0
    floor: int = 0
    """The first attempt of this generation: those below belong to an older one."""
    failures: int = 0
    crashes: int = 0
    open_since: int = 0
    edition: int = 0
    """The last edition of its stream."""
    streamer: int = 0
    """The attempt that streams it."""
    kept: dict[str, int] = {}
    """How much of that edition is stored, by port. Never changed in place."""
    chains: dict[tuple[str, int], int] = {}
    """What its chunks came to, by port and number, where that was said. Never changed in place."""
    cursors: dict[str, tuple[int, ...]] = {}
    """How far the streams it reads were read for what it has kept. Never changed in place."""
    stream: str = ""
    """Whether that is open, or how it was closed."""
    led: bool = False
    """True if the stream edges have resolved by this activation."""
    void: int = 0
    """The last attempt whose edition, own or read, is over."""
    ran: int = 0
    """The generation in which it was scheduled last."""
    reads: dict[str, int] = {}
    """The editions that its current attempt reads, by source. Never changed in place."""

    @property
    def key(self) -> Key:
        return (self.node, self.scope, self.item)

    @property
    def place(self) -> str:
        return f"{self.node}{list(self.scope) if self.scope else ''}{'' if self.item is None else f'#{self.item}'}"


class Loop(msgspec.Struct, kw_only=True):
    """One execution of a loop."""

    node: str
    scope: Scope
    graph: int
    began: tuple[tuple[int, int], ...] = ()
    """The graphs of its iterations, each with the first iteration that began with it."""
    iteration: int = 1
    status: str = "open"
    cause: Key | None = None
    failed: bool = False
    """True if the loop ended because its looping node failed, and for no other reason."""
    again: bool = False
    """A new generation reopened it: its exits resolve once more, also for those who keep an outcome and do not hear them."""
    members: dict[Key, None] = {}


class Approval(msgspec.Struct, kw_only=True):
    key: Key
    approvers: tuple[str, ...]
    quorum: int
    expires_at: float | None
    ask: str = ""
    votes: dict[str, str] = {}
    left: tuple[str, ...] = ()
    pending: bool = True


Record = TypeVar("Record", Act, Loop, Approval)


def _copy(record: Record, mapping: str) -> Record:
    new = copy.copy(record)
    setattr(new, mapping, dict(getattr(record, mapping)))
    return new


class Model:
    """State without rules, on which each group of rules works from a file of its own."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.graphs: list[Graph] = []
        self.seq = 0
        self.at = 0.0
        self.state = ""
        self.generation = 0
        self.tokens = 0
        self.open = 0
        self.undoing = 0
        self.acts: dict[Key, Act] = {}
        self.loops: dict[tuple[str, Scope], Loop] = {}
        self.entered: dict[tuple[str, str, Scope], tuple[str, int]] = {}
        self.absent: set[tuple[str, str]] = set()
        """Edges that resolved without their source, which a patch put outside the loop in which it was never activated, or
        into one that is over."""
        self.timers: dict[str, float] = {}
        self.approvals: dict[str, Approval] = {}
        self.children: dict[str, Key] = {}
        self.plan: list[Key] = []
        self.signals: dict[str, int] = {}
        """How many signals of each name were not consumed."""
        self.heard: dict[tuple[str, int | None, str, str], int] = {}
        """The last event that each node, or item of a map, has taken, by its name and key."""
        self.listening: dict[Key, tuple[str, int]] = {}
        """The key of the events that an activation waits for, and the position behind which it does."""
        self.guarded: dict[str, set[str]] = {}
        """The approvals each node could only run after when a patch came."""
        self.boxes: dict[str, Box] = {}
        """What the triggers of the run hold, by node."""
        self.purse = Purse()
        self.judged: dict[tuple[Key, str], tuple[str, object]] = {}
        """What was decided about each call of an agent, and the hash of its arguments."""
        self.shown: dict[str, tuple[Key, str, object]] = {}
        """The call that each approval of an agent is about, and the hash of the arguments that people see."""
        self.allowed: dict[tuple[Key, str], object] = {}
        """Calls that people allowed, with the hash of the arguments they allowed."""
        self.led: dict[Key, str] = {}
        """What the decision about the route of an agent is called by."""
        self.pauses: set[str] = set()
        self.refused: Key | None = None
        """The approval by whose no the run fails."""
        self.orphaned = False
        """The run was cancelled by its parent."""
        self.continues = False
        """The run continues another one, with what that has done."""
        self.grace_over = False
        """The end of the run waits for no worker or child any more."""
        self.late = False
        """The deadline has fired, and the run has not failed yet."""
        self.settled_seq = 0
        self.races: list[tuple[Key, int]] = []
        """Joins with `cancel_rest` that were decided since the last append ended, and the graph each was decided with."""
        self.whole: set[Key] = set()
        """Activations that have ended in this generation, with everything before them."""
        self.ending: set[Key] = set()
        """Activations whose stream has ended in this append."""
        self.patching = ("", "")
        """The node that has patched its run in the event before, and the ask that this was."""
        self.covered: set[Key] = set()
        """The activations of whose streams this append has kept pieces, and has no checkpoint yet."""
        self.breaking: set[Key] = set()
        """The activations whose own stream was made of an edition that this append has closed."""
        self.found: list[Violation] = []

    def blame(self, invariant: str, message: str) -> None:
        self.found.append(Violation(invariant, self.seq, message))

    @property
    def counter(self) -> int:
        return self.tokens + self.open + self.undoing

    @property
    def graph(self) -> Graph:
        return self.graphs[-1]

    def copy(self) -> Model:
        other = Model(self.library)
        other.__dict__.update(self.__dict__)
        other.graphs, other.plan, other.found = [*self.graphs], [*self.plan], []
        other.whole, other.purse = set(self.whole), self.purse.copy()
        other.ending = set(self.ending)
        other.judged, other.shown, other.allowed = dict(self.judged), dict(self.shown), dict(self.allowed)
        other.led = dict(self.led)
        other.signals, other.races, other.pauses = dict(self.signals), [*self.races], set(self.pauses)
        other.guarded = {name: set(people) for name, people in self.guarded.items()}
        other.acts = {key: _copy(act, "edges") for key, act in self.acts.items()}
        other.loops = {key: _copy(run, "members") for key, run in self.loops.items()}
        other.boxes = {node: box.copy() for node, box in self.boxes.items()}
        other.approvals = {key: _copy(approval, "votes") for key, approval in self.approvals.items()}
        other.heard, other.listening = dict(self.heard), dict(self.listening)
        other.entered, other.timers, other.children = dict(self.entered), dict(self.timers), dict(self.children)
        return other

    # -- activations ---------------------------------------------------------------------------------------------------

    def governing(self, node: str, scope: Scope) -> int:
        """The index of the graph an activation lives by: inside a loop, the one its outermost iteration began with."""
        last = len(self.graphs) - 1
        if not scope or not last:
            return last
        for index in range(last, -1, -1):
            loops = self.graphs[index].loops.get(node)
            if loops:
                run = self.loops.get((loops[0], ()))
                began = [graph for first, graph in run.began if first <= scope[0]] if run is not None else []
                return began[-1] if began else index
        return last

    def graph_of(self, act: Act) -> Graph:
        return self.graphs[self.governing(act.node, act.scope)]

    def node_of(self, act: Act) -> Node | None:
        """The definition the activation was made with."""
        node = self.graphs[act.graph].nodes.get(act.node)
        return node.item if act.item is not None and node is not None else node

    def get(self, node: str, scope: Scope = (), item: int | None = None) -> Act:
        key = (node, scope, item)
        act = self.acts.get(key)
        if act is None:
            act = Act(node=node, scope=scope, item=item, graph=self.governing(node, scope))
            self.acts[key] = act
            self._enter(act)
        return act

    def _enter(self, act: Act) -> None:
        if not act.scope:
            return
        graph = self.graphs[act.graph]
        loops = graph.loops.get(act.node, ())
        for depth in range(min(len(act.scope), len(loops))):
            run = self.loop(loops[depth], act.scope[:depth])
            if run.iteration == act.scope[depth]:
                run.members[act.key] = None
        if act.item is None:
            for edge in graph.incoming.get(act.node, ()):
                if edge.common < len(act.scope):
                    known = self.entered.get((edge.source, act.node, act.scope[: edge.common]))
                    if known is not None:
                        act.edges[edge.source] = known[0]
                        if known[0] in (TAKEN, ERROR):
                            act.hop = max(act.hop, known[1] + 1)

    def loop(self, node: str, scope: Scope) -> Loop:
        run = self.loops.get((node, scope))
        if run is None:
            graph = len(self.graphs) - 1
            if scope:
                known = [one.loops[node] for one in self.graphs if node in one.loops]  # a patch may have removed it
                outer = self.loops.get((known[-1][0], ()))
                graph = outer.graph if outer is not None else graph
            run = self.loops[(node, scope)] = Loop(node=node, scope=scope, graph=graph, began=((1, graph),))
        return run

    def around(self, act: Act) -> list[Loop]:
        """The loops whose current iteration the activation belongs to, outermost first."""
        loops = self.graphs[act.graph].loops.get(act.node, ())
        found = []
        for depth, iteration in enumerate(act.scope):
            run = self.loops.get((loops[depth], act.scope[:depth]))
            if run is not None and run.iteration == iteration:
                found.append(run)
        return found

    def closing(self, act: Act) -> bool:
        return any(run.status == "closing" for run in self.around(act))

    def closed(self, act: Act) -> bool:
        """Whether some loop around the activation has gone on to another iteration, or is over."""
        loops = self.graphs[act.graph].loops.get(act.node, ())
        for depth, iteration in enumerate(act.scope):
            run = self.loops.get((loops[depth], act.scope[:depth]))
            if run is not None and (run.iteration != iteration or run.status == "ended"):
                return True
        return False

    def latest(self, graph: Graph, node: str, prefix: Scope) -> Act | None:
        """The activation that a node in loops stands for outside them: that of their last iteration."""
        scope = prefix
        for loop in graph.loops[node][len(prefix) :]:
            run = self.loops.get((loop, scope))
            if run is None:
                return None
            scope = (*scope, run.iteration)
        return self.acts.get((node, scope, None))

    def current(self, graph: Graph, node: str, prefix: Scope) -> Scope | None:
        """The scope where a token from the scope `prefix` arrives; None when a loop on the way is closing or over."""
        scope = prefix
        for loop in graph.loops[node][len(prefix) :]:
            run = self.loops.get((loop, scope))
            if run is not None and run.status in ("closing", "ended"):
                return None
            scope = (*scope, 1 if run is None else run.iteration)
        return scope

    def set_state(self, act: Act, state: str) -> None:
        self.open += (state in OPEN) - (act.state in OPEN)
        if state in OPEN and act.state not in OPEN:
            act.open_since = self.seq
        act.state = state

    def timer(self, kind: str, act: Act) -> str:
        scope = ".".join(map(str, act.scope))
        return f"{kind}:{act.node}:{scope}{'' if act.item is None else f'#{act.item}'}"

    def clear(self, act: Act, *kinds: str) -> None:
        for kind in kinds:
            self.timers.pop(self.timer(kind, act), None)

    def stop_waiting(self, act: Act) -> None:
        """End the wait of an activation: its timer goes, and a pending approval counts as decided."""
        if act.wait == "approval":
            approval = self.approvals.get(act.wait_name)
            if approval is not None:
                approval.pending = False
        if act.wait:
            self.clear(act, "wait", "delay", "approval")
        for name, kind in act.asks:
            self.close_ask(act, name, kind)
        act.asks = ()
        act.wait = act.wait_name = ""

    def close_ask(self, act: Act, name: str, kind: str) -> None:
        """End the wait for one answer: its timer goes, and a pending approval counts as decided."""
        self.timers.pop(f"{self.timer('approval' if kind == 'approval' else 'ask', act)}:{name}", None)
        for approval in self.approvals.values() if kind == "approval" else ():
            if approval.key == act.key and approval.ask == name:
                approval.pending = False

    def finish(self, act: Act, state: str) -> None:
        self.stop_waiting(act)
        self.clear(act, "retry", "queue", "total")
        act.retry_at = None
        self.set_state(act, state)
