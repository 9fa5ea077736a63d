"""Workflows as tools of the Model Context Protocol: those that say `expose: {mcp: true}`, as their highest version is now, for callers that may start
them; and the runs of these workflows. Nothing else of a tenant is there.

Approvals are offered only where the operator says so: an assistant must not answer the question whether it may go on. It must not know the
protocol, nor HTTP.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.access import Permission
from perdure.errors import NotFound, PerdureError
from perdure.service.approvals import Approvals
from perdure.service.runs.runs import Runs
from perdure.service.views import View
from perdure.service.workflows.exposed_workflows import MCP

if TYPE_CHECKING:
    from perdure.model.ir import IR
    from perdure.service.tenancy import Tenancy

WAIT_SECONDS = 50.0
"""How long a call waits for its run; most clients give up after a minute."""
MOST = 500
"""The most workflows, and the most runs, that are listed."""
OWN = LOOK, APPROVALS, APPROVAL, DECIDE = "get_run", "list_approvals", "get_approval", "decide_approval"
"""Tools that are no workflows. A workflow of such a name is not offered."""
_CUT = 16 * 1024
"""How much is said of what approvers are shown; a console has all of it."""


class Told(msgspec.Struct, frozen=True):
    """What a call gives."""

    value: View
    problem: str = ""
    """What went wrong, in words: the model may mend it."""
    run_id: str = ""
    """The run that the call started or looked at."""
    goes_on: bool = False

    @classmethod
    def of_run(cls, view: Mapping[str, Any]) -> Told:
        """What a run gives, as far as it is."""
        run_id, state = view["run_id"], view["state"]
        about = {"run_id": run_id, "state": state}
        if state in ("failed", "cancelled"):
            error = view.get("error") or {}
            return cls(about, f"run {run_id} {state}: {error.get('message') or state}", run_id)
        if state == "completed":
            return cls({**about, "outputs": view["outputs"]}, run_id=run_id)
        return cls(about, run_id=run_id, goes_on=True)


class OfferedTools:
    def __init__(self, tenancy: Tenancy, *, approvals: bool = False) -> None:
        """With `approvals`, those who may decide approvals decide them here, too."""
        self._tenancy = tenancy
        self._runs = Runs(tenancy)
        may = tenancy.principal.may
        own: dict[str, tuple[View, Callable[[Mapping[str, Any]], Awaitable[Told]]]] = {}
        if may(Permission.RUNS_READ):
            own[LOOK] = _LOOK, self._look
        if approvals and may(Permission.APPROVALS_DECIDE) and may(Permission.APPROVALS_READ):
            own |= {
                APPROVALS: (_APPROVALS, self._tell_approvals),
                APPROVAL: (_APPROVAL, self._get_approval),
                DECIDE: (_DECIDE, self._decide),
            }
        self._own = own

    async def tools(self) -> list[View]:
        """The tools, by name: what each does and what it takes."""
        tools = [{"name": name, **about} for name, (about, _) in self._own.items()]
        if self._tenancy.principal.may(Permission.RUNS_START):
            tools += [_tool(name, ir) for name, ir in await self._offered()]
        return sorted(tools, key=lambda one: str(one["name"]))

    async def call(
        self, name: str, arguments: Mapping[str, Any], *, key: str | None = None, wait_seconds: float = WAIT_SECONDS
    ) -> Told:
        """Call a tool. Raises NotFound if the caller has no such tool. A call of a workflow starts a run, once for each `key`."""
        if name in self._own:
            return await _telling(self._own[name][1](arguments))
        ir = await self._find(name) if self._tenancy.principal.may(Permission.RUNS_START) else None
        if ir is None:
            raise NotFound(f"there is no tool {name[:80]}")

        async def start() -> Told:
            return Told.of_run(await self._runs.start(ir.name, dict(arguments), key=key, wait_seconds=wait_seconds))

        return await _telling(start())

    # -- runs ----------------------------------------------------------------------------------------------------------

    async def runs(self) -> list[View]:
        """The newest runs of the workflows that are offered."""
        names = {ir.name for _, ir in await self._offered()}
        if not names:
            return []
        page = await self._runs.list(limit=MOST).first()
        return [one for one in page["items"] if one["workflow"] in names]

    async def run(self, run_id: str) -> View:
        """A run of a workflow that is offered: its state, its outputs or its error. Raises NotFound."""
        missing = f"there is no run {run_id[:80]} of a workflow that is offered here"
        try:
            summary = await self._runs.summary(run_id)
        except NotFound:
            raise NotFound(missing) from None
        if await self._is_offered(summary["workflow"]) is None:
            raise NotFound(missing)
        view = await self._runs.get(run_id, outputs=False)
        kept = ("run_id", "workflow", "state", "waiting", "outputs", "error", "created_at", "ended_at", "last_event_at")
        return {name: view.get(name, summary.get(name)) for name in kept}

    async def look(self, run_id: str) -> Told:
        """What a call of its tool would give now."""
        return Told.of_run(await self.run(run_id))

    async def _look(self, arguments: Mapping[str, Any]) -> Told:
        return await self.look(str(arguments.get("run_id", "")))

    # -- what is offered -----------------------------------------------------------------------------------------------

    async def _offered(self) -> list[tuple[str, IR]]:
        page = await self._tenancy.archive.list_entry_names(self._tenancy.tenant, MCP, limit=MOST)
        found = [(one.name, await self._find(one.name)) for one in page.items]
        return [(name, ir) for name, ir in found if ir is not None]

    async def _find(self, tool: str) -> IR | None:
        """The workflow behind a tool; None: there is none, or it is not offered any more."""
        if tool in OWN or not self._tenancy.is_sane(tool):
            return None
        found = await self._tenancy.archive.list_entries(self._tenancy.tenant, MCP, tool, limit=1)
        return await self._is_offered(msgspec.json.decode(found[0].body)["workflow"]) if found else None

    async def _is_offered(self, workflow: str) -> IR | None:
        """The highest version of a workflow, if it is offered: its definition has the last word."""
        ir = await self._tenancy.engine.library.find_workflow(self._tenancy.tenant, workflow, None)
        return ir if ir is not None and ir.expose.get("mcp") else None

    # -- approvals -----------------------------------------------------------------------------------------------------

    async def _tell_approvals(self, arguments: Mapping[str, Any]) -> Told:
        page = await Approvals(self._tenancy).list(mine=True).first()
        kept = ("approval_id", "run_id", "workflow", "node", "requested_at", "expires_at")
        return Told({"approvals": [{name: one.get(name) for name in kept} for one in page["items"]]})

    async def _get_approval(self, arguments: Mapping[str, Any]) -> Told:
        approvals, name = Approvals(self._tenancy), str(arguments.get("approval_id", ""))
        view = await approvals.get(name)
        shown = msgspec.json.encode(await approvals.read_shown(name)).decode("utf-8", "replace")
        kept = ("approval_id", "run_id", "workflow", "node", "state", "form", "can_decide", "why_not", "expires_at")
        return Told({one: view.get(one) for one in kept} | {"shown": shown[:_CUT], "cut": len(shown) > _CUT})

    async def _decide(self, arguments: Mapping[str, Any]) -> Told:
        decision = arguments.get("decision")
        if decision not in ("approve", "reject"):
            return Told({}, "decision is approve or reject")
        view = await Approvals(self._tenancy).decide(
            str(arguments.get("approval_id", "")),
            decision,
            comments=str(arguments.get("comments") or ""),
            data=arguments.get("data"),
        )
        return Told({name: view.get(name) for name in ("approval_id", "run_id", "state", "decided_at")})


async def _telling(work: Awaitable[Told]) -> Told:
    """What a call gives. What the caller can do something about is told to the model; all else is raised."""
    try:
        return await work
    except PerdureError as error:
        if error.status >= 500 or error.status in (401, 429):
            raise
        return Told({}, error.message)


def _tool(name: str, ir: IR) -> View:
    about = ir.description or f"Runs the workflow {ir.name}."
    described = f"{about} Gives the outputs, or run_id and state if it takes longer."
    return {"name": name, "description": described, "schema": {**(ir.inputs_schema or {}), "type": "object"}}


def _own(description: str, **properties: Mapping[str, Any]) -> View:
    """A tool of the server itself; what has no default is needed."""
    needed = [name for name, one in properties.items() if "default" not in one]
    schema = {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}
    return {"description": description, "schema": schema}


_TEXT: dict[str, Any] = {"type": "string"}
_LOOK = _own("Gives state and outputs of a run that was started here.", run_id=_TEXT)
_APPROVALS = _own("Lists the approvals that wait for you.")
_APPROVAL = _own("Shows an approval: what it is about, and its form.", approval_id=_TEXT)
_DECIDE = _own(
    "Approves or rejects.",
    approval_id=_TEXT,
    decision={"enum": ["approve", "reject"]},
    comments={"type": "string", "default": ""},
    data={"description": "What the form asks for.", "default": None},
)
