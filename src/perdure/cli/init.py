"""`perdure init`: a small project to start from. Its files are in `starter/`, each with `.txt` after its name."""

from __future__ import annotations

from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import click

from perdure.cli.frame.exits import say
from perdure.cli.frame.group import json_option
from perdure.cli.schema import FILE as SCHEMA
from perdure.cli.schema import read_schema
from perdure.cli.terminal.output import print_json
from perdure.cli.terminal.speech import echo, style

FILES = {
    "order.yaml": "the workflow",
    "tasks.py": "the functions its nodes call",
    "test_order.py": "its tests",
    "stubs.yaml": "what nodes give where they are only played",
    SCHEMA: "for editors",
    "README.md": "what to try",
    ".gitignore": "",
}
_LEFT_OUT = ("README.md", ".gitignore", SCHEMA)
"""Files that are left out where the folder has its own: the project does not need them."""


@click.command(short_help="Write a small project to start from.")
@click.argument("directory", metavar="[DIR]", default=".", type=click.Path(file_okay=False, path_type=Path))
@json_option
def init(directory: Path, as_json: bool) -> None:
    """Write a small project into DIR (made if it is not there; by default the current folder).

    A workflow with a retry, a branch and an approval, the functions it calls, tests, stubs for `perdure simulate`, a README, and a JSON Schema by which
    editors complete and check workflows. It runs at once.
    Nothing is overwritten: a README.md, .gitignore or perdure.schema.json that is there stays, and where another of its files is already, nothing is
    written at all.
    """
    from perdure.errors import Refused

    wanted = [name for name in FILES if name not in _LEFT_OUT or not (directory / name).exists()]
    there = [name for name in wanted if (directory / name).exists()]
    if there:
        raise Refused(
            f"{directory} has {', '.join(there)} already, nothing was written; `perdure init DIR` takes another folder"
        )
    directory.mkdir(parents=True, exist_ok=True)
    for name in wanted:
        _write(directory / name, read_starter(name))
    if as_json:
        print_json({"directory": str(directory), "files": wanted})
        return
    _say_next(directory, wanted)


def read_starter(name: str) -> str:
    if name == SCHEMA:  # made on the spot: it knows the installed node types, and needs no network
        return read_schema()
    return (resources.files("perdure.cli") / "starter" / f"{name.removeprefix('.')}.txt").read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8", newline="\n") as file:  # never overwrites a file that appeared meanwhile
        file.write(text)


def _say_next(directory: Path, written: list[str]) -> None:
    width = max(map(len, FILES))
    for name in written:
        if what := FILES[name]:
            echo(
                f"{style('+', fg='green')} {(directory / name).as_posix():<{width + len(directory.as_posix()) + 1}}  {what}"
            )
    say("\nNext:")
    steps = [] if directory == Path() else [f"cd {directory}"]
    steps += [
        "perdure run order.yaml -i item=lamp -i quantity=2",
        "perdure run order.yaml -i item=desk -i quantity=1     (asks you)",
        "perdure graph order.yaml -o order.svg",
        *([] if find_spec("pytest") else ["python -m pip install pytest"]),
        "python -m pytest",
    ]
    for step in steps:
        say(f"  {style(step, bold=True)}")
