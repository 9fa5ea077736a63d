"""Events in a process that serves, one line each: runs that start and end, attempts that fail, and what triggers could not start."""

from __future__ import annotations

from typing import Any

from perdure.cli.frame.exits import say
from perdure.cli.terminal.lines import error_text
from perdure.cli.terminal.output import count, duration, hour, paint
from perdure.kernel import events as e
from perdure.kernel.run_ids import place
from perdure.kernel.state import State
from perdure.kernel.triggers.trigger_run import TRIGGER

_ENDS = (e.RunCompleted, e.RunFailed, e.RunCancelled, e.RunRolledBack)


class Happening:
    def note(self, state: State, events: list[Any]) -> None:
        """Print the lines for these events. Of child runs only failures are printed: a map may start thousands."""
        for event in events:
            if TRIGGER.hash in state.ir_hashes:
                _tell_of_trigger(state, event)
                continue
            found = self._describe(state, event)
            if found is not None:
                word, more = found
                say(f"{hour(event.at)}  {state.workflow} {state.run_id}  {paint(word)}{more and '  ' + more}")

    def _describe(self, state: State, event: Any) -> tuple[str, str] | None:
        match event:
            case e.RunCreated() if state.parent is None:
                return "started", ""
            case e.NodeRetrying():
                again = f"attempt {event.attempt}, again in {duration(event.retry_at - event.at)}"
                return "retrying", f"{_where(event)}: {error_text(event.error)}; {again}"
            case e.NodeFailed() | e.ItemFailed() | e.NodeParked():
                return ("parked" if isinstance(event, e.NodeParked) else "failed"), (
                    f"{_where(event)}: {error_text(event.error)}"
                )
            case e.ApprovalRequested():
                return "waiting", f"{_where(event)}: for a decision by {', '.join(event.approvers) or 'anyone'}"
        if isinstance(event, _ENDS) and (state.parent is None or not isinstance(event, e.RunCompleted)):
            return event.type.split(".")[1], f"after {duration(event.at - state.created_at)}"
        return None


def _tell_of_trigger(state: State, event: Any) -> None:
    """Print what became of a trigger, and of items that start no run: their runs have lines of their own."""
    match event:
        case e.TriggerRegistered():
            word, more = "applied", f"revision {event.revision}"
        case e.TriggerParked():
            word, more = "parked", f"item {event.number}: {error_text(event.error)}"
        case e.TriggerSkipped() if event.reason not in ("duplicate", "paused"):
            word, more = "skipped", f"{count(len(event.numbers) or event.count, 'item')}: {event.reason}"
        case e.RunPaused() | e.RunResumed():
            word, more = event.type.split(".")[1], event.reason or ""
        case _:
            return
    box = next(iter(state.triggers.values()), None)
    name = state.run_id if box is None else box.name
    say(f"{hour(event.at)}  trigger {name}  {paint(word)}{more and '  ' + more}")


def _where(event: Any) -> str:
    return place(event.node, event.scope, event.item)
