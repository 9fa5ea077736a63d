"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

RunState = Literal[
    "running", "paused", "failing", "cancelling", "compensating", "completed", "failed", "cancelled", "rolled_back"
]
NodeState = Literal[
    "pending",
    "held",
    "queued",
    "running",
    "waiting",
    "retrying",
    "parked",
    "completed",
    "failed",
    "upstream_failed",
    "skipped",
    "cancelled",
    "compensated",
]


class Problem(TypedDict):
    """One thing that is wrong with what was sent."""

    path: str
    code: str
    message: str
    line: NotRequired[int | None]
    column: NotRequired[int | None]
    severity: NotRequired[Literal["error", "warning"]]


class Error(TypedDict):
    """Why something failed."""

    code: str
    message: NotRequired[str]
    attempts: NotRequired[int]
    details: NotRequired[Any]
    node: NotRequired[str]
    """In the error of a run: the node that failed."""
    scope: NotRequired[list[int]]
    """The iteration, if the node is in a loop."""
    item: NotRequired[int]
    """The index of the item, if the node is in a map."""


class RunSummary(TypedDict):
    run_id: str
    seq: int
    """The number of its last event."""
    workflow: str
    version: int
    """The version of the workflow; 0 if the run was started from a definition that is not registered."""
    state: RunState
    waiting: bool
    """Whether the run is `running` without work at a worker or in a child: it waits for a person, a signal or a
    time."""
    counter: int
    generation: int
    error: Error | None
    created_at: float
    started_at: float | None
    ended_at: float | None
    tags: dict[str, str]
    parent: str | None
    submitted_by: NotRequired[str | None]
    """In lists, as the next four fields: the principal that started the run; for a child, `run` and its parent."""
    alias: NotRequired[str | None]
    """The alias by which its version was chosen."""
    origin: NotRequired[str | None]
    """The run that it was rerun from or continues, or that it looks at as a what-if."""
    last_event_at: NotRequired[float | None]
    dlq_count: NotRequired[int]
    """The number of its dead letters that wait for an operator."""
    quarantined: NotRequired[str]


class ParkedItems(TypedDict):
    """Items of a trigger that could not be handed over; each is a dead letter."""

    count: int
    error: Error
    """The error of the newest parked item."""


class Node(TypedDict):
    state: NodeState
    visit: int
    attempt: int
    scope: NotRequired[list[int]]
    output: NotRequired[Any]
    """The output; one that is stored as a blob is `{"$ref": "cas://…", "preview": "…"}`."""
    size: NotRequired[int]
    error: NotRequired[Error]
    started_at: NotRequired[float]
    ended_at: NotRequired[float]
    retry_at: NotRequired[float]
    waiting_for: NotRequired[dict[str, Any]]
    reason: NotRequired[str]
    detail: NotRequired[str]
    """For a node that is held for want of a worker: which workers lack what."""
    worker: NotRequired[str]
    """The worker that executes the node, while it is running."""
    host: NotRequired[str]
    pid: NotRequired[int]
    progress: NotRequired[Any]
    """How far the handler says it is (`ctx.progress`), while the node is running."""
    route: NotRequired[dict[str, Any]]
    items: NotRequired[dict[str, int]]
    parked: NotRequired[ParkedItems]
    """For a node of type `trigger`: what is parked of what came."""


class NodeItem(Node):
    node: str


class Attempt(TypedDict):
    """One try at a node, as the events of the run tell it. What none of them says is left out."""

    visit: int
    attempt: int
    """The number of the attempt as people count: one that was handed back is tried again under the same number."""
    state: Literal["crashed", "handed_back"] | NodeState
    """How the attempt ended: `failed` even if another one followed, `crashed` if its worker died."""
    scope: NotRequired[list[int]]
    started_at: NotRequired[float]
    ended_at: NotRequired[float]
    retry_at: NotRequired[float]
    worker: NotRequired[str]
    error: NotRequired[Error]


class NodeDetails(Node):
    run_id: str
    node: str
    type: str
    visits: list[Node]
    attempts: list[Attempt]
    """Every attempt, oldest first: the last 200 of those in the last 50,000 events of the run."""
    ports: list[str]
    """Where it yields chunks, `out` first; empty for a node that yields none."""


class Run(TypedDict):
    run_id: str
    workflow: str
    version: int
    state: RunState
    counter: int
    generation: int
    inputs: Any
    outputs: Any
    omitted: NotRequired[list[str]]
    """What was left out because it was not asked for."""
    error: Error | None
    created_at: float
    started_at: float | None
    ended_at: float | None
    tags: dict[str, str]
    parent: str | None
    submitted_by: str | None
    """The principal that started the run; for a child, `run` and its parent."""
    alias: str | None
    """The alias by which its version was chosen."""
    correlation_id: str | None
    """The name that the caller who started the run gave this work; children and tasks have the same."""
    dlq_count: int
    """The number of its dead letters that wait for an operator."""
    last_event_at: NotRequired[float]
    waiting: NotRequired[bool]
    """Whether the run is `running` and has nothing to do but wait, as in lists."""
    nodes: dict[str, Node]
    next_nodes: NotRequired[str]
    """The cursor for GET /runs/{run_id}/nodes, if there are more nodes."""
    at: NotRequired[int]
    patches: NotRequired[int]
    """How often its definition was changed, by a patch or with a retry, since it began with that version."""
    origin: NotRequired[str]
    """The run that it was rerun from or continues, or that it looks at as a what-if."""
    continued_as: NotRequired[str]
    deadline_at: NotRequired[float]
    """When the run fails unless it has ended."""
    quarantined: NotRequired[str]
    problems: NotRequired[list[str]]


class WorkingTask(TypedDict):
    node: str
    scope: list[int]
    item: int | None
    attempt: int
    """The number of the attempt, as in the events of the run."""
    worker: str
    host: str
    pid: int
    since: float | None
    progress: Any
    """How far the handler says it is (`ctx.progress`): the latest value. It is kept nowhere."""


class WorkingTasks(TypedDict):
    tasks: list[WorkingTask]


class RunStarted(TypedDict):
    run_id: str
    workflow: str
    version: int
    state: RunState
    outputs: Any
    """The outputs of a run that has ended."""
    error: Error | None
    origin: NotRequired[str]
    warnings: NotRequired[list[str]]
    """Inputs that the workflow's schema neither knows nor forbids: perhaps typos. The run has begun all the same."""


class Event(TypedDict):
    seq: int
    type: str
    version: int
    at: float
    counter: int
    cause: NotRequired[str]
    node: NotRequired[str]
    scope: NotRequired[list[int]]
    item: NotRequired[int | None]
    visit: NotRequired[int]
    attempt: NotRequired[int]
    data: dict[str, Any]
    omitted: NotRequired[list[str]]
    """The fields of `data` that were left out."""


class Step(TypedDict):
    seq: int
    at: float
    node: str
    scope: list[int]
    visit: int
    rule: str
    taken: list[str]
    back: bool
    reasoning: NotRequired[str]


class Difference(TypedDict):
    path: str
    change: Literal["added", "removed", "changed"]
    before: NotRequired[Any]
    after: NotRequired[Any]
    omitted: NotRequired[bool]


class ComparedRun(TypedDict):
    run_id: str
    seq: int
    state: RunState


class RunDiff(TypedDict):
    before: ComparedRun
    after: ComparedRun
    run: list[Difference]
    nodes: dict[str, list[Difference]]


class PatchResult(TypedDict):
    run_id: str
    possible: bool
    applied: bool
    state: RunState
    added: list[str]
    removed: list[str]
    changed: list[str]
    edges_added: list[str]
    edges_removed: list[str]
    refused: str
    problems: list[Problem]


class RunFile(TypedDict):
    """A run as one file, with everything that is known of it."""

    format: Literal[1]
    run: Run
    definitions: list[dict[str, Any]]
    events: list[Event]
    blobs: list[dict[str, Any]]


class RunImported(TypedDict):
    run_id: str
    workflow: str
    version: int
    state: RunState
    events: int
    imported_from: str


class Validated(TypedDict):
    valid: bool
    hash: str | None
    problems: list[Problem]


class DefinitionChanges(TypedDict):
    added: list[str]
    removed: list[str]
    changed: dict[str, list[Difference]]
    edges_added: list[str]
    edges_removed: list[str]
    workflow: list[Difference]


class WorkflowDiff(DefinitionChanges):
    name: str
    before: int
    after: int


class WorkflowDeleted(TypedDict):
    name: str
    versions_deleted: int


class Workflow(TypedDict):
    name: str
    version: int
    hash: str
    registered_at: float


class WorkflowVersion(Workflow):
    by: str
    reason: str


class WorkflowDetails(WorkflowVersion):
    definition: dict[str, Any]


class ListedWorkflow(Workflow):
    description: NotRequired[str]
    """With `figures`, as what follows; null where the caller may not read runs."""
    open: NotRequired[int | None]
    """Runs that have not ended, children too, of the newest 10,000."""
    failed_24h: NotRequired[int | None]
    p95_seconds: NotRequired[float | None]
    """What 95 of 100 runs did not exceed, of those among the newest 1,000 of all workflows that ended in the last 24 hours; null where none did."""
    hours: NotRequired[list[int] | None]
    """How many began in each of the last 24 hours by the clock of UTC; the present one is the last."""
    last_run_at: NotRequired[float | None]


class AliasShare(TypedDict):
    version: int
    percent: float


class Alias(TypedDict):
    name: str
    alias: str
    version: int | None
    """Null while several versions share the starts."""
    versions: list[AliasShare]
    revision: int
    by: str
    at: float
    reason: str


class AliasDeleted(TypedDict):
    name: str
    alias: str


class NodeType(TypedDict):
    name: str
    version: str
    description: str
    source: str
    runs_on: str
    capabilities: list[str]
    aliases: list[str]
    config_schema: Any
    output_schema: Any
    example: Any
    problem: str | None


class NodeTypeItem(TypedDict):
    """A type that cannot be loaded has only a name, a source and the problem."""

    name: str
    source: str
    problem: str | None
    version: NotRequired[str]
    description: NotRequired[str]
    runs_on: NotRequired[str]
    capabilities: NotRequired[list[str]]
    aliases: NotRequired[list[str]]
    config_schema: NotRequired[Any]
    output_schema: NotRequired[Any]
    example: NotRequired[Any]


class Me(TypedDict):
    name: str
    tenant: str
    kind: Literal["local", "key", "jwt"]
    roles: list[str]
    permissions: list[str]


class Key(TypedDict):
    key_id: str
    name: str
    prefix: str
    roles: list[str]
    scopes: list[str]
    created_by: str
    created_at: float
    expires_at: float | None
    revoked_at: float | None
    last_used_at: float | None


class IssuedKey(Key):
    key: str
    """The key itself, shown once and never again."""


class AuditEntry(TypedDict):
    seq: int
    at: float
    principal: str
    action: str
    object: str
    detail: dict[str, Any]
    request_id: str
    hash: str


class AuditVerdict(TypedDict):
    intact: bool
    entries: int
    head: str | None
    broken_seq: int | None
    problem: str


class LogLine(TypedDict):
    position: int
    node: str
    visit: int
    attempt: int
    at: float
    level: str
    message: str
