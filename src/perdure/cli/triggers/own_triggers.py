"""The triggers that come with a workflow, or that a module declares: what became of them, in lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.cli.frame.exits import say_error
from perdure.cli.terminal.output import moment
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend

View = dict[str, Any]


def say_applied(view: View, address: str) -> None:
    """One trigger that was applied, in a line, with its address if it has one."""
    name = view["name"]
    word = "is new" if view["created"] else f"is now revision {view['revision']}" if view["changed"] else "is unchanged"
    if view["state"] == "paused":
        more = f" and paused; `perdure triggers resume {name}` lets it go on"
    else:
        more = "" if view["next_at"] is None else f"; next at {moment(view['next_at'])}"
    echo(f"trigger {name} {word}{more}")
    if address:
        echo(f"  {address}")
    from perdure.cli.frame.source import warn

    for problem in view["problems"]:
        warn(problem["message"])


def say_own(own: View, address: Callable[[View], str]) -> None:
    for view in own["applied"]:
        say_applied(view, address(view))
    for name in own["paused"]:
        echo(f"trigger {name} is paused: it is no longer in the definition; `perdure triggers delete {name}` ends it")


async def apply_declared(backend: Backend, modules: Sequence[str], base: str) -> None:
    """Register the workflows for which imported modules declare triggers, apply those, and say so. What is refused is said, and stops
    nothing else."""
    from perdure import functions
    from perdure.errors import PerdureError
    from perdure.sdk.declared_triggers import declared_in

    for name in modules:
        module = functions.load_file(Path(name)) if name.endswith(".py") else functions.load_module(name)
        registered: set[str] = set()
        for declared in declared_in(module):
            target = declared.target
            try:
                if target is not None and target.name not in registered:
                    for workflow in (*target.children(), target):
                        await backend.workflows.register(workflow.definition(), triggers=False)
                    registered.add(target.name)
                view: Any = await backend.triggers.apply(declared.definition())
                say_applied(view, f"{base}{view['hook']}" if view["hook"] else "")
            except PerdureError as error:
                say_error(f"{name}, line {declared.line}: {error}")
