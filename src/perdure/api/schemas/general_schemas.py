"""The types of answers, for the OpenAPI document and its readers. Nothing is converted with them.

The views themselves are made in `perdure.service` and `perdure.kernel.readings.run_view`. Fields that are not always there are `Maybe`.
The types of approvals are in `approval_schemas.py`, those of dead letters in `dead_letter_schemas.py`, and so on.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

T = TypeVar("T")
Maybe: TypeAlias = T | UnsetType

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


class View(msgspec.Struct, frozen=True, kw_only=True):
    """An answer. Fields may be added to it later."""


class Problem(View, frozen=True, kw_only=True):
    """One thing that is wrong with what was sent."""

    path: str
    code: str
    message: str
    line: Maybe[int | None] = UNSET
    column: Maybe[int | None] = UNSET
    severity: Maybe[Literal["error", "warning"]] = UNSET


class ProblemDetails(View, frozen=True, kw_only=True):
    """Every error (RFC 9457). `code` is stable; `docs/reference/errors.md` explains each."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str
    problems: Maybe[list[Problem]] = UNSET


class Error(View, frozen=True, kw_only=True):
    """Why something failed."""

    code: str
    message: Maybe[str] = UNSET
    attempts: Maybe[int] = UNSET
    details: Any = UNSET
    node: Maybe[str] = UNSET
    """In the error of a run: the node that failed."""
    scope: Maybe[list[int]] = UNSET
    """The iteration, if the node is in a loop."""
    item: Maybe[int] = UNSET
    """The index of the item, if the node is in a map."""


class RunSummary(View, frozen=True, kw_only=True):
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
    submitted_by: Maybe[str | None] = UNSET
    """In lists, as the next four fields: the principal that started the run; for a child, `run` and its parent."""
    alias: Maybe[str | None] = UNSET
    """The alias by which its version was chosen."""
    origin: Maybe[str | None] = UNSET
    """The run that it was rerun from or continues, or that it looks at as a what-if."""
    last_event_at: Maybe[float | None] = UNSET
    dlq_count: Maybe[int] = UNSET
    """The number of its dead letters that wait for an operator."""
    quarantined: Maybe[str] = UNSET


class RunPage(View, frozen=True, kw_only=True):
    items: list[RunSummary]
    next_cursor: str | None


class ParkedItems(View, frozen=True, kw_only=True):
    """Items of a trigger that could not be handed over; each is a dead letter."""

    count: int
    error: Error
    """The error of the newest parked item."""


class Node(View, frozen=True, kw_only=True):
    state: NodeState
    visit: int
    attempt: int
    scope: Maybe[list[int]] = UNSET
    output: Any = UNSET
    """The output; one that is stored as a blob is `{"$ref": "cas://…", "preview": "…"}`."""
    size: Maybe[int] = UNSET
    error: Maybe[Error] = UNSET
    started_at: Maybe[float] = UNSET
    ended_at: Maybe[float] = UNSET
    retry_at: Maybe[float] = UNSET
    waiting_for: Maybe[dict[str, Any]] = UNSET
    reason: Maybe[str] = UNSET
    detail: Maybe[str] = UNSET
    """For a node that is held for want of a worker: which workers lack what."""
    worker: Maybe[str] = UNSET
    """The worker that executes the node, while it is running."""
    host: Maybe[str] = UNSET
    pid: Maybe[int] = UNSET
    progress: Any = UNSET
    """How far the handler says it is (`ctx.progress`), while the node is running."""
    route: Maybe[dict[str, Any]] = UNSET
    items: Maybe[dict[str, int]] = UNSET
    parked: Maybe[ParkedItems] = UNSET
    """For a node of type `trigger`: what is parked of what came."""


class NodeItem(Node, frozen=True, kw_only=True):
    node: str


class NodePage(View, frozen=True, kw_only=True):
    items: list[NodeItem]
    next_cursor: str | None


class Attempt(View, frozen=True, kw_only=True):
    """One try at a node, as the events of the run tell it. What none of them says is left out."""

    visit: int
    attempt: int
    """The number of the attempt as people count: one that was handed back is tried again under the same number."""
    state: Literal["crashed", "handed_back"] | NodeState
    """How the attempt ended: `failed` even if another one followed, `crashed` if its worker died."""
    scope: Maybe[list[int]] = UNSET
    started_at: Maybe[float] = UNSET
    ended_at: Maybe[float] = UNSET
    retry_at: Maybe[float] = UNSET
    worker: Maybe[str] = UNSET
    error: Maybe[Error] = UNSET


class NodeDetails(Node, frozen=True, kw_only=True):
    run_id: str
    node: str
    type: str
    visits: list[Node]
    attempts: list[Attempt]
    """Every attempt, oldest first: the last 200 of those in the last 50,000 events of the run."""
    ports: list[str]
    """Where it yields chunks, `out` first; empty for a node that yields none."""


class Run(View, frozen=True, kw_only=True):
    run_id: str
    workflow: str
    version: int
    state: RunState
    counter: int
    generation: int
    inputs: Any
    outputs: Any
    omitted: Maybe[list[str]] = UNSET
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
    last_event_at: Maybe[float] = UNSET
    waiting: Maybe[bool] = UNSET
    """Whether the run is `running` and has nothing to do but wait, as in lists."""
    nodes: dict[str, Node]
    next_nodes: Maybe[str] = UNSET
    """The cursor for GET /runs/{run_id}/nodes, if there are more nodes."""
    at: Maybe[int] = UNSET
    patches: Maybe[int] = UNSET
    """How often its definition was changed, by a patch or with a retry, since it began with that version."""
    origin: Maybe[str] = UNSET
    """The run that it was rerun from or continues, or that it looks at as a what-if."""
    continued_as: Maybe[str] = UNSET
    deadline_at: Maybe[float] = UNSET
    """When the run fails unless it has ended."""
    quarantined: Maybe[str] = UNSET
    problems: Maybe[list[str]] = UNSET


class WorkingTask(View, frozen=True, kw_only=True):
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


class WorkingTasks(View, frozen=True, kw_only=True):
    tasks: list[WorkingTask]


class RunStarted(View, frozen=True, kw_only=True):
    run_id: str
    workflow: str
    version: int
    state: RunState
    outputs: Any
    """The outputs of a run that has ended."""
    error: Error | None
    origin: Maybe[str] = UNSET
    warnings: Maybe[list[str]] = UNSET
    """Inputs that the workflow's schema neither knows nor forbids: perhaps typos. The run has begun all the same."""


class Event(View, frozen=True, kw_only=True):
    seq: int
    type: str
    version: int
    at: float
    counter: int
    cause: Maybe[str] = UNSET
    node: Maybe[str] = UNSET
    scope: Maybe[list[int]] = UNSET
    item: Maybe[int | None] = UNSET
    visit: Maybe[int] = UNSET
    attempt: Maybe[int] = UNSET
    data: dict[str, Any]
    omitted: Maybe[list[str]] = UNSET
    """The fields of `data` that were left out."""


class EventPage(View, frozen=True, kw_only=True):
    items: list[Event]
    next_cursor: str | None
    last_seq: int


class Step(View, frozen=True, kw_only=True):
    seq: int
    at: float
    node: str
    scope: list[int]
    visit: int
    rule: str
    taken: list[str]
    back: bool
    reasoning: Maybe[str] = UNSET


class StepPage(View, frozen=True, kw_only=True):
    items: list[Step]
    next_cursor: str | None


class Difference(View, frozen=True, kw_only=True):
    path: str
    change: Literal["added", "removed", "changed"]
    before: Any = UNSET
    after: Any = UNSET
    omitted: Maybe[bool] = UNSET


class ComparedRun(View, frozen=True, kw_only=True):
    run_id: str
    seq: int
    state: RunState


class RunDiff(View, frozen=True, kw_only=True):
    before: ComparedRun
    after: ComparedRun
    run: list[Difference]
    nodes: dict[str, list[Difference]]


class PatchResult(View, frozen=True, kw_only=True):
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


class Workers(View, frozen=True, kw_only=True):
    """The number of workers, by whether they still send heartbeats."""

    alive: int
    dead: int


class Health(View, frozen=True, kw_only=True):
    status: Literal["ok", "unavailable"]
    reason: Maybe[str] = UNSET
    workers: Maybe[Workers] = UNSET
    """The number of workers; absent where they cannot be counted."""


class RunFile(View, frozen=True, kw_only=True):
    """A run as one file, with everything that is known of it."""

    format: Literal[1]
    run: Run
    definitions: list[dict[str, Any]]
    events: list[Event]
    blobs: list[dict[str, Any]]


class RunImported(View, frozen=True, kw_only=True):
    run_id: str
    workflow: str
    version: int
    state: RunState
    events: int
    imported_from: str


# -- workflows ---------------------------------------------------------------------------------------------------------


class Validated(View, frozen=True, kw_only=True):
    valid: bool
    hash: str | None
    problems: list[Problem]


class DefinitionChanges(View, frozen=True, kw_only=True):
    added: list[str]
    removed: list[str]
    changed: dict[str, list[Difference]]
    edges_added: list[str]
    edges_removed: list[str]
    workflow: list[Difference]


class WorkflowDiff(DefinitionChanges, frozen=True, kw_only=True):
    name: str
    before: int
    after: int


class WorkflowDeleted(View, frozen=True, kw_only=True):
    name: str
    versions_deleted: int


class Workflow(View, frozen=True, kw_only=True):
    name: str
    version: int
    hash: str
    registered_at: float


class WorkflowVersion(Workflow, frozen=True, kw_only=True):
    by: str
    reason: str


class WorkflowDetails(WorkflowVersion, frozen=True, kw_only=True):
    definition: dict[str, Any]


class ListedWorkflow(Workflow, frozen=True, kw_only=True):
    description: Maybe[str] = UNSET
    """With `figures`, as what follows; null where the caller may not read runs."""
    open: Maybe[int | None] = UNSET
    """Runs that have not ended, children too, of the newest 10,000."""
    failed_24h: Maybe[int | None] = UNSET
    p95_seconds: Maybe[float | None] = UNSET
    """What 95 of 100 runs did not exceed, of those among the newest 1,000 of all workflows that ended in the last 24 hours; null where none did."""
    hours: Maybe[list[int] | None] = UNSET
    """How many began in each of the last 24 hours by the clock of UTC; the present one is the last."""
    last_run_at: Maybe[float | None] = UNSET


class WorkflowPage(View, frozen=True, kw_only=True):
    items: list[ListedWorkflow]
    next_cursor: str | None


class VersionPage(View, frozen=True, kw_only=True):
    items: list[WorkflowVersion]
    next_cursor: str | None


class UserPage(RunPage, frozen=True, kw_only=True):
    count: int


class AliasShare(View, frozen=True, kw_only=True):
    version: int
    percent: float


class Alias(View, frozen=True, kw_only=True):
    name: str
    alias: str
    version: int | None
    """Null while several versions share the starts."""
    versions: list[AliasShare]
    revision: int
    by: str
    at: float
    reason: str


class AliasPage(View, frozen=True, kw_only=True):
    items: list[Alias]
    next_cursor: str | None


class AliasDeleted(View, frozen=True, kw_only=True):
    name: str
    alias: str


# -- the deployment and its administration -----------------------------------------------------------------------------


class NodeType(View, frozen=True, kw_only=True):
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


class NodeTypeItem(View, frozen=True, kw_only=True):
    """A type that cannot be loaded has only a name, a source and the problem."""

    name: str
    source: str
    problem: str | None
    version: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    runs_on: Maybe[str] = UNSET
    capabilities: Maybe[list[str]] = UNSET
    aliases: Maybe[list[str]] = UNSET
    config_schema: Any = UNSET
    output_schema: Any = UNSET
    example: Any = UNSET


class NodeTypePage(View, frozen=True, kw_only=True):
    items: list[NodeTypeItem]
    next_cursor: str | None


class Me(View, frozen=True, kw_only=True):
    name: str
    tenant: str
    kind: Literal["local", "key", "jwt"]
    roles: list[str]
    permissions: list[str]


class Key(View, frozen=True, kw_only=True):
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


class IssuedKey(Key, frozen=True, kw_only=True):
    key: str
    """The key itself, shown once and never again."""


class KeyPage(View, frozen=True, kw_only=True):
    items: list[Key]
    next_cursor: str | None


class AuditEntry(View, frozen=True, kw_only=True):
    seq: int
    at: float
    principal: str
    action: str
    object: str
    detail: dict[str, Any]
    request_id: str
    hash: str


class AuditPage(View, frozen=True, kw_only=True):
    items: list[AuditEntry]
    next_cursor: str | None


class AuditVerdict(View, frozen=True, kw_only=True):
    intact: bool
    entries: int
    head: str | None
    broken_seq: int | None
    problem: str


class LogLine(View, frozen=True, kw_only=True):
    position: int
    node: str
    visit: int
    attempt: int
    at: float
    level: str
    message: str


class LogPage(View, frozen=True, kw_only=True):
    items: list[LogLine]
    next_cursor: str | None
