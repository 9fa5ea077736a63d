"""`perdure.run`: one workflow, here and now, to its end or until it needs a person.

There is one implementation, `arun`; `run` is the same in an event loop of its own. It owns starting a run, continuing
one that exists, and asking for approvals. The engine decides which process holds the database and which one works.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

import msgspec

from perdure import functions
from perdure.errors import PerdureError, Refused
from perdure.expressions.run_inputs import find_unknown
from perdure.kernel.lifecycle import NodeState
from perdure.kernel.run_ids import RUN_ID, RUN_ID_RULE
from perdure.model import Compiled, compile_definition, compile_text
from perdure.nodes.task import explain_misfit
from perdure.opener import load_settings, make_folder, open_engine
from perdure.plain import NotData, to_data
from perdure.runtime.failures import show_details
from perdure.runtime.worker.context import running_loop
from perdure.runtime.worker.threads import ThreadPool
from perdure.sdk.annotations import convert_value, needs_conversion
from perdure.sdk.asks import Decision
from perdure.sdk.attendant import Attendant
from perdure.sdk.builder import find_current
from perdure.sdk.errors import BuildError, RunFailed
from perdure.sdk.follower import Follower, JournalSource, Silent, follow
from perdure.sdk.single import as_workflow
from perdure.sdk.tasks import Task
from perdure.sdk.workflows import Workflow
from perdure.tempo import GRACE_SECONDS

if TYPE_CHECKING:
    from perdure.engine import Engine
    from perdure.kernel.state import State
    from perdure.model.ir import IR
    from perdure.sdk.asks import Ask, Waiting
    from perdure.sdk.attendant import Answer, Vote
    from perdure.service import Service

R = TypeVar("R")

logger = logging.getLogger("perdure")

MEMORY = ":memory:"
STOP_SECONDS = 2.0
"""How long running work may take when this process is told to stop; what is cut off is tried again later."""

_FORMATS = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The approval about which `on_approval` is asked."""

    approval_id: str
    run_id: str
    node: str
    approvers: tuple[str, ...] = ()
    shown: Any = None
    form: Any = None
    """A JSON Schema of the `data` that an approval needs, if the node has one."""


OnApproval = Callable[[ApprovalRequest], Any]


class Run(Generic[R]):
    """A run as it was when `perdure.run` returned, with the same fields as everywhere."""

    def __init__(self, view: dict[str, Any], workflow: Workflow[..., R] | None, waiting: Waiting | None) -> None:
        self.run_id: str = view["run_id"]
        self.workflow: str = view["workflow"]
        self.version: int = view["version"]
        self.state: str = view["state"]
        """`completed`, `failed`, `cancelled`, …; `running` or `paused` when it waits for a person."""
        self.inputs: Any = view["inputs"]
        self.outputs: Any = view["outputs"]
        self.error: dict[str, Any] | None = view["error"]
        self.nodes: dict[str, dict[str, Any]] = view["nodes"]
        """Each node by its id: `{state, attempt, output, error, …}`; inside a loop, that of the last iteration."""
        self.tags: dict[str, str] = view["tags"]
        self.created_at: float = view["created_at"]
        self.ended_at: float | None = view["ended_at"]
        self.waiting: tuple[Ask, ...] = () if waiting is None else tuple(waiting.asks)
        """What the run needs from a person, each with the command that gives it; empty when the run has ended."""
        self.view: dict[str, Any] = view
        """The whole run as data, as `perdure runs show --json` prints it."""
        self._workflow = workflow

    def result(self) -> R:
        """What the workflow function returned; raises `perdure.RunFailed` if the run has not completed."""
        if self.state != "completed":
            failed = RunFailed(self._why(), self)
            for line in show_details((self.error or {}).get("details")):
                failed.add_note(line)
            raise failed
        if self._workflow is None:
            return cast("R", self.outputs)
        value = self._workflow.result_of(self.outputs)
        kind = self._workflow.returns
        if kind is not None and needs_conversion(kind):
            value = convert_value(value, kind, f"the result of {self.workflow}")
        return cast("R", value)

    def _why(self) -> str:
        if self.waiting:
            commands = " or ".join(ask.command for ask in self.waiting[:3])
            return f"run {self.run_id} of {self.workflow} waits for a person: {commands}; then run it again with this run_id"
        failed = [name for name, node in self.nodes.items() if node["state"] == "failed" and "error" in node]
        where = f" at {failed[0]}" if failed else ""
        why = f": {self.error['code']}: {self.error.get('message', '')}" if self.error else ""
        how = f"failed{where}" if self.state == "failed" else f"is {self.state}"
        return f"run {self.run_id} of {self.workflow} {how}{why}"

    def __repr__(self) -> str:
        return f"<Run {self.run_id} of {self.workflow}: {self.state}>"


@overload
async def arun(
    workflow: Task[..., Coroutine[Any, Any, R]],
    /,
    *,
    inputs: Mapping[str, Any] | None = None,
    run_id: str | None = None,
    db: str | Path | None = None,
    tags: Mapping[str, str] | None = None,
    on_approval: OnApproval | None = None,
    retry_failed: bool = False,
    **more_inputs: Any,
) -> Run[R]: ...
@overload
async def arun(
    workflow: Workflow[..., R] | Task[..., R],
    /,
    *,
    inputs: Mapping[str, Any] | None = None,
    run_id: str | None = None,
    db: str | Path | None = None,
    tags: Mapping[str, str] | None = None,
    on_approval: OnApproval | None = None,
    retry_failed: bool = False,
    **more_inputs: Any,
) -> Run[R]: ...
@overload
async def arun(
    workflow: Mapping[str, Any] | str | Path,
    /,
    *,
    inputs: Mapping[str, Any] | None = None,
    run_id: str | None = None,
    db: str | Path | None = None,
    tags: Mapping[str, str] | None = None,
    on_approval: OnApproval | None = None,
    retry_failed: bool = False,
    **more_inputs: Any,
) -> Run[Any]: ...
async def arun(
    workflow: Any,
    /,
    *,
    inputs: Mapping[str, Any] | None = None,
    run_id: str | None = None,
    db: str | Path | None = None,
    tags: Mapping[str, str] | None = None,
    on_approval: OnApproval | None = None,
    retry_failed: bool = False,
    **more_inputs: Any,
) -> Run[Any]:
    """`perdure.run` for use inside an event loop."""
    if find_current() is not None:
        raise BuildError(
            "perdure.run was called inside a workflow function; to start another workflow from it, call that"
        )
    if module := functions.loading_now():
        raise PerdureError(
            f"perdure.run was called while the module {module} is being imported; put it under `if __name__ == '__main__':`"
        )
    if run_id is not None and not RUN_ID.fullmatch(run_id):
        raise PerdureError(f"run_id {run_id!r}: use {RUN_ID_RULE}")
    built, compiled = _read(workflow)
    values = {**(inputs or {}), **more_inputs}
    if built is not None:
        _check_inputs(built, values)
    with ExitStack() as stack:
        if db == MEMORY:
            db = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="perdure-"))) / "perdure.db"
        settings = load_settings(None if db is None else str(db))
        make_folder(settings)
        engine = await open_engine(settings)
        try:
            session = _Session(engine, on_approval)
            children = [child.compiled for child in built.children()] if built is not None else []
            state = await session.start(compiled, children, run_id, values, dict(tags or {}), retry_failed)
            state = await session.follow(state)
            view = await engine.contents.view(state)
        except BaseException:
            await engine.close(STOP_SECONDS)
            raise
        await engine.close(GRACE_SECONDS)
        return Run(view, built, session.waiting)


@overload
def run(
    workflow: Task[..., Coroutine[Any, Any, R]],
    /,
    *,
    inputs: Mapping[str, Any] | None = None,
    run_id: str | None = None,
    db: str | Path | None = None,
    tags: Mapping[str, str] | None = None,
    on_approval: OnApproval | None = None,
    retry_failed: bool = False,
    **more_inputs: Any,
) -> Run[R]: ...
@overload
def run(
    workflow: Workflow[..., R] | Task[..., R],
    /,
    *,
    inputs: Mapping[str, Any] | None = None,
    run_id: str | None = None,
    db: str | Path | None = None,
    tags: Mapping[str, str] | None = None,
    on_approval: OnApproval | None = None,
    retry_failed: bool = False,
    **more_inputs: Any,
) -> Run[R]: ...
@overload
def run(
    workflow: Mapping[str, Any] | str | Path,
    /,
    *,
    inputs: Mapping[str, Any] | None = None,
    run_id: str | None = None,
    db: str | Path | None = None,
    tags: Mapping[str, str] | None = None,
    on_approval: OnApproval | None = None,
    retry_failed: bool = False,
    **more_inputs: Any,
) -> Run[Any]: ...
@wraps(arun, assigned=())  # the same parameters, written once
def run(workflow: Any, /, **given: Any) -> Run[Any]:
    """Run a workflow or a task here and now: `perdure.run(briefing, city="Oslo")`. A failed run raises nothing here.

    `workflow` may also be a definition as data or a file. Inputs are given by name, or as `inputs={…}` where a name is
    taken. `run_id` names the run: the same id continues a run that was interrupted, and returns one that has ended
    (`retry_failed=True` first tries a failed one again, by the workflow as it is now). `db` is a file or URL, by
    default that of `perdure run`; ":memory:" is a database that is gone afterwards. `on_approval` is asked for
    decisions; without it the run is left waiting.
    """
    if running_loop() is not None:
        raise PerdureError(
            "perdure.run was called where an event loop is running (an async function, a notebook); write: await perdure.arun(…)"
        )
    return asyncio.run(arun(workflow, **given))


def _read(given: Any) -> tuple[Workflow[..., Any] | None, Compiled]:
    if isinstance(given, Task):
        given = as_workflow(given)
    if isinstance(given, Workflow):
        return given, given.compiled
    if isinstance(given, Mapping):
        return None, compile_definition(dict(given))
    if isinstance(given, str | Path):
        path = Path(given)
        return None, compile_text(path.read_bytes(), format=_FORMATS.get(path.suffix.lower()))  # type: ignore[arg-type]
    hint = "; decorate it with @perdure.workflow or @perdure.task" if callable(given) else ""
    raise PerdureError(
        f"perdure.run takes a workflow, a task, a definition or a file, got {type(given).__name__}{hint}"
    )


def _check_inputs(workflow: Workflow[..., Any], values: dict[str, Any]) -> None:
    """Check inputs as the arguments of a call would be, before anything is started."""
    try:
        workflow.signature.bind(**values)
    except TypeError as error:
        said = explain_misfit(workflow.signature, values, error)
        raise PerdureError(f"inputs of {workflow.name}{workflow.signature}: {said}") from None


class _Session:
    """One call of `perdure.run` on an open engine."""

    def __init__(self, engine: Engine, on_approval: OnApproval | None) -> None:
        from perdure.service import Service

        self._engine = engine
        self._service = Service.of_owner(engine)
        self._on_approval = on_approval
        self.waiting: Waiting | None = None

    async def start(
        self,
        compiled: Compiled,
        children: list[Compiled],
        run_id: str | None,
        inputs: dict[str, Any],
        tags: dict[str, str],
        retry_failed: bool,
    ) -> State:
        engine = self._engine
        for child in children:
            await self._service.workflows.register(child, triggers=False)
        ir = compiled.get_ir()
        registered = await self._service.workflows.register(compiled, triggers=False)
        known = {problem.message for problem in compiled.problems}
        for problem in registered["problems"]:
            if problem["message"] not in known:
                logger.warning("%s: %s", ir.name, problem["message"])
        run_id = run_id or engine.clock.new_id()
        engine.runs.own.add(run_id)
        engine.others = "uncrashed"
        engine.drives_triggers = False
        existed = await self._service.tenancy.find_run(run_id) is not None
        if not await engine.hold() and not existed:
            holder = engine.holder
            if holder is not None and holder.pid != os.getpid():
                logger.warning(
                    "process %d holds the database and is handed run %s; functions it cannot import wait until it ends",
                    holder.pid,
                    run_id,
                )
        if not existed:
            for said in find_unknown(ir.inputs_schema, inputs):
                logger.warning("%s", said)
            start = self._service.runs.start(
                f"{ir.name}@{registered['version']}", _plain(inputs, "the inputs are"), run_id=run_id, tags=tags
            )
            await _unless("exists", start)  # another process was faster
        state = await engine.runs.state(run_id)
        if existed:
            mends = retry_failed and state.state == "failed"
            await self._check_same(state, ir, inputs, mends=mends)
            if mends:
                await _unless("", self._service.runs.retry(run_id, definition=compiled.definition))
                state = await engine.runs.state(run_id)
        return state

    async def _check_same(self, state: State, ir: IR, inputs: dict[str, Any], *, mends: bool) -> None:
        """Refuse another workflow under the id of an existing run. A failed run may continue by a mended workflow of
        the same name, if what was done has its place in it."""
        from perdure.service.runs.resumed_runs import find_difference, read_existing

        existing = await read_existing(self._engine, state)
        difference = find_difference(existing, ir, _plain(inputs, "the inputs are"), mends=mends)
        if difference in ("workflow", "definition"):
            raise Refused(_say_other(state, ir), code="other_workflow")
        if difference == "inputs":
            raise Refused(
                f"run {state.run_id} began with other inputs; choose another run_id, or give the same inputs",
                code="other_inputs",
            )

    # -- to the end ----------------------------------------------------------------------------------------------------

    async def follow(self, state: State) -> State:
        """The run at its end, or where it needs a person to go on."""
        follower = Follower(JournalSource(self._service), state.run_id)
        follower.state = state
        if state.terminal:
            return state
        desk = _Desk(self._service, follower)
        asker = None if self._on_approval is None else _Callback(self._on_approval, self._service)
        attendant = Attendant(follower, desk, asker, leaves=True)
        waiting: Waiting | None = None

        async def attend(over: asyncio.Event) -> None:
            nonlocal waiting
            waiting = await attendant.run()
            over.set()

        try:
            await follow(follower, Silent(), work=self._engine, beside=[attend])
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        if not follower.state.terminal:
            if follower.quarantined is not None:
                raise PerdureError(f"run {state.run_id} is quarantined: {follower.quarantined}; see `perdure doctor`")
            self.waiting = waiting
        return follower.state


class _Desk:
    def __init__(self, service: Service, follower: Follower) -> None:
        self._service = service
        self._follower = follower

    async def look(self) -> Waiting:
        from perdure.sdk.asks import Waiting, look

        state = self._follower.state
        return await look(self._service, state) if _is_quiet(state) else Waiting(busy=True)

    async def vote(self, ask: Ask, decision: Decision) -> None:
        data = _plain(decision.data, "the data of the Decision is")
        about: dict[str, Any] = {"by": decision.by or None, "comments": decision.comments, "data": data}
        decide = self._service.approvals.decide(ask.name, decision.decision, **about)
        await _unless("already_decided", decide)  # by another approver, meanwhile


class _Callback:
    """Asks `on_approval`, for each approver anew. A refusal is raised to the caller of `perdure.run`."""

    repeats = True

    def __init__(self, on_approval: OnApproval, service: Service) -> None:
        self._on_approval = on_approval
        self._service = service

    async def ask(self, ask: Ask, vote: Vote) -> Answer:
        decision = await self._call(self._on_approval, ask)
        if decision is None:
            return "later"
        await vote(decision)
        return "voted"

    async def _call(self, on_approval: OnApproval, ask: Ask) -> Decision | None:
        view = await self._service.approvals.get(ask.name)
        question = ApprovalRequest(
            approval_id=ask.name,
            run_id=ask.run_id,
            node=ask.node,
            approvers=ask.approvers,
            shown=ask.shown,
            form=view["form"],
        )
        if inspect.iscoroutinefunction(on_approval):
            answer = await on_approval(question)
        else:  # the callback may wait for a person, and neither the engine nor the end of the run waits with it
            threads = ThreadPool(asyncio.get_running_loop(), 1, "perdure-on-approval")
            returned, answer = await threads.submit(lambda: on_approval(question), threads.close)
            if not returned:
                raise answer
        decision = _read_decision(answer)
        if decision is None or decision.by:
            return decision
        return msgspec.structs.replace(
            decision, by=next((one for one in ask.approvers if one not in view["votes"]), "")
        )


async def _unless(code: str, asked: Awaitable[Any]) -> None:
    """Await a request and raise its refusal as `Refused`, unless the refusal has this code."""
    from perdure.service.errors import Invalid

    try:
        await asked
    except Refused as error:
        if error.code != code:
            raise
    except Invalid as error:
        raise Refused(error.message, code=error.code) from None


def _is_quiet(state: State) -> bool:
    """Whether nothing of the run itself is under way; only then is it worth looking for what it waits for."""
    return not any(state.tally.get(busy) for busy in (NodeState.QUEUED, NodeState.RUNNING, NodeState.RETRYING))


def _read_decision(answer: Any) -> Decision | None:
    match answer:
        case None | Decision():
            return answer
        case True | "approve":
            return Decision(decision="approve")
        case False | "reject":
            return Decision(decision="reject")
    raise PerdureError(
        f"on_approval answered with {type(answer).__name__}; expected True, False, perdure.Decision(…), or None to leave it"
    )


def _plain(value: Any, what: str) -> Any:
    try:
        return to_data(value)
    except NotData as error:
        raise PerdureError(f"{what} not JSON: {error}") from error


def _say_other(state: State, ir: IR) -> str:
    """The message that a run follows another definition: of another workflow, or the same one before an edit."""
    if state.workflow != ir.name:
        was = f"{state.workflow} version {state.workflow_version}, not {ir.name}"
        return f"run {state.run_id} is of another workflow ({was}); choose another run_id, or run that workflow"
    if state.state == "failed":
        way = "give retry_failed=True to go on by the workflow as it is now"
    elif state.terminal:
        way = "run the workflow as it was to have what it gave"
    else:
        way = "run the workflow as it was to go on"
    return (
        f"run {state.run_id} began with another definition of {state.workflow} (version {state.workflow_version}), which was changed "
        f"since; {way}, or choose another run_id to begin anew"
    )
