"""`perdure models`: the language models that workflows can name here, and whether their keys are good."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.group import Group, json_option, leave
from perdure.cli.frame.where import here_only
from perdure.cli.terminal.output import print_json, print_page, print_prose, print_table
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    from perdure.llms.operator_file import Found, Models

ELSEWHERE = "models and keys are those of the workers here"


@click.group(cls=Group, short_help="Models: what workflows can name, their prices and keys.")
def models() -> None:
    """Models: what workflows can name, what they cost, and whether their keys are good."""


@models.command("list", short_help="List the models that workflows can name here.")
@here_only(ELSEWHERE)
@json_option
def list_(as_json: bool) -> None:
    """List the models of the operator's file (setting agents_file), with prices in dollars per million tokens, and whether the key of each is
    there. A provider without a model of its own is listed as provider/…"""
    rows = [_row(one) for one in _all(_open())]
    if as_json:
        print_page(rows, None)
        return
    cells = [[one["name"], f"{one['provider']}/{one['model']}", *_cost(one["price"]), _key(one)] for one in rows]
    print_table(["name", "model", "input", "output", "key"], cells, flexible="model")
    if missing := sorted({one["secret"] for one in rows if one["key"] == "missing"}):
        print_prose(
            f"Keys are secrets; those that are missing: {', '.join(f'PERDURE_SECRET_{one}' for one in missing)}."
        )


@models.command("test", short_help="Ask providers whether they take their keys.")
@click.argument("name", metavar="[NAME]", required=False)
@here_only(ELSEWHERE)
@json_option
def test(name: str | None, as_json: bool) -> None:
    """Ask the provider of the model NAME, or of every model of the operator's file, whether it takes the key and has the model. Its list of
    models is read, which costs nothing. Exit code 1 where one is not good."""
    from perdure.cli.frame.exits import ExitCode

    opened = _open()
    if name is not None:
        chosen = [_get(opened, name)]
    else:
        chosen = [one for one in _all(opened) if one.row.model or _has_key(one)]
    rows = asyncio.run(_test(chosen))
    if as_json:
        print_json({"items": rows, "next_cursor": None})
    elif not rows:
        echo("There is nothing to test: the operator's file names no model, and no key of a vendor is there.")
    else:
        print_table(["name", "ok", "said"], [[one["name"], "yes" if one["ok"] else "no", one["said"]] for one in rows])
    leave(ExitCode.OK if all(one["ok"] for one in rows) else ExitCode.FAILED)


async def _test(chosen: list[Found]) -> list[dict[str, Any]]:
    from perdure import egress
    from perdure.egress.policy import Policy
    from perdure.llms.key_checks import check
    from perdure.settings import Settings

    egress.configure(Policy.parse(Settings.load().egress_allow))
    found = []
    try:
        for one in chosen:
            if one.provider.secret and not _has_key(one):
                found.append({"name": one.name, "ok": False, "said": f"its key is missing: {_variable(one)}"})
                continue
            checked = await check(one, _key_of(one))
            found.append({"name": one.name, "ok": checked.is_good, "said": checked.said})
    finally:
        await egress.close()
    return found


def _open() -> Models:
    from perdure.llms.operator_file import open_models
    from perdure.settings import Settings

    return open_models(Settings.load().agents_file)


def _get(models: Models, name: str) -> Found:
    from perdure.errors import NotFound
    from perdure.llms.port import LlmError

    try:
        return models.get(name, "*")
    except LlmError as error:
        raise NotFound(error.message) from None


def _all(models: Models) -> list[Found]:
    """The models of the file, and the providers that have none there."""
    from perdure.llms.operator_file import Found, Model

    found = [models.get(name, "*") for name in models.names("*")]
    used = {one.row.provider for one in found}
    bare = [name for name in sorted(models.providers) if name not in used]
    return found + [Found(f"{name}/…", Model(provider=name, model=""), models.providers[name], None) for name in bare]


def _row(one: Found) -> dict[str, Any]:
    price = None if one.price is None else {"input": one.price.input, "output": one.price.output}
    if price is not None and one.price is not None and one.price.cached is not None:
        price["cached"] = one.price.cached
    key = "none" if not one.provider.secret else "set" if _has_key(one) else "missing"
    return {
        "name": one.name,
        "provider": one.row.provider,
        "model": one.row.model or "…",
        "kind": one.provider.kind,
        "base_url": one.provider.base_url,
        "price": price,
        "key": key,
        "secret": one.provider.secret or None,
        "context": one.row.context,
        "max_output": one.row.max_output,
        "tenants": list(one.row.tenants),
    }


def _cost(price: dict[str, float] | None) -> list[str]:
    return ["?", "?"] if price is None else [f"${price['input']:g}", f"${price['output']:g}"]


def _key(row: dict[str, Any]) -> str:
    return {"missing": "missing", "none": "needs none"}.get(row["key"], "there")


def _variable(one: Found) -> str:
    return f"PERDURE_SECRET_{one.provider.secret}"


def _has_key(one: Found) -> bool:
    return bool(_key_of(one))


def _key_of(one: Found) -> str:
    """The key of a model's provider for the tenant that may use it; empty: there is none, or it needs none."""
    from perdure.secrets.providers import open_secrets
    from perdure.settings import Settings, read_secrets

    if not one.provider.secret:
        return ""
    settings = Settings.load()
    tenant = next((name for name in one.row.tenants if name != "*"), "default")
    try:
        return open_secrets(read_secrets(), settings.secrets_file, settings.secrets_provider).get(
            one.provider.secret, tenant, "default"
        )
    except LookupError:
        return ""
