"""How a bug is put into the code under test and taken out again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import msgspec

from perdure.kernel.decide import _HANDLERS as _COMMANDS
from perdure.kernel.facts.fold_rules import HANDLERS
from perdure.simulation.plan import Plan, make_plan

UNDER_TEST = ("perdure.kernel", "perdure.runtime", "perdure.engine")


class Bug(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """A sentence that says what is wrong."""
    by: frozenset[str]
    """The promises that may rightly be what tells. Anything else is the bug not fitting the code."""
    plant: Callable[[], AbstractContextManager[Any]]
    plan: Callable[[int], Plan]
    """The histories it is looked for in: those of `make sim`, unless they would take long to show it."""


BUGS: dict[str, Bug] = {}


def bug(name: str, by: str, plan: Callable[[int], Plan] = make_plan) -> Callable[[Callable[[], Iterator[None]]], None]:
    """Register a generator function that plants a bug as long as it is suspended. `by`: promises, as in `V3 rule-11`."""

    def register(plant: Callable[[], Iterator[None]]) -> None:
        if name in BUGS:
            raise ValueError(f"two bugs are called {name!r}")
        told = frozenset(one.replace("rule-", "rule ") for one in by.split())
        BUGS[name] = Bug(name=name, by=told, plant=contextmanager(plant), plan=plan)

    return register


def focused(
    *nodes: dict[str, Any],
    rates: dict[str, float],
    on_failure: Any = None,
    child: dict[str, Any] | None = None,
    **fields: Any,
) -> Callable[[int], Plan]:
    """Histories of one workflow with few kinds of trouble, for bugs that need several rare things at once."""

    def plan(seed: int) -> Plan:
        definition: dict[str, Any] = {
            "name": "flow0",
            "nodes": [{"type": "task", "config": {"action": "work"}} | node for node in nodes],
        }
        if on_failure is not None:
            definition["on_failure"] = on_failure
        drawn = make_plan(seed)
        inner = drawn.workflows[0] if child is None else {"name": "child", "nodes": [child]}
        chosen = {"workflows": [inner, definition], "rates": rates, "journal_seconds": 0.0, **fields}
        chosen.setdefault("inputs", drawn.inputs[: chosen.get("runs", drawn.runs)])
        chosen.setdefault("workers", 2 if chosen.get("shared", drawn.shared) else 0)
        return msgspec.structs.replace(drawn, **chosen)

    return plan


@contextmanager
def swapped(original: Any, replacement: Any) -> Iterator[None]:
    """Replace a function under every name, and in every table, the code under test has for it."""
    found = 0
    with ExitStack() as stack:
        for module_name, module in list(sys.modules.items()):
            if not module_name.startswith(UNDER_TEST):
                continue
            for name, value in list(vars(module).items()):
                if value is original:
                    stack.enter_context(patch.object(module, name, replacement))
                    found += 1
                elif isinstance(value, dict) and not name.startswith("__"):
                    keys = [key for key, one in value.items() if one is original]
                    if keys:
                        stack.enter_context(patch.dict(value, dict.fromkeys(keys, replacement)))
                        found += 1
        if not found:
            raise LookupError(f"nothing under test is {original!r}")
        yield


def method(owner: type, name: str, replacement: Any) -> AbstractContextManager[Any]:
    if not hasattr(owner, name):
        raise LookupError(f"{owner.__name__} has no {name}")
    return patch.object(owner, name, replacement)


def folding(kind: type[Any], wrap: Callable[[Callable[[Any, Any], None]], Callable[[Any, Any], None]]) -> Any:
    """Change what an event does to a state. `wrap` is given what it did."""
    return patch.dict(HANDLERS, {kind: wrap(HANDLERS[kind])})


def deciding(kind: type[Any], wrap: Callable[[Callable[[Any, Any], None]], Callable[[Any, Any], None]]) -> Any:
    """Change what a command leads to."""
    return patch.dict(_COMMANDS, {kind: wrap(_COMMANDS[kind])})


def activation_of(run: Any, event: Any) -> Any:
    return run.edit(run.find(event.node, event.scope, event.item))
