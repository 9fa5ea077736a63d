"""What can be done with a run now, and what each change would do, before it is asked for.

It must not know HTTP or permissions. Nothing is changed here: the kernel is asked about a state that was read for this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from perdure.agents.transcript_view import WHAT_IF
from perdure.errors import PerdureError
from perdure.kernel import commands as c
from perdure.kernel.lifecycle import NodeState, RunState
from perdure.kernel.readings.previews import Preview, preview, preview_rerun
from perdure.kernel.state import State
from perdure.model.ir import IR
from perdure.runtime.coordinator.requests import Request
from perdure.service.approvals import Approvals
from perdure.service.runs.run_lists import RunLists
from perdure.service.views import View, get_node
from perdure.threads import aside

Previewed = Literal["cancel", "retry", "rerun", "rollback"]
NAMES_SHOWN = 1000
"""How many nodes are named; `totals` counts all."""
_ALL: tuple[tuple[str, dict[str, Any]], ...] = (
    ("pause", {"kind": "pause"}),
    ("resume", {"kind": "resume"}),
    ("cancel", {"kind": "cancel"}),
    ("force", {"kind": "cancel", "force": True}),
    ("retry", {"kind": "retry"}),
    ("rollback", {"kind": "rollback"}),
)


class RunActions(RunLists):
    async def actions(self, run_id: str) -> View:
        """What can be done with a run now, what each would do, and why the others are refused."""
        record, state = await self._tenancy.load(run_id)
        found = await aside(state.tenant, self._try_all, state)
        if record.quarantined is not None:
            why = f"run {record.run_id} is quarantined: {record.quarantined}"
            found = {name: Preview(code="quarantined", why_not=why, state=state.state.value) for name in found}
        actions = {name: preview_view(one) for name, one in found.items()}
        about = {"run_id": record.run_id, "seq": state.seq, "state": state.state.value}
        return {**about, "actions": actions, "signals": awaited(state)}

    def _try_all(self, state: State) -> dict[str, Preview]:
        now = self._engine.clock.now()
        found = {name: preview(state, self._command(state, now, **fields)) for name, fields in _ALL}
        why_not = find_no_rerun(state)
        found["rerun"] = (
            preview_rerun(state, "")
            if why_not is None
            else Preview(code="rerun_refused", why_not=why_not, state=state.state.value)
        )
        is_open = state.state in (RunState.RUNNING, RunState.PAUSED)
        why = "" if is_open else f"run {state.run_id} is {state.state}; only a run under way takes signals and patches"
        for name in ("signal", "patch"):
            found[name] = Preview(code="" if is_open else "not_running", why_not=why, state=state.state.value)
        return found

    async def preview(
        self,
        run_id: str,
        action: Previewed,
        *,
        force: bool = False,
        from_node: str = "",
        inputs: Mapping[str, Any] | None = None,
        definition: Any = None,
    ) -> View:
        """What a change of a run would do: which nodes run again, keep their results, are undone or stopped, or why it is
        not possible. Nothing is changed."""
        record, state = await self._tenancy.load(run_id)
        ir = None if definition is None else await self._read_ir(state, definition)
        if record.quarantined is not None:
            why = f"run {record.run_id} is quarantined: {record.quarantined}"
            return preview_view(Preview(code="quarantined", why_not=why, state=state.state.value))
        if action == "rerun" and (why_not := find_no_rerun(state)) is not None:
            return preview_view(Preview(code="rerun_refused", why_not=why_not, state=state.state.value))
        if action != "rerun":
            command = self._command(state, self._engine.clock.now(), ir, kind=action, force=force)
            return preview_view(await aside(state.tenant, preview, state, command))
        if from_node:
            if ir is None:
                get_node(state, from_node)
            try:
                begin = from_node if ir is None else None
                await Approvals(self._tenancy).check_kept(state, begin, given=dict(inputs or {}))
            except PerdureError as error:
                if error.status >= 500:
                    raise
                return preview_view(Preview(code=error.code, why_not=error.message, state=state.state.value))
        return preview_view(await aside(state.tenant, preview_rerun, state, from_node, dict(inputs or {}), ir))

    async def _read_ir(self, state: State, definition: Any) -> IR:
        compiled = await self._engine.workflows.checker.check_data(
            definition, tenant=state.tenant, budget=self._tenancy.budget
        )
        return compiled.get_ir()

    def _command(self, state: State, at: float, ir: IR | None = None, **fields: Any) -> c.Command:
        return Request(run_id=state.run_id, by=self._tenancy.by, **fields).command(state, at, ir)


def find_no_rerun(state: State) -> str | None:
    """Why a run is not rerun: a what-if with other inputs would be another one, which nobody has checked. None: it may be."""
    if state.origin is None or not any(node is not None and node.type == WHAT_IF for node in state.ir.nodes):
        return None
    return f"run {state.run_id} is a what-if; `perdure runs whatif {state.origin[0]}` makes another one"


def awaited(state: State) -> list[str]:
    """The names of the signals that nodes of the run wait for now."""
    waits = (one.wait for one in state.activations.values() if one.state is NodeState.WAITING)
    return sorted({wait.name for wait in waits if wait is not None and wait.kind == "signal"})


def preview_view(found: Preview) -> View:
    lists: dict[str, tuple[str, ...]] = {
        "again": found.again,
        "kept": found.kept,
        "undo": found.undo,
        "stops": found.stops,
    }
    return {
        "possible": not found.code,
        "code": found.code or None,
        "why_not": found.why_not or None,
        "state": found.state,
        **{name: list(names[:NAMES_SHOWN]) for name, names in lists.items()},
        "totals": {name: len(names) for name, names in lists.items()},
    }
