"""Approvals: what waits for a person, and the person's answer.

The principal decides, never a name in the request (X17), and a principal who started a run does not decide about it.
The kernel says whether a vote counts. It must not know HTTP.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any, Literal, TypeGuard

import msgspec

from perdure.access import Forbidden, Links, Permission
from perdure.errors import Refused
from perdure.journal import ApprovalRow, Page
from perdure.kernel import events as e
from perdure.kernel.reruns import adopt
from perdure.kernel.segments import show
from perdure.kernel.state import State
from perdure.plain_text import find_name_trouble
from perdure.runtime.coordinator.requests import Request
from perdure.service.changed_calls import check_changed_call
from perdure.service.decisions import find_decisions, find_requesters
from perdure.service.diffs import diff_values
from perdure.service.errors import Invalid, Trouble
from perdure.service.notifications import notification_view
from perdure.service.pages import listing
from perdure.service.runs.history import read_all
from perdure.service.scans import find_origins, scan
from perdure.service.tenancy import Tenancy
from perdure.service.views import View, approval_view, page_view
from perdure.threads import aside

Verdict = Literal["approve", "reject"]
LONGEST_COMMENTS = 10_000
"""Characters. Journals keep them, and lists of approvals show them; so it is held here, and not by each edge for itself."""
LINK_SECONDS = 7 * 86_400.0
"""How long a link is good unless its maker says otherwise."""
ROLE = "role:"
"""The prefix of an entry of `approvers` that is a role; every principal with that role may decide for it."""


class OwnRequest(Forbidden):
    """A principal may not decide about a run that they asked for."""

    code = "own_request"


class Approvals:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy
        self._engine = tenancy.engine

    @listing
    async def list(
        self,
        *,
        state: str | None = None,
        run_id: str | None = None,
        workflow: str | None = None,
        node: str | None = None,
        expires_before: float | None = None,
        mine: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> View:
        """The approvals, oldest first, each with whether the principal may decide it; with `mine`, only those that it may.
        With that, a workflow, a node or a time a page may be short, and even empty, and still have a cursor."""
        state = "pending" if mine else state

        async def read(most: int, after: str | None) -> Page[ApprovalRow]:
            return await self._engine.journal.list_approvals(
                state=state, tenant=self._tenancy.listed, run_id=run_id, limit=most, cursor=after
            )

        origins: dict[str, View] = {}
        refusals: dict[str, str | None] = {}

        async def choose(rows: Sequence[ApprovalRow]) -> builtins.list[ApprovalRow]:
            kept = [row for row in rows if _fits(row, node, expires_before)]
            origins.update(await find_origins(self._engine, [*{row.run_id: None for row in kept}]))
            kept = [row for row in kept if workflow in (None, origins[row.run_id]["workflow"])]
            for row in kept:
                refusals[row.approval_id] = await self._why_not(row)
            return [row for row in kept if not mine or refusals[row.approval_id] is None]

        if mine or workflow is not None or node is not None or expires_before is not None:
            page = await scan(read, choose, limit, cursor)
        else:
            page = await read(limit, cursor)
            await choose(page.items)

        def view(row: ApprovalRow) -> View:
            why = refusals[row.approval_id]
            return {**approval_view(row), **origins[row.run_id], "can_decide": why is None, "why_not": why}

        return page_view(page, view)

    async def _why_not(self, row: ApprovalRow) -> str | None:
        """Why the principal may not decide: a word for it; None if it may. The kernel has the last word."""
        principal = self._tenancy.principal
        if row.state != "pending":
            return "already_decided"
        if principal.kind == "local":  # the person is named with the vote
            return None
        if not principal.may(Permission.APPROVALS_DECIDE):
            return "forbidden"
        body = msgspec.json.decode(row.body)
        approvers, votes = body.get("approvers") or [], body.get("votes") or {}
        mine = [one for one in approvers if one == principal.name or one in {ROLE + role for role in principal.roles}]
        if approvers and not mine:
            return "not_asked"
        if principal.name in votes or (mine and all(one in votes for one in mine)):
            return "already_voted"
        try:
            await self._check_requester(row)
        except Forbidden as error:
            return error.code
        return None

    async def get(self, approval_id: str) -> View:
        """An approval with its form, every vote, and what the approvers changed of what they were shown."""
        row = await self._tenancy.get_approval(approval_id)
        view: View = {**approval_view(row), "form": None, "decision": None, "decided_by": None, "data": None}
        view["ballots"] = ballots = []
        view["delegations"] = []
        view["not_made"] = None
        shown: Any = None
        asked: e.ApprovalRequested | None = None
        async for event in read_all(self._engine, row.run_id):
            if asked is not None and _is_edit(event, asked):
                view["not_made"] = await self._why_not_made(row, event.data)
            if getattr(event, "approval", None) != row.approval_id:
                continue
            match event:
                case e.ApprovalRequested():
                    asked = event
                    view["form"], shown = await self._form(row, event.form), show(event.shown)
                    view["escalate_to"] = list(event.escalate_to)
                case e.ApprovalVoted():
                    ballot = {"by": event.person or event.by, "decision": event.decision, "at": event.at}
                    ballots.append({**ballot, "for": event.by, "comments": event.comments, "data": show(event.data)})
                case e.ApprovalDelegated():
                    handed = {"approver": event.approver, "to": event.to, "by": event.by, "at": event.at}
                    view["delegations"].append({**handed, "comments": event.comments})
                case e.ApprovalDecided():
                    view |= {"decision": event.decision, "decided_by": event.by, "data": show(event.data)}
        view["notification"] = await notification_view(self._tenancy, row)
        why = await self._why_not(row)
        view |= (await find_origins(self._engine, [row.run_id]))[row.run_id] | {
            "can_decide": why is None,
            "why_not": why,
        }
        if view["data"] is None:
            view["changes"] = []
        else:  # each may have a megabyte: compare them outside the event loop
            view["changes"] = await aside(row.tenant, diff_values, _subject(shown), view["data"])
        return view

    async def read_shown(self, approval_id: str) -> Any:
        """All that the approver is to decide by, as far as one answer has room: what is large is stored as blobs."""
        row = await self._tenancy.get_approval(approval_id)
        async for event in self._about(row):
            if isinstance(event, e.ApprovalRequested):
                return await self._engine.contents.resolve(row.tenant, event.shown, budget=self._tenancy.budget)
        return None

    async def _why_not_made(self, row: ApprovalRow, edited: Any) -> str | None:
        """Why a call of an agent was not made with what its approvers changed."""
        kept = await self._engine.contents.resolve(row.tenant, edited, budget=self._tenancy.budget)
        return kept.get("text") if isinstance(kept, dict) else None

    async def _form(self, row: ApprovalRow, form: Any) -> Any:
        """The whole form, which the approver needs: a large one is stored as a blob."""
        return await self._engine.contents.resolve(row.tenant, form, budget=self._tenancy.budget)

    async def _about(self, row: ApprovalRow) -> AsyncIterator[Any]:
        async for event in read_all(self._engine, row.run_id):
            if getattr(event, "approval", None) == row.approval_id:
                yield event

    async def decide(
        self,
        approval_id: str,
        decision: Verdict,
        *,
        comments: str = "",
        data: Any = None,
        by: str | None = None,
        message: str = "",
    ) -> View:
        """Vote as the principal. Without authentication, `by` names the person who votes. `message` names the signed
        message that asks for the vote."""
        _check_comments(comments)
        tenancy = self._tenancy
        row = await tenancy.get_approval(approval_id)
        local = tenancy.principal.kind == "local"
        if by is not None and not local:
            raise Forbidden(f"{tenancy.by} can decide in no other name; leave 'approver' out")
        seat = None if local else await self._check_seat(row)
        if decision == "approve" and isinstance(data, dict) and "arguments" in data and row.state == "pending":
            await check_changed_call(self._engine, row, data["arguments"], tenancy.budget)
        request = Request(
            kind="vote",
            run_id=row.run_id,
            approval=row.approval_id,
            decision=decision,
            comments=comments,
            data=data,
            by=by or tenancy.by,
            approver=seat,
            message=message,
        )
        await tenancy.ask(request)
        return approval_view(await tenancy.get_approval(approval_id))

    async def delegate(self, approval_id: str, to: str, *, comments: str = "", by: str | None = None) -> View:
        """Let another person decide in the principal's place."""
        _check_comments(comments)
        tenancy = self._tenancy
        row = await tenancy.get_approval(approval_id)
        local = tenancy.principal.kind == "local"
        if to.startswith(ROLE):
            message = f"a vote is handed over to one person, and {to} may be many; name the person"
            raise Invalid(message, [Trouble("to", "wrong_value", message)])
        if by is not None and not local:
            raise Forbidden(f"{tenancy.by} can delegate in no other name; leave 'approver' out")
        seat = None if local else await self._check_seat(row)
        request = Request(
            kind="delegate",
            run_id=row.run_id,
            approval=row.approval_id,
            to=to,
            comments=comments,
            by=by or tenancy.by,
            approver=seat,
        )
        await tenancy.ask(request)
        return approval_view(await tenancy.get_approval(approval_id))

    async def make_links(
        self, approval_id: str, approver: str, *, expires_seconds: float | None = None, public_url: str = ""
    ) -> View:
        """Two links by which one approver decides: one approves, the other rejects. `public_url` is where the server
        is reached that answers them."""
        tenancy, clock = self._tenancy, self._engine.clock
        tenancy.principal.require(Permission.APPROVALS_DECIDE)
        if trouble := find_name_trouble(approver):
            message = f"approver {approver[:80]!a}: {trouble}"
            raise Invalid(message, [Trouble("approver", "wrong_value", message)])
        row = await tenancy.get_approval(approval_id)
        if row.state != "pending":
            raise Refused(f"approval {row.approval_id} is no longer pending", code="already_decided")
        links = Links(tenancy.archive, clock)
        expires_at = clock.now() + (LINK_SECONDS if expires_seconds is None else expires_seconds)
        about = {"tenant": row.tenant, "approval_id": row.approval_id, "run_id": row.run_id, "approver": approver}
        found = {}
        for decision in ("approve", "reject"):
            token = await links.make(**about, decision=decision, expires_at=expires_at)
            found[decision] = f"{public_url.rstrip('/')}/links/{token}"
        return {"approval_id": row.approval_id, "approver": approver, "expires_at": expires_at, **found}

    async def _check_seat(self, row: ApprovalRow) -> str | None:
        """The entry of `approvers` by which the principal decides. Who asked for the run does not decide about it."""
        await self._check_requester(row)
        return await self._find_seat(row)

    async def _find_seat(self, row: ApprovalRow) -> str | None:
        """The entry of `approvers` for which the principal votes: None for its own name, else a role it has
        (`role:finance`), preferably one without a vote yet."""
        body = msgspec.json.decode(row.body)
        approvers: list[str] = body.get("approvers") or []
        if self._tenancy.by in approvers or not any(one.startswith(ROLE) for one in approvers):
            return None
        roles = {ROLE + role for role in self._tenancy.principal.roles}
        seats = [one for one in approvers if one in roles]
        return next((one for one in seats if one not in body.get("votes", {})), seats[0] if seats else None)

    async def check_kept(self, state: State, from_node: str | None, given: Collection[str] = ()) -> int | None:
        """Check a rerun from behind an approval. It repeats what was approved once, so only a principal who could
        approve it alone again may ask for it (X17). `from_node` None: the rerun has another definition, which may keep
        any outcome. `given`: nodes whose outcomes the caller supplies. Returns the sequence number up to which the run
        was checked: the rerun must not keep anything later. None: this principal need not be checked."""
        principal = self._tenancy.principal
        if principal.kind == "local":
            return None
        kept = None if from_node is None else {outcome.node for outcome in adopt(state, from_node)}
        mine = {self._tenancy.by, *(ROLE + role for role in principal.roles)}
        for decision in await find_decisions(self._engine, state, kept):
            node = decision.node
            if not decision.approval:
                raise Forbidden(
                    f"this rerun would keep the output of {node!r}, and who was asked to approve it is no longer known; "
                    f"rerun from {node!r}, so that its approvers are asked again"
                )
            principal.require(Permission.APPROVALS_DECIDE)
            await self._check_requester(await self._tenancy.get_approval(decision.approval))
            if decision.approvers and mine.isdisjoint(decision.approvers):
                raise Forbidden(
                    f"this rerun would keep the decision of {node!r}, which {self._tenancy.by} may not make; "
                    f"rerun from {node!r}, so that its approvers are asked again"
                )
            if decision.quorum > 1:
                raise Forbidden(
                    f"this rerun would keep the decision of {node!r}, which needs {decision.quorum} people; "
                    f"rerun from {node!r}, so that they are asked again"
                )
            if node in given:
                raise Forbidden(
                    f"the output of {node!r} rests on a decision of people and cannot be given in their place; rerun from {node!r}"
                )
        return state.seq

    async def _check_requester(self, row: ApprovalRow) -> None:
        started = (await find_requesters(self._engine, row.run_id)).get(self._tenancy.by)
        if started is not None:
            raise OwnRequest(f"{self._tenancy.by} started run {started} and may not decide {row.approval_id}")


def _check_comments(comments: str) -> None:
    if len(comments) > LONGEST_COMMENTS:
        message = f"comments have at most {LONGEST_COMMENTS:,} characters, these have {len(comments):,}"
        raise Invalid(message, [Trouble("comments", "wrong_value", message)])


def _is_edit(event: Any, asked: e.ApprovalRequested) -> TypeGuard[e.NodeCheckpointed]:
    """Whether an event keeps what an agent made of the arguments that approvers changed."""
    if not isinstance(event, e.NodeCheckpointed) or not asked.ask.endswith(".ok"):
        return False
    place = (event.node, event.visit, event.scope)
    return event.step == f"{asked.ask.removesuffix('.ok')}.decided" and place == (asked.node, asked.visit, asked.scope)


def _fits(row: ApprovalRow, node: str | None, expires_before: float | None) -> bool:
    if node is not None and row.node != node:
        return False
    return expires_before is None or (row.expires_at is not None and row.expires_at < expires_before)


def _subject(shown: Any) -> Any:
    """The part of the shown data that the approver could change: what the node shows, else everything."""
    return shown["show"] if isinstance(shown, dict) and "show" in shown else shown
