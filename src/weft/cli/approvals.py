"""`weft approvals`: what waits for a person, and the person's answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

import click
import msgspec

from weft.cli.database import by_option
from weft.cli.exits import say
from weft.cli.group import Group, db_option, json_option, page_options
from weft.cli.output import compact, print_json, print_page, print_table, since, until

if TYPE_CHECKING:
    from weft.engine import Engine
    from weft.journal import ApprovalRow


@click.group(cls=Group)
def approvals() -> None:
    """Approvals: what waits for a person, and the answer."""


@approvals.command("list")
@click.option(
    "--state",
    type=click.Choice(["pending", "decided", "all"]),
    default="pending",
    show_default=True,
    help="Only these.",
)
@click.option("--run-id", metavar="ID", help="Only those of this run.")
@page_options
@db_option
@json_option
def list_(state: str, run_id: str | None, limit: int, cursor: str | None, db: str | None, as_json: bool) -> None:
    """List approvals, oldest first."""
    page = asyncio.run(_list(db, None if state == "all" else state, run_id, limit, cursor))
    if as_json:
        print_page([as_data(row) for row in page.items], page.next_cursor)
        return
    if not page.items:
        say("Nothing waits for a decision." if state == "pending" else "No approvals.")
        return
    print_table(
        ["approval", "state", "for", "asked", "until", "shown"], [_cells(row) for row in page.items], flexible="shown"
    )
    if page.next_cursor is not None:
        say(f"There are more: --cursor {page.next_cursor}")
    if state == "pending":
        say("\nDecide with `weft approvals approve APPROVAL` or `weft approvals reject APPROVAL`.")


async def _list(db: str | None, state: str | None, name: str | None, limit: int, cursor: str | None) -> Any:
    from weft.cli.database import find_run, opened

    async with opened(db) as engine:
        run_id = None if name is None else (await find_run(engine, name)).run_id
        return await engine.journal.list_approvals(state=state, run_id=run_id, limit=limit, cursor=cursor)


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


# -- deciding ----------------------------------------------------------------------------------------------------------


@approvals.command()
@click.argument("approval_id", metavar="ID")
@click.option("--comments", default="", help="Why; it is written down and becomes part of the node's output.")
@by_option
@db_option
@json_option
def approve(approval_id: str, comments: str, by: str | None, db: str | None, as_json: bool) -> None:
    """Approve. ID may be shortened, or be the id of a run that waits for one decision."""
    _decide(db, approval_id, "approve", comments, by, as_json)


@approvals.command()
@click.argument("approval_id", metavar="ID")
@click.option("--comments", default="", help="Why; it is written down and becomes part of the node's output.")
@by_option
@db_option
@json_option
def reject(approval_id: str, comments: str, by: str | None, db: str | None, as_json: bool) -> None:
    """Reject. ID may be shortened, or be the id of a run that waits for one decision."""
    _decide(db, approval_id, "reject", comments, by, as_json)


def _decide(
    db: str | None, name: str, decision: Literal["approve", "reject"], comments: str, by: str | None, as_json: bool
) -> None:
    row, hint = asyncio.run(_vote(db, name, decision, comments, by))
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
    db: str | None, name: str, decision: Literal["approve", "reject"], comments: str, by: str | None
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
        pass
    found: list[ApprovalRow] = []
    cursor = None
    while True:
        page = await engine.journal.list_approvals(state="pending", limit=1000, cursor=cursor)
        found.extend(row for row in page.items if row.approval_id.startswith(name))
        cursor = page.next_cursor
        if cursor is None:
            break
    if len(found) > 1:
        some = ", ".join(row.approval_id for row in found[:3])
        raise NotFound(
            f"{len(found)} pending approvals begin with {name} ({some}{', …' * (len(found) > 3)}); write more of the id"
        )
    if not found:
        raise NotFound(f"there is no pending approval {name}; `weft approvals list` shows those there are")
    return found[0]
