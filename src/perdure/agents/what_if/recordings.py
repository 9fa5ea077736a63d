"""What a what-if looks at, and what it changes of it: the config of its node, and the recording in the inputs of its run.

A recording is data, a stranger's text among it. It stands in the inputs of the run and never in a definition, so that no template in it is
rendered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from perdure.agents.agent_node import instruct
from perdure.agents.transcript import Plan, read_letters, read_plan
from perdure.llms.port import Params, Prefix, Request
from perdure.nodes.classifier import TASK
from perdure.outcomes import Failure

Talking = Literal["agent", "llm", "classifier"]
Tools = Literal["pure", "recorded"]
"""`pure`: tools of Perdure's own that compute without an effect are run; `recorded`: not even these."""
_LEFT = ("left/", "session", "summary")
"""Steps of what an agent found of earlier runs and left for later ones: its prefix has what it was told."""


class Recording(msgspec.Struct, frozen=True, omit_defaults=True):
    """A conversation as it was."""

    run_id: str
    node: str
    visit: int
    item: int | None
    type: Talking
    steps: dict[str, Any]
    error: str | None = None
    """The code of the failure that it ended with."""
    repairs: int = 2
    min_confidence: float = 0.0
    otherwise: str | None = None
    """For a classifier, the answer it gives below its confidence."""


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is otherwise this time; what is None stays."""

    model: str | None = None
    instructions: str | None = None
    params: dict[str, Any] | None = None
    turns: int | None = None
    tools: Tools = "pure"


class Asked(msgspec.Struct, frozen=True):
    """The config of a what-if's node."""

    recording: Recording
    change: Change = Change()


def kept_of(kind: str, steps: Mapping[str, Any]) -> dict[str, Any]:
    """The steps of a conversation: those that say what was asked, answered, judged and done."""
    if kind != "agent":
        return {name: one for name, one in steps.items() if name == "request" or name.startswith("call")}
    return {name: one for name, one in steps.items() if not name.startswith(_LEFT)}


def changed_plan(asked: Asked) -> Plan:
    """What the agent begins with this time. It has no session, so that it leaves nothing. Raises Failure."""
    recording, change = asked.recording, asked.change
    plan = read_plan(recording.steps)
    system = None if change.instructions is None else instruct(change.instructions, plan.tools, plan.routes)
    return msgspec.structs.replace(
        plan,
        request=_changed(plan.request, change, system),
        session="",
        letters=tuple(read_letters(recording.steps)),
        max_turns=change.turns or plan.max_turns,
    )


def changed_request(asked: Asked) -> Request:
    """What an `llm` or `classifier` node asks this time. Raises Failure."""
    request = msgspec.convert(asked.recording.steps["request"], Request)
    system = asked.change.instructions
    if system is not None and asked.recording.type == "classifier":
        place = request.prefix.system.find(TASK)
        system = "\n\n".join(one for one in (system, request.prefix.system[max(place, 0) :]) if one)
    return _changed(request, asked.change, system)


def _changed(request: Request, change: Change, system: str | None) -> Request:
    more: dict[str, Any] = {}
    if change.model is not None:
        more["model"] = change.model
    if system is not None:
        more["prefix"] = Prefix(request.prefix.tools, system, request.prefix.examples)
    if change.params is not None:
        more["params"] = read_params(request, change.params)
    return msgspec.structs.replace(request, **more)


def read_params(request: Request, given: Mapping[str, Any]) -> Params:
    """The parameters of a request with others in their place. Raises Failure."""
    try:
        return msgspec.convert({**msgspec.to_builtins(request.params), **given}, Params)
    except msgspec.ValidationError as error:
        raise Failure("bad_config", f"params: {error}", retryable=False) from None
