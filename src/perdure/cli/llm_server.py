"""`perdure llm-server`: a language model without a model, for tests and for users without a key."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from perdure.cli.frame.exits import say
from perdure.cli.frame.group import debug_option

if TYPE_CHECKING:
    from perdure.llms.scripted.script import Script

PORT = 8790


@click.command(
    "llm-server",
    short_help="A language model that follows a script, for tests and trials.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--script", metavar="FILE", help="YAML: which request gets which answer, and what goes wrong.")
@click.option("--port", type=click.IntRange(0, 65_535), default=PORT, show_default=True, help="0: any that is free.")
@debug_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND]...")
def llm_server(script: str | None, port: int, command: tuple[str, ...]) -> None:
    """Serve a language model that follows a script, on this machine alone; with a COMMAND, only while that runs.

    It speaks OpenAI's chat completions and responses and Anthropic's messages, streamed and whole. Without a script it repeats what it is told,
    or gives the smallest value that fits the schema it is asked for. A script also says what goes wrong: limits, silence, broken streams, bad
    answers (docs/guides/models.md). `GET /requests` shows what it was asked.
    """
    from perdure.llms.scripted.script import Script, load_script

    code = asyncio.run(_serve(load_script(script) if script else Script(), port, command))
    if code:
        raise SystemExit(code)


async def _serve(script: Script, port: int, command: tuple[str, ...]) -> int:
    from perdure.errors import SettingsInvalid
    from perdure.llms.scripted.scripted_server import ScriptedServer

    server = ScriptedServer(script)
    try:
        await server.start("127.0.0.1", port)
    except OSError as error:
        raise SettingsInvalid(f"cannot listen on port {port}: {error.strerror}; choose another with --port") from None
    try:
        if not command:
            say(f"Listening on http://127.0.0.1:{server.port}/v1")
            say(f'providers.scripted = {{kind = "openai_chat", base_url = "http://127.0.0.1:{server.port}/v1"}}')
            await asyncio.Event().wait()
        try:
            process = await asyncio.create_subprocess_exec(*command)
        except OSError as error:
            raise SettingsInvalid(f"cannot run {command[0]}: {error.strerror}") from None
        code = await process.wait()
        return code if code >= 0 else 128 - code  # as shells say that a signal ended it
    finally:
        await server.close()
