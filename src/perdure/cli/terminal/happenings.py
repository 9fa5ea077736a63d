"""Events in a process that serves, one line each: runs that start and end, and attempts that fail."""

from __future__ import annotations

from typing import Any

from perdure.cli.exits import say
from perdure.cli.terminal.lines import error_text
from perdure.cli.terminal.output import duration, hour, paint
from perdure.kernel import events as e
from perdure.kernel.run_ids import place
from perdure.kernel.state import State

_ENDS = (e.RunCompleted, e.RunFailed, e.RunCancelled, e.RunRolledBack)


class Happening:
    def note(self, state: State, events: list[Any]) -> None:
        """Print the lines for these events. Of child runs only failures are printed: a map may start thousands."""
        for event in events:
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


def _where(event: Any) -> str:
    return place(event.node, event.scope, event.item)
