"""`perdure chat`: talk with a workflow, a run for each line."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.exits import ExitCode
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import print_pretty
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend

WAIT_SECONDS = 30.0
LOOK_SECONDS = 0.5


@click.command("chat", short_help="Talk with a workflow: each line is a run of it.")
@click.argument("file")
@click.option("--session", "key", metavar="KEY", help="The session to go on with; a new one without it.")
@click.option("--message", "message", metavar="INPUT", default="message", help="The input that a line is.")
@click.option("--key", "key_input", metavar="INPUT", default="session", help="The input that the session's key is.")
@where_options
def chat(file: str, key: str | None, message: str, key_input: str, where: Where) -> None:
    """Talk with the workflow in FILE: each line that you write is the input `message` of a run, whose outputs are shown, and the key of the
    session is its input `session`. An agent with `session: "{{ inputs.session }}"` knows what was said before. An empty line, or the end
    of the input, ends it."""
    from perdure.cli.frame.source import read_source

    source = read_source(file)
    sys.exit(asyncio.run(_chat(where, source, key, message, key_input)))


async def _chat(where: Where, source: Any, key: str | None, message: str, key_input: str) -> int:
    from perdure.cli.frame.backend import connected
    from perdure.clock import system
    from perdure.service import Service

    async with connected(where, make=True) as backend:
        for one in source.children:
            await _register(backend, one)
        registered = await _register(backend, source.compiled)
        if isinstance(backend, Service):
            await backend.tenancy.engine.hold()
        key = key or system.new_id()
        echo(f"Session {key}. An empty line ends it.", err=True)
        failed = 0
        while line := await _read():
            inputs = {message: line, key_input: key}
            failed |= await _say(backend, f"{registered['name']}@{registered['version']}", inputs)
        return failed


async def _read() -> str:
    from perdure.cli.terminal.prompt import read_line

    if sys.stdin.isatty():
        return await read_line("> ") or ""
    return str(await asyncio.to_thread(sys.stdin.readline)).strip()  # a file cannot be watched


async def _register(backend: Backend, compiled: Any) -> Any:
    compiled.get_ir()  # what is wrong with it is said
    return await backend.workflows.register(compiled.definition, triggers=False)


async def _say(backend: Backend, workflow: str, inputs: dict[str, Any]) -> int:
    from perdure.clock import system

    started = await backend.runs.start(workflow, inputs, wait_seconds=WAIT_SECONDS)
    run_id, told = started["run_id"], False
    while True:
        view = await backend.runs.get(run_id)
        if view["state"] in ("completed", "failed", "cancelled", "rolled_back"):
            break
        if not told:
            told = True
            echo(f"(run {run_id} goes on; perdure runs show {run_id} says what it waits for)", err=True)
        await system.sleep(LOOK_SECONDS)
    if view["state"] != "completed":
        error = view.get("error") or {}
        echo(f"(run {run_id} {view['state']}: {error.get('message') or ''})", err=True)
        return ExitCode.FAILED
    outputs = view["outputs"]
    only = next(iter(outputs.values())) if isinstance(outputs, dict) and len(outputs) == 1 else outputs
    if isinstance(only, str):
        echo(only)
    else:
        print_pretty(only)
    return 0
