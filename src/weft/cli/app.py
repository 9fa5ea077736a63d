"""The root command and the list of all others. Nothing is imported here that `weft --help` does not need."""

from __future__ import annotations

import click

from weft.cli.group import Root, debug_option

HELPS = {
    "run": "Run a workflow, here and now.",
    "validate": "Check a workflow without running it.",
    "simulate": "Put a workflow through crashes, duplicates and delays.",
    "runs": "Runs: look at them, and change their course.",
    "approvals": "Approvals: what waits for a person, and the answer.",
    "dlq": "Dead letters: nodes parked after they failed.",
    "doctor": "Check that everything the database says is true.",
    "secrets": "Secrets: which there are, and the keys of sensitive fields.",
    "config": "Settings: what they are and where they came from.",
}
"""What `weft --help` says, without importing the commands. A test compares it with what they say themselves."""

COMMANDS = {
    "run": "weft.cli.run:run",
    "validate": "weft.cli.validate:validate",
    "simulate": "weft.cli.simulate:simulate",
    "runs": "weft.cli.runs:runs",
    "approvals": "weft.cli.approvals:approvals",
    "dlq": "weft.cli.dlq:dlq",
    "doctor": "weft.cli.doctor:doctor",
    "secrets": "weft.cli.secrets:secrets",
    "config": "weft.cli.config:config",
}


@click.group(cls=Root, lazy=COMMANDS, helps=HELPS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="weft", prog_name="weft", message="%(prog)s %(version)s")
@debug_option
def app() -> None:
    """Weft runs workflows that survive whatever dies in the middle.

    Describe a graph in YAML or JSON, run it with `weft run FILE`, and when the process is killed,
    run it again: it goes on from where it was.
    """
