"""What-ifs: a new run that goes through the conversations of an old one again, and what it says of them.

What a run would have done with another model or other words is found out by asking the model, with its tools answered from history
(`perdure.agents.what_if`). It must not know HTTP or permissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure import llms
from perdure.agents.transcript_view import TALKING, WHAT_IF
from perdure.agents.what_if.recordings import Asked, Change, Recording, Tools, kept_of
from perdure.agents.what_if.said_turns import read_conversation
from perdure.budget import Budget as Room
from perdure.contents import TooMuch
from perdure.errors import Refused, SettingsInvalid
from perdure.journal import RunRecord
from perdure.kernel.lifecycle import NodeState
from perdure.kernel.segments import BlobRef
from perdure.kernel.state import Activation, State
from perdure.kernel.values import steps_of
from perdure.llms.operator_file import Found
from perdure.llms.port import LlmError
from perdure.llms.structured import find_problems
from perdure.model.ir import Node
from perdure.model.labels import read_label
from perdure.model.money import DIMENSIONS, MILLIONTHS, Budget
from perdure.nodes.llm import MODEL_KEYS
from perdure.runtime.coordinator.tasks.agent_tasks import label_of
from perdure.service.errors import Invalid, Trouble
from perdure.service.runs.run_actions import RunActions
from perdure.service.runs.run_usage import read_budget
from perdure.service.runs.starts import Started
from perdure.service.views import View, get_node, run_summary
from perdure.spending import as_budget
from perdure.threads import aside
from perdure.weight import MOST as MOST_WEIGHT
from perdure.weight import is_heavy

SUFFIX = ".whatif"
"""Follows the name of the workflow, so that what-ifs are in no figure, list or budget of it, and no trigger hears of their ends."""
TAG = "what_if"
LONGEST_NAME = 128
MOST = 50
"""How many conversations one what-if goes through."""
LARGEST = 8_000_000
"""The most bytes of recordings that one what-if has as its inputs: a template gives 10,000,000 characters."""
HEAVIEST = MOST_WEIGHT // 2
"""How heavy they are at most: a run whose inputs nobody reads at once fails."""
_OVER = frozenset({NodeState.COMPLETED, NodeState.FAILED, NodeState.COMPENSATED})


class WhatIfs(RunActions):
    async def what_if(self, run_id: str, **about: Any) -> View:
        """`begin_what_if` for callers that need not know whether it had been started before."""
        return (await self.begin_what_if(run_id, **about)).view

    async def begin_what_if(
        self,
        run_id: str,
        *,
        node: str | None = None,
        visit: int | None = None,
        item: int | None = None,
        model: str | None = None,
        instructions: str | None = None,
        params: Mapping[str, Any] | None = None,
        turns: int | None = None,
        tools: Tools = "pure",
        budget: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Started:
        """Start a what-if of a run: its conversations with models (or those of `node`) are gone through again with another model,
        other instructions or parameters. The model is called; nothing else is. Without a `budget` it has that of the run, or that of
        its nodes. A repeated `key` gives the what-if that it started before, provided the same was asked for."""
        record, state = await self._tenancy.load(run_id)
        _check_source(record, state)
        change = Change(model, instructions, None if params is None else dict(params), turns, tools)
        _check_change(change)
        chosen = self._pick(state, node, visit, item)
        limit = _get_budget(read_budget(budget), state, [state.pinned(one) for one in chosen])
        recordings = await self._record(state, chosen)
        await aside(state.tenant, self._check_models, state, chosen, recordings, change)
        inputs = {f"c{number}": msgspec.to_builtins(Asked(one, change)) for number, one in enumerate(recordings, 1)}
        most = {**limit.shown(), "on_exceed": "fail"}
        started = await self.begin(
            definition=_definition(state, [state.pinned(one) for one in chosen], recordings, most),
            inputs=inputs,
            tags={TAG: record.run_id},
            key=key,
            origin=record,
        )
        names = [{"node": one.node, "visit": one.visit, "item": one.item, "type": one.type} for one in recordings]
        view = {name: started.view[name] for name in ("run_id", "workflow", "state")}
        about = {"origin": record.run_id, "conversations": names, "budget": most}
        return Started({**view, **about}, started.created)

    def _pick(self, state: State, node: str | None, visit: int | None, item: int | None) -> list[Activation]:
        """The conversations that are gone through: those that are over, in the order in which they began. Raises Refused."""
        index = None if node is None else get_node(state, node)
        found = [
            one
            for one in state.activations.values()
            if (index is None or one.node == index)
            and (visit is None or one.visit == visit)
            and (item is None or one.item_index == item)
            and _is_recorded(state, one)
        ]
        where = f"node {node} of run {state.run_id}" if node is not None else f"run {state.run_id}"
        if not found:
            message = (
                f"{where} has no conversation with a model that is over; `perdure runs transcript` shows what there is"
            )
            raise Refused(message, code="nothing_recorded")
        if sealed := next((state.name(one.node) for one in found if state.pinned(one).sensitive), None):
            message = f"{sealed} has sensitive fields, so nothing of what was said is shown, to another model either"
            raise Refused(message, code="sealed")
        if len(found) > MOST:
            message = (
                f"{where} has {len(found)} conversations, and a what-if takes {MOST}; name a node, a visit or an item"
            )
            raise Invalid(message, [Trouble("node", "wrong_value", message)])
        return found

    async def _record(self, state: State, chosen: list[Activation]) -> list[Recording]:
        room, data = Room(size=LARGEST), bytearray()
        found = []
        for one in chosen:
            pinned = state.pinned(one)
            kind: Any = pinned.type
            steps = kept_of(kind, steps_of(one.checkpoint))
            try:
                whole = {
                    name: await self._engine.contents.resolve(state.tenant, kept, budget=room)
                    for name, kept in steps.items()
                }
            except TooMuch:
                raise _too_much() from None
            config = pinned.config if isinstance(pinned.config, dict) else {}
            about = {name: config[name] for name, kinds in _LITERAL.items() if isinstance(config.get(name), kinds)}
            error = one.error.code if one.state is NodeState.FAILED and one.error is not None else None
            place = (state.run_id, state.name(one.node), one.visit, one.item_index)
            found.append(Recording(*place, kind, whole, error, **about))
            data += await aside(state.tenant, msgspec.json.encode, found[-1])
            if len(data) > LARGEST or await aside(state.tenant, is_heavy, data, HEAVIEST):
                raise _too_much()
        return found

    def _check_models(
        self, state: State, chosen: list[Activation], recordings: list[Recording], change: Change
    ) -> None:
        """Refuse models that there are not here, and those that may not read what is private. It may take time."""
        for one, recording in zip(chosen, recordings, strict=True):
            before = read_conversation(recording, recording.steps, recording.error)
            found = _get_model(change.model or _model_of(recording), state.tenant)
            label = before.label | read_label(label_of(state, one, self._engine.registry))
            is_known = (found.row.provider, found.row.model) in before.models
            if label.is_private and not found.row.private and not is_known:
                message = (
                    f"what {recording.node} was told is private, and {found.name} may not read it; the operator lets it, with "
                    f"`private = true` in the row of the model"
                )
                raise Refused(message, code="private_transcript")

    async def what_if_report(self, run_id: str) -> View:
        """What a what-if came to, as far as it is: for each conversation, the first turn that diverges, turns, usage and answers of both,
        and the calls about which the guard decides otherwise."""
        record, state = await self._tenancy.load(run_id)
        nodes = [one for one in state.ir.nodes if one is not None]
        if state.origin is None or any(one.type != WHAT_IF for one in nodes):
            message = f"run {record.run_id} is no what-if; `perdure runs whatif {record.run_id}` makes one of it"
            raise Refused(message, code="no_what_if")
        done = [one for one in state.activations.values() if one.state is NodeState.COMPLETED]
        budget = self._tenancy.budget
        rows = [await self._engine.contents.resolve(state.tenant, _output(one), budget=budget) for one in done]
        rows.sort(key=lambda row: (row["node"], row["visit"], -1 if row["item"] is None else row["item"]))
        summary = run_summary(record)
        return {
            **{name: summary[name] for name in ("run_id", "workflow", "state", "error")},
            "origin": state.origin[0],
            "budget": None if state.money.budget is None else state.money.budget.shown(),
            "usage": state.money.spent.shown(),
            "conversations": rows,
            "totals": {
                "conversations": len(nodes),
                "done": len(rows),
                "diverged": sum(row["diverges"] is not None for row in rows),
                "equal": sum(row["equal"] for row in rows),
                "guard": sum(row["guard_total"] for row in rows),
                "not_recorded": sum(row["calls"].get("not_recorded", 0) for row in rows),
            },
        }


_LITERAL: dict[str, Any] = {"repairs": int, "min_confidence": (int, float), "otherwise": str}
"""What of a config a recording has, where it is no template."""


def _too_much() -> TooMuch:
    message = f"what was said, with what tools gave, takes more than {LARGEST:,} bytes or has too many parts; name a node, a visit or an item"
    return TooMuch(message)


def _check_source(record: RunRecord, state: State) -> None:
    """Refuse runs of which there can be no what-if."""
    run_id = record.run_id
    if record.quarantined is not None and not state.imported:
        raise Refused(f"run {run_id} is quarantined: {record.quarantined}", code="quarantined")
    if state.imported:  # a file may say anything, and what it says would be shown to a model
        raise Refused(f"run {run_id} was imported from {state.imported}: to look at, not to run", code="imported")
    if any(one is not None and one.type == WHAT_IF for one in state.ir.nodes):
        message = (
            f"run {run_id} is a what-if itself; ask about {state.origin[0] if state.origin else 'the run it looks at'}"
        )
        raise Refused(message, code="nothing_recorded")


def _check_change(change: Change) -> None:
    problems = find_problems(MODEL_KEYS["params"], change.params) if change.params is not None else []
    if problems:
        raise Invalid(f"params: {'; '.join(problems[:5])}", [Trouble("params", "wrong_value", one) for one in problems])


def _is_recorded(state: State, one: Activation) -> bool:
    """Whether it had a conversation with a model, which is over."""
    kind = state.pinned(one).type
    if one.state not in _OVER or kind not in TALKING:
        return False
    steps = steps_of(one.checkpoint)
    return _first(kind) in steps and any(name.startswith(("model/", "call")) for name in steps)


def _first(kind: str) -> str:
    """The step that says what was asked."""
    return "prefix" if kind == "agent" else "request"


def _model_of(recording: Recording) -> str:
    """What it calls its model."""
    first = recording.steps[_first(recording.type)]
    return str((first["request"] if recording.type == "agent" else first)["model"])


def _get_model(name: str, tenant: str) -> Found:
    """Raises Invalid."""
    try:
        return llms.get_models().get(name, tenant)
    except (LlmError, SettingsInvalid) as error:
        raise Invalid(error.message, [Trouble("model", "llm:unknown_model", error.message)]) from None


def _get_budget(given: Budget | None, state: State, nodes: list[Node]) -> Budget:
    """What the what-if may use: what is asked for, what the run may use, or what its nodes may use together. Raises Invalid."""
    if (budget := given or state.money.budget) is not None:
        return budget
    each = [_budget_of(one) for one in nodes]
    known = [one for one in each if one is not None]
    amounts = {name: [amount for one in known if (amount := one.of(name)) is not None] for name in DIMENSIONS}
    sums = {name: sum(found) for name, found in amounts.items() if len(found) == len(each)}
    if not sums:
        message = f"a what-if calls a model and needs a budget; run {state.run_id} has none to go by: give usd, tokens or calls"
        raise Invalid(message, [Trouble("budget", "missing_key", message)])
    return Budget(sums.get("usd"), sums.get("tokens"), sums.get("calls"))


def _budget_of(node: Node) -> Budget | None:
    config = node.config if isinstance(node.config, dict) else {}
    if isinstance(config.get("budget"), dict):
        try:
            return as_budget(config["budget"])
        except (ValueError, TypeError):  # a template, whose value is not kept
            return None
    most = config.get("max_usd")
    return Budget(usd=round(most * MILLIONTHS)) if isinstance(most, int | float) else None


def _definition(state: State, nodes: list[Node], recordings: list[Recording], most: View) -> dict[str, Any]:
    """The workflow of a what-if: a node for each conversation, named after the one it looks at."""
    taken: set[str] = set()
    made = []
    for number, (node, recording) in enumerate(zip(nodes, recordings, strict=True), 1):
        name, count = recording.node, 1
        while name in taken or (count > 1 and any(name == one.node for one in recordings)):
            count += 1
            name = f"{recording.node}-{count}"
        taken.add(name)
        config = {"asked": f"{{{{ inputs.c{number} }}}}"}
        made.append({"id": name, "type": WHAT_IF, "config": config, "queue": node.queue})
    name = state.workflow[: LONGEST_NAME - len(SUFFIX)] + SUFFIX
    return {"name": name, "nodes": made, "limits": {"budget": most}}


def _output(one: Activation) -> Any:
    return one.output if one.output_ref is None else BlobRef(one.output_ref)
