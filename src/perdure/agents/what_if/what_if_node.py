"""`what_if`: goes through a recorded conversation with a model again, with another model or other words, and says what is otherwise.

`perdure runs whatif` makes runs of such nodes. The model is really asked, within the budget of the run; nothing else is. So that this does
not hang on what a loop or a tool remembers to leave out, they are given a `WhatIfView` in place of the worker's context: it has steps, and
the keys of the models, and nothing with which anything could be done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from perdure import egress, llms
from perdure.agents.agent_loop import Agent
from perdure.agents.agent_node import check_models
from perdure.agents.tool_calls import Policies
from perdure.agents.transcript_view import WHAT_IF
from perdure.agents.what_if.comparison import compare
from perdure.agents.what_if.recorded_calls import RecordedCalls
from perdure.agents.what_if.recordings import Asked, changed_plan, changed_request
from perdure.agents.what_if.said_turns import collect_given, read_conversation
from perdure.llms.durable import Talk
from perdure.llms.operator_file import Found
from perdure.nodes.llm import DEFAULT_SECONDS, check_sealed, check_shown, find_models
from perdure.nodes.registry import NodeType
from perdure.outcomes import Failure
from perdure.plain_text import cut
from perdure.threads import aside

ENDS = frozenset(
    {
        "agent:denied",
        "agent:max_turns",
        "agent:rejected",
        "agent:stuck",
        "agent:tool_failed",
        "llm:bad_output",
        "llm:context_too_long",
        "llm:filtered",
        "llm:refused",
        "route_not_allowed",
    }
)
"""Failures that are how a conversation ends: they are compared, and the node completes. Any other is a failure of the node."""


class WhatIfView:
    """What a what-if may ask of its worker. It cannot ask people, start runs, sleep, patch, send, or read secrets but the keys of its
    models; no step of it may happen once, because nothing else hears of it."""

    __slots__ = ("_ctx", "_keys", "node")
    answers = None
    is_undoing = False
    last_checkpoint = None
    """A what-if does not go on after a failure: how it ended is its result."""

    def __init__(self, ctx: Any, node: str, models: Sequence[Found]) -> None:
        self._ctx = ctx
        self.node = node
        """The node that is looked at: policies name it."""
        self._keys = frozenset(one.provider.secret for one in models if one.provider.secret)

    @property
    def run_id(self) -> str:
        return str(self._ctx.run_id)

    @property
    def tenant(self) -> str:
        return str(self._ctx.tenant)

    @property
    def metered(self) -> bool:
        return bool(self._ctx.metered)

    @property
    def timeout_seconds(self) -> float | None:
        limit: float | None = self._ctx.timeout_seconds
        return limit

    @property
    def is_sealing(self) -> bool:
        return bool(self._ctx.is_sealing)

    def key(self, name: str) -> str:
        return str(self._ctx.key(name))

    def find_step(self, name: str) -> Any | None:
        return self._ctx.find_step(name)

    def list_steps(self, prefix: str) -> list[str]:
        found: list[str] = self._ctx.list_steps(prefix)
        return found

    def step(self, name: str, function: Callable[..., Any], /, **terms: Any) -> Any:
        if "effect" in terms:
            raise TypeError(f"step {name!r} of a what-if cannot have an effect")
        return self._ctx.step(name, function, **terms)

    async def checkpoint(self, data: Any) -> None:
        """Keep nothing: see `last_checkpoint`."""

    def run_in_thread(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return self._ctx.run_in_thread(function, *args, **kwargs)

    def reveal_secret(self, name: str) -> str:
        if name not in self._keys:
            raise LookupError(name)
        return str(self._ctx.reveal_secret(name))


class WhatIfAgent(Agent):
    async def _pause(self, name: str, error: Failure) -> None:
        """A what-if asks for nothing, not for time either: the node is tried again when the provider says so."""
        raise error


async def handle(config: Any, ctx: Any) -> Any:
    if ctx.is_undoing:
        raise Failure("bad_config", "a what-if cannot be a compensator", retryable=False)
    check_sealed({}, ctx)  # an author may write such a node by hand, with anything in its recording
    try:
        asked = msgspec.convert(config["asked"], Asked)
    except msgspec.ValidationError as error:
        raise Failure("bad_config", f"asked: {cut(str(error), 300)}", retryable=False) from None
    recording = asked.recording
    is_agent = recording.type == "agent"
    if ("prefix" if is_agent else "request") not in recording.steps:
        raise Failure("bad_config", "asked.recording.steps: nothing was asked of a model", retryable=False)
    code = None
    try:
        await (_agent if is_agent else _talk)(asked, ctx)
    except Failure as failure:
        if failure.code not in ENDS:
            raise
        code = failure.code
    return await aside(ctx.tenant, _report, asked, ctx, code)


async def _agent(asked: Asked, ctx: Any) -> None:
    """Let the agent take its turns. Raises Failure."""
    plan = await aside(ctx.tenant, changed_plan, asked)
    models = find_models({"model": plan.request.model}, ctx.tenant)
    check_models(plan, models)
    view = WhatIfView(ctx, asked.recording.node, models)
    await view.step("prefix", lambda: msgspec.to_builtins(plan))

    def policies() -> Policies:
        return llms.get_models().policies(ctx.tenant), plan.policies

    given = await aside(ctx.tenant, collect_given, asked.recording.steps)
    calls = RecordedCalls(plan, view, policies, given, pure=asked.change.tools == "pure")
    await WhatIfAgent(plan, view, Talk(view, models), calls).run()


async def _talk(asked: Asked, ctx: Any) -> None:
    """Ask the model what an `llm` or `classifier` node asked. Raises Failure."""
    request = await aside(ctx.tenant, changed_request, asked)
    models = find_models({"model": request.model}, ctx.tenant)
    view = WhatIfView(ctx, asked.recording.node, models)
    try:
        async with asyncio.timeout(DEFAULT_SECONDS if ctx.timeout_seconds is None else None):
            await Talk(view, models).converse(request, repairs=asked.recording.repairs)
    except TimeoutError:
        raise Failure("llm:timeout", f"{request.model} has not answered in {DEFAULT_SECONDS:g} s") from None


def _report(asked: Asked, ctx: Any, error: str | None) -> dict[str, Any]:
    recording = asked.recording
    steps = {name: ctx.find_step(name) for name in ctx.list_steps("")}
    before = read_conversation(recording, recording.steps, recording.error)
    return compare(recording, before, read_conversation(recording, steps, error), steps, error)


TYPE = NodeType(
    name=WHAT_IF,
    description="Goes through a recorded conversation with a model again and says what is otherwise; nothing but the model is asked.",
    config_schema={
        "type": "object",
        "required": ["asked"],
        "properties": {
            "asked": {
                "description": "the recording and what is changed of it, as `perdure runs whatif` puts them together"
            },
        },
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "required": ["node", "type", "diverges", "equal", "recorded", "what_if", "guard", "calls", "not_recorded"],
        "properties": {
            "node": {"type": "string"},
            "type": {"enum": ["agent", "llm", "classifier"]},
            "diverges": {"type": ["integer", "null"], "description": "the first turn that is otherwise"},
            "equal": {"type": "boolean", "description": "whether it ended with the same answer, or the same failure"},
            "recorded": {"type": "object", "description": "model, turns, answer, error and usage, as they were"},
            "what_if": {"type": "object", "description": "the same, as they are now"},
            "guard": {"type": "array", "description": "calls about which the guard decides otherwise"},
            "calls": {"type": "object", "description": "how many calls were answered by what"},
            "not_recorded": {"type": "array", "description": "calls that had no answer"},
        },
    },
    capabilities=frozenset({"code", "model", "network"}),
    example={"type": WHAT_IF, "config": {"asked": "{{ inputs.asked }}"}},
    handler=handle,
    check_written=check_shown,
    close=egress.close,
)
