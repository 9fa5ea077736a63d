"""The calls of a what-if: judged as ever, and answered from history.

What is made of a call is one of four: what a recorded call with the same tool and arguments gave; what a tool computes that has no effect;
the guard's own words; or `not_recorded`. No function, request, server, run or person is asked, and nothing is left for later runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from perdure.agents.tool import Tool
from perdure.agents.tool_calls import Bound, Policies, ToolCalls, failed_call
from perdure.agents.transcript import Made, Plan, Transcript, made_of
from perdure.agents.value_handles import handle_of
from perdure.agents.what_if.said_turns import Given
from perdure.llms.port import Call

NOT_RECORDED = "not_recorded"
_WHY = "this is a what-if, which calls nothing: the run that it looks at has no such call with these arguments"


class RecordedCalls(ToolCalls):
    def __init__(
        self,
        plan: Plan,
        ctx: Any,
        policies: Callable[[], Policies],
        given: Mapping[str, Sequence[Given]],
        *,
        pure: bool,
    ) -> None:
        """`given`: what recorded calls gave, by the hash of tool and arguments. `pure`: whether what has no effect is run."""
        super().__init__(plan, ctx, policies)
        self._given = given
        self._pure = pure
        self._asked: Counter[str] = Counter()
        """How often each call was answered from history: one that was made twice gave two results."""

    async def make(self, turn: str, calls: Sequence[Call], transcript: Transcript, said: str) -> list[Made]:
        """What the calls of a turn gave, in their order. Raises Failure."""
        calls = [self._plan.meant(call) for call in calls]
        judged = await self._judge(turn, calls, transcript)
        made, tools = [], []
        for number, (call, one) in enumerate(zip(calls, judged, strict=True)):
            id, tool = f"{turn}.{number}", self._plan.find_tool(call.name)
            kept = {} if "text" in one else {id: await self._look(id, tool, call, one)}
            made.append(made_of(id, call, tool, one, kept))
            tools.append(tool)
        self._look_for_ends(tools, made)
        return made

    async def lead(self, turn: str, answer: Mapping[str, Any], transcript: Transcript) -> tuple[list[str], str | None]:
        """Where the run would go on: judged as ever, and nobody is asked."""
        chosen = list(dict.fromkeys(answer["next_nodes"]))
        return chosen, (await self._judge_route(turn, chosen, transcript)).get("text")

    async def _look(self, id: str, tool: Tool | None, call: Call, judged: Mapping[str, Any]) -> dict[str, Any]:
        """What a call gives, as a step: what has a handle is found by it."""
        bound = await self._bind(id, tool, call.arguments)
        place = self._asked[bound.args]
        self._asked[bound.args] += 1

        async def give() -> dict[str, Any]:
            return {"tool": bound.tool.name, "args": bound.args, **await self._answer(bound, judged["verdict"], place)}

        kept: dict[str, Any] = await self._ctx.step(id, give)
        return kept

    async def _answer(self, bound: Bound, verdict: str, place: int) -> dict[str, Any]:
        given = self._given.get(bound.args, ())
        if given and bound.tool.kind != "read_handle":  # a handle may stand for something else this time
            return _replayed(bound, given[min(place, len(given) - 1)])
        if verdict == "allow" and is_pure(bound.tool) and (self._pure or bound.tool.kind == "read_handle"):
            label = str(bound.tool.returns)
            return {"label": label, **await self._call(bound, f"{bound.id}/{bound.args[:16]}"), "by": "run"}
        return {"label": str(bound.tool.returns), **failed_call(NOT_RECORDED, _WHY), "by": NOT_RECORDED}


def is_pure(tool: Tool) -> bool:
    """Whether a call, as it is bound, only computes: from its arguments, and from what the conversation has. It is one of Perdure's own;
    nothing is known of a function but what its author says."""
    if tool.kind == "pipeline":
        return tool.effect == "read"  # one with a request sends
    return tool.kind in ("code", "read_handle", "recall", "search_tools")


def _replayed(bound: Bound, given: Given) -> dict[str, Any]:
    """What a recorded call gave, under the handle of this one."""
    made = given.made
    before, now = (f'"handle":"{handle_of(id)}"' for id in (made.id, bound.id))
    text = made.text if given.value is None else made.text.replace(before, now, 1)
    kept: dict[str, Any] = {"text": text, "label": str(made.label), "by": "history", "recorded": made.id}
    kept |= {} if given.value is None else {"value": given.value}
    kept |= {"failed": True} if made.failed else {}
    kept |= {"denied": True} if made.denied else {}
    return kept | ({"routes": list(made.routes)} if made.routes else {})
