"""`perdure run`: one workflow, here and now, to its end."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import click

from perdure import functions
from perdure.cli.frame.exits import ExitCode, say
from perdure.cli.frame.group import json_option, leave
from perdure.cli.frame.parameters import correlation_option, tag_option
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.session import Session
from perdure.cli.terminal.stdout import divert
from perdure.kernel.run_ids import RUN_ID, RUN_ID_RULE
from perdure.tempo import GRACE_SECONDS

if TYPE_CHECKING:
    from perdure.cli.frame.source import Source
    from perdure.kernel.state import State
    from perdure.model import Compiled
    from perdure.model.ir import IR
    from perdure.service import Service


def check_run_id(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not RUN_ID.fullmatch(value):
        raise click.BadParameter(f"use {RUN_ID_RULE}")
    return value


@click.command(short_help="Run a workflow, here and now.")
@click.argument("file")
@click.option("-i", "pairs", metavar="NAME=VALUE", multiple=True, help="An input; the value is JSON, or else text.")
@click.option("--inputs", "inputs_file", metavar="FILE", help="A JSON object of inputs; - reads standard input.")
@click.option("--run-id", metavar="ID", callback=check_run_id, help="Name the run; a run with this id goes on.")
@click.option("--import", "modules", metavar="MODULE", multiple=True, help="Import a module or file.py of tasks first.")
@tag_option
@correlation_option
@click.option("--only", is_flag=True, help="Execute nothing of the other unfinished runs of this database.")
@click.option("--no-wait", is_flag=True, help="Go as far as possible without a person, then exit with 3.")
@where_options
@json_option
def run(
    file: str,
    pairs: tuple[str, ...],
    inputs_file: str | None,
    run_id: str | None,
    modules: tuple[str, ...],
    tags: tuple[tuple[str, str], ...],
    correlation_id: str,
    only: bool,
    no_wait: bool,
    where: Where,
    as_json: bool,
) -> None:
    """Run the workflow in FILE (YAML, JSON, FILE.py[:workflow] or module:workflow; - reads standard input) and show how it goes.

    Every step is written down before the next begins. When this process is killed, the same command with --run-id
    goes on where it was. Meanwhile this process also goes on with the other unfinished runs of the database, and says which;
    --only leaves them alone. When another process runs the database, the run is handed to it and followed here. With --server,
    the definition is pushed there, started there and followed here; --no-wait then returns when the start is durable.

    \b
    Exit codes: 0 completed, 1 failed or cancelled, 2 bad definition or usage,
                3 waiting for a person, 130 or 143 interrupted.
    """
    from perdure.cli.frame.problems import count, show_problems
    from perdure.cli.frame.source import check_agents_file, import_modules, read_inputs, read_source
    from perdure.cli.run_remote import run_remote

    divert(as_json=as_json)
    if file == "-" == inputs_file:
        raise click.UsageError("FILE and --inputs cannot both be standard input")
    about: dict[str, Any] = {
        "tags": dict(tags),
        "correlation_id": correlation_id,
        "no_wait": no_wait,
        "as_json": as_json,
    }
    server = where.find_server()
    source = read_source(file)
    if server is not None and source.compiled.definition is not None:
        # The server knows which node types there are, and what their configs may be.
        if modules:
            raise click.UsageError(
                "--import is for work that this process does; on a server, the workers import what they need"
            )
        schema = source.compiled.definition.get("inputs")
        inputs = read_inputs(pairs, inputs_file, schema)
        if run_id is None:
            _check_inputs(source.name, schema, inputs or {})
        leave(asyncio.run(run_remote(server, where.flags, source, inputs, run_id, **about)))
        return
    check_agents_file(source)
    if source.compiled.problems and (source.compiled.ir is None or not as_json):
        show_problems(source.name, source.text, source.compiled.problems)
    if source.compiled.ir is None:
        say(f"{source.name}: {count(source.compiled.problems)}; nothing was run")
        leave(ExitCode.USAGE)
    schema = source.compiled.ir.inputs_schema
    inputs = read_inputs(pairs, inputs_file, schema)
    if run_id is None:
        _check_inputs(source.name, schema, inputs or {})
    import_modules(modules, file)
    leave(asyncio.run(LocalRun(source, inputs, run_id, where, only=only, **about).go()))


def _check_inputs(name: str, schema: Any, inputs: dict[str, Any]) -> None:
    """Refuse missing inputs, and with them everything else that is wrong, before anything is started. Unknown inputs
    alone are a warning."""
    from perdure.cli.frame.source import warn_unknown
    from perdure.expressions.json_schema import SchemaInvalid, check
    from perdure.expressions.run_inputs import apply_defaults, find_unknown

    required = schema.get("required", ()) if isinstance(schema, dict) else ()
    whole = apply_defaults(schema, inputs)
    missing = [word for word in required if word not in whole]
    if not missing:  # the coordinator says what else is wrong
        warn_unknown(schema, inputs)
        return
    said = {f'"{word}" is a required property' for word in missing}
    try:
        wrong = [problem for problem in check(schema, whole) if problem not in said]
    except SchemaInvalid:  # said where the definition is checked
        wrong = []
    flags = " ".join(f"-i {word}=…" for word in missing)
    lines = [f"{name} needs {', '.join(missing)}; give {flags}", *wrong, *find_unknown(schema, inputs)]
    raise click.UsageError("\n  ".join(lines))


class LocalRun(Session):
    """One `perdure run` on a database, from the start to the exit code."""

    def __init__(
        self,
        source: Source,
        inputs: dict[str, Any] | None,
        run_id: str | None,
        where: Where,
        *,
        tags: dict[str, str],
        correlation_id: str,
        only: bool,
        no_wait: bool,
        as_json: bool,
    ) -> None:
        super().__init__(source, where.flags, no_wait=no_wait, as_json=as_json)
        self.run_id = run_id or ""
        self.tags = tags
        self.correlation_id = correlation_id
        self.inputs = inputs
        self.db = where.db
        self.only = only
        self.view: dict[str, Any] = {}
        """The run as it is at the end of the command."""
        self.found: Any = None
        """The run as it was before this process, if it existed already."""
        self.follower: Any = None
        """The follower of the run, once following is over."""
        self.engine: Any = None

    async def go(self) -> ExitCode:
        from perdure.cli.frame.database import load_settings, make_folder, open_engine
        from perdure.cli.terminal.follow import stopping
        from perdure.cli.terminal.lines import Lines
        from perdure.sdk.follower import Follower, JournalSource

        settings = load_settings(self.db)
        make_folder(settings)
        self._say_where(settings)
        functions.watch(_tell_changed)
        with stopping() as stop:
            engine = await open_engine(settings)
            try:
                follower = Follower(JournalSource(self._service(engine)), await self._start(engine))
                if self.found is not None:
                    follower.state = self.found
                if self.no_wait and engine.distributed:  # other processes run it, and its start is durable
                    self.view = await self._service(engine).runs.get(self.run_id)
                    return self.say_started(self.view)
                await self.attend(self._service(engine), follower, Lines(engine.registry), stop, work=engine)
                if stop.code is not None:
                    stop.on_second(lambda: _give_up(follower.state))
                    self._say_stopping(engine)
                self.follower, self.engine = follower, engine
            finally:
                functions.watch(None)
                await engine.close(GRACE_SECONDS, self._look_last)
        if stop.code is not None:
            if not follower.state.terminal:
                self._say_going_on()
                return stop.code
            self._tell(f"Run {self.run_id} came to its end before it was stopped: {follower.state.state}.")
        return self.finish(self.view, follower)

    async def _look_last(self) -> None:
        """Read the final state of the run, including what happened while work under way had its grace."""
        from perdure.cli.frame.backend import who_asked

        follower = self.follower
        if follower is not None:
            if not follower.state.terminal:
                await follower.skip_past()
            service = self._service(self.engine)
            self.view = await service.runs.get(self.run_id)
            self.asked = await who_asked(service, self.view)

    def _say_where(self, settings: Any) -> None:
        """Say where the database is, if a perdure.toml of a folder above names it: a person would not look there."""
        from pathlib import Path

        from perdure.deployment import database_file, is_postgres

        source = Path(settings.sources["database_url"])
        if not is_postgres(settings.database_url) and source.is_absolute():
            self._tell(f"The database is {database_file(settings.database_url)}, by {source}.")

    # -- starting ------------------------------------------------------------------------------------------------------

    async def _start(self, engine: Any) -> str:
        """Start the run, or find that it exists; then it is shown from where it was before this process held it."""
        from perdure.cli.frame.database import holder, tell_end
        from perdure.cli.frame.others import tell_newer
        from perdure.errors import Refused
        from perdure.service.errors import Invalid

        named = bool(self.run_id)
        self.run_id = self.run_id or engine.clock.new_id()
        exists = named and await self._service(engine).tenancy.find_run(self.run_id) is not None
        if named and not exists and self.source.compiled.ir is not None:  # of an unnamed run they are checked already
            _check_inputs(self.source.name, self.source.compiled.ir.inputs_schema, self.inputs or {})
        for child in self.source.children:
            await self._register(engine, child)
        compiled = await self._check(engine)
        registered = await self._register(engine, compiled)
        ir = compiled.get_ir()
        engine.runs.own.add(self.run_id)
        if exists:
            await self._adopt_existing(engine, ir)
            if not await self._hold(engine) and not engine.distributed and not self.found.terminal:
                self._tell(f"{holder(engine)} holds the database; the run is followed here.")
                self._tell(
                    "  It may leave this run alone: by --only, or because a process died at it. If nothing happens, end it;"
                )
                self._tell("  nothing of its runs is lost, and this command goes on with this one:")
                self._tell(f"    {tell_end(engine)}")
            return self.run_id
        if not await self._hold(engine, new=compiled) and not engine.distributed:
            self._tell(f"{holder(engine)} runs this database; the run is handed to it, and followed here.")
            for line in tell_newer(self.source, self.db):
                self._tell(line)
        about: dict[str, Any] = {"tags": self.tags, "correlation_id": self.correlation_id}
        try:
            await self._service(engine).runs.start(
                f"{ir.name}@{registered['version']}", self.inputs or {}, run_id=self.run_id, **about
            )
        except Refused as error:
            if error.code != "exists":
                raise
            await self._adopt_existing(engine, ir)  # another process was faster
        except Invalid as error:
            if error.code != "invalid_inputs":
                raise click.UsageError(error.message) from error
            raise click.UsageError(
                f"{error.message}; give them with -i name=value, where the value is JSON, or --inputs FILE"
            ) from error
        return self.run_id

    async def _register(self, engine: Any, compiled: Compiled) -> dict[str, Any]:
        from perdure.cli.frame.refusals import warn_of_namesake
        from perdure.runtime.origins import describe_origin

        service = self._service(engine)
        here = not engine.distributed and self.source.path is not None  # a path means something on one machine only
        origin = describe_origin(str(self.source.path)) if here else ""
        registered = await service.workflows.register(compiled, reason=origin, triggers=False)
        await warn_of_namesake(service, self.source, registered)
        return registered

    @staticmethod
    def _service(engine: Any) -> Service:
        from perdure.cli.frame.database import user
        from perdure.service import Service

        return Service.of_owner(engine, user() or "local")

    async def _check(self, engine: Any) -> Any:
        """Check the definition also for what only the database knows, such as its blobs."""
        from perdure.cli.frame.function_checks import check_files, folders_of
        from perdure.cli.frame.problems import count, show_problems
        from perdure.cli.frame.refusals import add_problems, check_contents

        said = set(self.source.compiled.problems)
        compiled = await check_contents(engine, self.source)
        if self.source.kind is not None:
            calls = check_files(compiled, folders_of(self.source.name), elsewhere=engine.distributed)
            compiled = add_problems(self.source, compiled, calls)
        more = [problem for problem in compiled.problems if problem not in said]
        if more and (compiled.ir is None or not self.as_json):
            show_problems(self.source.name, self.source.text, more)
        if compiled.ir is None:
            say(f"{self.source.name}: {count(more)}; nothing was run")
            leave(ExitCode.USAGE)
        strange = [problem for problem in compiled.problems if problem.code == "unknown_type"]
        if strange and not engine.distributed:  # there is no worker elsewhere that could have the type
            if self.as_json:
                show_problems(self.source.name, self.source.text, strange)
            say(f"{self.source.name}: only this process works here, and it lacks a node type; nothing was run")
            leave(ExitCode.USAGE)
        return compiled

    def _refuse_missing(self, compiled: Compiled) -> None:
        """Start no run whose functions are not here, where no other process could have them."""
        from perdure.cli.frame.function_checks import find_missing, folders_of

        if self.source.kind is not None and (missing := find_missing(compiled, folders_of(self.source.name))):
            what = "a function" if len(missing) == 1 else "functions"
            say(
                f"{self.source.name}: only this process works here, and it lacks {what}: {', '.join(missing[:10])}; nothing was run"
            )
            leave(ExitCode.USAGE)

    async def _hold(self, engine: Any, *, new: Compiled | None = None) -> bool:
        """Become the process that works, and say what else it works on. A new run is executed only once it is shown, so
        that the output of its functions comes after that."""
        from perdure.cli.frame.others import tell

        engine.others = "none" if self.only else "uncrashed"
        engine.drives_triggers = False
        others = await self._service(engine).upkeep.other_work(self.run_id)
        if not await engine.hold(work=new is None):
            return False
        if new is not None:
            self._refuse_missing(new)
        for line in tell(others, self.run_id, only=self.only):
            self._tell(line)
        return True

    async def _adopt_existing(self, engine: Any, ir: IR) -> None:
        """Continue a run that exists, if it has the same workflow and the same inputs."""
        from perdure.sdk.asks import look
        from perdure.service.runs.resumed_runs import read_existing

        record = await self._service(engine).tenancy.get_run(self.run_id)
        if record.quarantined is not None:
            raise click.ClickException(f"run {self.run_id} is quarantined: {record.quarantined}; see perdure doctor")
        state = self.found = await engine.runs.state_of(record)
        self.check_same(await read_existing(engine, state), ir, self.inputs)
        if not state.terminal:
            self._tell(f"Run {self.run_id} exists and is {state.state}; going on with it.")
            for ask in (await look(self._service(engine), state)).asks:
                self._tell(f"  {ask.node or 'it'} waits for: {ask.command}{self.flags}")

    # -- the end -------------------------------------------------------------------------------------------------------

    def _say_stopping(self, engine: Any) -> None:
        if engine.holds and engine.worker is not None and engine.worker.running:
            say(f"Stopping: what runs now has {GRACE_SECONDS:.0f} s to finish. Ctrl-C again to leave at once.")

    def _say_going_on(self) -> None:
        say(f"Stopped; nothing is lost. To go on:\n  {self.again()}")
        say("Another `perdure run` on this database goes on with it, too, unless it has --only.")

    def again(self) -> str:
        from shlex import quote

        words = ["perdure", "run", quote(self.source.name), "--run-id", self.run_id]
        words += ["--db", quote(self.db)] if self.db else []
        ctx = click.get_current_context(silent=True)
        for name in ctx.params.get("modules", ()) if ctx is not None else ():
            words += ["--import", quote(name)]
        return " ".join(words)

    def _tell(self, message: str) -> None:
        if not self.as_json:
            say(message)


def tell_left(state: State) -> str:
    """What becomes of the work that this process leaves behind at once (rule 33)."""
    from perdure.kernel.lifecycle import NodeState

    under_way = [one for one in state.activations.values() if one.state is NodeState.RUNNING]
    once = sorted({state.name(one.node) for one in under_way if state.pinned(one).effect == "at_most_once"})
    but = f", but {', '.join(once)}: what may happen at most once is parked, for you to decide" if once else ""
    return f"Leaving at once; what was under way is tried again when the run goes on{but}."


def _tell_changed(files: list[str]) -> None:
    names = ", ".join(os.path.basename(file) for file in files)
    say(f"{names} changed; this process goes on with the code it has loaded. `perdure dev` loads changed code anew.")


def _give_up(state: State) -> None:
    say(tell_left(state))
    os._exit(ExitCode.INTERRUPTED)
