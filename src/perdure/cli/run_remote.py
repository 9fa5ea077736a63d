"""`perdure run --server`: the definition is pushed to a server, started there and followed here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.exits import ExitCode, say
from perdure.cli.frame.where import Server
from perdure.cli.terminal.session import Session

if TYPE_CHECKING:
    from perdure.cli.frame.source import Source
    from perdure.client import AsyncClient
    from perdure.model import Compiled
    from perdure.model.ir import IR
    from perdure.service.runs.resumed_runs import Existing


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
    from perdure.cli.frame.backend import get_run, reached

    async with reached(server) as client:
        session = RemoteRun(client, source, flags, no_wait=no_wait, as_json=as_json)
        if run_id is not None:
            await session.adopt_existing(run_id, inputs)
        elif not await session.start(inputs, tags, correlation_id):
            return ExitCode.USAGE
        if no_wait:
            return session.say_started(await get_run(client, session.run_id))
        return await session.watch()


class RemoteRun(Session):
    """One `perdure run --server`."""

    def __init__(self, client: AsyncClient, source: Source, flags: str, *, no_wait: bool, as_json: bool) -> None:
        super().__init__(source, flags, no_wait=no_wait, as_json=as_json)
        self.client = client

    # -- starting ------------------------------------------------------------------------------------------------------

    async def start(self, inputs: dict[str, Any] | None, tags: dict[str, str], correlation_id: str) -> bool:
        """Start the run. False: the server refused the definition, and the problems were printed."""
        from perdure.cli.frame.refusals import show_refused, show_warnings
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
        return await self.client.workflows.register(compiled.definition, triggers=False)

    async def adopt_existing(self, run_id: str, inputs: dict[str, Any] | None) -> None:
        """Follow a run that exists, if it has the same workflow and the same inputs."""
        from perdure.cli.frame.backend import find_run

        record = await find_run(self.client, run_id)
        if record is None:
            raise click.UsageError(
                f"the server has no run {run_id}, and a server chooses the ids of new runs; leave --run-id out"
            )
        if (why := record.get("quarantined")) is not None:
            raise click.ClickException(f"run {run_id} is quarantined: {why}; see perdure doctor")
        self.run_id = run_id
        ir = self._compile()
        existing = await self._read_existing(run_id, ir)
        if inputs is not None and _is_partial(existing.inputs):
            raise click.UsageError(
                f"the inputs of run {run_id} are too large to be compared here; leave them out to go on with it"
            )
        self.check_same(existing, ir, inputs)
        if not existing.ended and not self.as_json:
            say(f"Run {run_id} exists and is {existing.state}; going on with it.")

    async def _read_existing(self, run_id: str, ir: IR) -> Existing:
        from perdure.service.runs.resumed_runs import Existing

        view: Any = await self.client.runs.get(run_id, outputs=False)
        hashes: set[str] = set()
        async for event in self.client.runs.events(run_id, limit=1000):
            if event["type"] in ("run.created", "run.patched"):
                hashes.add(event["data"]["ir"])
                if len(hashes) > view.get("patches", 0):
                    break
        return Existing(
            run_id=run_id,
            workflow=view["workflow"],
            version=view["version"],
            state=view["state"],
            ended=view["ended_at"] is not None,
            hashes=frozenset(hashes),
            schema=ir.inputs_schema,
            inputs=view["inputs"],
        )

    def _compile(self) -> IR:
        from perdure.model import compile_definition

        return compile_definition(self.source.compiled.definition).get_ir()

    # -- following -----------------------------------------------------------------------------------------------------

    async def watch(self) -> ExitCode:
        from perdure.cli.frame.backend import get_run, who_asked
        from perdure.cli.terminal.follow import stopping
        from perdure.cli.terminal.remote_follow import RemoteLines, StreamSource
        from perdure.nodes import installed
        from perdure.sdk.follower import Follower

        ir = self._compile()
        follower = Follower(StreamSource(self.client, {ir.hash: ir}), self.run_id)
        with stopping() as stop:
            await self.attend(self.client, follower, RemoteLines(follower, installed()), stop, work=None)
        if stop.code is not None and not follower.state.terminal:
            say(f"Not followed any more; the run goes on. To follow it again:\n  {self.command('watch')}")
            return stop.code
        view = await get_run(self.client, self.run_id)
        self.asked = await who_asked(self.client, view)
        return self.finish(view, follower)


def _is_partial(inputs: Any) -> bool:
    """Whether a server left parts of the inputs out of its answer because they are large."""
    if isinstance(inputs, dict):
        return set(inputs) == {"$ref", "size"} or any(map(_is_partial, inputs.values()))
    return isinstance(inputs, list) and any(map(_is_partial, inputs))
