"""One `perdure run`, wherever the run is executed: what it shows meanwhile, whom it asks, and what it says at the end.

It must not know how a run begins: a file is registered and started in a database by `cli/run.py`, on a server by
`cli/run_remote.py`.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import click

from perdure.cli.frame.exits import ExitCode, say, say_details, say_error
from perdure.cli.terminal.speech import echo
from perdure.cli.terminal.stdout import results

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend
    from perdure.cli.frame.source import Source
    from perdure.cli.terminal.follow import Screen, Stop
    from perdure.engine import Engine
    from perdure.model.ir import IR
    from perdure.sdk.follower import Follower
    from perdure.service.runs.resumed_runs import Existing


_MOST_OTHERS = 10
_ASKED_FOR = {"cancelled": "cancelled", "rolled_back": "rolled back"}


class Session:
    def __init__(self, source: Source, flags: str, *, no_wait: bool, as_json: bool) -> None:
        """`flags` are those that the next command needs to work on the same database or server."""
        self.source = source
        self.flags = flags
        self.no_wait = no_wait
        self.as_json = as_json
        self.run_id = ""
        self.asked = ""
        """Who asked for the end of the run, and why."""

    def again(self) -> str:
        """The command that goes on with the run here; empty where it goes on by itself."""
        return ""

    def command(self, word: str) -> str:
        return f"perdure runs {word} {self.run_id}{self.flags}"

    # -- going on ------------------------------------------------------------------------------------------------------

    def check_same(self, existing: Existing, ir: IR, inputs: dict[str, Any] | None) -> None:
        """Refuse to go on with a run by another definition than it follows, or with other inputs."""
        from perdure.service.runs.resumed_runs import find_difference

        match find_difference(existing, ir, inputs):
            case "workflow":
                was = f"{existing.workflow} version {existing.version}, not this {self.source.name}"
                raise click.UsageError(
                    f"run {existing.run_id} is of another workflow ({was}); choose another --run-id, or run its file"
                )
            case "definition":
                raise click.UsageError(self._say_edited(existing))
            case "inputs":
                raise click.UsageError(
                    f"run {existing.run_id} began with other inputs; leave them out to go on, or choose another --run-id"
                )

    def _say_edited(self, existing: Existing) -> str:
        """The message that the file was edited since the run began, with the ways out."""
        from shlex import quote

        file, workflow = quote(self.source.name), f"{existing.workflow} (version {existing.version})"
        lines = [
            f"run {existing.run_id} began with another definition of {workflow}; {self.source.name} was edited since. Either:"
        ]
        if existing.state == "failed":
            lines.append(f"  retry it by the file as it is now:  {self.command('retry')} --definition {file}")
        elif not existing.ended:
            lines.append(f"  change the run to the file as it is now:  {self.command('patch')} {file}")
            lines.append("  go on by the definition it began with:  perdure dev, or run the file as it was")
        lines.append("  begin a new run:  choose another --run-id")
        return "\n".join(lines)

    # -- meanwhile -----------------------------------------------------------------------------------------------------

    async def attend(
        self, backend: Backend, follower: Follower, lines: Screen, stop: Stop, *, work: Engine | None
    ) -> None:
        """Show the run and ask its people, until it has ended, waits for people alone and should not, or is stopped.
        Raises Refused once it is quarantined. `lines` is the screen where no tree can be drawn."""
        from perdure.cli.frame.backend import resolve_run
        from perdure.cli.runs.watch import check_going
        from perdure.cli.terminal.follow import Silent, follow
        from perdure.cli.terminal.people import People, Terminal, attend, make_tree
        from perdure.sdk.attendant import Attendant

        tree = None if self.as_json else make_tree(follower)
        asks = tree is not None and asks_on(sys.stdin) and not self.no_wait
        people = People(backend, follower)
        asker = Terminal(follower, people, tree) if asks else None
        attendant = Attendant(follower, people, asker, leaves=self.no_wait) if self.no_wait or asks else None
        beside = [partial(attend, attendant, tree)]
        await follow(follower, Silent() if self.as_json else tree or lines, stop, work=work, beside=beside)
        if stop.code is None and not follower.state.terminal:
            await check_going(backend, await resolve_run(backend, self.run_id))

    # -- the end -------------------------------------------------------------------------------------------------------

    def say_started(self, view: dict[str, Any]) -> ExitCode:
        """End the command once the start is durable, which is all that was asked for."""
        from perdure.cli.terminal.output import print_json

        if self.as_json:
            print_json(view)
        else:
            echo(self.run_id, file=results())
            say(f"Run {self.run_id} is {view['state']}; follow it with: {self.command('watch')}")
        return ExitCode.OK

    def finish(self, view: dict[str, Any], follower: Follower) -> ExitCode:
        """Print the result, or why there is none and which commands go on from there."""
        from perdure.cli.terminal.output import print_json, print_pretty

        for problem in view.get("problems", ()):
            say_error(problem)
        if self.as_json:
            print_json(view)
        if view["ended_at"] is None:
            self._say_waiting(follower)
            return ExitCode.WAITING
        if view["state"] == "completed":
            if not self.as_json and view["outputs"] not in (None, {}):
                print_pretty(view["outputs"])
            return ExitCode.OK
        if not self.as_json:
            self._say_failed(view, _failed_node(view) if follower.blind else follower.state.failed_node)
        return ExitCode.FAILED

    def _say_failed(self, view: dict[str, Any], node: str | None) -> None:
        from shlex import quote

        import msgspec

        from perdure.cli.terminal.lines import error_text, tell_failed
        from perdure.kernel.values import Error

        if view["state"] in _ASKED_FOR:  # what a person asked for has happened: that is no error
            say(f"Run {self.run_id} was {_ASKED_FOR[view['state']]}{self.asked}")
            return
        error = None if view["error"] is None else msgspec.convert(view["error"], Error)
        why = view["state"] if error is None else error_text(error, 500)
        say_error(tell_failed(self.run_id, node, why))
        say_details(None if error is None else error.details)
        for line in self._list_others(view, node):
            say(line)
        if view["state"] == "failed":
            say(f"  look:   {self.command('show')}")
            say(f"  retry:  {self.command('retry')}")
            say(f"  mend:   {self.command('retry')} --definition {quote(self.source.name)}")
            if again := self.again():
                say(f"  then:   {again}")

    def _list_others(self, view: dict[str, Any], node: str | None) -> list[str]:
        """What else the run failed at; not nodes that say how it goes on when they fail."""
        import msgspec

        from perdure.cli.terminal.lines import error_text
        from perdure.kernel.values import Error

        ir = self.source.compiled.ir
        going_on = {one.id for one in ir.nodes if one.on_failure != "fail"} if ir is not None else set[str]()
        found = [
            f"  also:   {name}: {error_text(msgspec.convert(one['error'], Error)).removeprefix('error: ')}"
            for name, one in view["nodes"].items()
            if one["state"] == "failed" and one.get("error") and name != node and name not in going_on
        ]
        more = [f"          and {len(found) - _MOST_OTHERS:,} more"] if len(found) > _MOST_OTHERS else []
        return found[:_MOST_OTHERS] + more

    def _say_waiting(self, follower: Follower) -> None:
        kinds = {"an event" if ask.kind == "event" else "a person" for ask in follower.asks}
        say(f"Run {self.run_id} waits for {' and '.join(sorted(kinds))}. To go on:")
        for ask in follower.asks:
            way = f", which leads to {ask.reject}" if ask.reject else ""
            say(f"  {ask.command}{self.flags}{f'  (or reject{way})' if ask.kind == 'approval' else ''}")
        if again := self.again():
            say(f"  {again}")


def _failed_node(view: dict[str, Any]) -> str | None:
    return next((name for name, node in view["nodes"].items() if node["state"] == "failed" and node.get("error")), None)


def asks_on(stream: IO[str] | None) -> bool:
    """Whether a person can answer on this stream. It is None, or closed, where there is no standard input."""
    return stream is not None and not stream.closed and stream.isatty()
