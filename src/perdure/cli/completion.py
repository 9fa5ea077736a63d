"""`perdure completion`: the script that makes TAB complete commands, flags, ids and files."""

from __future__ import annotations

import click

from perdure.cli.frame.group import json_option
from perdure.cli.terminal.speech import echo

_VARIABLE = "_PERDURE_COMPLETE"
_SHELLS = ("bash", "fish", "zsh")


@click.command(short_help="Print what makes TAB complete in your shell.")
@click.argument("shell", type=click.Choice(_SHELLS))
@json_option
def completion(shell: str, as_json: bool) -> None:
    """Print a script for your SHELL that completes commands, flags, run ids, approvals and files.

    \b
    bash   eval "$(perdure completion bash)"            in ~/.bashrc (bash 4.4 or later)
    zsh    eval "$(perdure completion zsh)"             in ~/.zshrc, after compinit
    fish   perdure completion fish | source             in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    maker = get_completion_class(shell)
    assert maker is not None
    script = maker(click.get_current_context().find_root().command, {}, "perdure", _VARIABLE)
    text = script.source_template % script.source_vars()
    if as_json:
        from perdure.cli.terminal.output import print_json

        print_json({"shell": shell, "script": text})
        return
    echo(text.strip())
