"""`perdure approvals`: what waits for a person, and the person's answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perdure.cli.frame.exits import say
from perdure.cli.frame.group import Group, json_option
from perdure.cli.frame.lists import Listed, list_options, on_one, read_page, show_page
from perdure.cli.frame.parameters import data_option
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import (
    compact,
    print_fields,
    print_json,
    print_pretty,
    print_table,
    shorten,
    since,
    until,
)
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend
    from perdure.service.approvals import Verdict

CANCELLED = "cancelled"
F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=Group)
def approvals() -> None:
    """Approvals: what waits for a person, and the answer."""


@approvals.command("list")
@list_options("pending", "decided")
def list_(state: str, run_id: str | None, limit: int, cursor: str | None, where: Where, as_json: bool) -> None:
    """List approvals, oldest first."""
    page = asyncio.run(_list(where, state, run_id, limit, cursor, look=not as_json))
    show_page(LISTED, page, state, as_json)


async def _list(where: Where, state: str, run_id: str | None, limit: int, cursor: str | None, *, look: bool) -> Any:
    page = await read_page(LISTED, where, state, run_id, limit, cursor)
    over = [one for one in page["items"] if look and one["state"] == "decided"]
    for one in over:
        if one["decided_at"] is None:
            one["state"] = CANCELLED
    unclear = [one for one in over if one["decided_at"] is not None and len(one["votes"]) < one["quorum"]]
    if unclear:
        await _tell_cancelled(where, unclear)
    return page


async def _tell_cancelled(where: Where, views: list[dict[str, Any]]) -> None:
    """Say `cancelled` of approvals that nobody decided, because their node was cancelled while they were open: earlier
    versions gave them a time of decision too, so their journals are asked."""
    from perdure.cli.frame.backend import connected

    async with connected(where) as backend:
        for one in views:
            if (await backend.approvals.get(one["approval_id"]))["decision"] is None:
                one["state"] = CANCELLED


def _cells(view: dict[str, Any]) -> list[str]:
    people = ", ".join(view.get("approvers") or ()) or "anyone"
    if view.get("quorum", 1) > 1:
        people = f"{len(view.get('votes') or ())} of {view['quorum']}: {people}"
    expires = "" if view["expires_at"] is None or view["state"] != "pending" else until(view["expires_at"])
    shown = compact(view["shown"], 200) if view.get("shown") else ""
    return [view["approval_id"], view["state"], people, since(view["requested_at"]), expires, shown]


LISTED = Listed(
    kind="approval",
    command="perdure approvals list",
    columns=("approval", "state", "for", "asked", "until", "shown"),
    flexible="shown",
    as_cells=_cells,
    nothing_pending="Nothing waits for a decision.",
    nothing="No approvals.",
    hint="Decide with `perdure approvals approve APPROVAL` or `perdure approvals reject APPROVAL`.",
)


@approvals.command(short_help="Show an approval: who is asked, and every vote.")
@click.argument("approval_id", metavar="ID")
@where_options
@json_option
def show(approval_id: str, where: Where, as_json: bool) -> None:
    """Show an approval: who is asked, every vote, and whether another system was told."""
    view = asyncio.run(_get(where, approval_id))
    if as_json:
        print_json(view)
        return
    people = ", ".join(view["approvers"]) or "anyone"
    print_fields(
        {
            "approval": view["approval_id"],
            "run": view["run_id"],
            "node": view["node"],
            "state": view["decision"] or (CANCELLED if view["state"] == "decided" else view["state"]),
            "by": view["decided_by"] or "",
            "comments": view["comments"],
            "gave": "" if view["data"] is None else compact(view["data"], 100_000),
            "not made": view.get("not_made") or "",
            "asked": f"{people}, {since(view['requested_at'])}",
            "needed": f"{view['quorum']} of them" if view["quorum"] > 1 else "",
            "until": "" if view["expires_at"] is None or view["state"] != "pending" else until(view["expires_at"]),
            "told": _told(view),
        }
    )
    if view["ballots"]:
        echo()
        rows = [[one["by"], one["decision"], since(one["at"]), one["comments"]] for one in view["ballots"]]
        print_table(["vote of", "decision", "when", "comments"], rows, flexible="comments")
    if view["shown"]:
        echo()
        print_pretty(view["shown"])
    _print_form(view.get("form"))


def _print_form(form: Any) -> None:
    """Print the fields that the approver has to give with --data."""
    from perdure.runtime.forms import fields_of

    needed = form.get("required") if isinstance(form, dict) else None
    rows = []
    for name, schema in fields_of(form).items():
        about = schema if isinstance(schema, dict) else {}
        kind = about.get("type", "any")
        if isinstance(about.get("enum"), list):
            kind = "one of " + ", ".join(map(str, about["enum"][:10]))
        title = about.get("title") or about.get("description") or ""
        must = isinstance(needed, list) and name in needed
        rows.append([name, str(kind), "yes" if must else "no", shorten(str(title), 200)])
    if rows:
        echo()
        print_table(["form field", "type", "required", "title"], rows, flexible="title")


def _told(view: dict[str, Any]) -> str:
    """Whether the other system was notified, in words."""
    found = view.get("notification")
    if found is None:
        return ""
    where = view["notify"]["url"].partition("?")[0]
    match found["state"]:
        case "delivered":
            return f"{where}, {since(found['delivered_at'])}"
        case "waiting" if found["last_error"]:
            return f"not yet, {found['last_error']}; attempt {found['attempts'] + 1} {until(found['next_at'])}"
        case "waiting":
            return f"not yet, {where}"
        case "failed":
            return f"no, {found['last_error']}"
        case _:
            return "no, it was decided before"


async def _get(where: Where, name: str) -> dict[str, Any]:
    from perdure.cli.frame.backend import connected

    async with connected(where) as backend:
        return await on_one(backend, LISTED, name, backend.approvals.get)


# -- deciding ----------------------------------------------------------------------------------------------------------


Ask = Callable[["Backend", str], Awaitable[Any]]
"""A request about the approval with this id, which gives the approval afterwards."""
_FLAGS = {"not_an_approver": "say so with --by NAME", "invalid_inputs": "give it with --data JSON"}
"""The flag that mends a refused vote, by the code of the refusal."""


def _as(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.params["by"] = value


def _by(function: F) -> F:
    """Add `--by`, as everywhere; a hidden `--as` is understood, too."""
    by = click.option("--by", metavar="NAME", is_eager=True, help="Who decides; default: your user name.")
    return by(click.option("--as", metavar="NAME", expose_value=False, hidden=True, callback=_as)(function))


def _decision_options(function: F) -> F:
    which = click.argument("approval_id", metavar="ID")
    comments = click.option(
        "--comments", default="", metavar="TEXT", help="Why; it is written down and becomes part of the node's output."
    )
    data = data_option("--data", "What else the form asks for; it becomes part of the node's output.")
    return which(comments(data(_by(where_options(json_option(function))))))


@approvals.command()
@_decision_options
def approve(approval_id: str, comments: str, data: Any, by: str | None, where: Where, as_json: bool) -> None:
    """Approve. ID may be shortened, or be the id of a run that waits for one decision."""
    _decide(where, approval_id, "approve", comments, data, by, as_json)


@approvals.command()
@_decision_options
def reject(approval_id: str, comments: str, data: Any, by: str | None, where: Where, as_json: bool) -> None:
    """Reject. ID may be shortened, or be the id of a run that waits for one decision."""
    _decide(where, approval_id, "reject", comments, data, by, as_json)


@approvals.command()
@click.argument("approval_id", metavar="ID")
@click.argument("to")
@click.option("--comments", default="", metavar="TEXT", help="Why; it is written down.")
@_by
@where_options
@json_option
def delegate(approval_id: str, to: str, comments: str, by: str | None, where: Where, as_json: bool) -> None:
    """Let TO decide in your place. The quorum stays, and so do the votes of the others."""

    def ask(backend: Backend, found: str) -> Awaitable[Any]:
        return backend.approvals.delegate(found, to, comments=comments, by=by)

    view, hint = asyncio.run(_ask(where, approval_id, ask))
    if as_json:
        print_json(view)
        return
    echo(f"{to} is asked about {view['approval_id']}")
    if hint:
        say(hint)


def _decide(
    where: Where, name: str, decision: Verdict, comments: str, data: Any, by: str | None, as_json: bool
) -> None:
    def ask(backend: Backend, found: str) -> Awaitable[Any]:
        return backend.approvals.decide(found, decision, comments=comments, data=data, by=by)

    view, hint = asyncio.run(_ask(where, name, ask))
    if as_json:
        print_json(view)
        return
    echo(_said(view, decision))
    if hint:
        say(hint)


def _said(view: dict[str, Any], decision: Verdict) -> str:
    """The result of a vote in words: a decision, or what it still takes."""
    name, votes, quorum = view["approval_id"], view["votes"], view["quorum"]
    if view["state"] != "pending":
        return f"{'Approved' if decision == 'approve' else 'Rejected'} {name}"
    left = [one for one in view["approvers"] if one not in votes]
    yes = sum(vote == "approve" for vote in votes.values())
    needed = f"{quorum - yes} of {', '.join(left)} have to" if quorum - yes > 1 else f"{' or '.join(left)} may"
    if not left:
        needed = f"{quorum - yes} more {'has' if quorum - yes == 1 else 'have'} to"
    if decision == "approve":
        return f"Approved {name}; {yes} of {quorum}, still open: {needed} approve"
    return f"{next(reversed(votes))} said no to {name}; still open: {needed} approve"


async def _ask(where: Where, name: str, ask: Ask) -> tuple[dict[str, Any], str]:
    from perdure.cli.frame.backend import connected, go_on
    from perdure.errors import PerdureError

    async with connected(where) as backend:
        try:
            view = await on_one(backend, LISTED, name, lambda found: ask(backend, found))
        except PerdureError as error:
            if error.code in _FLAGS and where.find_server() is None:  # a server knows the caller by the key
                error.message += f" ({_FLAGS[error.code]})"
            raise
        return view, await go_on(backend, view["run_id"])
