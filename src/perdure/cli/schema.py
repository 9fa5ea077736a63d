"""`perdure schema`: what an editor needs to complete and check definitions while they are written."""

from __future__ import annotations

from pathlib import Path

import click

from perdure.cli.frame.exits import say
from perdure.cli.frame.group import json_option
from perdure.cli.frame.output_file import opened_output
from perdure.cli.terminal.output import print_json
from perdure.cli.terminal.speech import echo_json

FILE = "perdure.schema.json"
LINE = "# yaml-language-server: $schema="


@click.command(short_help="Print the JSON Schema of definitions, for editors.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write it to a file instead of printing it."
)
@click.option("--triggers", is_flag=True, help="The schema of triggers instead.")
@json_option
def schema(output: Path | None, triggers: bool, as_json: bool) -> None:
    """Print the JSON Schema (draft 2020-12) of definitions, with the configs of the node types installed here.

    An editor that knows YAML (VS Code with the YAML extension, Neovim, JetBrains) completes and checks with it. Write it
    beside your workflows, `perdure schema -o perdure.schema.json`, and begin each of them with

    \b
    # yaml-language-server: $schema=perdure.schema.json

    The schema knows the shape of a definition; `perdure validate` checks all of it. With --triggers, it is the schema of
    files of triggers, which `perdure triggers test` checks.
    """
    text = read_trigger_schema() if triggers else read_schema()
    if output is None:
        echo_json(text.rstrip())
        return
    with opened_output(output) as file:
        file.write(text.encode())
    if as_json:
        print_json({"file": str(output)})
        return
    what = "file of triggers" if triggers else "workflow"
    say(f"{output} is written. The first line of a {what} beside it: {LINE}{output.name}")


def read_schema() -> str:
    import json

    from perdure.model.definition_schema import Kind, describe_language
    from perdure.nodes import installed

    kinds = [Kind(one.name, one.aliases, one.description, one.config_schema) for one in installed()]
    return json.dumps(describe_language(kinds), indent=1, ensure_ascii=False) + "\n"


def read_trigger_schema() -> str:
    import json

    from perdure.model.trigger_schema import describe_triggers

    return json.dumps(describe_triggers(), indent=1, ensure_ascii=False) + "\n"
