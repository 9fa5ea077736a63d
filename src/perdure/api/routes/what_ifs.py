"""What-ifs over HTTP. What each does is in `perdure.service.runs.what_ifs`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from perdure.access import Permission
from perdure.api.endpoints import Answer, Call, Routes, hash_of
from perdure.api.request_reader import Body
from perdure.api.routes.run_readings import Item, Visit
from perdure.api.routes.runs import GivenLimits, answer_of, as_given
from perdure.api.schemas.what_if_schemas import WhatIfReport, WhatIfStarted

routes = Routes("runs")
LONGEST_INSTRUCTIONS = 100_000


class WhatIf(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: (
        Annotated[str, Meta(description="Only the conversations of this node.", min_length=1, max_length=200)] | None
    ) = None
    visit: Visit | None = None
    item: Item | None = None
    model: (
        Annotated[
            str,
            Meta(
                description="A model of the operator's file; without, the one that was asked.",
                min_length=1,
                max_length=300,
            ),
        ]
        | None
    ) = None
    instructions: (
        Annotated[
            str,
            Meta(
                description="In the place of what the author told the model first: `instructions`, or `system`.",
                max_length=LONGEST_INSTRUCTIONS,
            ),
        ]
        | None
    ) = None
    params: (
        Annotated[
            dict[str, Any], Meta(description="Parameters as in the config of the node; others stay as they were.")
        ]
        | None
    ) = None
    turns: Annotated[int, Meta(description="How many turns an agent may take.", ge=1, le=1000)] | None = None
    tools: Annotated[
        Literal["pure", "recorded"],
        Meta(description="`recorded`: Perdure's own tools that only compute are not run either."),
    ] = "pure"
    budget: GivenLimits | None = None


@routes.post(
    "/runs/{run_id}/what-if",
    Permission.COSTS_WRITE,
    WhatIfStarted,
    status=201,
    also={200: WhatIfStarted},
    needs_body=False,
)
async def what_if(call: Call, body: WhatIf) -> Answer:
    """Go through the conversations of a run with models again, with another model, other instructions or parameters.

    The what-if is a run of its own. The model is really called, within `budget`; without one, the budget of the run or of its nodes holds.
    Tools are answered from history where tool and arguments equal a recorded call; what only computes is run, and everything else is
    `not_recorded`. Nothing with an effect is done, and nobody is asked. This also needs the permission `runs:read`.
    """
    call.principal.require(Permission.RUNS_READ)
    call.noted = {"model": body.model, "given": hash_of([body.instructions, body.params])}
    started = await call.service.runs.begin_what_if(
        call.path("run_id"),
        node=body.node,
        visit=body.visit,
        item=body.item,
        model=body.model,
        instructions=body.instructions,
        params=body.params,
        turns=body.turns,
        tools=body.tools,
        budget=as_given(body.budget),
        key=call.key,
    )
    return answer_of(started)


@routes.get("/runs/{run_id}/what-if", Permission.RUNS_READ, WhatIfReport)
async def what_if_report(call: Call) -> Any:
    """Get what a what-if came to, as far as it is: where each conversation diverges, and what it used and answered."""
    return await call.service.runs.what_if_report(call.path("run_id"))
