"""What `perdure dev` has besides the API: a button that kills the process, and the sample.

Mounted only there, and only where the server lets every caller of this machine in. Each request must come from a page of the server
itself: a program that may kill a process of this user can do so without a server.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from starlette.background import BackgroundTask
from starlette.responses import Response

from perdure import sample
from perdure.access import Permission
from perdure.api.endpoints import Call, Routes
from perdure.api.own_pages import check_own_page
from perdure.api.schemas.general_schemas import View
from perdure.errors import NotFound, Refused
from perdure.service import Service

routes = Routes("dev")


class Sample(View, frozen=True, kw_only=True):
    run_id: str
    workflow: str


@routes.post("/dev/kill", Permission.SYSTEM_OPERATE, None, status=202)
async def kill(call: Call) -> Response:
    """Kill the process that answers, as `kill -9` does. Another one goes on with everything."""
    check_own_page(call.request, call.site.options.public_url)
    return Response(status_code=202, background=BackgroundTask(os.kill, os.getpid(), signal.SIGKILL))


@routes.post("/dev/sample", Permission.SYSTEM_OPERATE, Sample, status=201)
async def start_sample(call: Call) -> Any:
    """Register the sample and start a run of it."""
    check_own_page(call.request, call.site.options.public_url)
    return await begin(call.service)


@routes.delete("/dev/sample", Permission.SYSTEM_OPERATE, None, status=204)
async def remove_sample(call: Call) -> Response:
    """Cancel what runs of the sample, and delete its workflow. Runs that have ended stay until they are pruned as all others."""
    check_own_page(call.request, call.site.options.public_url)
    await remove(call.service)
    return Response(status_code=204)


async def begin(service: Service, *, first: bool = False) -> dict[str, Any]:
    """A run of the sample; the first one is called `sample`."""
    await service.workflows.register(sample.DEFINITION)
    begun = await service.runs.start(sample.NAME, run_id=sample.RUN_ID if first else None)
    return {"run_id": begun["run_id"], "workflow": sample.NAME}


async def remove(service: Service) -> None:
    page = await service.runs.list(workflow=sample.NAME, limit=100).first()
    for run in page["items"]:
        if run["ended_at"] is None:
            try:
                await service.runs.cancel(run["run_id"], reason="the sample is removed", force=True)
            except Refused:  # it has ended meanwhile
                continue
    try:
        await service.workflows.delete(sample.NAME)
    except NotFound:  # by another page, just now
        return
