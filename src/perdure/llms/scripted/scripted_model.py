"""A scripted model inside the process: the scripts of `perdure llm-server`, without a server and without waiting.

It answers for every model of the process while it is in use:

    with ScriptedModel([{"when": {"turn": 1}, "calls": [{"name": "lookup", "arguments": {"id": 7}}]}, {"say": "done"}]) as model:
        …
    assert len(model.seen) == 2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import msgspec

from perdure import llms
from perdure.clock import system
from perdure.llms.answers import Pieces, Said, reported
from perdure.llms.operator_file import Model, Models, Provider
from perdure.llms.port import Request, Response, Usage
from perdure.llms.prices import Price
from perdure.llms.scripted.script import Asked, Script, ScriptInvalid, read_script
from perdure.llms.scripted.shapes import make_answer

_FAULTS = frozenset(
    {"no_usage", "missing_ids", "duplicate_ids", "truncated_arguments", "invalid_arguments", "not_json"}
)
NAME = "scripted"


class ScriptedModel:
    """Answers by rules. `names` are what workflows may call it; `price` is what it costs, in dollars per million tokens."""

    def __init__(
        self,
        rules: Sequence[Mapping[str, Any]] = (),
        *,
        names: Sequence[str] = (NAME,),
        price: Mapping[str, float] | None = None,
        **row: Any,
    ) -> None:
        self._script: Script = read_script({"rules": [dict(rule) for rule in rules]})
        self.seen: list[Request] = []
        """What was asked, in order."""
        provider = Provider(kind="openai_chat", base_url="http://127.0.0.1:9/v1")
        model = Model(provider=NAME, model=NAME, **row)
        prices = {} if price is None else {f"{NAME}/{NAME}": msgspec.convert(dict(price), Price)}
        self.models = Models({NAME: provider}, dict.fromkeys(names, model), prices, self)

    def __enter__(self) -> ScriptedModel:
        llms.configure(self.models)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        llms.configure(None)

    async def __call__(self, request: Request) -> Response:
        self.seen.append(request)
        asked = _asked(request)
        rule = self._script.answer(asked)
        if wrong := set(rule.faults) - _FAULTS:
            raise ScriptInvalid(f"only `perdure llm-server` has the faults {', '.join(sorted(wrong))}")
        if rule.delay_ms:
            await system.sleep(rule.delay_ms / 1000)
        if rule.status != 200:
            error = reported(Said(message="scripted", type=rule.error), rule.status)
            if isinstance(rule.retry_after, int | float):
                error.retry_after = float(rule.retry_after)
            raise error
        answer = make_answer(rule, asked)
        pieces = Pieces(None)
        if answer.thinking:
            pieces.think("thinking", {"type": "thinking", "thinking": answer.thinking})
        if answer.text:
            pieces.add_text("text", answer.text)
        for number, (id, name, arguments) in enumerate(answer.calls):
            call = pieces.call(number)
            call.wire_id, call.name, call.pieces = id, name, [arguments]
        pieces.finish = answer.finish  # type: ignore[assignment]
        pieces.model, pieces.id = answer.model, "scripted"
        if answer.usage is not None:
            pieces.usage = Usage(**msgspec.structs.asdict(answer.usage), calls=1)
            pieces.counted = True
        return pieces.response()


def _asked(request: Request) -> Asked:
    last = next((one.text for one in reversed(request.messages) if one.role == "user" and one.text), "")
    turn = 1 + sum(one.role == "assistant" for one in request.messages)
    text = msgspec.json.encode(request).decode()
    return Asked(request.model, last, turn, request.schema, stream=False, text=text)
