"""The listener: hears what other processes ask of the runs this process holds, decides it and answers."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.blobs import BlobDamaged, BlobMissing, BlobStoreUnavailable
from perdure.budget import REQUEST_SECONDS, REQUEST_STEPS, Budget
from perdure.clock import Clock
from perdure.contents import TooMuch
from perdure.errors import NotFound, PerdureError, StoreUnavailable
from perdure.expressions.run_inputs import find_unknown
from perdure.journal import Command, Exists, IdempotencyKey, Journal, Notice, RunRecord
from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.kernel import reruns
from perdure.kernel.segments import has_refs
from perdure.kernel.state import State
from perdure.kernel.triggers.trigger_run import TRIGGER
from perdure.kernel.values import Fired
from perdure.model.ir import IR
from perdure.plain_text import find_name_trouble
from perdure.runtime.coordinator.continuations import STOP, LeftChild, read_continuation, read_stop
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.coordinator.loaded import load
from perdure.runtime.coordinator.messages import Asked, Noticed
from perdure.runtime.coordinator.requests import (
    KEY_USED,
    STARTS,
    Reply,
    Request,
    decode_request,
    encode_reply,
    encode_request,
    key_outlived,
    read_mailbox_command,
)
from perdure.runtime.coordinator.rulings import MANY_NODES
from perdure.runtime.coordinator.triggers.firings import START, Begins, read_firing
from perdure.runtime.filled_inputs import fill_in_aside
from perdure.runtime.forms import check_form
from perdure.runtime.parts import EngineStopped
from perdure.runtime.patience import OutageLog, first_of
from perdure.threads import aside
from perdure.transport import TransportUnavailable

logger = logging.getLogger("perdure.listener")

_PAGE = 1000
_POLL_SECONDS = 0.1
"""How often the journal is read for commands: other processes cannot call into this one, and an indexed query is
cheap."""
_RECENT_SECONDS = 1.0
"""How often the notices are read again that came lately: where several processes write, a lower number may become visible
after a higher one, as long as the statement takes that writes it."""
_LATELY_SECONDS = 3.0
_EVERYTHING_SECONDS = 30.0
"""How often they are read from the first one, for a statement that took longer."""

_CATCH_UP_SECONDS = 1.0

_EARLY_LOOKS = 600
"""How often a command of a trigger is looked at for a run that is about to begin, before it counts as answered."""


class Listener:
    def __init__(
        self,
        journal: Journal,
        coordinator: Coordinator,
        clock: Clock,
        *,
        answered: Callable[[list[str]], Awaitable[None]] | None = None,
    ) -> None:
        """`answered` is called with the commands that have an answer now."""
        self._journal = journal
        self._coordinator = coordinator
        self._clock = clock
        self._answered = answered
        self._told: set[int] = set()
        """Notices that were passed to the coordinator and were in the journal at the last look at all of them."""
        self._heard = 0
        """The highest notice that was read; most looks begin behind it."""
        self._marks: deque[tuple[float, int]] = deque()
        """When looks at what came lately were made, and the highest notice that had been read before each."""
        self._settled = 0
        """The highest notice below which none came lately."""
        self._recent_at = 0.0
        self._everything_at = 0.0
        self._taken = False
        """Whether runs were taken over since the last look began, which may have passed their notices on to nobody: what it read
        counts for nothing either."""
        self._early: dict[str, int] = {}
        """How often commands were looked at whose runs are not there yet."""
        self._made = 0
        """How many runs of triggers the present look has asked for."""
        self._put_off: set[int] = set()
        """Notices of runs that wait until fewer tasks do."""
        self.leaves_triggers = False
        """Whether the runs that triggers are to start, and the ends of such runs, are left to another process."""
        self._looks = self._done = 0
        """The last look at notices that was begun, and the last that came to its end."""
        self._ended = asyncio.Event()
        self._noticed = asyncio.Event()
        self._outages = OutageLog(clock, logger, "requests cannot be read")
        coordinator.notice_written = self.look_soon

    def look_soon(self) -> None:
        self._noticed.set()

    async def catch_up(self) -> None:
        """Return when the notices were passed on that are there now; or after a second, if they cannot be read."""
        wanted, until = self._looks + 1, self._clock.monotonic() + _CATCH_UP_SECONDS
        self.look_soon()
        while self._done < wanted and (left := until - self._clock.monotonic()) > 0:
            self._ended.clear()
            await first_of(self._clock.sleep(left), self._ended.wait())

    def look_again(self) -> None:
        """Read all notices again after runs were taken over: what was passed on for them before counts for nothing."""
        self._taken = True
        self.look_soon()

    async def run(self) -> None:
        while True:
            try:
                await self.listen()
            except StoreUnavailable as error:
                self._outages.say(error)
            await first_of(self._clock.sleep(_POLL_SECONDS), self._noticed.wait())
            self._noticed.clear()

    async def listen(self) -> None:
        await self._coordinator.incarnation.learn()
        self._looks = look = self._looks + 1
        await self._hear_notices()
        self._done = look
        self._ended.set()
        await self._hear_commands()

    async def _hear_notices(self) -> None:
        if self._taken:
            self._taken = False
            self._told.clear()
            self._marks.clear()
            self._settled, self._everything_at = 0, 0.0
        now = self._clock.monotonic()
        everything = now >= self._everything_at
        after = 0 if everything else self._choose_start(now)
        there: set[int] = set()
        self._made = 0
        while notices := await self._journal.read_notices(self._coordinator.share.partitions, after, _PAGE):
            after = notices[-1].notice_id
            there.update(notice.notice_id for notice in notices)
            fresh = [notice for notice in notices if notice.notice_id not in self._told]
            found = await self._find_named(fresh)
            for notice in fresh:
                await self._try_to_tell(notice, found)
            if len(notices) < _PAGE:
                break
        there -= self._put_off
        if everything:
            self._told = there
            self._everything_at = now + _EVERYTHING_SECONDS
            self._mark(now)
        else:
            self._told |= there
        if self._put_off:
            self._put_off.clear()
            self._everything_at = min(self._everything_at, now + _RECENT_SECONDS)
        self._heard = max(self._heard, after)

    def _choose_start(self, now: float) -> int:
        """Behind which notice a look begins: behind the last, or once in a while before those that came lately."""
        if now < self._recent_at:
            return self._heard
        while self._marks and self._marks[0][0] <= now - _LATELY_SECONDS:
            self._settled = self._marks.popleft()[1]
        self._mark(now)
        return self._settled

    def _mark(self, now: float) -> None:
        self._recent_at = now + _RECENT_SECONDS
        self._marks.append((now, self._heard))

    async def _hear_commands(self) -> None:
        """Decide commands: those of one run in order, different runs side by side, so that one batch takes them all."""
        commands = await self._journal.read_commands(self._coordinator.share.partitions, limit=_PAGE)
        by_run: dict[str, list[Command]] = {}
        for command in commands:
            by_run.setdefault(command.run_id, []).append(command)
        if by_run:
            ends = await asyncio.gather(*map(self._answer, by_run.values()), return_exceptions=True)
            for end in ends:
                if end is not None:
                    raise end
            if len(commands) == _PAGE:
                self.look_soon()

    async def _answer(self, commands: list[Command]) -> None:
        for command in commands:
            reply, made = await self._decide(command)
            if reply.code == "moved":  # the process that holds the run now finds the command too
                return
            if await self._passed_on(command, reply):
                continue
            if not made:  # a command that made a run was answered in that commit
                # Crash here: what changed the run is answered with that change; the rest is decided again.
                await self._journal.answer_command(command.command_id, encode_reply(reply))
        if self._answered is not None:
            await self._answered([command.command_id for command in commands])

    async def _passed_on(self, command: Command, reply: Reply) -> bool:
        """Deal with a refusal that nobody waits for: what a trigger asks for is asked of the run that has gone on (rule 52), and,
        if its run is only about to begin, again. True: there is no answer yet."""
        if not command.command_id.startswith(("start:", "overlap:")):
            return False
        if reply.code == "continued":
            request = msgspec.structs.replace(decode_request(command.body), run_id=reply.continued_as)
            # Crash after this: putting the same command again changes nothing.
            await self._journal.put_command(
                request.run_id, encode_request(request), command_id=f"{command.command_id}>{request.run_id}"
            )
            return False
        tried = self._early.pop(command.command_id, 0) + 1
        if reply.code != "not_found" or tried > _EARLY_LOOKS:
            return False
        self._early[command.command_id] = tried
        return True

    async def _find_named(self, notices: Sequence[Notice]) -> dict[str, RunRecord]:
        """The runs that these notices are to make or to stop, and that are there. They are asked for together: one question after the
        other was much of what a start costs."""
        sought = (STOP,) if self.leaves_triggers else (START, STOP)
        names = list(dict.fromkeys(notice.run_id for notice in notices if notice.body.startswith(sought)))
        records = await asyncio.gather(*(self._journal.find_run(name) for name in names))
        return {name: record for name, record in zip(names, records, strict=True) if record is not None}

    async def _try_to_tell(self, notice: Notice, there: Mapping[str, RunRecord]) -> None:
        """Pass on one notice: if it cannot be understood, the other notices and the process go on (X34). `there`: runs that were there
        before it was passed on."""
        try:
            await self._tell(notice, there)
        except StoreUnavailable:
            raise
        except Exception:  # from a newer process, or a bug here: the notice stays, and the next process tries it again
            logger.exception(
                "notice %d for run %s cannot be read; it stays, and the next process that starts tries it again",
                notice.notice_id,
                notice.run_id,
            )

    async def _tell(self, notice: Notice, there: Mapping[str, RunRecord]) -> None:
        """Pass on a notice: a child ended or is to be stopped, a trigger starts a run or hears of its end, or an endless run goes on as
        a new one."""
        coordinator = self._coordinator
        left = read_stop(notice.body)
        if left is not None:
            await self._tell_stop(notice, left, there)
            return
        firing = read_firing(notice.body)
        if firing is not None and self.leaves_triggers:
            return
        if isinstance(firing, Begins):
            assert notice.body.startswith(START)
            await self._tell_start(notice, firing, there)
            return
        try:
            continuation = read_continuation(notice.body)
        except msgspec.ValidationError:
            coordinator.put(Noticed(notice.run_id, notice.notice_id, notice.body))
            return
        if await self._journal.find_run(notice.run_id) is not None:
            await self._journal.delete_notices([notice.notice_id])
            return
        try:
            ir = await coordinator.library.get(continuation.ir)
        except (NotFound, BlobMissing, BlobDamaged, msgspec.MsgspecError) as error:  # no retry will find it
            await self._give_up(notice, continuation.continues, str(error))
            return
        run_id, number = notice.run_id, notice.notice_id
        coordinator.put(
            Asked(
                run_id,
                lambda state: continuation.start(run_id, coordinator.clock.now(), ir),
                starts=True,
                notice_id=number,
            )
        )

    async def _tell_stop(self, notice: Notice, left: LeftChild, there: Mapping[str, RunRecord]) -> None:
        """Stop a child whose parent has ended. One that is not there never begins: what was to start it is called off, or was lost
        with its process."""
        coordinator, record = self._coordinator, there.get(notice.run_id)
        if record is None or record.row.ended_at is not None:
            await self._journal.delete_notices([notice.notice_id])
            return
        coordinator.put(
            Asked(
                notice.run_id,
                lambda state: left.command(state, coordinator.clock.now()),
                notice_id=notice.notice_id,
            )
        )

    async def _tell_start(self, notice: Notice, begins: Begins, there: Mapping[str, RunRecord]) -> None:
        """Make the run that a trigger decided on: the commit that makes it consumes the notice. One that came to be there after it
        was looked for is refused, and the notice is looked at again."""
        coordinator, run_id, number = self._coordinator, notice.run_id, notice.notice_id
        if run_id in there:
            if await self._made_by(run_id) != begins.trigger:  # an older firing of the same item
                await self._end_firing(run_id, begins, "duplicate")
            await self._journal.delete_notices([number])
            return
        try:
            ir = await coordinator.library.get(begins.ir)
        except (NotFound, BlobMissing, BlobDamaged, msgspec.MsgspecError) as error:  # no retry will find it
            logger.error("%s cannot be started by trigger %s: %s", run_id, begins.name, error, extra={"run_id": run_id})
            await self._end_firing(run_id, begins, "lost")
            await self._journal.delete_notices([number])
            return
        if self._made >= coordinator.publisher.room:  # as what people start is refused; this one has time
            self._put_off.add(number)
            return
        self._made += 1
        coordinator.put(
            Asked(
                run_id,
                lambda state: begins.start(run_id, coordinator.clock.now(), ir),
                starts=True,
                notice_id=number,
            )
        )

    async def _made_by(self, run_id: str) -> Fired | None:
        (first,) = await self._journal.read_events(run_id, 0, 1)
        created = e.decode(first.body)
        return created.trigger if isinstance(created, e.RunCreated) else None

    async def _end_firing(self, run_id: str, begins: Begins, state: str) -> None:
        """Tell the trigger that a start came to nothing. Crash after this: putting the same command again changes nothing."""
        ends = [{"run_id": run_id, "number": begins.trigger.number, "state": state}]
        to = begins.trigger_run
        request = Request(kind="mailbox", name="end_firing", run_id=to, data={"ends": ends})
        command_id = f"start:{run_id}:{begins.trigger.number}"
        await self._journal.put_command(to, encode_request(request), command_id=command_id)

    async def _give_up(self, notice: Notice, sender: str, reason: str) -> None:
        """Give up a continuation that cannot begin. The run that left it is told by the coordinator that holds it, and
        records it in its journal."""
        to = notice.run_id
        logger.error("run %s cannot be continued as %s: %s", sender, to, reason, extra={"run_id": sender})
        request = Request(kind="undelivered", run_id=sender, to=to, reason=f"{to} cannot begin: {reason}"[:1000])
        await self._journal.put_command(sender, encode_request(request), command_id=f"undelivered:{notice.notice_id}")
        # Crash here: the command is there, and putting the same one again changes nothing.
        await self._journal.delete_notices([notice.notice_id])

    async def _decide(self, command: Command) -> tuple[Reply, bool]:
        """The answer to a command, and whether the command made a run. A run that an earlier request made has another
        id."""
        try:
            request = decode_request(command.body)
        except msgspec.MsgspecError as error:
            return Reply(run_id=command.run_id, code="bad_request", message=str(error)), False
        try:
            reply = await handle(self._coordinator, request, command.command_id)
        except (StoreUnavailable, TransportUnavailable, EngineStopped):
            raise
        except PerdureError as error:  # left there, the command would end every process that finds it (X34)
            return Reply(run_id=command.run_id, code=error.code, message=error.message), False
        except Exception:  # a bug
            logger.exception("the request %s for run %s cannot be decided", command.command_id, command.run_id)
            message = "deciding it failed unexpectedly; the log of the process that holds the run says how"
            return Reply(run_id=command.run_id, code="internal_error", message=message), False
        return reply, request.kind in STARTS and not reply.code and reply.run_id == request.run_id


class _Turned(Exception):
    """A request that cannot be decided, and why."""

    def __init__(self, code: str, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.problems = tuple(problems)


async def handle(coordinator: Coordinator, request: Request, command_id: str = "") -> Reply:
    """Decide a request in this process, and answer once the decision is durable."""
    if request.kind in STARTS and (overload := coordinator.publisher.explain_overload()):
        return Reply(run_id=request.run_id, code="overloaded", message=overload)
    try:
        await coordinator.incarnation.learn()
        request, ir, source, adopted = await _gather(coordinator, request)
    except _Turned as turned:
        return Reply(run_id=request.run_id, code=turned.code, message=turned.message, problems=turned.problems)
    answer = await coordinator.ask(
        request.run_id,
        lambda state: request.command(state, coordinator.clock.now(), ir, source, adopted),
        starts=request.kind in STARTS,
        key=None if request.key is None else IdempotencyKey(request.tenant, *request.key),
        command_id=command_id,
    )
    if isinstance(answer, Exists):
        return await _existing(coordinator.journal, request, answer)
    if isinstance(answer, c.Refused):
        to = answer.continued_as
        return Reply(run_id=request.run_id, code=answer.code, message=answer.message, continued_as=to)
    return Reply.of(request.run_id, answer)


async def _existing(journal: Journal, request: Request, found: Exists) -> Reply:
    """The reply for a start that found a run: the run an earlier start with the same idempotency key made, if both
    asked for the same."""
    record = await journal.find_run(found.run_id)
    if record is not None and found.run_id == request.run_id:
        return Reply(run_id=request.run_id, code="exists", message=f"run {request.run_id} exists already")
    if record is None or not found.same_body:
        message = KEY_USED if not found.same_body else key_outlived(found.run_id)
        return Reply(run_id=request.run_id, code="idempotency_conflict", message=message)
    return Reply(run_id=found.run_id, state=record.row.state)


async def _gather(
    coordinator: Coordinator, request: Request
) -> tuple[Request, IR | None, State | None, tuple[c.Adopted, ...]]:
    """What the decision of a request needs: the request with all its inputs, the IR it names, the run it is a rerun
    of, and what it keeps of that."""
    _check_names(request)
    if request.kind == "mailbox":
        try:
            read_mailbox_command(request, 0.0)
        except ValueError as error:
            raise _Turned("bad_request", str(error)) from None
    if request.kind == "vote" and request.decision == "approve":
        await _check_vote(coordinator, request)
    source = await _get_source(coordinator, request) if request.kind == "rerun" else None
    name = request.ir if source is None or request.ir else source.ir_hashes[-1]
    if not name and request.kind not in ("start", "patch"):
        return request, None, None, ()
    try:
        ir = await coordinator.library.get(name)
    except NotFound as error:
        raise _Turned(error.code, f"the workflow to {request.kind}: {error.message}") from None
    if excess := coordinator.publisher.bounds.find_excess(ir):  # it may have been kept when more was allowed
        raise _Turned("limit_exceeded", excess)
    adopted: tuple[c.Adopted, ...] = ()
    if source is not None and len(ir.nodes) < MANY_NODES:
        adopted = _prepare_rerun(request, source, ir)
    elif source is not None:  # the state was loaded for this request, and nothing else reads it
        adopted = await aside(source.tenant, _prepare_rerun, request, source, ir)
    if request.kind == "start" or (
        source is not None and not request.node and (request.inputs is not None or request.ir)
    ):
        inputs = request.inputs if request.inputs is not None or source is None else source.inputs
        if ir.inputs_schema is not None:  # inputs are loaded only where a schema checks them
            tenant = request.tenant if source is None else source.tenant
            try:
                request = await _fill_inputs(coordinator, request, ir, tenant, inputs)
            except (BlobStoreUnavailable, BlobMissing, BlobDamaged, TooMuch) as error:  # others wait for their answers
                raise _Turned(error.code, f"the inputs: {error.message}") from None
    return request, ir, source, adopted


def _check_names(request: Request) -> None:
    """Check the names in a request (the requester, the approver, the delegate) here, where every request passes."""
    names = {"by": request.by, "approver": request.approver or "", "to": request.to}
    for field, name in names.items() if request.kind != "undelivered" else ():
        if name and (trouble := find_name_trouble(name)):
            raise _Turned("invalid_name", f"{field} {name[:80]!a}: {trouble}")


async def _fill_inputs(coordinator: Coordinator, request: Request, ir: IR, tenant: str, inputs: Any) -> Request:
    """Fill in the defaults of the schema, which are recorded with the run, and turn away inputs that do not fit
    then."""
    # One budget for all of it: to load the inputs, to fill them in and to check them.
    budget = Budget(REQUEST_STEPS, seconds=REQUEST_SECONDS, now=coordinator.clock.monotonic)
    given = await coordinator.contents.resolve(tenant, inputs, budget=budget, masked=False)
    whole, problems = await fill_in_aside(tenant, ir.inputs_schema, given, budget, masked=True)
    if problems:
        problems = [
            *problems,
            *find_unknown(ir.inputs_schema, whole),
        ]  # an unknown name is most often a misspelling of the missing one
        raise _Turned("invalid_inputs", "the inputs do not fit the workflow: " + "; ".join(problems), problems)
    if whole is given:
        return request
    return msgspec.structs.replace(request, inputs=await coordinator.contents.keep(tenant, whole))


async def _check_vote(coordinator: Coordinator, request: Request) -> None:
    """Check the data of a vote against its form here, where every vote passes, from a server, a command or a
    program."""
    name, data = request.approval, request.data
    try:
        form = await coordinator.forms.read(request.run_id, name)
    except (BlobStoreUnavailable, BlobMissing, BlobDamaged) as error:
        raise _Turned(error.code, f"the form of {name}: {error.message}") from None
    if form is None:
        return
    tenant = (await coordinator.journal.get_run(request.run_id)).row.tenant
    if has_refs(data):
        try:
            data = await coordinator.contents.resolve(tenant, data)
        except (BlobStoreUnavailable, BlobMissing, BlobDamaged, TooMuch) as error:
            raise _Turned(error.code, f"the data for {name}: {error.message}") from None
    if problems := await aside(tenant, check_form, form, data):
        raise _Turned("invalid_inputs", f"the data does not fit the form of {name}: {'; '.join(problems)}", problems)


async def _get_source(coordinator: Coordinator, request: Request) -> State:
    record = await coordinator.journal.find_run(request.source)
    if record is None:
        raise _Turned("not_found", f"there is no run {request.source}")
    if record.quarantined is not None:
        raise _Turned("quarantined", f"run {request.source} is quarantined: {record.quarantined}")
    try:
        source = await load(coordinator.journal, coordinator.library, record)
    except StoreUnavailable:
        raise
    except Exception as error:
        raise _Turned("integrity_error", f"run {request.source} cannot be read: {error}") from error
    if source.ir_hashes[0] == TRIGGER.hash:
        raise _Turned("rerun_refused", f"run {request.source} is a trigger; fire it, or backfill it")
    if source.imported:  # a rerun would take its outcomes, and the human decisions in them, for true
        raise _Turned("imported", f"run {request.source} was imported from {source.imported}: to look at, not to run")
    return source


def _prepare_rerun(request: Request, source: State, ir: IR) -> tuple[c.Adopted, ...]:
    """Check that a rerun is possible: by another definition, only outcomes it has a place for can be kept (E6). Returns
    those that it keeps."""
    if ir.name != source.workflow:
        raise _Turned("rerun_refused", f"run {source.run_id} is of workflow {source.workflow!r}, not of {ir.name!r}")
    if not request.node:
        return ()
    inputs = request.inputs if request.inputs is not None else {}
    if not isinstance(inputs, dict):
        raise _Turned("invalid_inputs", f"the inputs of {request.node!r} are given by node, as an object")
    problems = reruns.mend(source, ir) or reruns.check(source, request.node, inputs)
    if problems:
        raise _Turned("rerun_refused", "; ".join(problems))
    # The caller's permission was checked before the run went on: a decision made since is not theirs to keep (X17).
    seen = request.checked
    if seen is not None and any(found.ended_seq > seen for found in reruns.keep(source, request.node)):
        raise _Turned("run_changed", f"run {source.run_id} went on before {request.node!r} meanwhile; ask again")
    return reruns.adopt(source, request.node)
