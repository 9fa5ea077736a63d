"""`perdure config`: the settings, and where each came from."""

from __future__ import annotations

import click

from perdure.cli.frame.group import Group, db_option, json_option
from perdure.cli.terminal.output import print_page, print_table


@click.group(cls=Group)
def config() -> None:
    """Settings: what they are and where they came from."""


@config.command(short_help="Print every setting, its value and its source.")
@db_option
@json_option
def show(db: str | None, as_json: bool) -> None:
    """Print every setting, its value and its source: default, perdure.toml, a variable or a flag."""
    from perdure.cli.frame.database import load_settings

    rows = load_settings(db).rows()
    if as_json:
        print_page([{**row._asdict(), "source": _flag(row.source)} for row in rows], None)
    else:
        print_table(["setting", "value", "from"], [[row.name, _text(row.value), _flag(row.source)] for row in rows])


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _flag(source: str) -> str:
    return "--db" if source == "--database-url" else source
