"""What agents and other nodes that ask models were told, said and did; and what the guard decided about every call of a run.

It must not know HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from perdure.agents.transcript_view import TALKING, WHAT_IF, Open, guarded, head_of, page_of, talk_of, turns_of
from perdure.budget import Budget
from perdure.kernel.state import Activation, State
from perdure.kernel.values import steps_of
from perdure.model.money import NOTHING
from perdure.service.runs.node_values import Which, get_activation
from perdure.service.views import View
from perdure.threads import aside

if TYPE_CHECKING:
    from perdure.engine import Engine

LARGEST = 64 * 1024 * 1024
"""The most bytes of steps that are read for one answer."""
PAGE_BYTES = 4 * 1024 * 1024


async def transcript_of(engine: Engine, state: State, which: Which, after: int, limit: int) -> View:
    """A page of the turns of a node, from a place on, with what it began with."""
    found = get_activation(state, which)
    node = state.pinned(found)
    kind, sealed = node.type, bool(node.sensitive)
    talks = not sealed and (kind in TALKING or kind == WHAT_IF)
    steps = await _load(engine, state, steps_of(found.checkpoint)) if talks else {}
    talk = talk_of(kind, steps)

    def make() -> View:
        turns, more = page_of(turns_of(talk, steps, _now(found)), after, limit, PAGE_BYTES)
        return {**head_of(talk, steps), "turns": turns, "next_cursor": None if more is None else str(more)}

    return {
        "run_id": state.run_id,
        "node": which.node,
        "visit": found.visit,
        "item": which.item,
        "type": kind,
        "state": found.state.value,
        "error": None if found.error is None else msgspec.to_builtins(found.error),
        "seq": state.seq,
        "sealed": sealed,
        "asking": _now(found).asking,
        "usage": (found.spent or NOTHING).shown(),
        **await aside(state.tenant, make),
    }


async def guards_of(engine: Engine, state: State, cursor: str | None, verdict: str | None, limit: int) -> View:
    """A page of what the guard decided in a run: agent by agent, in the order in which they began."""
    begin, _, place = (cursor or "0.0").partition(".")
    items: list[View] = []
    for number, found in enumerate(list(state.activations.values())):
        node = state.pinned(found)
        if number < int(begin) or node.type not in ("agent", WHAT_IF) or node.sensitive:
            continue
        kept = {name: data for name, data in steps_of(found.checkpoint).items() if _is_judged(name)}
        steps = await _load(engine, state, kept)
        rows = await aside(state.tenant, guarded, steps, _now(found))
        about = {"node": state.name(found.node), "visit": found.visit, "item": found.item_index}
        for index in range(int(place or 0) if number == int(begin) else 0, len(rows)):
            if verdict is not None and rows[index]["verdict"] != verdict:
                continue
            if len(items) == limit:
                return {"items": items, "next_cursor": f"{number}.{index}"}
            items.append({**about, **rows[index]})
    return {"items": items, "next_cursor": None}


def _is_judged(name: str) -> bool:
    """Whether a step tells something about calls."""
    return name.startswith(("prefix", "guard/", "model/", "t"))


async def _load(engine: Engine, state: State, steps: dict[str, Any]) -> dict[str, Any]:
    """The results of steps, with those that are stored as blobs. Raises TooMuch."""
    budget = Budget(size=LARGEST)
    return {name: await engine.contents.resolve(state.tenant, one, budget=budget) for name, one in steps.items()}


def _now(found: Activation) -> Open:
    asks = found.asks or {}
    asked = next((name for name in found.reserved or {} if name.startswith(("model/", "call"))), None)
    return Open(
        approvals={name: one.approval for name, one in asks.items() if one.approval},
        children={name: one.child for name, one in asks.items() if one.child},
        begun=frozenset(found.begun_steps or ()),
        asking=asked,
    )
