"""Parameters of the command line as values: moments, tags, JSON."""

from __future__ import annotations

import datetime
import functools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perdure.clock import system
from perdure.plain_text import explain_json

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # generic only since click 8.5

F = TypeVar("F", bound=Callable[..., Any])
LONGEST_CORRELATION = 200
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h|d|w)")


class Moment(ParamType):
    """A time: `2026-11-15`, `2026-11-15T09:30`, `09:30` (today), or so long ago: `15min`, `2h`, `3d`.
    Without a zone it is UTC, like the times that commands print."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip()
        ago = _AGO.fullmatch(text)
        if ago is not None:
            return system.now() - float(ago.group(1)) * _UNITS[ago.group(2)]
        text = text.removesuffix(" UTC")
        today = datetime.datetime.fromtimestamp(system.now(), datetime.UTC)
        try:
            if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text):
                clock = datetime.time.fromisoformat(text.zfill(5 if text.count(":") == 1 else 8))
                return datetime.datetime.combine(today.date(), clock, datetime.UTC).timestamp()
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f"{text!r} is no time; write 2026-11-15, 2026-11-15T09:30, 09:30, or 2h, 3d, 15min ago", param, ctx
            )
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)).timestamp()


class Tag(ParamType):
    """A tag: `NAME=VALUE`."""

    name = "tag"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not equals or not name:
            self.fail(f"{value!r} is no tag; write name=value, such as team=blue", param, ctx)
        return name, text


class Json(ParamType):
    """A value as JSON, or `@FILE` that holds it, or `@-` for standard input."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        import msgspec

        if not isinstance(value, str):
            return value
        text: str | bytes = value
        if value.startswith("@"):
            try:
                text = sys.stdin.buffer.read() if value == "@-" else Path(value[1:]).read_bytes()
            except OSError as error:
                self.fail(f"cannot read {value[1:]}: {error.strerror}", param, ctx)
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.fail(f"not JSON: {explain_json(error)}", param, ctx)


def data_option(name: str, said: str) -> Callable[[F], F]:
    return click.option(name, type=Json(), metavar="JSON", help=f"{said} JSON, or @FILE.")


def correlation_option(function: F) -> F:
    about = "What you call this work; children and tasks of the run have the same."
    return click.option("--correlation-id", default="", metavar="TEXT", callback=_check_length, help=about)(function)


def _check_length(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    if len(value) > LONGEST_CORRELATION:
        raise click.BadParameter(f"it has {len(value):,} characters; the maximum is {LONGEST_CORRELATION}")
    return value


def tag_option(function: F) -> F:
    return click.option(
        "--tag", "tags", type=Tag(), multiple=True, metavar="NAME=VALUE", help="A tag; may be repeated."
    )(function)


def budget_options(function: F) -> F:
    """`--usd`, `--tokens` and `--calls`, given to the command as the mapping `budget`; None: no limit is given."""

    @functools.wraps(function)
    def command(*args: Any, usd: float | None, tokens: int | None, calls: int | None, **more: Any) -> Any:
        limits = {"usd": usd, "tokens": tokens, "calls": calls}
        budget = {name: amount for name, amount in limits.items() if amount is not None}
        return function(*args, budget=budget or None, **more)

    for name, kind, what in (("calls", int, "calls that it may make"), ("tokens", int, "tokens that it may use")):
        command = click.option(f"--{name}", type=kind, help=f"The {what} in all, from here on.")(command)
    return click.option("--usd", type=float, help="The dollars that it may use in all, from here on.")(command)  # type: ignore[return-value]
