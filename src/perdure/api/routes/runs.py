"""Runs over HTTP: start, look, follow, change. What each does is in `perdure.service.runs.runs`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from perdure.access import Permission
from perdure.api.endpoints import Answer, Call, Routes, hash_of
from perdure.api.event_stream import EventStream
from perdure.api.lasting_answer import LastingAnswer, while_allowed
from perdure.api.parameters import AFTER_DESCRIPTION, DryRun, Limit, Sequence, Text, either, sequence
from perdure.api.request_reader import Body, Query, media_type, off_the_loop, read_bytes, read_json
from perdure.api.schemas import action_schemas as a
from perdure.api.schemas import general_schemas as s
from perdure.api.schemas import reason_schemas
from perdure.api.schemas.usage_schemas import RunUsage
from perdure.model.budgets import MOST_DOLLARS
from perdure.model.money import MOST
from perdure.service.errors import Invalid, Trouble
from perdure.service.runs.run_actions import Previewed
from perdure.service.runs.starts import LONGEST_WAIT_SECONDS, MOST_TAGS, Started

routes = Routes("runs")
READ, OPERATE = Permission.RUNS_READ, Permission.RUNS_OPERATE
Tags = Annotated[
    dict[Annotated[str, Meta(min_length=1, max_length=200)], Annotated[str, Meta(max_length=1000)]],
    Meta(max_length=MOST_TAGS),
]


# -- starting ----------------------------------------------------------------------------------------------------------


Mended = Annotated[dict[str, Any], Meta(description="A mended definition of the workflow; it is not registered.")]


class GivenLimits(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the calls of a run may use. What is not given is not limited."""

    usd: Annotated[float, Meta(description="Dollars.", ge=0, le=MOST_DOLLARS)] | None = None
    tokens: Annotated[int, Meta(ge=0, le=MOST)] | None = None
    calls: Annotated[int, Meta(ge=0, le=MOST)] | None = None
    on_exceed: Annotated[
        Literal["pause", "fail"] | None, Meta(description="What happens when it is used up; `pause` unless said.")
    ] = None


def as_given(budget: GivenLimits | None) -> dict[str, Any] | None:
    given = {} if budget is None else msgspec.structs.asdict(budget)
    return {name: amount for name, amount in given.items() if amount is not None} or None


class StartRun(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workflow: Annotated[str, Meta(max_length=400, description="`name`, `name@3` or `name@alias`.")] | UnsetType = UNSET
    definition: (
        Annotated[dict[str, Any], Meta(description="Instead of `workflow`; it is not registered by that.")] | UnsetType
    ) = UNSET
    tag: (
        Annotated[
            str,
            Meta(
                description="An alias of the workflow: `{workflow: orders, tag: live}` is `orders@live`. Alone, a workflow.",
                min_length=1,
                max_length=200,
            ),
        ]
        | None
    ) = None
    inputs: dict[str, Any] | None = None
    tags: Tags = msgspec.field(default_factory=dict)
    deadline_seconds: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    wait_seconds: Annotated[
        float,
        Meta(
            description="How long the answer may wait for the end of the run. For longer, follow the run's stream.",
            ge=0,
            le=LONGEST_WAIT_SECONDS,
        ),
    ] = 0.0
    budget: GivenLimits | None = None
    correlation_id: Annotated[
        str, Meta(description="What you call this work; children and tasks of the run have the same.", max_length=200)
    ] = ""
    rollout_key: (
        Annotated[
            str,
            Meta(
                description="A customer, for example: where an alias means several versions, it gets the same one each time.",
                min_length=1,
                max_length=200,
            ),
        ]
        | None
    ) = None


@routes.post(
    "/runs",
    Permission.RUNS_START,
    s.RunStarted,
    status=201,
    also={200: s.RunStarted},
    audited=False,  # the journal says which principal started the run
)
async def start(call: Call, body: StartRun) -> Answer:
    """Start a run of a registered workflow, or of a definition.

    201 means that the start is durable. With `wait_seconds` (at most 300) the answer comes when the run ends or the time is
    up. 200 means that an earlier request with the same `Idempotency-Key` started this run. Starting a definition also needs
    the permission `workflows:write`.
    """
    if body.definition is not UNSET:
        call.principal.require(Permission.WORKFLOWS_WRITE)
        call.noted = {"definition": hash_of(body.definition)}
    if body.wait_seconds:
        with call.site.places.enter(call.principal):
            started = await while_allowed(call, Permission.RUNS_START, _start(call, body))
    else:
        started = await _start(call, body)
    return answer_of(started)


def answer_of(started: Started) -> Answer:
    headers = {"Location": f"/api/v1/runs/{started.view['run_id']}"}
    if not started.created:
        headers["Idempotency-Replayed"] = "true"
    return Answer(started.view, 201 if started.created else 200, headers)


def _named(workflow: str, tag: str | None) -> str:
    if tag is None:
        return workflow
    if "@" in workflow:
        message = f"workflow names {workflow} and tag {tag}; give one of them"
        raise Invalid(message, [Trouble("tag", "conflicting_keys", message)])
    return f"{workflow}@{tag}" if workflow else tag


async def _start(call: Call, body: StartRun) -> Started:
    return await call.service.runs.begin(
        _named("" if body.workflow is UNSET else body.workflow, body.tag),
        definition=None if body.definition is UNSET else body.definition,
        inputs=body.inputs,
        tags=body.tags,
        deadline_seconds=body.deadline_seconds,
        wait_seconds=body.wait_seconds,
        key=call.key,
        rollout_key=body.rollout_key,
        correlation_id=body.correlation_id,
        budget=as_given(body.budget),
    )


# -- looking -----------------------------------------------------------------------------------------------------------


class GetRun(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    outputs: Annotated[bool, Meta(description="Whether outputs of nodes are shown with them.")] = True
    values: Annotated[
        bool,
        Meta(
            description="Whether the run's inputs and outputs are shown, and those of nodes; `omitted` names the former."
        ),
    ] = True


@routes.get("/runs/{run_id}", READ, s.Run)
async def get(call: Call, query: GetRun) -> Any:
    """Get a run: its state, nodes, counter, outputs and errors."""
    return await call.service.runs.get(call.path("run_id"), outputs=query.outputs, values=query.values)


class ListNodes(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    outputs: Annotated[bool, Meta(description="Whether outputs are shown; without, their size is.")] = False
    limit: Limit = 100
    cursor: Text | None = None


@routes.get("/runs/{run_id}/nodes", READ, s.NodePage)
async def nodes(call: Call, query: ListNodes) -> Any:
    """List the nodes of a run, in the order of its definition."""
    pages = call.service.runs.nodes(call.path("run_id"), limit=query.limit, cursor=query.cursor, outputs=query.outputs)
    return await pages.first()


class AtPoint(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    at: Annotated[int, Meta(description="As it was after this event.", ge=1, le=2**53)] | None = None


class GetNode(AtPoint, frozen=True, kw_only=True, forbid_unknown_fields=True):
    outputs: Annotated[bool, Meta(description="Whether outputs are shown; without, their size is.")] = True


@routes.get("/runs/{run_id}/nodes/{node}", READ, s.NodeDetails)
async def node(call: Call, query: GetNode) -> Any:
    """Get one node of a run, with every visit and its whole output."""
    runs = call.service.runs
    return await runs.node(call.path("run_id"), call.path("node"), at=query.at, outputs=query.outputs)


class ListSteps(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: Annotated[Sequence, Meta(description=AFTER_DESCRIPTION)] = 0
    cursor: Annotated[str, Meta(description="The same as `after`.", pattern="^[0-9]{1,15}$")] | None = None
    limit: Limit = 100


class ListEvents(ListSteps, frozen=True, kw_only=True, forbid_unknown_fields=True):
    before: (
        Annotated[
            Sequence, Meta(description="Only events before this number, the newest first; `cursor` then is this.")
        ]
        | None
    ) = None
    node: Annotated[Text, Meta(description="Only events about this node.")] | None = None
    type: Annotated[
        tuple[Annotated[str, Meta(max_length=100)], ...],
        Meta(description="Only events of these types; may be given several times."),
    ] = ()
    outputs: Annotated[
        bool, Meta(description="Whether the values of users are shown; `omitted` names those left out.")
    ] = True


@routes.get("/runs/{run_id}/events", READ, s.EventPage)
async def events(call: Call, query: ListEvents) -> Any:
    """List the events of a run, in order: everything that happened to it.

    With `before` the newest come first. A page may have fewer than `limit`, or none, though there are more: at most 50,000
    events are looked at for one.
    """
    pages = call.service.runs.events(
        call.path("run_id"),
        after=query.after,
        before=query.before,
        node=query.node,
        type=query.type,
        outputs=query.outputs,
        limit=query.limit,
        cursor=query.cursor,
    )
    return await pages.first()


class Follow(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: Annotated[Sequence, Meta(description=AFTER_DESCRIPTION)] = 0
    with_: Annotated[
        str,
        Meta(
            description="`working`, `logs` or both with a comma: also what is executed, as `event: working`, and log lines, as `event: log`, without `id`.",
            pattern="^(working|logs)(,(working|logs))?$",
        ),
    ] = msgspec.field(default="", name="with")
    outputs: Annotated[
        bool, Meta(description="Whether the values of users are shown; `omitted` names those left out.")
    ] = True
    logs_after: Annotated[Sequence, Meta(description="Only log lines after this position.")] = 0


@routes.get("/runs/{run_id}/stream", READ, "text/event-stream", also={204: None})
async def stream(call: Call, query: Follow) -> Response:
    """Follow a run: its events as they happen, as server-sent events.

    The `id` of each is the sequence number of the event. A client that connects again with `Last-Event-ID` misses nothing,
    whichever process answers. The stream ends when the run has ended; 204 means that nothing comes after the event named.
    With `with=working` the stream also has the tasks that are being executed, at first and whenever they change: each time
    the whole list, as `GET /runs/{run_id}/working` gives it. Such a list is not an event of the run and has no `id`. With
    `with=logs` it has the lines of `GET /runs/{run_id}/logs`, from `logs_after` on, one by one, also without `id`.
    """
    run_id = call.path("run_id")
    after = sequence(call.request.headers.get("last-event-id"), query.after)
    record = await call.service.tenancy.get_run(run_id)
    if record.row.ended_at is not None and after >= record.seq:
        return Response(status_code=204)
    place = call.site.places.enter(call.principal)
    try:
        wanted = query.with_.split(",")
        logs_after = query.logs_after if "logs" in wanted else None
        events = await call.service.runs.follow(run_id, after, working="working" in wanted, logs_after=logs_after)
    except BaseException:
        place.leave()
        raise
    return EventStream(call, events, READ, place, outputs=query.outputs)


@routes.get("/runs/{run_id}/working", READ, s.WorkingTasks)
async def working(call: Call) -> Any:
    """List the tasks of a run that workers execute now: node, attempt, worker, and since when."""
    return await call.service.runs.working(call.path("run_id"))


class StateAt(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    at: Annotated[int, Meta(description="The number of an event.", ge=1, le=2**53)]
    outputs: bool = True
    values: bool = True


@routes.get("/runs/{run_id}/state", READ, s.Run)
async def state(call: Call, query: StateAt) -> Any:
    """Get a run as it was right after an event."""
    return await call.service.runs.state_at(call.path("run_id"), query.at, outputs=query.outputs, values=query.values)


@routes.get("/runs/{run_id}/path", READ, s.StepPage)
async def path(call: Call, query: ListSteps) -> Any:
    """List the edges that a run took, in order, with the rule that chose each."""
    after = sequence(query.cursor, query.after)
    return await call.service.runs.path(call.path("run_id"), after=after, limit=query.limit).first()


class Explain(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: Text | None = None


@routes.get("/runs/{run_id}/explain", READ, reason_schemas.Explanation)
async def explain(call: Call, query: Explain) -> Any:
    """Explain why a node has not run, or what each node of a run that has not completed waits for."""
    return await call.service.runs.explain(call.path("run_id"), query.node)


class Diff(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    at: Annotated[int, Meta(description="This run as it was after this event.", ge=1, le=2**53)] | None = None
    to: Annotated[int, Meta(description="The other one as it was after this event.", ge=1, le=2**53)] | None = None
    other: Annotated[str, Meta(description="Another run; without, this one.", max_length=1000)] | None = None


@routes.get("/runs/{run_id}/diff", READ, s.RunDiff)
async def diff(call: Call, query: Diff) -> Any:
    """Compare two runs, or two moments of one run."""
    return await call.service.runs.diff(call.path("run_id"), at=query.at, other=query.other, to=query.to)


# -- changing ----------------------------------------------------------------------------------------------------------


class Reason(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Annotated[str, Meta(description="Why; it is written down.", max_length=2000)] = ""


class Cancel(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    force: Annotated[bool, Meta(description="Do not wait for what is running, and undo nothing.")] = False
    dry_run: DryRun = False


class Nothing(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No keys; the body may be left out."""


class Tried(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dry_run: DryRun = False


@routes.get("/runs/{run_id}/actions", READ, a.RunActions)
async def actions(call: Call) -> Any:
    """Say what can be done with a run now: what each change would do, or why it is refused."""
    return await call.service.runs.actions(call.path("run_id"))


async def _preview(call: Call, action: Previewed, **about: Any) -> Any:
    call.noted = {**(call.noted or {}), "dry_run": True}
    return await call.service.runs.preview(call.path("run_id"), action, **about)


@routes.post("/runs/{run_id}/cancel", OPERATE, s.RunSummary | a.Preview, needs_body=False)
async def cancel(call: Call, body: Cancel) -> Any:
    """Cancel a run: tasks that are being executed are told to stop, and no other node begins.

    With `dry_run`, here and at `retry`, `rerun` and `rollback`, nothing changes: the answer says what would happen.
    """
    if body.dry_run:
        return await _preview(call, "cancel", force=body.force)
    return await call.service.runs.cancel(call.path("run_id"), reason=body.reason, force=body.force)


@routes.post("/runs/{run_id}/pause", OPERATE, s.RunSummary, needs_body=False)
async def pause(call: Call, body: Reason) -> Any:
    """Pause a run: no other node begins, and tasks that are being executed may finish."""
    return await call.service.runs.pause(call.path("run_id"), reason=body.reason)


class ResumeRun(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    budget: GivenLimits | None = None


@routes.post("/runs/{run_id}/resume", OPERATE, s.RunSummary, needs_body=False)
async def resume(call: Call, body: ResumeRun) -> Any:
    """Let a paused run continue.

    A run that is paused because its budget is used up needs a larger one: `{"budget": {"usd": 10}}`. Limits that are not given
    stay. Without it the answer is 409 `budget_exhausted`.
    """
    if body.budget is not None:
        call.noted = {"budget": as_given(body.budget)}
    return await call.service.runs.resume(call.path("run_id"), budget=as_given(body.budget))


@routes.get("/runs/{run_id}/usage", READ, RunUsage)
async def usage(call: Call) -> Any:
    """What a run has used: tokens, calls and dollars, by node and by model.

    `total` includes child runs, whose part is `children`, and calls without a known end, whose part is `unsettled`: their answer
    broke off, or their worker died or was stopped, and the provider may have charged for them.
    """
    return await call.service.runs.usage(call.path("run_id"))


class RetryRun(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    definition: Mended | None = None
    budget: GivenLimits | None = None
    dry_run: DryRun = False


@routes.post("/runs/{run_id}/retry", OPERATE, s.RunSummary | a.Preview, needs_body=False)
async def retry(call: Call, body: RetryRun) -> Any:
    """Try a failed run again: nodes that completed are kept, nodes that failed run again.

    With a definition, the run continues by that one, provided that it has a place for everything that was done. This also
    needs the permissions `runs:patch` and `workflows:write`. A run that failed because its budget was used up
    (`budget_exhausted`) is given a larger one: `{"budget": {"usd": 10}}`. Limits that are not given stay.
    """
    if body.definition is not None:
        call.principal.require(Permission.RUNS_PATCH)
        call.principal.require(Permission.WORKFLOWS_WRITE)
        call.noted = {"definition": hash_of(body.definition)}
    if body.dry_run:
        return await _preview(call, "retry", definition=body.definition)
    about: dict[str, Any] = {"definition": body.definition, "reason": body.reason, "budget": as_given(body.budget)}
    return await call.service.runs.retry(call.path("run_id"), **about)


@routes.post("/runs/{run_id}/rollback", OPERATE, s.RunSummary | a.Preview, needs_body=False)
async def rollback(call: Call, body: Tried) -> Any:
    """Undo a run that has ended: its compensators run, last node first."""
    if body.dry_run:
        return await _preview(call, "rollback")
    return await call.service.runs.rollback(call.path("run_id"))


class Rerun(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    from_node: Annotated[
        str,
        Meta(
            description="The node from which the new run begins; the outputs of the nodes before it are kept.",
            max_length=200,
        ),
    ] = ""
    inputs: (
        Annotated[
            dict[str, Any],
            Meta(
                description="Other inputs of the run. With `from_node`: the outputs that node is given, by the id of the node before."
            ),
        ]
        | None
    ) = None
    definition: Mended | None = None
    dry_run: DryRun = False


@routes.post(
    "/runs/{run_id}/rerun", OPERATE, s.RunStarted, status=201, also={200: s.RunStarted | a.Preview}, needs_body=False
)
async def rerun(call: Call, body: Rerun) -> Answer:
    """Start a new run from an old one, with the definition the old run has now or with another.

    200 means that an earlier request with the same `Idempotency-Key` made this run.
    Another definition, or other `inputs` together with `from_node`, also need the permission `workflows:write`. If the new
    run keeps a decision that a person made, the caller must be allowed to make that decision.
    """
    if body.definition is not None or (body.from_node and body.inputs is not None):
        call.principal.require(Permission.WORKFLOWS_WRITE)
        call.noted = {"given": hash_of([body.definition, body.inputs])}
    if body.dry_run:
        about = {"from_node": body.from_node, "inputs": body.inputs, "definition": body.definition}
        return Answer(await _preview(call, "rerun", **about), 200)
    started = await call.service.runs.begin_rerun(
        call.path("run_id"), from_node=body.from_node, inputs=body.inputs, definition=body.definition, key=call.key
    )
    return answer_of(started)


class PatchRun(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    patch: Annotated[list[Any], Meta(description="A JSON Patch (RFC 6902) of the definition.")] | None = None
    operations: Annotated[list[Any], Meta(description="Another name of `patch`.")] | None = None
    description: Annotated[str, Meta(description="Another name of `reason`.", max_length=2000)] = ""
    definition: Annotated[dict[str, Any], Meta(description="A whole definition, instead of a patch.")] | None = None
    dry_run: bool = False


@routes.post("/runs/{run_id}/patch", Permission.RUNS_PATCH, s.PatchResult)
async def patch(call: Call, body: PatchRun) -> Any:
    """Patch a run: it continues by another definition.

    This also needs the permission `workflows:write`. With `dry_run` nothing changes: the answer says what would change, and
    whether the run can take the definition.
    """
    if not body.dry_run:
        call.principal.require(Permission.WORKFLOWS_WRITE)
    operations = either("patch", body.patch, "operations", body.operations)
    call.noted = {"patch": hash_of(operations if body.definition is None else body.definition)}
    return await call.service.runs.patch(
        call.path("run_id"),
        definition=body.definition,
        operations=operations,
        dry_run=body.dry_run,
        reason=either("reason", body.reason or None, "description", body.description or None) or "",
    )


class Signal(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=200)]
    payload: Any = None
    signal_id: Annotated[
        str, Meta(description="Your own id of this signal: one that is sent twice counts once.", max_length=200)
    ] = ""


@routes.post("/runs/{run_id}/signal", OPERATE, s.RunSummary, audited=False)
async def signal(call: Call, body: Signal) -> Any:
    """Send a signal to a run."""
    return await call.service.runs.signal(
        call.path("run_id"), body.name, body.payload, signal_id=body.signal_id or call.key or ""
    )


# -- elsewhere ---------------------------------------------------------------------------------------------------------


@routes.get("/runs/{run_id}/export", READ, s.RunFile)
async def export(call: Call) -> Response:
    """Export a run as one file: the run, its definitions, its events and its large values."""
    place = call.site.places.enter(call.principal)
    try:
        pieces = await call.service.runs.export(call.path("run_id"))
    except BaseException:
        place.leave()
        raise
    headers = {"Content-Disposition": "attachment"}
    return LastingAnswer(call, _encoded(pieces), READ, place, "application/json", headers)


async def _encoded(pieces: AsyncGenerator[str, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(pieces) as texts:
        async for text in texts:
            yield text.encode()


@routes.post("/runs/import", Permission.WORKFLOWS_WRITE, s.RunImported, status=201, sends=("application/json",))
async def import_(call: Call) -> Any:
    """Import an exported run, to look at it. It is quarantined: none of its nodes is executed."""
    data = await read_bytes(call.request)
    media_type(call.request, {"application/json"})
    view = await call.service.runs.import_file(await off_the_loop(call.request, data, lambda: read_json(data)))
    call.object = view["run_id"]
    return view


class Message(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: Annotated[str, Meta(min_length=1, max_length=4000)]
    item: Annotated[int, Meta(description="Of a map: which item.", ge=0, le=2**31)] | None = None
    message_id: Annotated[
        str, Meta(description="Your own id of this message: one that is sent twice counts once.", max_length=200)
    ] = ""


@routes.post("/runs/{run_id}/nodes/{node}/messages", OPERATE, s.RunSummary, audited=False)
async def tell(call: Call, body: Message) -> Any:
    """Say something to an agent at work. It reads that before its next turn, and goes on."""
    return await call.service.runs.tell(
        call.path("run_id"),
        call.path("node"),
        body.text,
        item=body.item,
        message_id=body.message_id or call.key or "",
    )
