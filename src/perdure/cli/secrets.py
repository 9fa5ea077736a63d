"""`perdure secrets`: which secrets there are, and the keys of sensitive fields. Never a value."""

from __future__ import annotations

import click

from perdure.cli.frame.group import Group, db_option, json_option
from perdure.cli.frame.where import check_here, here_only
from perdure.cli.terminal.output import print_json, print_page, print_table
from perdure.cli.terminal.speech import echo

ELSEWHERE = "secrets and keys belong to the machine they are on, and travel nowhere"


@click.group(cls=Group)
def secrets() -> None:
    """Secrets: which there are, and the keys of sensitive fields."""


@secrets.command("list", short_help="List the names of secrets that can be filled in.")
@here_only(ELSEWHERE)
@json_option
def list_(as_json: bool) -> None:
    """List the names of the secrets that workers here can fill in, and for whom. Values are never shown."""
    from perdure.secrets.providers import open_secrets
    from perdure.settings import Settings, read_secrets

    settings = Settings.load()
    rows = open_secrets(read_secrets(), settings.secrets_file, settings.secrets_provider).rows()
    if as_json:
        print_page(rows, None)
    elif not rows:
        echo("No secrets. Set PERDURE_SECRET_<NAME>, or PERDURE_SECRETS_FILE, and write {{ secrets.NAME }}.")
    else:
        columns = ["name", "tenant", "queue", "source"]
        print_table(columns, [[row[column] for column in columns] for row in rows])


@secrets.command()
@db_option
@here_only(ELSEWHERE)
@json_option
def rotate(db: str | None, as_json: bool) -> None:
    """Make a new key for sensitive fields. What older keys encrypted stays readable as long as they are kept.

    With PERDURE_ENCRYPTION_KEYS set, the new value is printed, for you to set; otherwise the file beside the
    database is changed.
    """
    from perdure.cli.frame.database import load_settings, make_folder
    from perdure.deployment import keys_file
    from perdure.secrets.keyring import open_file, parse, write_file

    check_here(db)
    settings = load_settings(db)
    if settings.encryption_keys:
        ring = parse(settings.encryption_keys, settings.sources["encryption_keys"]).rotated()
        if as_json:
            print_json({"current": ring.current, "keys": ring.ids, "encryption_keys": ring.dumps()})
        else:
            echo(
                f"Set PERDURE_ENCRYPTION_KEYS to this in every process, then restart them; it writes with {ring.current}:"
            )
            echo(ring.dumps())
        return
    make_folder(settings)
    path = keys_file(settings.database_url)
    ring = open_file(path).rotated()
    write_file(path, ring)
    if as_json:
        print_json({"current": ring.current, "keys": ring.ids, "file": str(path)})
    else:
        echo(f"{path}: new fields are encrypted under {ring.current}; kept for reading: {', '.join(ring.ids[1:])}")
        echo("Back the file up with the database: without its key a field cannot be read.")
