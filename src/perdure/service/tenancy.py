"""An engine as one principal sees it: the one place where a tenant's things are looked up (X18).

What another tenant owns does not exist here, and the refusal reads the same as for a thing that does not exist at all.
It must not know what an operation means, nor HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from perdure.archive import Archive
from perdure.budget import Budget
from perdure.errors import NotFound, Refused
from perdure.journal import ApprovalRow, DeadLetterRow, RunRecord, TriggerRow
from perdure.kernel.segments import SEALED, has_sealed
from perdure.kernel.state import State
from perdure.runtime.coordinator.requests import VALUES, Reply, Request
from perdure.service.errors import AnswerLate, InputsInvalid, Invalid, Overloaded, TriggerFull, Trouble

if TYPE_CHECKING:
    from perdure.access import Principal
    from perdure.engine import Engine

ANSWER_SECONDS = 30.0
"""How long the coordinator that holds a run may take to answer a request."""
LONGEST_ID = 1000


def refuse_sealed(path: str, value: object) -> None:
    """Refuse a sealed field from a caller: it would be opened where the caller put it, which is not masked."""
    if value is not None and has_sealed(value):
        message = f"{path} has a key {SEALED!r}, which is Perdure's own; give the field another name"
        raise InputsInvalid(message, [Trouble(path, "wrong_value", message)])


def archive_of(engine: Engine) -> Archive:
    """The archive, where the service keeps everything beside the runs."""
    assert engine.archive is not None, "every journal that can be served has an archive"
    return engine.archive


class Tenancy:
    def __init__(self, engine: Engine, principal: Principal, *, owner: bool = False) -> None:
        self.engine = engine
        self.principal = principal
        self.tenant = principal.tenant
        self.by = principal.name
        self._budget: Budget | None = None
        self.owner = owner
        """The caller has the database itself: it sees every tenant's things, answers have no bounds, and this process
        decides for runs that no other process holds."""

    @property
    def listed(self) -> str | None:
        """The tenant whose things are in lists. None: every tenant's."""
        return None if self.owner else self.tenant

    @property
    def budget(self) -> Budget:
        """What this request may still cost, over everything that is done for it. An owner has one for each answer, with
        no bounds but those of the machine."""
        if self.owner:
            return Budget.without_end()
        if self._budget is None:
            self._budget = Budget.of_request(self.engine.clock.monotonic)
        return self._budget

    def _sees(self, tenant: str) -> bool:
        return self.owner or tenant == self.tenant

    @property
    def archive(self) -> Archive:
        return archive_of(self.engine)

    # -- looking up ----------------------------------------------------------------------------------------------------

    async def find_run(self, run_id: str) -> RunRecord | None:
        record = await self.engine.journal.find_run(run_id) if self.is_sane(run_id) else None
        return record if record is not None and self._sees(record.row.tenant) else None

    async def get_run(self, run_id: str) -> RunRecord:
        record = await self.find_run(run_id)
        if record is None:
            raise NotFound(f"there is no run {run_id[:200]}")
        return record

    async def load(self, run_id: str) -> tuple[RunRecord, State]:
        record = await self.get_run(run_id)
        return record, await self.engine.runs.state_of(record)

    async def get_approval(self, approval_id: str) -> ApprovalRow:
        row = await self._find_approval(approval_id) if self.is_sane(approval_id) else None
        if row is None or not self._sees(row.tenant):
            raise NotFound(f"there is no approval {approval_id[:200]}")
        return row

    async def _find_approval(self, approval_id: str) -> ApprovalRow | None:
        try:
            return await self.engine.journal.get_approval(approval_id)
        except NotFound:
            return None

    async def get_dead_letter(self, dead_letter_id: str) -> DeadLetterRow:
        row = await self._find_dead_letter(dead_letter_id) if self.is_sane(dead_letter_id) else None
        if row is None or not self._sees(row.tenant):
            raise NotFound(f"there is no dead letter {dead_letter_id[:200]}")
        return row

    async def _find_dead_letter(self, dead_letter_id: str) -> DeadLetterRow | None:
        try:
            return await self.engine.journal.get_dead_letter(dead_letter_id)
        except NotFound:
            return None

    async def get_trigger(self, name: str, tenant: str | None = None) -> TriggerRow:
        """The trigger of this name in the caller's own tenant; in another one only for an owner."""
        whose = tenant if tenant is not None and self._sees(tenant) else self.tenant
        row = await self.engine.journal.find_trigger(whose, name) if self.is_sane(name) else None
        if row is None or row.state == "deleted":
            raise NotFound(f"there is no trigger {name[:200]}")
        return row

    @staticmethod
    def is_sane(name: str) -> bool:
        """Whether a name can name anything: text that no database takes cannot."""
        return len(name) <= LONGEST_ID and "\0" not in name and not any("\ud800" <= one <= "\udfff" for one in name)

    # -- asking --------------------------------------------------------------------------------------------------------

    async def ask(self, request: Request) -> Reply:
        """Let the coordinator that holds the run decide. A refusal is raised."""
        for name in VALUES:
            # A rerun from the start may carry the sealed inputs of its source; see `Runs.rerun`.
            if request.kind != "rerun" or request.node:
                refuse_sealed(name, getattr(request, name))
        path = "data" if request.kind == "vote" else "inputs"
        return await self.decide(
            f"run {request.run_id}", lambda stored: self.engine.runs.request(request, stored), path=path
        )

    async def decide(
        self, what: str, work: Callable[[Callable[[], None]], Awaitable[Reply]], *, path: str = "inputs"
    ) -> Reply:
        """Let a coordinator decide what `work` asks for: it is given what to call once the request is stored. A refusal is raised."""
        if self.owner:
            await self.engine.hold(work=False)
        stored = asyncio.Event()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reply = await work(stored.set)
        except TimeoutError:
            held = self.engine.holder if self.owner else None
            who = f"process {held.pid} on {held.host} did not answer" if held and held.pid else "nobody answered"
            raise AnswerLate(
                f"{what}: {who} within {ANSWER_SECONDS:.0f} s; "
                + (
                    "the request is written down, and is decided when the process that holds the run goes on or ends"
                    if stored.is_set()
                    else "whether the request is decided is not known: look at the run before you ask again"
                )
            ) from None
        if not reply.refused:
            return reply
        match reply.code:
            case "not_found":
                raise NotFound(reply.message)
            case "invalid_inputs":
                raise InputsInvalid(reply.message, [Trouble(path, "wrong_value", one) for one in reply.problems])
            case "bad_config":
                raise Invalid(reply.message, [Trouble("config", "bad_config", one) for one in reply.problems])
            case "invalid_name":
                raise Invalid(reply.message, [Trouble("", "wrong_value", reply.message)])
            case "overloaded":
                raise Overloaded(reply.message)
            case "trigger_full":
                raise TriggerFull(reply.message)
            case _:
                raise Refused(reply.message, code=reply.code)
