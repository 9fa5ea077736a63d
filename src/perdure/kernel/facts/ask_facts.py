"""What asks do to the state of the activation whose handler asked (rules 77 to 80)."""

from __future__ import annotations

from perdure.kernel import events as e
from perdure.kernel.edges import ask_timer, clear_timer, set_timer, timer_name
from perdure.kernel.facts.fold_rules import close_ask
from perdure.kernel.signal_lines import join, take_signal
from perdure.kernel.state import Activation, State, Timer
from perdure.kernel.values import Asked, AskedChild


def begin_asks(state: State, activation: Activation, event: e.NodeWaiting) -> None:
    """Let the activation wait for answers. Its attempt is over; the time that it waits does not count as work."""
    activation.suspended = event.attempt
    activation.idle += 1
    total = state.timers.get(name := timer_name(state, "total", activation))
    if total is not None:
        activation.total_left = max(total.due_at - event.at, 0.0)
        clear_timer(state, name)
    for asking in event.asks:
        before = activation.asks.get(asking.name)
        ask = Asked(
            name=asking.name,
            kind=asking.kind,
            content=asking.content,
            signal=asking.signal,
            until=asking.until,
            operations=asking.operations,
            reason=asking.reason,
            times=1 if before is None else before.times + 1,
        )
        state.add(activation.asks, asking.name, ask)
        state.patching += asking.kind == "patch"
        if asking.signal:
            join(state, state.signal_waits, asking.signal, (activation.key, ask))
        if asking.until is not None and asking.kind != "approval":
            timer = Timer(asking.until, "ask", activation.key, ask=asking.name)
            set_timer(state, ask_timer(state, "ask", activation, asking.name), timer)


def keep_answer(state: State, activation: Activation, event: e.NodeCheckpointed) -> None:
    """Close the ask that a checkpoint answers, and consume the signal that is the answer."""
    if event.signal:
        take_signal(state, event.signal)
    close_ask(state, activation, activation.asks[event.step])


def begin_child(state: State, activation: Activation, event: e.ChildStarted) -> None:
    state.edit(activation.asks[event.ask]).child = event.child
    child = AskedChild(ask=event.ask, workflow=event.workflow, inputs=event.inputs, generation=event.generation - 1)
    if activation.ask_children is None:
        activation.ask_children = {}
    state.add(activation.ask_children, event.child, child)
    state.put(state.children, event.child, activation.key)


def end_child(state: State, activation: Activation, event: e.ChildEnded) -> None:
    child: AskedChild = state.edit((activation.ask_children or {})[event.child])
    child.generation, child.open = event.generation, False
    child.done = event.seq if event.state == "completed" else 0
    if child.done and activation.key not in state.undoable:  # whatever becomes of its asker (rule 80)
        state.push(state.undoable, activation.key)
