"""The calls of one turn: judged, made side by side, and kept.

What may be made at once is made first, then everything that needs people or child runs is asked for together, and then what
was approved is made. Each call has one result, which is a step; a crash repeats at most the calls under way, and none of those that
may happen once (rule 81).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import msgspec

from perdure.agents.agent_session import RECALLED, Note, recall
from perdure.agents.call_guard import LARGEST_SHOWN, Ruling, Wish, decide, hash_of
from perdure.agents.light import is_light
from perdure.agents.mcp_client import call_tool
from perdure.agents.openapi_calls import call_operation, without_secrets
from perdure.agents.own_tools import DELEGATE, MOST_DELEGATIONS, bind, find_misuse
from perdure.agents.patch_guard import list_wishes, strictest
from perdure.agents.pipeline_shapes import Use, lift
from perdure.agents.route_guard import NEXT_NODES, decide_route, route_tool
from perdure.agents.tool import Tool
from perdure.agents.tool_search import LIMIT, search_tools
from perdure.agents.tool_view import PipelineView, ToolView
from perdure.agents.toolbox import get_function
from perdure.agents.transcript import AGAIN, HAPPENED, Made, Plan, Transcript, made_of, text_of
from perdure.agents.value_handles import (
    LARGEST_VALUE,
    SAMPLE_ROWS,
    SHOWN_BYTES,
    NoHandle,
    call_of,
    expand,
    handle_of,
    preview,
    read_part,
)
from perdure.asks import LARGEST_ASKS, Approval, Ask, Child, Patch
from perdure.llms.policy_rows import Policy
from perdure.llms.port import Call
from perdure.llms.structured import find_problems
from perdure.nodes import function, transform
from perdure.nodes.task import call_function
from perdure.outcomes import Failure, StepAmbiguous
from perdure.plain_text import cut
from perdure.spelling import suggest
from perdure.spending import Usage
from perdure.threads import aside

Policies = tuple[Sequence[Policy], Sequence[Policy]]
"""The policies of the operator, and those of the workflow."""
LARGEST_ARGUMENTS = 64 * 1024
MOST_SHAPES = 20
"""How many pipelines of one agent are looked at to become tools."""
_GROUP = LARGEST_ASKS // 2
"""How many bytes of calls are asked for at once; the others follow when these are answered."""
_SAID = 1_000
_FEW = 10
"""So many small calls are judged in no time."""
_LEAVING = frozenset({"remember", "pipeline"})
"""Tools that leave something for later runs."""
P = ParamSpec("P")
T = TypeVar("T")
_LINK = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://\S+|\bwww\.\S+")


class Bound(msgspec.Struct, frozen=True):
    """A call as it is made."""

    id: str
    tool: Tool
    """What it comes to: a delegation is a workflow, a pipeline without requests only reads."""
    given: Any
    """What that is given."""
    arguments: Any
    """What was judged: the arguments of the model, with what handles stand for."""
    args: str
    """Their hash."""
    approvers: list[str] | None = None
    """Who had to allow it, and decides what becomes of it if that is not known; None: those of the agent."""


class ToolCalls:
    def __init__(self, plan: Plan, ctx: Any, policies: Callable[[], Policies]) -> None:
        self._plan = plan
        self._ctx = ctx
        self._policies = policies
        self._places = asyncio.Semaphore(plan.parallel)
        self._has_handles = any(tool.kind == "read_handle" for tool in plan.tools)
        self.notes: dict[str, Note] = {}
        """The notes that were made, by call."""
        self.shapes: dict[str, Use] = {}
        """The pipelines that were run, by their shape."""

    async def make(self, turn: str, calls: Sequence[Call], transcript: Transcript, said: str) -> list[Made]:
        """What the calls of a turn gave, in their order. Raises Failure."""
        calls = [self._plan.meant(call) for call in calls]
        judged = await self._judge(turn, calls, transcript)
        ids = [f"{turn}.{number}" for number in range(len(calls))]
        tools = [self._plan.find_tool(call.name) for call in calls]
        wishes = list(zip(ids, calls, tools, judged, strict=True))
        allowed = [
            await self._bind(id, tool, call.arguments) for id, call, tool, one in wishes if _is_allowed(tool, one)
        ]
        await self._do([bound for bound in allowed if not bound.tool.is_asked])
        asks: dict[str, Ask] = {}
        for id, call, tool, one in wishes:
            if one["verdict"] == "ask":
                bound = await self._bind(id, tool, call.arguments)
                asks[f"{id}.ok"] = self._approval(bound, one, transcript, said)
        asks |= {bound.id: self._ask(bound.tool, bound.given) for bound in allowed if bound.tool.is_asked}
        answers = await self._ask_all(asks)
        await self._follow([wish for wish in wishes if wish[3]["verdict"] == "ask"], answers, transcript)
        steps = _KeptSteps(self._ctx)
        made = [
            await self._do_work(_is_told(one, self._ctx.find_step(id)), made_of, id, call, tool, one, steps)
            for id, call, tool, one in wishes
        ]
        self._look_for_ends(tools, made)
        leaves = any(tool is not None and tool.kind in _LEAVING for tool in tools)
        await self._do_work(not leaves, self._collect, tools, made, transcript)
        return made

    async def _do_work(self, light: bool, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """Do it here if that takes no time, and beside the loop otherwise."""
        return work(*args, **more) if light else await aside(self._ctx.tenant, work, *args, **more)

    def _is_light(self, tool: Tool | None, arguments: Any) -> bool:
        """Whether a call is looked at in no time: it stands for nothing else, and is small, as is what it has to fit."""
        return not self._has_handles and is_light(arguments, None if tool is None else tool.schema)

    def _collect(self, tools: Sequence[Tool | None], made: Sequence[Made], transcript: Transcript) -> None:
        """Note what the calls leave for later runs. It may take time."""
        for tool, one in zip(tools, made, strict=True):
            if tool is None or one.failed or one.denied:
                continue
            if tool.kind == "remember":
                given = one.arguments
                self.notes[one.id] = Note(given["text"], str(transcript.label), given.get("key", ""))
            elif tool.kind == "pipeline" and len(self.shapes) < MOST_SHAPES:
                use = lift(one.arguments.get("pipeline"))
                if use is not None:
                    self.shapes.setdefault(use.hash, use)

    # -- judging -------------------------------------------------------------------------------------------------------

    async def _judge(self, turn: str, calls: Sequence[Call], transcript: Transcript) -> list[dict[str, Any]]:
        """What is to become of each call; decided once, whatever the policies are when the agent is entered again."""

        async def judge() -> Any:
            light = not any(self._policies())  # conditions take time
            light = light and all(self._is_light(self._plan.find_tool(one.name), one.arguments) for one in calls)
            return await self._do_work(light and len(calls) <= _FEW, self._judge_all, calls, transcript)

        kept = await self._ctx.step(f"guard/{turn[1:]}", judge)
        found: list[dict[str, Any]] = kept["calls"]
        return found

    def _judge_all(self, calls: Sequence[Call], transcript: Transcript) -> dict[str, Any]:
        policies = self._policies()
        return {
            "label": str(transcript.label),
            "tainted_by": transcript.tainted_by[:20],
            "calls": [
                self._judge_one(call, transcript, policies, sum(one.name == call.name for one in calls[:number]))
                for number, call in enumerate(calls)
            ],
        }

    def _judge_one(self, call: Call, transcript: Transcript, policies: Policies, before: int) -> dict[str, Any]:
        """What is to become of a call; so many of its tool stand `before` it in the turn."""
        tool = self._plan.find_tool(call.name)
        about = {"tool": cut(call.name, 100)}
        if tool is None:
            hint = suggest(call.name, tuple(one.name for one in self._plan.tools))
            return {**about, "verdict": "invalid", "text": f"There is no tool {cut(ascii(call.name), 100)}; {hint}"}
        arguments, problem = self._read(tool, call.arguments)
        if problem is None and tool.kind == "delegate":
            problem = _find_too_many(before, transcript.made[tool.name])
        if problem is not None:
            return {**about, "verdict": "invalid", "text": problem}
        found = self._decide(bind(tool, arguments)[0], arguments, transcript, policies)
        judged = {**about, "args": hash_of(tool.name, arguments), **msgspec.to_builtins(found)}
        if found.verdict == "deny":
            judged["text"] = f"This call is not allowed: {found.why}"
        return judged

    def _read(self, tool: Tool, given: Any) -> tuple[Any, str | None]:
        """The arguments of a call with what their handles stand for, and what is wrong with them. It may take time."""
        try:
            arguments = expand(given, self._get_value) if self._has_handles else given
        except NoHandle as error:
            return given, f"{tool.name} was not called: {error}"
        return arguments, find_bad_arguments(tool, given, arguments)

    def _get_value(self, handle: str) -> Any:
        kept = self._ctx.find_step(call_of(handle))
        if not isinstance(kept, dict) or "value" not in kept:
            raise NoHandle(f"there is no handle {cut(ascii(handle), 60)}")
        return kept["value"]

    async def _bind(self, id: str, tool: Tool | None, given: Any, approvers: list[str] | None = None) -> Bound:
        """A call that may be made, as it is made, with who decides about it."""
        assert tool is not None
        found = tool

        def make() -> Bound:
            arguments = self._read(found, given)[0]
            return Bound(id, *bind(found, arguments), arguments, hash_of(found.name, arguments), approvers)

        return await self._do_work(self._is_light(found, given), make)

    def _decide(self, tool: Tool, arguments: dict[str, Any], transcript: Transcript, policies: Policies) -> Ruling:
        wish = self._wish(tool, arguments, transcript)
        found = decide(wish, *policies)
        if tool.kind != "patch":
            return found
        return strictest(found, [decide(one, *policies) for one in list_wishes(wish, self._plan.tools)])

    def _wish(self, tool: Tool, arguments: dict[str, Any], transcript: Transcript) -> Wish:
        ctx = self._ctx
        return Wish(
            tool=tool,
            arguments=arguments,
            label=transcript.label,
            agent=ctx.node,
            run={"id": ctx.run_id, "tenant": ctx.tenant},
            trusted=self._plan.trusted_text,
            unattended=bool(self._plan.approvals.get("unattended", False)),
        )

    # -- the route -----------------------------------------------------------------------------------------------------

    async def lead(self, turn: str, answer: Mapping[str, Any], transcript: Transcript) -> tuple[list[str], str | None]:
        """Where the run may go on after an answer, and why it may not go where that says. Nowhere: its default. Raises Failure."""
        id = f"{turn}.0"
        chosen = list(dict.fromkeys(answer["next_nodes"]))
        judged = await self._judge_route(turn, chosen, transcript)
        if judged["verdict"] != "ask":
            return chosen, judged.get("text")
        tool = route_tool(self._plan, chosen)
        bound = Bound(id, tool, None, {NEXT_NODES: chosen}, judged["args"])
        said = await self._ask_all({f"{id}.ok": self._approval(bound, judged, transcript, answer["reasoning"])})
        decided = said[f"{id}.ok"]
        if decided["decision"] != "approve":
            if self._plan.approvals.get("on_reject") == "fail":
                raise Failure("agent:rejected", "a person did not allow the route", retryable=False)
            return [], None
        edited = decided["data"].get("arguments") if isinstance(decided.get("data"), dict) else None
        if edited is None or edited == bound.arguments:
            return chosen, None
        kept = await self._edit_route(id, tool, edited, transcript)
        return ([], kept["text"]) if "text" in kept else (kept["arguments"][NEXT_NODES], None)

    async def _edit_route(self, id: str, tool: Tool, arguments: Any, transcript: Transcript) -> dict[str, Any]:
        """What a person made of the route: it has to be one of the agent's, and no policy may deny it."""

        def judge() -> dict[str, Any]:
            others = arguments.get(NEXT_NODES) if isinstance(arguments, dict) else None
            if not isinstance(others, list) or any(one not in transcript.routes for one in others):
                listed = ", ".join(transcript.routes)
                text = f"a person changed the route to one that is none of this agent's: next_nodes may be {listed}"
                return {"arguments": arguments, "text": text}
            wish = self._wish(tool, {NEXT_NODES: others}, transcript)
            found = decide_route(wish, self._plan, others, self._policies())
            if found.verdict != "deny":
                return {"arguments": arguments}
            text = f"a person changed the route, and that is not allowed by {found.rule}: {found.why}"
            return {"arguments": arguments, "text": text}

        async def look() -> dict[str, Any]:
            return await aside(self._ctx.tenant, judge)

        kept: dict[str, Any] = await self._ctx.step(f"{id}.decided", look)
        return kept

    async def _judge_route(self, turn: str, chosen: list[str], transcript: Transcript) -> dict[str, Any]:
        """What is to become of a route; decided once, as calls are."""

        def judge() -> dict[str, Any]:
            tool, arguments = route_tool(self._plan, chosen), {NEXT_NODES: chosen}
            found = decide_route(self._wish(tool, arguments, transcript), self._plan, chosen, self._policies())
            judged = {"tool": NEXT_NODES, "route": chosen, "args": hash_of(NEXT_NODES, arguments)}
            judged |= msgspec.to_builtins(found)
            if found.verdict == "deny":
                judged["text"] = f"the run may not go on at {', '.join(chosen)}: {found.why}"
            label = str(transcript.label)
            return {"label": label, "tainted_by": transcript.tainted_by[:20], "calls": [judged]}

        async def give() -> dict[str, Any]:
            return await aside(self._ctx.tenant, judge)

        kept = await self._ctx.step(f"guard/{turn[1:]}", give)
        found: dict[str, Any] = kept["calls"][0]
        return found

    # -- people and runs -----------------------------------------------------------------------------------------------

    def _approval(self, bound: Bound, judged: Mapping[str, Any], transcript: Transcript, said: str) -> Approval:
        tool, arguments = bound.tool, bound.arguments
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
        timeout = self._plan.approvals.get("timeout_seconds")
        return Approval(show=shown, approvers=self._approvers(judged), timeout_seconds=timeout)

    def _approvers(self, judged: Mapping[str, Any]) -> list[str] | None:
        """Who decides about a call; None: anyone who may decide."""
        found = judged.get("approvers") or self._plan.approvals.get("approvers")
        return list(found) if found else None

    def _ask(self, tool: Tool, arguments: dict[str, Any]) -> Ask:
        if tool.kind == "workflow":
            return Child(tool.target, arguments, tool.budget)
        if tool.kind == "patch":
            return Patch(arguments["patch_spec"]["operations"], arguments["patch_spec"]["description"])
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
        doing: list[Bound] = []
        asks: dict[str, Ask] = {}
        for id, call, tool, judged in wishes:
            answer = answers[f"{id}.ok"]
            if answer["decision"] != "approve":
                if self._plan.approvals.get("on_reject") == "fail":
                    raise Failure("agent:rejected", f"{tool.name}: a person did not allow the call", retryable=False)
                continue
            arguments = call.arguments
            edited = answer["data"].get("arguments") if isinstance(answer.get("data"), dict) else None
            if edited is not None and edited != arguments:
                decided = await self._edit(id, tool, edited, transcript, self._approvers(judged))
                if "text" in decided:
                    continue
                arguments = decided["arguments"]
            bound = await self._bind(id, tool, arguments, self._approvers(judged))
            if bound.tool.is_asked:
                asks[id] = self._ask(bound.tool, bound.given)
            else:
                doing.append(bound)
        await self._do(doing)
        await self._ask_all(asks)

    async def _edit(
        self, id: str, tool: Tool, arguments: Any, transcript: Transcript, asked: Sequence[str] | None
    ) -> dict[str, Any]:
        """What a person made of the arguments: they have to fit, no policy may deny them, and where a policy says who decides about
        them, only those may have been `asked`. Nobody is asked again: the model may make that call itself."""

        def read() -> tuple[Any, str | None]:
            arguments_read, problem = self._read(tool, arguments)
            if problem is not None:
                return arguments_read, f"A person changed the call. {problem}"
            found = self._decide(bind(tool, arguments_read)[0], arguments_read, transcript, self._policies())
            if found.verdict == "deny":
                return (
                    arguments_read,
                    f"A person changed the call, and that is not allowed by {found.rule}: {found.why}",
                )
            if found.verdict == "ask" and found.approvers and not (asked and set(asked) <= set(found.approvers)):
                said = f"A person changed the call to one that others decide about ({found.why})"
                return arguments_read, f"{said}: call it so, and they are asked"
            return arguments_read, None

        async def look() -> dict[str, Any]:
            found, problem = await aside(self._ctx.tenant, read)
            if problem is not None:
                return {"arguments": arguments, "text": problem}
            return {"arguments": arguments, "args": hash_of(tool.name, found)}

        kept: dict[str, Any] = await self._ctx.step(f"{id}.decided", look)
        return kept

    # -- steps ---------------------------------------------------------------------------------------------------------

    async def _do(self, bounds: Sequence[Bound]) -> None:
        """Make calls, and let all of them end before one's failure is raised: what was done is kept. About those of which nobody
        knows whether they happened a person is asked: they are made again if the person says so, and never by themselves."""
        # What was asked about is not begun anew under its first name, also after a requeue, which lets steps begin again.
        doubtful = [bound for bound in bounds if self._ctx.find_step(f"{bound.id}{HAPPENED}") is not None]
        fresh = [bound for bound in bounds if bound not in doubtful]
        ended = await asyncio.gather(*(self._run(bound, bound.id) for bound in fresh), return_exceptions=True)
        raised = [one for one in ended if isinstance(one, BaseException) and not self._is_asked(one)]
        if raised:
            raise next((one for one in raised if not isinstance(one, Exception)), raised[0])
        doubtful += [bound for bound, one in zip(fresh, ended, strict=True) if one is not None]
        answers = await self._ask_all({f"{bound.id}{HAPPENED}": self._doubt(bound) for bound in doubtful})
        for bound in doubtful:
            if answers[f"{bound.id}{HAPPENED}"]["decision"] == "approve":
                await self._run(bound, f"{bound.id}{AGAIN}")

    def _is_asked(self, error: BaseException) -> bool:
        attended = not self._plan.approvals.get("unattended") and not self._ctx.is_sealing
        return isinstance(error, StepAmbiguous) and attended

    def _doubt(self, bound: Bound) -> Approval:
        """A question about a call that began and has no result."""
        size = len(msgspec.json.encode(bound.arguments))
        shown = {
            "agent": self._ctx.node,
            "tool": bound.tool.name,
            "effect": bound.tool.effect,
            "arguments": bound.arguments if size <= LARGEST_SHOWN else cut(text_of(bound.arguments), LARGEST_SHOWN),
            "args": bound.args,
            "why": "the call began, and its worker ended before it had a result: nobody knows whether it happened",
            "approve": "it did not happen, and is made again",
            "reject": "it is not made again; the agent is told your comments, and data.result as what the call gave",
        }
        return Approval(show=shown, approvers=bound.approvers or self._approvers({}))

    async def _run(self, bound: Bound, id: str) -> None:
        """Make a call that needs neither people nor a run, as the step of this name."""
        tool = bound.tool

        async def call() -> dict[str, Any]:
            kept: dict[str, Any] = {"tool": tool.name, "args": bound.args}
            if tool.kind != "function":
                kept["label"] = str(tool.returns)  # it depends on the arguments
            return kept | await self._call(bound, f"{id}/{bound.args[:16]}")

        terms: dict[str, Any] = {}
        if tool.is_once:
            terms = {"effect": "at_most_once"}
        elif tool.effect != "read":  # begun by leave of the journal, so that no two workers make it at once
            terms = {"reserve": Usage(calls=0)}
        async with self._places:
            try:
                await self._ctx.step(id, call, **terms)
            except StepAmbiguous:
                given = "" if self._ctx.is_sealing else f" with {cut(text_of(bound.arguments), _SAID)}"
                raise StepAmbiguous(id, f"a call of {tool.name}{given}") from None

    async def _call(self, bound: Bound, key: str) -> dict[str, Any]:
        """What the call gave, as it is kept. A failure is an answer: the model may know another way."""
        try:
            if bound.tool.kind == "recall":
                return await aside(self._ctx.tenant, self._recall, bound.given)
            value = await self._make(bound, key)
            return await self._do_work(is_light(value), self._keep, bound, value)
        except (Failure, NoHandle) as error:
            code = error.code if isinstance(error, Failure) else "no_handle"
            return failed_call(code, str(error))
        except Exception as error:  # noqa: BLE001  a function may raise anything
            return failed_call(type(error).__name__, str(error))

    async def _make(self, bound: Bound, key: str) -> Any:
        tool, given = bound.tool, bound.given
        view = ToolView(self._ctx, key)
        if tool.kind == "pipeline":
            return await transform.handle(given, PipelineView(self._ctx, view))
        if tool.kind == "code":
            return await function.compute({"code": given["code"]}, given["input"], self._ctx.tenant)
        if tool.kind == "openapi":
            return await call_operation(tool.apis[0], given, self._ctx, view.idempotency_key)
        if tool.kind == "mcp":
            value = await call_tool(tool.target, tool.remote[0], given, self._ctx)
            return await aside(self._ctx.tenant, without_secrets, value)
        if tool.kind == "search_tools":
            limit = given.get("limit", LIMIT)
            return await aside(self._ctx.tenant, search_tools, self._plan.tools, given["query"], limit)
        if tool.kind == "remember":
            return {"kept": True}
        if tool.kind == "read_handle":
            return await aside(self._ctx.tenant, lambda: read_part(self._get_value(given["handle"]), given))
        return await call_function(get_function(tool), dict(given), tool.target, self._ctx, view)

    def _recall(self, given: dict[str, Any]) -> dict[str, Any]:
        """Notes of the session, those of this run first, with what they are to be believed."""
        notes = [*reversed(self.notes.values()), *self._plan.notes]
        found, label = recall(notes, given["query"], given.get("limit", RECALLED))
        return {"text": text_of(found), "label": str(label)}

    def _keep(self, bound: Bound, value: Any) -> dict[str, Any]:
        """What is kept of a result: as the model is shown it, and whole where that is a handle. It may take time."""
        if not self._has_handles or bound.tool.kind in ("read_handle", "search_tools"):
            return {"text": text_of(value)}
        size = len(msgspec.json.encode(value))
        if size <= SHOWN_BYTES:
            return {"text": text_of(value)}
        if size > LARGEST_VALUE:
            return failed_call("too_large", f"it gave {size:,} bytes, and {LARGEST_VALUE:,} are allowed; ask for less")
        if bound.tool.kind == "openapi" and len(msgspec.json.encode(value["body"])) > SHOWN_BYTES:
            shown = preview(handle_of(bound.id), value["body"], size)
            return {"text": f'{{"status":{value["status"]},{shown[1:]}', "value": value["body"]}
        rows = bound.arguments.get("show", SAMPLE_ROWS) if bound.tool.kind == "pipeline" else SAMPLE_ROWS
        return {"text": preview(handle_of(bound.id), value, size, rows), "value": value}

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


def _is_told(judged: Mapping[str, Any], kept: Any) -> bool:
    """Whether what the model is told of a call is kept as it is told."""
    return "text" in judged or (isinstance(kept, dict) and "text" in kept)


def _is_allowed(tool: Tool | None, judged: Mapping[str, Any]) -> bool:
    return tool is not None and judged["verdict"] == "allow"


def failed_call(code: str, message: str) -> dict[str, Any]:
    return {"text": text_of({"error": {"code": code, "message": cut(message, _SAID)}}), "failed": True}


def _find_too_many(turn: int, before: int) -> str | None:
    """Why an agent does not delegate again, after so many times in this turn and before it."""
    for what, made in (("turn", turn), ("agent", turn + before)):
        if made >= MOST_DELEGATIONS[what]:
            return f"{DELEGATE} was not called: {MOST_DELEGATIONS[what]} times a{'n' * (what == 'agent')} {what} are the most"
    return None


def find_bad_arguments(tool: Tool, given: Any, arguments: Any) -> str | None:
    """What is wrong with the arguments of a call, in words for the model: as they were `given`, and with what handles stand for."""
    if not isinstance(arguments, dict):
        return f"{tool.name} was not called: its arguments are no JSON object"
    size = len(msgspec.json.encode(given))
    if size > LARGEST_ARGUMENTS:
        return f"{tool.name} was not called: its arguments have {size:,} bytes, and {LARGEST_ARGUMENTS:,} are allowed"
    problems = find_problems(tool.schema, arguments)
    if not problems and (misuse := find_misuse(tool, arguments)) is not None:
        problems = [misuse]
    if not problems:
        return None
    told = "; ".join(cut(one, 300) for one in problems[:10])
    return f"{tool.name} was not called: its arguments do not fit: {told}"


def plain_words(text: str) -> str:
    """What an agent says to a person: short, without what cannot be seen and without links."""
    seen = "".join(one if one.isprintable() else " " for one in text[: 10 * _SAID])
    return cut(_LINK.sub("[link]", seen), _SAID).strip()
