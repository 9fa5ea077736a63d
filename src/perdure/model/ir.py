"""The IR: a compiled, validated workflow, as the kernel runs it.

This file owns the shape only. It knows nothing of YAML, of validation (`compiler.py`) or of runs (`perdure.kernel`).
Nodes refer to each other by integer index; indexes follow a topological order with ties broken by id, so equal
hashes mean equal indexes. A patch may renumber: `rebase` keeps the indexes a running run already uses.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import msgspec

from perdure.model.money import Budget

ANSWERED_TYPES = frozenset({"human", "input", "map", "output", "wait", "workflow"})
"""Node types that no worker ever has: the engine answers for them."""
SHORTEST_RATE_SECONDS = 0.001
"""The shortest time that a rate may be about."""

IR_VERSION = 1

EdgeKind = Literal["inner", "entry", "exit", "back"]
Effect = Literal["pure", "idempotent", "at_most_once"]
OnFailure = Literal["fail", "park", "continue", "path"]


class Reference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One place where a template or condition reads something that exists only while a run runs."""

    root: str  # "inputs", "run", "loop", "item", "secrets", or "node"
    node: str | None = None  # the node, when root is "node"
    path: tuple[str | int, ...] = ()  # what is read below the root (below the node's whole output)
    optional: bool = False  # a default is given, so a skipped node is no problem


class Condition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A condition in canonical form. The kernel never evaluates it; it only asks for its verdict."""

    kind: Literal["cel", "jsonpath", "schema_validation", "cross_node_comparison", "composite", "python_sandbox"]
    spec: dict[str, Any]
    references: tuple[Reference, ...] = ()

    @property
    def reads_everything(self) -> bool:
        """Whether the condition has Python code, which may read any node of the past."""
        return self.kind == "python_sandbox" or (self.kind == "composite" and _has_python(self.spec))


def _has_python(spec: dict[str, Any]) -> bool:
    return any(
        inner["type"] == "python_sandbox" or (inner["type"] == "composite" and _has_python(inner))
        for inner in spec["conditions"]
    )


class Retry(msgspec.Struct, frozen=True, omit_defaults=True):
    max_attempts: int = 3
    backoff_ms: int = 1000
    multiplier: float = 2.0
    max_backoff_ms: int = 60_000
    jitter: bool = True
    retry_on: tuple[str, ...] = ()  # empty: everything the handler did not call final
    give_up_on: tuple[str, ...] = ()


class Join(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many edges a join needs: `at_least` None is `all`, and `any` is 1."""

    at_least: int | None = None
    cancel_rest: bool = False


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    condition: Condition
    next_nodes: tuple[int, ...]


class Branch(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: Literal["conditional", "agent_driven"]
    rules: tuple[Rule, ...] = ()
    default: tuple[int, ...] = ()
    available: tuple[int, ...] = ()  # agent_driven: what the agent may choose
    approve: bool | None = None  # agent_driven: whether a person is asked; None: by what the agent has read


class Loop(msgspec.Struct, frozen=True, omit_defaults=True):
    """A loop, named by the index of its looping node, the node that has the `loop` key."""

    head: int  # loop_back_to
    condition: Condition
    max_iterations: int | None  # None: endless
    body: tuple[int, ...]  # ascending; contains head and the looping node
    break_path: tuple[int, ...] | None = None  # None: the unnamed dependents
    timeout_path: tuple[int, ...] | None = None  # None: exhaustion is a failure; (): a quiet end
    delay_ms: int = 0
    exits: tuple[int, ...] = ()  # edge indexes that leave the body, whichever body node they start at


class Compensator(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    config: Any = None
    timeout_seconds: float | None = None
    retry: Retry = Retry()
    references: tuple[Reference, ...] = ()


class Edge(msgspec.Struct, frozen=True, omit_defaults=True):
    """An edge between a pair of nodes: one, however often the definition names it."""

    source: int
    target: int
    kind: EdgeKind = "inner"  # a back edge is back; else leaving any loop is exit; else entering any is entry
    common: int = 0  # how many enclosing loops both ends share: the length of the shared scope
    named: bool = False  # routing names it: taken only when chosen
    required: bool = False
    ports: tuple[tuple[str, str], ...] = ()  # (source port, target port): with any, it is a stream edge (rule 71)


class Stream(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a node says about the streams it gives and reads."""

    collect: Literal["list", "text", "last", "count", "none"] = "list"  # its output, made of what it yielded
    buffer: int = 8 * 1024 * 1024  # how many bytes its slowest reader may be behind before it waits
    early: bool = False  # it may end before the streams it reads
    ports: tuple[str, ...] = ()  # besides `out`
    restart: Literal["anew", "repeat", "checkpoint"] = "anew"  # what counts of an attempt that breaks off


class Node(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    type: str
    config: Any = None
    config_ref: str | None = None  # "sha256:…", instead of config
    type_url: str | None = None
    loops: tuple[int, ...] = ()  # enclosing loops, outermost first; a looping node is in its own loop
    edges_in: tuple[int, ...] = ()  # edges of the join: every incoming edge but back edges
    edges_out: tuple[int, ...] = ()  # every outgoing edge but back edges
    join: Join = Join()
    when: Condition | None = None
    branch: Branch | None = None
    loop: Loop | None = None
    rejection_path: tuple[int, ...] | None = None
    on_failure: OnFailure = "fail"
    failure_path: tuple[int, ...] = ()
    retry: Retry = Retry()
    max_crashes: int = 5
    effect: Effect = "idempotent"
    timeout_seconds: float | None = None
    queue_timeout_seconds: float | None = None
    total_timeout_seconds: float | None = None
    heartbeat_timeout_seconds: float | None = None
    isolation: Literal["thread", "process"] = "thread"
    queue: str = "default"
    priority: int = 0
    concurrency: dict[str, Any] | None = None
    rate: dict[str, Any] | None = None
    sensitive: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()  # what the author says of the output: (integrity, trusted), …
    output_schema: Any = None
    compensator: Compensator | None = None
    item: Node | None = None  # map: what each item does (its index is its map's; it has no edges)
    max_hops: int | None = None  # a node's own limits.max_hops
    max_fanout: int | None = None  # and its own limits.max_fanout
    references: tuple[Reference, ...] = ()
    terminal: bool = False  # no outgoing edge but back edges
    lenient: bool = False  # its failure can reach only any/at_least joins, so it is decided there (rule 10)
    region: int | None = None  # nearest any/at_least join that everything after this node leads to (rule 11)
    stream: Stream | None = None  # it has ports, or says that it streams


def is_approval(node: Node) -> bool:
    """Whether people are asked here, once or for each item of a map."""
    return node.type == "human" or (node.item is not None and node.item.type == "human")


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    max_hops: int = 10_000
    max_fanout: int = 100_000
    deadline_seconds: float | None = None
    max_bytes: int = 1024 * 1024 * 1024
    budget: Budget | None = None


class IR(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):  # `dict` keeps what is found out once
    version: int
    name: str
    hash: str  # "sha256:…" of the canonical definition
    nodes: tuple[Node | None, ...]  # None only after `rebase`: a node a patch removed
    edges: tuple[Edge, ...]
    entries: tuple[int, ...]  # nodes without incoming edges
    terminals: tuple[int, ...]
    limits: Limits = Limits()
    inputs_schema: Any = None
    outputs: dict[str, Any] | None = None
    output_references: tuple[Reference, ...] = ()
    compensate_on_failure: bool = False
    endless: bool = False
    description: str = ""
    expose: dict[str, Any] = {}
    policies: tuple[dict[str, Any], ...] = ()  # of transitions, and of calls of agents: {when, then, approvers}

    def fanout_of(self, node: Node) -> int:
        """How many edges or items one outcome of a node may have."""
        most = self.limits.max_fanout
        return most if node.max_fanout is None else min(most, node.max_fanout)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The indexes of nodes, by id."""
        return {node.id: index for index, node in enumerate(self.nodes) if node is not None}

    @cached_property
    def approvals(self) -> tuple[int, ...]:
        """The nodes that ask people, once or for each item of a map."""
        return tuple(index for index, node in enumerate(self.nodes) if node is not None and is_approval(node))

    @cached_property
    def has_agents(self) -> bool:
        """Whether some node is an agent, or the items of a map are."""
        items = (node.item for node in self.nodes if node is not None and node.item is not None)
        return any(node is not None and node.type == "agent" for node in (*self.nodes, *items))

    @cached_property
    def streams(self) -> bool:
        """Whether some node has a stream."""
        return any(node is not None and node.stream is not None for node in self.nodes)

    @cached_property
    def choosing(self) -> frozenset[int]:
        """The nodes of which routing names some edges, so that an outcome does not take every edge."""
        return frozenset(edge.source for edge in self.edges if edge.named and edge.kind != "back")


def encode(ir: IR) -> bytes:
    return msgspec.json.encode(ir, order="deterministic")


_decoder = msgspec.json.Decoder(IR)


def decode(data: bytes) -> IR:
    return _decoder.decode(data)
