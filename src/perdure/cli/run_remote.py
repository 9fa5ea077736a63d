"""`perdure run --server`: the definition is pushed to a server, started there and followed here."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exits import ExitCode, say, say_details, say_error
from perdure.cli.terminal.results import results
from perdure.cli.terminal.speech import echo
from perdure.cli.where import Server

if TYPE_CHECKING:
    from perdure.cli.source import Source
    from perdure.client import AsyncClient
    from perdure.model import Compiled


async def run_remote(
    server: Server,
    flags: str,
    source: Source,
    inputs: dict[str, Any] | None,
    run_id: str | None,
    *,
    tags: dict[str, str],
    correlation_id: str,
    no_wait: bool,
    as_json: bool,
) -> ExitCode:
    """Run a workflow on a server. `flags` are those that the next command needs to reach the same server."""
    from perdure.cli.backend import reached

    async with reached(server) as client:
        session = Session(client, source, flags, as_json=as_json)
        if run_id is not None:
            await session.adopt_existing(run_id)
        elif not await session.start(inputs, tags, correlation_id):
            return ExitCode.USAGE
        return await (session.leave() if no_wait else session.watch())


class Session:
    def __init__(self, client: AsyncClient, source: Source, flags: str, *, as_json: bool) -> None:
        self.client = client
        self.source = source
        self.flags = flags
        self.as_json = as_json
        self.run_id = ""

    # -- starting ------------------------------------------------------------------------------------------------------

    async def start(self, inputs: dict[str, Any] | None, tags: dict[str, str], correlation_id: str) -> bool:
        """Start the run. False: the server refused the definition, and the problems were printed."""
        from perdure.cli.refusals import show_refused, show_warnings
        from perdure.client import Invalid

        try:
            for child in self.source.children:
                await self._push(child)
            registered = await self._push(self.source.compiled)
        except Invalid as error:
            if not error.problems:
                raise
            show_refused(self.source, error, "changed on the server")
            return False
        if not self.as_json:
            show_warnings(self.source, registered["problems"])
        workflow = f"{registered['name']}@{registered['version']}"
        started = await self.client.runs.start(workflow, inputs or {}, tags=tags, correlation_id=correlation_id or None)
        self.run_id = started["run_id"]
        return True

    async def _push(self, compiled: Compiled) -> Any:
        assert compiled.definition is not None
        return await self.client.workflows.register(compiled.definition)

    async def adopt_existing(self, run_id: str) -> None:
        """Follow a run that exists, if it is of the same workflow."""
        from perdure.cli.backend import find_run

        record = await find_run(self.client, run_id)
        if record is None:
            raise click.UsageError(
                f"the server has no run {run_id}, and a server chooses the ids of new runs; leave --run-id out"
            )
        name = self.source.compiled.definition["name"]
        if record["workflow"] != name:
            raise click.UsageError(f"run {run_id} is of {record['workflow']}, not of {name}; choose another --run-id")
        self.run_id = run_id

    # -- following -----------------------------------------------------------------------------------------------------

    async def leave(self) -> ExitCode:
        """End the command once the start is durable, which is all that was asked for."""
        from perdure.cli.backend import get_run
        from perdure.cli.terminal.output import print_json

        if self.as_json:
            print_json(await get_run(self.client, self.run_id))
        else:
            echo(self.run_id, file=results())
            say(f"Started; follow it with: {self._command('watch')}")
        return ExitCode.OK

    async def watch(self) -> ExitCode:
        from perdure.cli.backend import get_run, resolve_run
        from perdure.cli.run import asks_on
        from perdure.cli.runs.watch import check_going, look_for_quarantine
        from perdure.cli.terminal.attendant import Attendant, People, make_tree
        from perdure.cli.terminal.follow import Silent, follow, stopping
        from perdure.cli.terminal.remote_follow import RemoteLines, StreamSource
        from perdure.model import compile_definition
        from perdure.nodes import installed
        from perdure.sdk.following import Follower

        ir = compile_definition(self.source.compiled.definition).get_ir()
        follower = Follower(StreamSource(self.client, {ir.hash: ir}), self.run_id)
        tree = None if self.as_json else make_tree(follower)
        people = People(self.client, follower)
        asks = tree is not None and asks_on(sys.stdin)
        attendant = Attendant(follower, people, no_wait=False, tree=tree, asks=asks)
        screen = Silent() if self.as_json else tree or RemoteLines(follower, installed())

        async def beside(over: asyncio.Event) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(attendant.run(over))
                group.create_task(look_for_quarantine(self.client, follower, over))

        with stopping() as stop:
            await follow(follower, screen, stop, work=None, beside=beside)
        if stop.code is None and not follower.state.terminal:
            await check_going(self.client, await resolve_run(self.client, self.run_id))
        view = await get_run(self.client, self.run_id)
        if stop.code is not None and not follower.state.terminal:
            say(f"Not followed any more; the run goes on. To follow it again:\n  {self._command('watch')}")
            return stop.code
        return self._finish(view)

    def _finish(self, view: dict[str, Any]) -> ExitCode:
        from perdure.cli.terminal.output import print_json, print_pretty

        if self.as_json:
            print_json(view)
        if view["state"] == "completed":
            if not self.as_json and view["outputs"] not in (None, {}):
                print_pretty(view["outputs"])
            return ExitCode.OK
        if not self.as_json:
            self._say_failed(view)
        return ExitCode.FAILED

    def _say_failed(self, view: dict[str, Any]) -> None:
        failed = [name for name, node in view["nodes"].items() if node["state"] == "failed" and node.get("error")]
        from perdure.cli.terminal.lines import tell_failed

        error = view["error"]
        why = f"{error['code']}: {error.get('message', '')}" if error else view["state"]
        say_error(tell_failed(self.run_id, view["state"], failed[0] if failed else None, why))
        say_details(error.get("details") if error else None)
        if view["state"] == "failed":
            say(f"  look:   {self._command('show')}")
            say(f"  retry:  {self._command('retry')}")
            say(f"  mend:   {self._command('retry')} --definition {self.source.name}")

    def _command(self, word: str) -> str:
        return f"perdure runs {word} {self.run_id}{self.flags}"
