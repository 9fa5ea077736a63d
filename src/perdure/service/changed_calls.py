"""What an approver made of an agent's call, looked at when it is given: what cannot fit is refused, and the vote is not spent.

Whether it may be made is decided by the agent, which knows what it has read and the policies. It must not know HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from perdure.agents.route_guard import NEXT_NODES
from perdure.agents.tool_calls import find_bad_arguments
from perdure.agents.transcript import Plan
from perdure.budget import Budget
from perdure.journal import ApprovalRow
from perdure.kernel import events as e
from perdure.service.errors import InputsInvalid, Trouble
from perdure.service.runs.history import read_all
from perdure.threads import aside

if TYPE_CHECKING:
    from perdure.engine import Engine


async def check_changed_call(engine: Engine, row: ApprovalRow, arguments: Any, budget: Budget | None) -> None:
    """Refuse arguments that the tool cannot take, or a way that the agent may not go. Raises InputsInvalid."""
    begun: dict[Any, Any] = {}
    """What the agents of the run began with, by their place."""
    asked: e.ApprovalRequested | None = None
    async for event in read_all(engine, row.run_id):
        if isinstance(event, e.NodeCheckpointed) and event.step == "prefix":
            begun[event.node, event.visit, event.scope] = event.data
        elif isinstance(event, e.ApprovalRequested) and event.approval == row.approval_id:
            asked = event
            break
    if asked is None or not asked.ask.endswith(".ok"):
        return
    first = await engine.contents.resolve(row.tenant, begun.get((asked.node, asked.visit, asked.scope)), budget=budget)
    shown = await engine.contents.resolve(row.tenant, asked.shown, budget=budget)
    if not isinstance(first, dict) or "request" not in first or not isinstance(shown, dict):
        return
    problem = await aside(row.tenant, _find_problem, first, shown.get("tool"), arguments)
    if problem is not None:
        raise InputsInvalid(problem, [Trouble("data.arguments", "wrong_value", problem)])


def _find_problem(first: dict[str, Any], name: Any, arguments: Any) -> str | None:
    """What is wrong with the arguments. Nothing is said of those that may hold handles, and of ways that the agent itself may have added."""
    plan = msgspec.convert(first, Plan)
    if name == NEXT_NODES:
        return None if any(tool.kind == "patch" for tool in plan.tools) else _find_wrong_way(plan, arguments)
    tool = plan.find_tool(str(name))
    if tool is None or any(one.kind == "read_handle" for one in plan.tools):
        return None
    problem = find_bad_arguments(tool, arguments, arguments)
    return None if problem is None else problem.replace("was not called", "cannot be called so", 1)


def _find_wrong_way(plan: Plan, arguments: Any) -> str | None:
    chosen = arguments.get(NEXT_NODES) if isinstance(arguments, dict) else None
    if isinstance(chosen, list) and all(one in plan.routes for one in chosen):
        return None
    return f"this agent cannot go so: {NEXT_NODES} is a list of {', '.join(plan.routes)}"
