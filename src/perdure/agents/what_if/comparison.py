"""How a conversation went otherwise: the first turn that diverges, what it used, what it answered, and what the guard decided otherwise.

A turn diverges when other calls are wanted in it (another tool, other arguments, another order), or where it answers, another answer. What
a model says beside its calls is not compared: no two say the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from perdure.agents.what_if.recordings import Recording
from perdure.agents.what_if.said_turns import Conversation, Part, Wanted

MOST_LISTED = 200
"""How many calls are listed; all are counted."""


def compare(
    recording: Recording, before: Conversation, now: Conversation, steps: Mapping[str, Any], error: str | None
) -> dict[str, Any]:
    """What is said of one conversation. `steps` are those of the what-if, `error` the code of the failure that it ended with."""
    guard = list(_ruled_otherwise(before, now))
    made = [_how(one, steps) for part in now.parts.values() for one in part.calls]
    missed = [row for row in made if row["by"] == "not_recorded"]
    return {
        "run_id": recording.run_id,
        "node": recording.node,
        "visit": recording.visit,
        "item": recording.item,
        "type": recording.type,
        "diverges": _find_first(before.parts, now.parts),
        "equal": recording.error == error and before.answer == now.answer,
        "recorded": _side(before, recording.error),
        "what_if": _side(now, error),
        "guard": guard[:MOST_LISTED],
        "guard_total": len(guard),
        "calls": dict(sorted(Counter(str(row["by"]) for row in made).items())),
        "not_recorded": [{name: row[name] for name in ("turn", "call", "tool")} for row in missed[:MOST_LISTED]],
    }


def _side(one: Conversation, error: str | None) -> dict[str, Any]:
    said = {"answer": one.answer, "error": error, "usage": one.usage.shown()}
    return {"model": one.model, "turns": len(one.parts), **said}


def _find_first(before: Mapping[int, Part], now: Mapping[int, Part]) -> int | None:
    """The first turn that is otherwise; None: there is none."""
    return next((n for n in sorted({*before, *now}) if _shape(before.get(n)) != _shape(now.get(n))), None)


def _shape(part: Part | None) -> Any:
    """What of a turn is compared."""
    return part if part is None else ([(one.tool, one.args) for one in part.calls], part.answer)


def _ruled_otherwise(before: Conversation, now: Conversation) -> Iterator[dict[str, Any]]:
    """The calls about which the guard decides otherwise than when they were recorded, and those that were not recorded and are not
    simply allowed. A call that is wanted several times is compared with its own place."""
    known: dict[tuple[str, str], list[Wanted]] = {}
    for part in before.parts.values():
        for one in part.calls:
            known.setdefault((one.tool, one.args), []).append(one)
    for number, part in now.parts.items():
        for one in part.calls:
            same = known.get((one.tool, one.args)) or []
            then = same.pop(0).verdict if len(same) > 1 else same[0].verdict if same else None
            if one.verdict and one.verdict != (then or "allow"):
                yield {
                    "turn": number,
                    "call": one.id,
                    "tool": one.tool,
                    "recorded": then,
                    "what_if": one.verdict,
                    "rule": one.rule or None,
                    "why": one.why or None,
                }


def _how(one: Wanted, steps: Mapping[str, Any]) -> dict[str, Any]:
    """How a call was answered: from history, by running what only computes, not at all, or with the words of the guard."""
    kept = steps.get(one.id)
    by = str(kept.get("by", "guard")) if isinstance(kept, dict) else "guard"
    return {"turn": int(one.id[1:].partition(".")[0].partition("-")[0]), "call": one.id, "tool": one.tool, "by": by}
