"""`weft approvals`: what waits for a person, and the person's answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
import msgspec

from weft.cli.exits import say
from weft.cli.group import Group, db_option, json_option
from weft.cli.listing import Listed, find_pending, list_options, only_one, read_page, show_page
from weft.cli.output import compact, print_json, since, until
from weft.cli.parameters import data_option

if TYPE_CHECKING:
    from weft.engine import Engine
    from weft.journal import ApprovalRow

Decision = Literal["approve", "reject"]
F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=Group)
def approvals() -> None:
    """Approvals: what waits for a person, and the answer."""


@approvals.command("list")
@list_options("pending", "decided")
def list_(state: str, run_id: str | None, limit: int, cursor: str | None, db: str | None, as_json: bool) -> None:
    """List approvals, oldest first."""
    show_page(LISTED, asyncio.run(read_page(LISTED, db, state, run_id, limit, cursor)), state, as_json)


def as_data(row: ApprovalRow) -> dict[str, Any]:
    return {
        "approval_id": row.approval_id,
        "run_id": row.run_id,
        "node": row.node,
        "state": row.state,
        "requested_at": row.requested_at,
        "expires_at": row.expires_at,
        "decided_at": row.decided_at,
        **msgspec.json.decode(row.body),
    }


def _cells(row: ApprovalRow) -> list[str]:
    body = msgspec.json.decode(row.body)
    people = ", ".join(body.get("approvers") or ()) or "anyone"
    if body.get("quorum", 1) > 1:
        people = f"{len(body.get('votes') or ())} of {body['quorum']}: {people}"
    expires = "" if row.expires_at is None or row.state != "pending" else until(row.expires_at)
    shown = compact(body["shown"], 200) if body.get("shown") else ""
    return [row.approval_id, row.state, people, since(row.requested_at), expires, shown]


LISTED = Listed(
    method="list_approvals",
    columns=("approval", "state", "for", "asked", "until", "shown"),
    flexible="shown",
    as_data=as_data,
    as_cells=_cells,
    nothing_pending="Nothing waits for a decision.",
    nothing="No approvals.",
    hint="Decide with `weft approvals approve APPROVAL` or `weft approvals reject APPROVAL`.",
)


# -- deciding ----------------------------------------------------------------------------------------------------------


def _decision_options(function: F) -> F:
    which = click.argument("approval_id", metavar="ID")
    comments = click.option(
        "--comments", default="", metavar="TEXT", help="Why; it is written down and becomes part of the node's output."
    )
    data = data_option("--data", "What else the form asks for; it becomes part of the node's output.")
    # `--as anna` reads as it is meant; everywhere else who does it is `--by`.
    by = click.option("--as", "--by", "by", metavar="NAME", help="Who decides; default: your user name.")
    return which(comments(data(by(db_option(json_option(function))))))


@approvals.command()
@_decision_options
def approve(approval_id: str, comments: str, data: Any, by: str | None, db: str | None, as_json: bool) -> None:
    """Approve. ID may be shortened, or be the id of a run that waits for one decision."""
    _decide(db, approval_id, "approve", comments, data, by, as_json)


@approvals.command()
@_decision_options
def reject(approval_id: str, comments: str, data: Any, by: str | None, db: str | None, as_json: bool) -> None:
    """Reject. ID may be shortened, or be the id of a run that waits for one decision."""
    _decide(db, approval_id, "reject", comments, data, by, as_json)


def _decide(
    db: str | None, name: str, decision: Decision, comments: str, data: Any, by: str | None, as_json: bool
) -> None:
    row, hint = asyncio.run(_vote(db, name, decision, comments, data, by))
    if as_json:
        print_json(as_data(row))
        return
    word = "Approved" if decision == "approve" else "Rejected"
    votes = msgspec.json.decode(row.body)
    more = "" if row.state != "pending" else f"; {len(votes.get('votes', ()))} of {votes.get('quorum')} have voted"
    click.echo(f"{word} {row.approval_id}{more}")
    if hint:
        say(hint)


async def _vote(
    db: str | None, name: str, decision: Decision, comments: str, data: Any, by: str | None
) -> tuple[ApprovalRow, str]:
    from weft.cli.database import ask, going_on, opened, user
    from weft.errors import Refused
    from weft.runtime.requests import Request

    async with opened(db) as engine:
        row = await find_approval(engine, name)
        request = Request(
            kind="vote",
            run_id=row.run_id,
            approval=row.approval_id,
            decision=decision,
            comments=comments,
            data=data,
            by=user() if by is None else by,
        )
        try:
            reply = await ask(engine, request)
        except Refused as error:
            if error.code == "not_an_approver":
                raise Refused(f"{error.message} (say so with --by NAME)", code=error.code) from None
            raise
        return await engine.journal.get_approval(row.approval_id), going_on(engine, row.run_id, reply.state)


async def find_approval(engine: Engine, name: str) -> ApprovalRow:
    """The approval with this id, or the only pending one whose id begins so."""
    from weft.errors import NotFound

    try:
        return await engine.journal.get_approval(name)
    except NotFound:
        found: list[ApprovalRow] = await find_pending(
            engine, LISTED.method, lambda row: row.approval_id.startswith(name)
        )
        return only_one(found, name, "approval", lambda row: row.approval_id, "weft approvals list")
