"""Whether an agent may let the run go on where it chose: a pure function, judged as a call is.

A route is a way to make others act. Where something behind it may be written or sent before people are asked, it counts as a call that
sends: an agent that has read what a stranger could have written does not choose it alone. `branch.approve` of the definition says
that people are always asked, or never. The kernel sees to it that no other nodes are chosen than the definition lists, and how
many (rules 22 and 38); policies and labels are judged here, and kept as the step `guard/<n>` of the last turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.agents.call_guard import Ruling, Wish, decide
from perdure.agents.patch_guard import strictest
from perdure.agents.tool import Effect, Tool
from perdure.agents.transcript import Plan
from perdure.llms.policy_rows import Policy

NEXT_NODES = "next_nodes"


def route_tool(plan: Plan, targets: Sequence[str]) -> Tool:
    """What a choice comes to, as a call: one that sends, if something may be sent behind it. A node that the agent has added may
    lead to any that it may choose."""
    acts = any(one in plan.sinks or one not in plan.routes for one in targets)
    sends = plan.approve is None and bool(plan.sinks) and acts
    effect: Effect = "send" if sends or plan.approve else "read"
    return Tool(name=NEXT_NODES, kind="route", effect=effect, approve="always" if plan.approve else "tainted")


def decide_route(
    wish: Wish, plan: Plan, chosen: Sequence[str], policies: tuple[Sequence[Policy], Sequence[Policy]]
) -> Ruling:
    """Whether the run may go on at all of these nodes."""
    found = [decide(msgspec.structs.replace(wish, tool=route_tool(plan, [one]), to=one), *policies) for one in chosen]
    return strictest(found[0], found[1:]) if found else Ruling("allow", "nowhere")
