"""Agents of pydantic-ai as handlers of Perdure: each request of a model and each call of a tool is a step.

    from pydantic_ai import Agent
    from perdure.ext.pydantic_ai import Durable

    @perdure.task
    async def triage(ctx: perdure.Context, ticket: str) -> str:
        agent = Agent("openai:gpt-5-mini", tools=[lookup], capabilities=[Durable(ctx)])
        return (await agent.run(ticket)).output

Killed anywhere and entered again, the agent runs from its beginning, and whatever was answered is taken from the journal. Needs
`pip install 'perdure[pydantic-ai]'`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.messages import BinaryContent, ModelMessagesTypeAdapter, ModelResponse, ToolReturn
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.tools import DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset
from pydantic_core import to_jsonable_python

from perdure.asks import Approval
from perdure.outcomes import Failure
from perdure.spending import Spent, Usage

Effect = Literal["read", "at_most_once"]
"""What a call of a tool may do: it may be repeated after a crash (`read`), or happens at most once."""


class Durable(AbstractCapability[Any]):
    """Makes one run of an agent durable. Give it to one agent in one handler: `ctx` is the handler's.

    `effects` names the tools whose calls must not happen twice: `{"charge": "at_most_once"}`. `reserve` is the most that one
    request uses; with it, requests count in the budget of the run, with the tokens of the answer and the money of `reserve`. `name` tells several agents of one handler apart.
    Calls that need an approval (`requires_approval`) are asked of people, of the `approvers` if there are some, and no worker waits.
    """

    def __init__(
        self,
        ctx: Any,
        *,
        name: str = "",
        effects: Mapping[str, Effect] | None = None,
        reserve: Usage | None = None,
        approvers: Sequence[str] | None = None,
    ) -> None:
        self._ctx = ctx
        self._prefix = f"{name}/" if name else ""
        self._effects = dict(effects or {})
        self._reserve = reserve
        self._approvers = None if approvers is None else tuple(approvers)
        self._requests = 0
        self._calls: Counter[str] = Counter()

    def get_wrapper_model(self, model: Model) -> Model:
        return _StepModel(model, self)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return _StepToolset(toolset, self)

    async def request(
        self, model: Model, messages: list[Any], settings: Any, parameters: ModelRequestParameters
    ) -> ModelResponse:
        """The answer of a model, asked for unless the journal has it."""
        self._requests += 1

        async def ask() -> Any:
            answer = await model.request(messages, settings, parameters)
            [kept] = ModelMessagesTypeAdapter.dump_python([answer], mode="json")
            used = answer.usage
            if self._reserve is None:
                return kept
            tokens = {"input": used.input_tokens, "cached": used.cache_read_tokens, "output": used.output_tokens}
            return Spent(kept, Usage(**tokens, usd=self._reserve.usd))

        terms: dict[str, Any] = {} if self._reserve is None else {"reserve": self._reserve, "model": model.model_name}
        kept = await self._ctx.step(f"{self._prefix}model/{self._requests}", ask, **terms)
        [answer] = ModelMessagesTypeAdapter.validate_python([kept])
        assert isinstance(answer, ModelResponse)
        return answer

    async def call(self, name: str, arguments: dict[str, Any], call: Any) -> Any:
        """What a tool gives, called unless the journal has it. What the model is told to try again is kept, too."""
        step = self._name(name, arguments)

        async def make() -> dict[str, Any]:
            try:
                value = await call()
            except ModelRetry as retry:
                return {"retry": retry.message}
            if isinstance(value, ToolReturn | BinaryContent):
                message = f"{name} gives a {type(value).__name__}, which is not kept as data; give JSON, or a reference"
                raise Failure("not_durable", message, retryable=False)
            return {"value": to_jsonable_python(value)}  # the same whether it was made now or is found

        terms: dict[str, Any] = {"effect": "at_most_once"} if self._effects.get(name) == "at_most_once" else {}
        kept = await self._ctx.step(step, make, **terms)
        if "retry" in kept:
            raise ModelRetry(kept["retry"])
        return kept["value"]

    async def handle_deferred_tool_calls(self, ctx: Any, *, requests: Any) -> DeferredToolResults | None:
        """What people say about the calls that need an approval: all of them are asked at once, and each is asked once."""
        if not requests.approvals:
            return None
        asked = {}
        for call in requests.approvals:
            shown = {"tool": call.tool_name, "arguments": call.args_as_dict()}
            about = json.dumps([call.tool_call_id, shown], sort_keys=True, default=repr)
            name = f"{self._prefix}ok.{self._requests}.{hashlib.sha256(about.encode()).hexdigest()[:12]}"
            asked[name.replace("/", ".")] = call, Approval(show=shown, approvers=self._approvers)
        answers = await self._ctx.ask({name: ask for name, (_, ask) in asked.items()})
        said: dict[str, Any] = {call.tool_call_id: _decided(answers[name]) for name, (call, _) in asked.items()}
        return DeferredToolResults(approvals=said)

    def _name(self, tool: str, arguments: dict[str, Any]) -> str:
        """The step of a call: by what is called with what, and not by the order in which calls side by side begin."""
        data = json.dumps([tool, self._requests, arguments], sort_keys=True, default=repr)
        name = f"{self._prefix}tool/{self._requests}/{tool[:80]}/{hashlib.sha256(data.encode()).hexdigest()[:12]}"
        self._calls[name] += 1
        return name if self._calls[name] == 1 else f"{name}~{self._calls[name]}"


def _decided(answer: dict[str, Any]) -> ToolApproved | ToolDenied:
    if answer["decision"] == "approve":
        return ToolApproved()
    return ToolDenied(f"A person did not allow this call. {answer.get('comments') or ''}".strip())


class _StepModel(WrapperModel):
    def __init__(self, wrapped: Model, durable: Durable) -> None:
        super().__init__(wrapped)
        self._durable = durable

    async def request(
        self, messages: list[Any], model_settings: Any, model_request_parameters: ModelRequestParameters
    ) -> ModelResponse:
        return await self._durable.request(self.wrapped, messages, model_settings, model_request_parameters)

    def request_stream(self, *given: Any, **more: Any) -> Any:
        message = "Durable keeps whole answers: use agent.run, not run_stream or an event stream handler"
        raise Failure("not_durable", message, retryable=False)


class _StepToolset(WrapperToolset[Any]):
    def __init__(self, wrapped: AbstractToolset[Any], durable: Durable) -> None:
        super().__init__(wrapped)
        self._durable = durable

    async def for_run(self, ctx: Any) -> AbstractToolset[Any]:
        return _StepToolset(await self.wrapped.for_run(ctx), self._durable)

    async def for_run_step(self, ctx: Any) -> AbstractToolset[Any]:
        return _StepToolset(await self.wrapped.for_run_step(ctx), self._durable)

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        async def call() -> Any:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)

        return await self._durable.call(name, tool_args, call)
