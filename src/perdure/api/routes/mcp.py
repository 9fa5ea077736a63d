"""The Model Context Protocol over streamable HTTP: workflows as tools, their runs as resources and tasks. What is offered, and to whom, is in
`perdure.service.offered_tools`; how messages look, in `perdure.api.mcp_messages`.

A caller is authenticated, limited and allowed as with any other request. There are no sessions: any server answers any message.
"""

from __future__ import annotations

import datetime
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from importlib import metadata
from typing import Any

import msgspec
from starlette.responses import Response

from perdure.access import Permission
from perdure.api import mcp_messages as m
from perdure.api.endpoints import Call, Routes, hash_of
from perdure.api.lasting_answer import LastingAnswer, while_allowed
from perdure.api.problem_details import BadBody, NoRoute
from perdure.api.request_reader import media_type, off_the_loop, read_bytes, read_json
from perdure.errors import NotFound
from perdure.errors import Refused as Unwanted
from perdure.service.offered_tools import DECIDE, OWN, WAIT_SECONDS, OfferedTools, Told
from perdure.service.runs.run_streams import ALIVE_SECONDS, LOOK_SECONDS

TASKS = "io.modelcontextprotocol/tasks"
TASK_WAIT_SECONDS = 2.0
"""How long a call waits for its run where the client would as well have a task."""
_POLL_MS = 2_000
RUN = "perdure://runs/"
MOST_FOLLOWED = 16
"""The most runs that one stream follows."""
_LINKS_SINCE = "2025-06-18"
_INSTRUCTIONS = (
    "Each tool runs a workflow, which goes on whatever happens to this conversation. A call that is repeated starts another run: of one that "
    "takes longer, look at the run that it names (get_run)."
)
_TEMPLATE = {"uriTemplate": RUN + "{run_id}", "name": "run", "mimeType": "application/json"}

_VERSION = metadata.version("perdure")

routes = Routes("mcp", prefix="")


@routes.post("/mcp", Permission.WORKFLOWS_READ, Any, also={202: None}, sends=("application/json",), audited=False)
async def talk(call: Call) -> Response:
    """Send a message of the Model Context Protocol (streamable HTTP).

    The tools are the workflows with `expose: {mcp: true}` that the caller may start. 404 unless the setting `mcp` is on.
    """
    if not call.site.options.mcp:
        raise NoRoute("this server does not speak MCP; its operator turns that on with the setting mcp")
    media_type(call.request, {"application/json"})
    headers = call.request.headers
    message = None
    try:
        message = m.read_message(await _read(call), headers)
        if message is None:
            return Response(status_code=202)
        if message.method == "subscriptions/listen" and message.is_single:
            return await _listen(call, message)
        return _respond(m.answer(message, await _do(call, message)))
    except m.Refused as refused:
        refused.id = message.id if message is not None else refused.id
        before = headers.get("mcp-protocol-version", m.BEGUN[0]) in m.BEGUN
        return _respond(m.refusal(refused), 200 if before and refused.id is not None else refused.status)


async def _read(call: Call) -> Any:
    raw = await read_bytes(call.request)
    try:
        return await off_the_loop(call.request, raw, lambda: read_json(raw))
    except BadBody as error:
        raise m.Refused(m.PARSE_ERROR, error.message) from None


def _respond(content: Mapping[str, Any], status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")


async def _do(call: Call, message: m.Message) -> dict[str, Any]:
    """The result of a request."""
    mcp = call.service.offered_tools(approvals=call.site.options.mcp_approvals)
    params = message.params
    match message.method, message.is_single:
        case ("initialize", False):
            version = m.choose_version(params)
            about = {"serverInfo": {"name": "perdure", "version": _VERSION}, "instructions": _INSTRUCTIONS}
            return {"protocolVersion": version, "capabilities": {"tools": {}, "resources": {}}, **about}
        case ("server/discover", True):
            can = {"tools": {}, "resources": {"subscribe": True}, "extensions": {TASKS: {}}}
            about = {"instructions": _INSTRUCTIONS, "_meta": m.server_info(_VERSION)}
            return {"supportedVersions": [*m.BEGUN, *m.SINGLE], "capabilities": can, **about}
        case ("ping", False):
            return {}
        case ("tools/list", _):
            tools = await mcp.tools()
            return {"tools": [_listed(one) for one in tools]}
        case ("tools/call", _):
            return await _call_tool(call, mcp, message)
        case ("resources/list", _):
            call.principal.require(Permission.RUNS_READ)
            return {"resources": [_resource(one) for one in await mcp.runs()]}
        case ("resources/templates/list", _):
            return {"resourceTemplates": [_TEMPLATE]}
        case ("resources/read", _):
            view = await _get_run(call, mcp, _run_id(params.get("uri")))
            text = msgspec.json.encode(view).decode()
            return {"contents": [{"uri": params["uri"], "mimeType": "application/json", "text": text}]}
        case ("tasks/get", True):
            return _task(await _get_run(call, mcp, params.get("taskId")))
        case ("tasks/cancel", True):
            return await _cancel(call, mcp, params.get("taskId"))
        case ("tasks/update", True):  # nothing is ever asked of a client by a task
            await _get_run(call, mcp, params.get("taskId"))
            return {}
    raise m.Refused(m.NO_METHOD, f"there is no method {message.method[:80]}")


# -- tools -------------------------------------------------------------------------------------------------------------


def _listed(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": tool["name"], "description": tool["description"], "inputSchema": tool["schema"]}


async def _call_tool(call: Call, mcp: OfferedTools, message: m.Message) -> dict[str, Any]:
    name, arguments = message.params.get("name"), message.params.get("arguments") or {}
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise m.Refused(m.INVALID_PARAMS, "name is a text, and arguments an object")
    takes_tasks = TASKS in message.extensions
    seconds = TASK_WAIT_SECONDS if takes_tasks else WAIT_SECONDS
    try:
        with call.site.places.enter(call.principal):
            work = mcp.call(name, arguments, key=call.key, wait_seconds=seconds)
            told = await while_allowed(call, Permission.WORKFLOWS_READ, work)
    except NotFound as error:
        raise m.Refused(m.INVALID_PARAMS, error.message) from None
    if (name == DECIDE and not told.problem) or (name not in OWN and told.run_id):
        # Crash here: the run has begun, and its journal says who started it; that it was by a tool is not in the audit.
        target = f"{name} {told.run_id or arguments.get('approval_id', '')}"[:500]
        noted = {"arguments": hash_of(arguments)}
        await call.site.audit.record(call.principal, "mcp.call", target, after=noted, request_id=call.request_id)
    if takes_tasks and told.goes_on and name not in OWN:
        view = await mcp.run(told.run_id)
        if view["ended_at"] is None:
            return {"resultType": "task", **_status(view)}
        told = await mcp.look(told.run_id)
    return _result(told, links=message.version >= _LINKS_SINCE)


def _result(told: Told, *, links: bool = True) -> dict[str, Any]:
    """What a call gives, as data and as text."""
    if told.problem:
        return {"content": [{"type": "text", "text": told.problem}], "isError": True}
    content: list[dict[str, Any]] = [{"type": "text", "text": msgspec.json.encode(told.value).decode()}]
    if told.goes_on and links:
        about = {"name": told.run_id, "description": "The run, which goes on.", "mimeType": "application/json"}
        content.append({"type": "resource_link", "uri": RUN + told.run_id, **about})
    return {"content": content, "structuredContent": told.value, "isError": False}


# -- runs --------------------------------------------------------------------------------------------------------------


def _run_id(uri: Any) -> str:
    if not isinstance(uri, str) or not uri.startswith(RUN):
        raise m.Refused(m.INVALID_PARAMS, f"resources are {RUN}RUN_ID")
    return uri.removeprefix(RUN)


async def _get_run(call: Call, mcp: OfferedTools, run_id: Any) -> dict[str, Any]:
    call.principal.require(Permission.RUNS_READ)
    try:
        return await mcp.run(str(run_id))
    except NotFound as error:
        raise m.Refused(m.INVALID_PARAMS, error.message) from None


def _resource(run: Mapping[str, Any]) -> dict[str, Any]:
    about = {"description": f"{run['workflow']}, {run['state']}", "mimeType": "application/json"}
    return {"uri": RUN + run["run_id"], "name": run["run_id"], **about}


_STATES = {"completed": "completed", "failed": "completed", "cancelled": "cancelled"}
"""The states of tasks. A workflow that failed has a result that says so, so its task is completed."""


def _status(view: Mapping[str, Any]) -> dict[str, Any]:
    touched = view["ended_at"] or view["last_event_at"] or view["created_at"]
    return {
        "taskId": view["run_id"],
        "status": _STATES.get(view["state"], "working"),
        "createdAt": _moment(view["created_at"]),
        "lastUpdatedAt": _moment(touched),
        "ttlMs": None,
        "pollIntervalMs": _POLL_MS,
    }


def _task(view: Mapping[str, Any]) -> dict[str, Any]:
    task = _status(view)
    return task if task["status"] != "completed" else {**task, "result": _result(Told.of_run(view))}


def _moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()


async def _cancel(call: Call, mcp: OfferedTools, run_id: Any) -> dict[str, Any]:
    call.principal.require(Permission.RUNS_OPERATE)
    view = await _get_run(call, mcp, run_id)
    try:
        await call.service.runs.cancel(view["run_id"], reason="cancelled by an MCP client")
    except Unwanted:  # it has ended: to cancel a task is a wish
        return {}
    await call.site.audit.record(call.principal, "mcp.cancel", view["run_id"], request_id=call.request_id)
    return {}


# -- streams -----------------------------------------------------------------------------------------------------------


async def _listen(call: Call, message: m.Message) -> Response:
    """A stream that tells when runs go on, until all of them have ended. What a client is told is that it should read again."""
    call.principal.require(Permission.RUNS_READ)
    mcp = call.service.offered_tools()
    wanted = message.params.get("notifications")
    uris = wanted.get("resourceSubscriptions") if isinstance(wanted, dict) else None
    uris = list(dict.fromkeys(uris)) if isinstance(uris, list) and all(isinstance(one, str) for one in uris) else []
    if len(uris) > MOST_FOLLOWED:
        raise m.Refused(m.INVALID_PARAMS, f"one stream follows up to {MOST_FOLLOWED} runs")
    followed: dict[str, int] = {}
    for uri in uris:
        view = await _get_run(call, mcp, _run_id(uri))
        followed[uri] = (await call.service.tenancy.get_run(view["run_id"])).seq
    place = call.site.places.enter(call.principal)
    news = _tell_news(call, message, followed)
    return LastingAnswer(call, news, Permission.RUNS_READ, place, "text/event-stream", {"X-Accel-Buffering": "no"})


async def _tell_news(call: Call, message: m.Message, followed: dict[str, int]) -> AsyncGenerator[bytes, None]:
    meta = {m.SUBSCRIPTION: message.id}
    honoured = {"resourceSubscriptions": list(followed)} if followed else {}
    yield m.frame(
        m.notification("notifications/subscriptions/acknowledged", {"notifications": honoured, "_meta": meta})
    )
    engine, silent = call.site.engine, 0.0
    uris = {_run_id(uri): uri for uri in followed}
    seen = {run_id: followed[uri] for run_id, uri in uris.items()}
    changed = list(seen)  # they may have gone on before the client listened
    async with aclosing(engine.feed.changes(seen, idle_seconds=LOOK_SECONDS)) as looks:
        while seen:
            for run_id in changed:
                record = await call.service.tenancy.find_run(run_id)
                before, seen[run_id] = seen[run_id], 0 if record is None else record.seq
                over = record is None or record.row.ended_at is not None
                if over or seen[run_id] > before:  # of one that has ended always
                    silent = 0.0
                    about = {"uri": uris[run_id], "_meta": meta}
                    yield m.frame(m.notification("notifications/resources/updated", about))
                if over:
                    del seen[run_id]
            if not seen:
                break
            if changed:
                await engine.clock.sleep(LOOK_SECONDS)
            silent += LOOK_SECONDS
            if silent >= ALIVE_SECONDS:
                silent = 0.0
                yield b": still here\n\n"
            if (more := await anext(looks, None)) is None:
                return  # the server ends, and the runs have not
            changed = more
    yield m.frame(m.answer(message, {"_meta": meta}))
