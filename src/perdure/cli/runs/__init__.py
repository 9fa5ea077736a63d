"""`perdure runs`: look at runs, and change their course. Each command is in a file of its name; those that only ask for one
change are in `control.py`, and what leaves or enters as a file in `transfer.py`."""

from __future__ import annotations

import click

from perdure.cli.frame.group import Group

_HOMES = {
    "list": "list:list_",
    "rerun": "retry:rerun",
    "import": "transfer:import_",
    "export": "transfer:export",
    "cost": "costs:cost",
    "chunks": "yielded:chunks",
    "transcript": "transcripts:transcript",
    "guards": "transcripts:guards",
    **{name: f"control:{name}" for name in ("cancel", "pause", "resume", "rollback", "signal", "tell")},
}
"""Commands that are in another file than that of their name, or called otherwise there."""
_NAMES = (
    *(
        "list",
        "show",
        "explain",
        "watch",
        "events",
        "export",
        "logs",
        "chunks",
        "path",
        "diff",
        "import",
        "start",
        "cost",
        "transcript",
        "guards",
        "whatif",
        "cancel",
    ),
    *("pause", "resume", "rollback", "signal", "tell", "patch", "retry", "rerun"),
)


@click.group(cls=Group, lazy={name: f"perdure.cli.runs.{_HOMES.get(name, f'{name}:{name}')}" for name in _NAMES})
def runs() -> None:
    """Runs: look at them, and change their course. An id may be shortened while it stays unique."""
