"""Agents: AG1 and S4. What was decided about each call and about the route, and what was done, compared from the events alone. A what-if does nothing:
it asks for nothing, and no step of it begins that may happen once.

A step that is stored as a blob is not looked into: nothing is known of the calls that it decided about.
"""

from __future__ import annotations

import re
from typing import Any

from perdure.invariants.model import Key, Model
from perdure.kernel import events as e

_CALL = re.compile(r"(t[0-9]+(?:-[0-9]+)?\.[0-9]+)(?:\.again)?")
_DONE = (e.ApprovalRequested, e.ChildStarted, e.NodeWaiting, e.StepStarted)
"""What a node emits that asks for something, or does something once."""


def look(model: Model, event: e.Event) -> None:
    """Follow an event that every other rule has seen."""
    if isinstance(event, _DONE) and _type_of(model, event) == "what_if":
        if not isinstance(event, e.StepStarted) or event.effect == "at_most_once":
            model.blame("S4", f"{event.node}: a what-if does something ({event.type})")
    if isinstance(event, e.ApprovalRequested) and event.ask.endswith(".ok") and _is_agent(model, event):
        args = event.shown.get("args") if isinstance(event.shown, dict) else None
        model.shown[event.approval] = (_key(event), event.ask.removesuffix(".ok"), args)
    elif isinstance(event, e.ApprovalDecided) and event.decision == "approve" and event.approval in model.shown:
        key, call, args = model.shown[event.approval]
        model.allowed[key, call] = args
    elif isinstance(event, e.ChildStarted) and _CALL.fullmatch(event.ask) and _is_agent(model, event):
        _made(model, event, event.ask, None)
    elif isinstance(event, e.NodeCompleted) and event.choice and _key(event) in model.led and _is_agent(model, event):
        _led(model, event, model.led[_key(event)])
    elif isinstance(event, e.NodeCheckpointed) and isinstance(event.data, dict) and _is_agent(model, event):
        if event.data.get("applied") is True and _CALL.fullmatch(event.step) and event.version == 2:
            _made(model, event, event.step, None)  # a patch
        if event.step.startswith("guard/") and isinstance(event.data.get("calls"), list):
            for number, call in enumerate(event.data["calls"]):
                name = f"t{event.step.removeprefix('guard/')}.{number}"
                model.judged[_key(event), name] = (str(call.get("verdict")), call.get("args"))
                if "route" in call:
                    model.led[_key(event)] = name
        elif event.step.endswith(".decided") and "args" in event.data:
            call = event.step.removesuffix(".decided")
            if (_key(event), call) in model.allowed:  # a person allowed it with arguments of their own
                model.allowed[_key(event), call] = event.data["args"]
        elif (call_made := _CALL.fullmatch(event.step)) is not None and "args" in event.data:
            _made(model, event, call_made[1], event.data["args"])


def _made(model: Model, event: e.NodeEvent, call: str, args: Any) -> None:
    found = model.judged.get((_key(event), call))
    if found is None:
        return
    verdict, judged = found
    if verdict == "invalid":
        model.blame("AG1", f"{event.node}: call {call} was of no tool of the agent, and was made")
    elif verdict == "deny":
        model.blame("S4", f"{event.node}: call {call} was denied, and was made")
    elif verdict == "ask" and (_key(event), call) not in model.allowed:
        model.blame("S4", f"{event.node}: call {call} was made, and no person allowed it")
    else:
        wanted = model.allowed[_key(event), call] if verdict == "ask" else judged
        if args is not None and args != wanted:
            model.blame(
                "S4", f"{event.node}: call {call} was made with other arguments than those that were decided about"
            )


def _led(model: Model, event: e.NodeCompleted, name: str) -> None:
    """Check that an agent goes where it was allowed to."""
    verdict, _ = model.judged[_key(event), name]
    if verdict == "deny":
        model.blame("S4", f"{event.node}: its route was denied, and is taken")
    elif verdict == "ask" and (_key(event), name) not in model.allowed:
        model.blame("S4", f"{event.node}: its route is taken, and no person allowed it")


def _key(event: e.NodeEvent) -> Key:
    return (event.node, event.scope, event.item)


def _is_agent(model: Model, event: e.NodeEvent) -> bool:
    return _type_of(model, event) == "agent"


def _type_of(model: Model, event: e.NodeEvent) -> str:
    act = model.acts.get(_key(event))
    node = None if act is None else model.node_of(act)
    if node is None:
        return ""
    kind = node.item if event.item is not None and node.item is not None else node
    return kind.type
