"""A conversation with a model as people and programs see it: what it was told, said and called, what the guard decided and why, what
people answered, and what it cost.

It is put together from the steps of a node by the code that the loop itself uses, for a node that runs and for one that has ended.
It must not read anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.agents.tool import Tool
from perdure.agents.transcript import (
    AGAIN,
    HAPPENED,
    Plan,
    Turn,
    calls_of,
    find_summary,
    read_message,
    read_plan,
    read_turns,
    turn_of,
)
from perdure.llms.durable import find_misfits, rebuild
from perdure.llms.port import Call, Image, Message, Request
from perdure.model.money import Usage

TALKING = frozenset({"agent", "llm", "classifier"})
"""The types whose nodes have a conversation; that of any other is empty."""
WHAT_IF = "what_if"
"""The type whose nodes go through the conversation of another."""
_POLICY = re.compile(r"policy\[([0-9]+)\]")
Row = dict[str, Any]


def talk_of(kind: str, steps: Mapping[str, Any]) -> str:
    """The type whose conversation these steps are: that of a what-if is of the type that it looks at."""
    return kind if kind != WHAT_IF else "agent" if "prefix" in steps else "llm"


class Open(msgspec.Struct, frozen=True):
    """What the state of a node says beyond its steps."""

    approvals: dict[str, str] = {}
    """The approvals that were asked for, by the name of the ask."""
    children: dict[str, str] = {}
    """The child runs, in the same way."""
    begun: frozenset[str] = frozenset()
    """Steps that may happen once, have begun, and have no result."""
    asking: str | None = None
    """The step that asks the model now."""


def head_of(kind: str, steps: Mapping[str, Any]) -> Row:
    """What the model was told before it said anything; nulls where the node has not begun."""
    shown: Row = {"model": None, "instructions": None, "messages": [], "tools": [], "routes": [], "label": None}
    first = steps.get("prefix" if kind == "agent" else "request")
    if not isinstance(first, dict):
        return shown
    plan = read_plan(steps) if kind == "agent" else None
    request = msgspec.convert(first, Request) if plan is None else plan.request
    shown |= {
        "model": request.model,
        "instructions": request.prefix.system or None,
        "messages": [_message(one) for one in (*request.prefix.examples, *request.messages)],
    }
    if plan is not None:
        shown |= {
            "tools": [_tool(one) for one in plan.tools],
            "routes": list(plan.routes),
            "label": str(plan.label),
        }
    return shown


def turns_of(kind: str, steps: Mapping[str, Any], now: Open) -> list[Callable[[], Row]]:
    """The turns in order, each as it is shown when it is called for: a page needs a few of them. It may take time."""
    if kind == "agent":
        if "prefix" not in steps:
            return []
        plan = read_plan(steps)
        return [lambda one=one: _turn(plan, one, steps, now) for one in read_turns(steps)]  # type: ignore[misc]
    if "request" not in steps:
        return []
    hashes = rebuild(dict(steps))
    schema = steps["request"].get("schema")
    return [
        lambda number=number, step=step: _answer(  # type: ignore[misc]
            number, step, steps[step], schema, hashes[step] != steps[step]["request"]
        )
        for number, step in enumerate(hashes, 1)
    ]


def guarded(steps: Mapping[str, Any], now: Open) -> list[Row]:
    """What was decided about every call that was judged, in the order of the turns."""
    found: list[Row] = []
    if "prefix" not in steps:
        return found
    plan = read_plan(steps)
    for number, turn in _guards(steps):
        judged = steps[f"guard/{turn}"]
        calls = [plan.meant(call) for call in _calls_in(turn, steps)]
        for index, one in enumerate(judged["calls"]):
            id = f"t{turn}.{index}"
            arguments = calls[index].arguments if index < len(calls) else None
            if "route" in one:
                arguments = {str(one["tool"]): one["route"]}
            found.append(
                {
                    "turn": number,
                    "call": id,
                    "label": judged["label"],
                    "untrusted": judged["tainted_by"],
                    **_call(id, str(one["tool"]), arguments, _explained(plan, one), steps, now),
                }
            )
    return found


def _guards(steps: Mapping[str, Any]) -> list[tuple[int, str]]:
    """The turns that were judged: their number, and what their steps are called by."""
    names = (name.removeprefix("guard/") for name in steps if name.startswith("guard/"))
    return sorted((int(name.partition("-")[0]), name) for name in names)


def _calls_in(turn: str, steps: Mapping[str, Any]) -> list[Call]:
    """The calls of a turn as the model made them, whichever try of it was answered."""
    answers = (kept for name, kept in steps.items() if name.partition(".")[0] == f"model/{turn}")
    return next((calls for kept in answers if (calls := calls_of(kept))), [])


# -- parts -------------------------------------------------------------------------------------------------------------


def _message(one: Message) -> Row:
    images = sum(isinstance(part, Image) for part in one.parts)
    return {"role": one.role, "text": one.text, "images": images}


def _tool(tool: Tool) -> Row:
    about = {"name": tool.name, "kind": tool.kind, "target": tool.target or None, "description": tool.description}
    return {**about, "effect": tool.effect, "returns": str(tool.returns)}


def _turn(plan: Plan, turn: Turn, steps: Mapping[str, Any], now: Open) -> Row:
    calls = [plan.meant(call) for call in calls_of(turn.kept)]
    begin = turn_of(turn.number, turn.step.partition(".")[0])
    rows = []
    for index, (call, made) in enumerate(zip(calls, turn.made, strict=True)):
        id = f"{begin}.{index}"
        judged = turn.guard[index] if index < len(turn.guard) else {}
        row = _call(id, call.name, call.arguments, _explained(plan, judged), steps, now)
        if made is not None:
            row |= {"result": made.text, "label": str(made.label)}
            row["outcome"] = "refused" if made.denied or "text" in judged else "failed" if made.failed else "made"
        rows.append({"id": id, **row})
    said = {**_said(turn.number, turn.step, turn.kept, turn.drift), "problems": turn.problems}
    return {**said, "summed_up": find_summary(steps, turn.number), "label": str(turn.label), "calls": rows}


def _answer(number: int, step: str, kept: Mapping[str, Any], schema: Any, drift: bool) -> Row:
    problems = [] if schema is None else find_misfits(schema, kept)
    return {**_said(number, step, kept, drift), "problems": problems, "summed_up": None, "label": None, "calls": []}


def _said(number: int, step: str, kept: Mapping[str, Any], drift: bool) -> Row:
    return {
        "turn": number,
        "step": step,
        "said": read_message(kept).text,
        "finish": kept["finish"],
        "alias": kept["alias"],
        "model": kept["model"],
        "provider": kept["provider"],
        "usage": msgspec.convert(kept["usage"], Usage).shown(),
        "ms": kept["ms"],
        "tries": kept["tries"],
        "drift": drift,
    }


def _explained(plan: Plan, judged: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was decided about a call, with the condition of a policy of the workflow: people are told it, and models are not."""
    rule = _POLICY.fullmatch(str(judged.get("rule")))
    if rule is None or int(rule[1]) >= len(plan.policies):
        return judged
    return {**judged, "why": f"{judged['why']}: {plan.policies[int(rule[1])].when}"}


def _call(id: str, tool: str, arguments: Any, judged: Mapping[str, Any], steps: Mapping[str, Any], now: Open) -> Row:
    """A call with what was decided about it. An outcome of None: it is under way, or waits."""
    doubt = steps.get(f"{id}{HAPPENED}")
    answer = steps.get(f"{id}.ok") or doubt
    asked = (f"{id}{HAPPENED}", f"{id}.ok", id)
    row: Row = {
        "tool": tool,
        "arguments": arguments,
        "verdict": judged.get("verdict"),
        "rule": judged.get("rule"),
        "why": judged.get("why") or (judged.get("text") if judged.get("verdict") == "invalid" else None),
        "trifecta": bool(judged.get("trifecta")),
        "approval_id": next((now.approvals[one] for one in asked if one in now.approvals), None),
        "run_id": now.children.get(id),
        "decision": None,
        "decided_by": None,
        "comments": None,
        "happened": None,
        "begun": bool(now.begun & {id, f"{id}{AGAIN}"}),
        "outcome": _outcome(id, judged, steps.get(f"{id}.ok"), steps),
        "not_made": None,
    }
    decided = steps.get(f"{id}.decided")
    if isinstance(decided, dict):
        row |= {"changed": decided["arguments"], "not_made": decided.get("text")}
    if isinstance(answer, dict):
        row |= {key: answer.get(key) for key in ("decision", "decided_by", "comments")}
    if isinstance(doubt, dict):
        row["happened"] = {key: doubt.get(key) for key in ("decision", "decided_by", "comments")}
    return row


def _outcome(id: str, judged: Mapping[str, Any], answer: Any, steps: Mapping[str, Any]) -> str | None:
    if "text" in judged or "text" in steps.get(f"{id}.decided", {}):
        return "refused"
    if isinstance(answer, dict) and answer["decision"] != "approve":
        return "refused"
    if "route" in judged:
        return "made" if judged["verdict"] == "allow" or answer is not None else None
    doubt = steps.get(f"{id}{HAPPENED}")
    if isinstance(doubt, dict) and doubt["decision"] != "approve":
        return "made" if isinstance(doubt.get("data"), dict) and "result" in doubt["data"] else "failed"
    kept = steps.get(id) or steps.get(f"{id}{AGAIN}")
    if not isinstance(kept, dict):
        return None
    return "failed" if kept.get("failed") or kept.get("state", "completed") != "completed" else "made"


def page_of(turns: Sequence[Callable[[], Row]], after: int, limit: int, most: int) -> tuple[list[Row], int | None]:
    """The turns from a place on, at most so many and about so many bytes; and where the next page begins."""
    found: list[Row] = []
    size, place = 0, after
    for place in range(after, len(turns)):
        if len(found) == limit or (found and size > most):
            return found, place
        found.append(turns[place]())
        size += len(msgspec.json.encode(found[-1]))
    return found, None
