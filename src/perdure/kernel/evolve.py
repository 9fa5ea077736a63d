"""`evolve(state, event)`: what each event does to a state. Deterministic, total on every prefix, and nothing else.

Decisions (`decide.py`) emit their events through here too, so a live state and a replayed one cannot differ. An event
that does not fit the state is an `IntegrityError`: it quarantines this run and no other.

The rules stand in `run_facts`, `node_facts`, `loop_facts`, `wait_facts`, `undo_facts`, `trigger_facts` and `stream_facts`, one
function per event type.
"""

from __future__ import annotations

from perdure.kernel import events as e
from perdure.kernel.facts import loop_facts, node_facts, run_facts, stream_facts, trigger_facts, undo_facts, wait_facts
from perdure.kernel.facts.fold_rules import HANDLERS
from perdure.kernel.lifecycle import IntegrityError
from perdure.kernel.state import State

RULES = (run_facts, node_facts, loop_facts, wait_facts, undo_facts, trigger_facts, stream_facts)
if missing := set(e.TYPES.values()) - set(HANDLERS):
    raise NotImplementedError(f"events without a rule: {sorted(cls.__name__ for cls in missing)}")


def evolve(state: State, event: e.Event) -> None:
    if event.seq != state.seq + 1:
        raise IntegrityError(f"run {state.run_id}: expected event {state.seq + 1}, got {event.seq} (J2)")
    apply(state, event)
    if event.counter != state.counter:
        raise IntegrityError(
            f"run {state.run_id}: event {event.seq} ({event.type}) says counter {event.counter}, it is {state.counter}"
        )


def apply(state: State, event: e.Event) -> None:
    """Apply an event whose place in the journal is known to be right."""
    handler = HANDLERS.get(type(event))
    if handler is None:
        raise e.UnknownEvent(f"no rule for event {event.type}")
    if (state.seq == 0) != (type(event) is e.RunCreated):
        raise IntegrityError(f"run {state.run_id}: the first event, and only it, is run.created (J4)")
    handler(state, event)
    state.seq = event.seq
