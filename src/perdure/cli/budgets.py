"""`perdure budgets`: what a tenant may use in a day or a month, in all or of one workflow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.group import Group, json_option
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import moment, print_json, print_table
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend


@click.group(cls=Group)
def budgets() -> None:
    """Budgets: what a tenant or a workflow may use in a day or a month."""


@budgets.command("list", short_help="Show the budgets, and what was used of each.")
@where_options
@json_option
def list_(where: Where, as_json: bool) -> None:
    """Show the budgets of the tenant and of its workflows, and what was used of each in its period."""
    found = _ask(where, lambda backend: backend.budgets.list())
    if as_json:
        print_json(found)
    else:
        _print(found["items"])


@budgets.command(short_help="Show one budget.")
@click.argument("scope")
@where_options
@json_option
def show(scope: str, where: Where, as_json: bool) -> None:
    """Show the budget of SCOPE: `tenant`, or `workflow:NAME`."""
    _show(_ask(where, lambda backend: backend.budgets.get(scope)), as_json)


@budgets.command("set", short_help="Set a budget.")
@click.argument("scope")
@click.option("--usd", type=click.FloatRange(0), help="Dollars.")
@click.option("--tokens", type=click.IntRange(0), help="Input and output tokens.")
@click.option("--calls", type=click.IntRange(0), help="Calls of models and other steps that are counted.")
@click.option("--per", type=click.Choice(["day", "month"]), default="month", help="The period, in UTC.")
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    help="The part one node of a run may use; 0.1 of a tenant's unless said.",
)
@where_options
@json_option
def set_(
    scope: str,
    usd: float | None,
    tokens: int | None,
    calls: int | None,
    per: Any,
    share: float | None,
    where: Where,
    as_json: bool,
) -> None:
    """Set the budget of SCOPE (`tenant`, or `workflow:NAME`), in place of the one that it has."""
    view = _ask(
        where,
        lambda backend: backend.budgets.set(scope, usd=usd, tokens=tokens, calls=calls, per=per, share=share),
    )
    _show(view, as_json)


@budgets.command(short_help="Take a limit away.")
@click.argument("scope")
@where_options
@json_option
def delete(scope: str, where: Where, as_json: bool) -> None:
    """Take the limit of SCOPE away. What was used stays counted."""
    view = _ask(where, lambda backend: backend.budgets.delete(scope))
    if as_json:
        print_json(view)
    else:
        echo(f"deleted: the budget of {view['scope']}")


def _ask(where: Where, call: Callable[[Backend], Awaitable[Any]]) -> Any:
    from perdure.cli.frame.backend import ask

    async def asked(backend: Backend) -> Any:
        return await call(backend)

    return asyncio.run(ask(where, asked))


def _show(view: Any, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        _print([view])


def _print(found: list[Any]) -> None:
    rows = []
    for one in found:
        for of in ("usd", "tokens", "calls"):
            if one[of] is not None:
                amounts = (_say(of, amount) for amount in (one[of], one["used"][of], one["reserved"][of]))
                rows.append([one["scope"], of, *amounts, one["per"], moment(one["ends_at"])])
    print_table(["scope", "of", "limit", "used", "set aside", "per", "until"], rows)


def _say(of: str, amount: float) -> str:
    return f"{amount:,.6f}" if of == "usd" else f"{amount:,}"
