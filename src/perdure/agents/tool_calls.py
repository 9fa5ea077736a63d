"""The calls of one turn: judged, made side by side, and kept.

What may be made at once is made first, then everything that needs people or child runs is asked for together, and then what
was approved is made. Each call has one result, which is a step; a crash repeats at most the calls under way, and none of those that
may happen once (rule 81).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.agents.call_guard import Ruling, Wish, decide, hash_of
from perdure.agents.tool_view import ToolView
from perdure.agents.toolbox import Tool, get_function
from perdure.agents.transcript import Made, Plan, Transcript, made_of, text_of
from perdure.asks import LARGEST_ASKS, Approval, Ask, Child
from perdure.llms.policy_rows import Policy
from perdure.llms.port import Call
from perdure.llms.structured import find_problems
from perdure.nodes.task import call_function
from perdure.outcomes import Failure, StepAmbiguous
from perdure.plain_text import cut
from perdure.spelling import suggest
from perdure.spending import Usage
from perdure.threads import aside

Policies = tuple[Sequence[Policy], Sequence[Policy]]
"""Those of the operator, and those of the workflow."""
LARGEST_ARGUMENTS = 64 * 1024
_GROUP = LARGEST_ASKS // 2
"""So many bytes are asked for at once; of more, the others when these are answered."""
_SAID = 1_000
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
_LINK = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://\S+|\bwww\.\S+")


class ToolCalls:
    def __init__(self, plan: Plan, ctx: Any, policies: Callable[[], Policies]) -> None:
        self._plan = plan
        self._ctx = ctx
        self._policies = policies
        self._places = asyncio.Semaphore(plan.parallel)

    async def make(self, turn: str, calls: Sequence[Call], transcript: Transcript, said: str) -> list[Made]:
        """What the calls of a turn gave, in their order. Raises Failure."""
        judged = await self._judge(turn, calls, transcript)
        ids = [f"{turn}.{number}" for number in range(len(calls))]
        tools = [self._plan.find_tool(call.name) for call in calls]
        wishes = list(zip(ids, calls, tools, judged, strict=True))
        await self._do([self._run(id, tool, call.arguments) for id, call, tool, one in wishes if _is_ready(tool, one)])
        asks: dict[str, Ask] = {}
        for id, call, tool, one in wishes:
            if one["verdict"] == "ask":
                asks[f"{id}.ok"] = self._approval(tool, call.arguments, one, transcript, said)
            elif tool is not None and one["verdict"] == "allow" and tool.kind != "function":
                asks[id] = self._ask(tool, call.arguments)
        answers = await self._ask_all(asks)
        await self._follow([wish for wish in wishes if wish[3]["verdict"] == "ask"], answers, transcript)
        steps = _KeptSteps(self._ctx)
        made = [await aside(self._ctx.tenant, made_of, id, call, tool, one, steps) for id, call, tool, one in wishes]
        self._look_for_ends(tools, made)
        return made

    # -- judging -------------------------------------------------------------------------------------------------------

    async def _judge(self, turn: str, calls: Sequence[Call], transcript: Transcript) -> list[dict[str, Any]]:
        """What is to become of each call; decided once, whatever the policies are when the agent is entered again."""

        async def judge() -> Any:
            return await aside(self._ctx.tenant, self._judge_all, calls, transcript)

        kept = await self._ctx.step(f"guard/{turn[1:]}", judge)
        found: list[dict[str, Any]] = kept["calls"]
        return found

    def _judge_all(self, calls: Sequence[Call], transcript: Transcript) -> dict[str, Any]:
        policies = self._policies()
        return {
            "label": str(transcript.label),
            "tainted_by": transcript.tainted_by[:20],
            "calls": [self._judge_one(call, transcript, policies) for call in calls],
        }

    def _judge_one(self, call: Call, transcript: Transcript, policies: Policies) -> dict[str, Any]:
        tool = self._plan.find_tool(call.name)
        about = {"tool": cut(call.name, 100)}
        if tool is None:
            hint = suggest(call.name, tuple(one.name for one in self._plan.tools))
            return {**about, "verdict": "invalid", "text": f"There is no tool {cut(ascii(call.name), 100)}; {hint}"}
        if (problem := find_bad_arguments(tool, call.arguments)) is not None:
            return {**about, "verdict": "invalid", "text": problem}
        found = self._decide(tool, call.arguments, transcript, policies)
        judged = {**about, "args": hash_of(tool.name, call.arguments), **msgspec.to_builtins(found)}
        if found.verdict == "deny":
            judged["text"] = f"This call is not allowed: {found.why}"
        return judged

    def _decide(self, tool: Tool, arguments: dict[str, Any], transcript: Transcript, policies: Policies) -> Ruling:
        ctx = self._ctx
        wish = Wish(
            tool=tool,
            arguments=arguments,
            label=transcript.label,
            agent=ctx.node,
            run={"id": ctx.run_id, "tenant": ctx.tenant},
            trusted=self._plan.trusted_text,
            unattended=bool(self._plan.approvals.get("unattended", False)),
        )
        return decide(wish, *policies)

    # -- people and runs -----------------------------------------------------------------------------------------------

    def _approval(
        self, tool: Tool | None, arguments: Any, judged: Mapping[str, Any], transcript: Transcript, said: str
    ) -> Approval:
        assert tool is not None
        first = {name: arguments[name] for name in tool.control if name in arguments}
        shown: dict[str, Any] = {
            "agent": self._ctx.node,
            "tool": tool.name,
            "effect": tool.effect,
            "arguments": {**first, **arguments},
            "args": judged["args"],
            "why": judged.get("why", ""),
            "untrusted": transcript.tainted_by[:20],
        }
        if judged.get("trifecta"):
            shown["trifecta"] = True
        if words := plain_words(said):
            shown["the agent says"] = words
        given = self._plan.approvals
        approvers = judged.get("approvers") or given.get("approvers") or None
        return Approval(show=shown, approvers=approvers, timeout_seconds=given.get("timeout_seconds"))

    def _ask(self, tool: Tool, arguments: dict[str, Any]) -> Ask:
        if tool.kind == "workflow":
            return Child(tool.target, arguments, tool.budget)
        given = self._plan.approvals
        return Approval(
            show={"agent": self._ctx.node, "the agent asks": plain_words(arguments["question"])},
            approvers=list(tool.approvers) or given.get("approvers") or None,
            timeout_seconds=tool.timeout_seconds or given.get("timeout_seconds"),
        )

    async def _ask_all(self, asks: Mapping[str, Ask]) -> dict[str, Any]:
        """The answers, asked for in groups that are not too large."""
        answers: dict[str, Any] = {}
        group: dict[str, Ask] = {}
        size = 0
        for name, one in asks.items():
            weight = len(msgspec.json.encode(one))
            if group and size + weight > _GROUP:
                answers |= await self._ctx.ask(group)
                group, size = {}, 0
            group[name] = one
            size += weight
        return answers | (await self._ctx.ask(group) if group else {})

    async def _follow(self, wishes: list[Any], answers: Mapping[str, Any], transcript: Transcript) -> None:
        """Make what was approved, with the arguments that were decided."""
        doing: list[Awaitable[None]] = []
        asks: dict[str, Ask] = {}
        for id, call, tool, _ in wishes:
            answer = answers[f"{id}.ok"]
            if answer["decision"] != "approve":
                if self._plan.approvals.get("on_reject") == "fail":
                    raise Failure("agent:rejected", f"{tool.name}: a person did not allow the call", retryable=False)
                continue
            arguments = call.arguments
            edited = answer["data"].get("arguments") if isinstance(answer.get("data"), dict) else None
            if edited is not None and edited != arguments:
                decided = await self._edit(id, tool, edited, transcript)
                if "text" in decided:
                    continue
                arguments = decided["arguments"]
            if tool.kind == "function":
                doing.append(self._run(id, tool, arguments))
            else:
                asks[id] = self._ask(tool, arguments)
        await self._do(doing)
        await self._ask_all(asks)

    async def _edit(self, id: str, tool: Tool, arguments: Any, transcript: Transcript) -> dict[str, Any]:
        """What a person made of the arguments: they have to fit, and no policy may deny them; nobody is asked again."""

        async def look() -> dict[str, Any]:
            if (problem := await aside(self._ctx.tenant, find_bad_arguments, tool, arguments)) is not None:
                return {"arguments": arguments, "text": f"A person changed the call. {problem}"}
            found = self._decide(tool, arguments, transcript, self._policies())
            if found.verdict == "deny":
                return {
                    "arguments": arguments,
                    "text": f"A person changed the call, and that is not allowed: {found.why}",
                }
            return {"arguments": arguments, "args": hash_of(tool.name, arguments)}

        kept: dict[str, Any] = await self._ctx.step(f"{id}.decided", look)
        return kept

    # -- functions -----------------------------------------------------------------------------------------------------

    async def _do(self, doing: Sequence[Awaitable[None]]) -> None:
        """Let all of them end, then raise what one raised: what was done is kept."""
        ended = await asyncio.gather(*doing, return_exceptions=True)
        raised = [one for one in ended if isinstance(one, BaseException)]
        if raised:
            raise next((one for one in raised if not isinstance(one, Exception)), raised[0])

    async def _run(self, id: str, tool: Tool | None, arguments: dict[str, Any]) -> None:
        """Make a call of a function, as the step of its id."""
        assert tool is not None
        made = tool
        args = hash_of(tool.name, arguments)
        key = f"{id}/{args[:16]}"

        async def call() -> dict[str, Any]:
            text, failed = await self._call(made, arguments, key)
            return {"tool": made.name, "args": args, "text": text, **({"failed": True} if failed else {})}

        terms: dict[str, Any] = {}
        if tool.is_once:
            terms = {"effect": "at_most_once"}
        elif tool.effect != "read":  # begun by leave of the journal, so that no two workers make it at once
            terms = {"reserve": Usage(calls=0)}
        async with self._places:
            try:
                await self._ctx.step(id, call, **terms)
            except StepAmbiguous:
                given = "" if self._ctx.is_sealing else f" with {cut(text_of(arguments), _SAID)}"
                raise StepAmbiguous(id, f"a call of {tool.name}{given}") from None

    async def _call(self, tool: Tool, arguments: dict[str, Any], key: str) -> tuple[str, bool]:
        """What the function gave as text, and whether it failed. A failure is an answer: the model may know another way."""
        try:
            function = get_function(tool)
            value = await call_function(function, dict(arguments), tool.target, self._ctx, ToolView(self._ctx, key))
            return await aside(self._ctx.tenant, text_of, value), False
        except Failure as error:
            return text_of({"error": {"code": error.code, "message": cut(str(error), _SAID)}}), True
        except Exception as error:  # noqa: BLE001  a function may raise anything
            return text_of({"error": {"code": type(error).__name__, "message": cut(str(error), _SAID)}}), True

    def _look_for_ends(self, tools: Iterable[Tool | None], made: Sequence[Made]) -> None:
        for tool, one in zip(tools, made, strict=True):
            if tool is not None and tool.fatal and one.failed and not one.denied:
                raise Failure("agent:tool_failed", f"{tool.name}: {cut(one.text, _SAID)}", retryable=False)


class _KeptSteps(Mapping[str, Any]):
    """The steps of an attempt, read by name."""

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx

    def __getitem__(self, name: str) -> Any:
        found = self._ctx.find_step(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Any:
        raise NotImplementedError("steps are found by name")

    def __len__(self) -> int:
        raise NotImplementedError("steps are found by name")


def _is_ready(tool: Tool | None, judged: Mapping[str, Any]) -> bool:
    return tool is not None and tool.kind == "function" and judged["verdict"] == "allow"


def find_bad_arguments(tool: Tool, arguments: Any) -> str | None:
    """What is wrong with the arguments of a call, in words for the model."""
    if not isinstance(arguments, dict):
        return f"{tool.name} was not called: its arguments are no JSON object"
    size = len(msgspec.json.encode(arguments))
    if size > LARGEST_ARGUMENTS:
        return f"{tool.name} was not called: its arguments have {size:,} bytes, and {LARGEST_ARGUMENTS:,} are allowed"
    problems = find_problems(tool.schema, arguments)
    if not problems:
        return None
    told = "; ".join(cut(one, 300) for one in problems[:10])
    return f"{tool.name} was not called: its arguments do not fit: {told}"


def plain_words(text: str) -> str:
    """What an agent says to a person: short, without what cannot be seen and without links."""
    return cut(_LINK.sub("[link]", _UNSEEN.sub(" ", text)), _SAID).strip()
