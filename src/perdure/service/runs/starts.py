"""Starting runs: which version is meant, under which id and key, and what the caller is told at once.

It must not know HTTP or permissions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from perdure import functions
from perdure.errors import Refused
from perdure.expressions.run_inputs import find_unknown
from perdure.functions import FunctionNotAllowed
from perdure.journal import RunRecord
from perdure.kernel.lifecycle import TERMINAL
from perdure.model.ir import IR
from perdure.nodes.config_checks import find_refused_functions
from perdure.runtime.coordinator.requests import KEY_USED, Request, key_outlived
from perdure.service.errors import Invalid, Trouble
from perdure.service.runs.run_usage import read_budget
from perdure.service.tenancy import Tenancy
from perdure.service.views import View, run_summary
from perdure.service.workflows.versions import Resolved, resolve

LONGEST_WAIT_SECONDS = 300.0
MOST_TAGS = 100


class Started(msgspec.Struct, frozen=True):
    view: View
    created: bool
    """False: an earlier start with the same idempotency key created the run."""


class Starts:
    """The part of `Runs` that starts one. Every start of a run goes through here."""

    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy
        self._engine = tenancy.engine

    async def start(self, workflow: str = "", inputs: Any = None, **about: Any) -> View:
        """`begin` for callers that need not know whether the run had been started before."""
        return (await self.begin(workflow, inputs, **about)).view

    async def begin(
        self,
        workflow: str = "",
        inputs: Any = None,
        *,
        definition: Any = None,
        tags: Mapping[str, str] | None = None,
        deadline_seconds: float | None = None,
        wait_seconds: float = 0.0,
        key: str | None = None,
        run_id: str | None = None,
        rollout_key: str | None = None,
        correlation_id: str | None = None,
        budget: Mapping[str, Any] | None = None,
        origin: RunRecord | None = None,
    ) -> Started:
        """Start a run of a registered workflow (`name`, `name@3`, `name@alias`) or of a definition, which does not
        register it. A repeated `key` gives the run it started before, provided the same was asked for. Where an alias
        means several versions, the same `rollout_key` (a customer, …) gets the same version until the alias moves.
        `origin` is the run that a what-if looks at, whose tenant it has."""
        if bool(workflow) == (definition is not None):
            message = "give either workflow or definition"
            raise Invalid(message, [Trouble("workflow", "conflicting_keys" if workflow else "missing_key", message)])
        _check_bounds(wait_seconds, tags)
        tenancy = self._tenancy
        tenant = tenancy.tenant if origin is None else origin.row.tenant
        wanted = [workflow, definition, inputs, tags, deadline_seconds]
        if rollout_key or correlation_id:  # otherwise left out: keys that are stored have the hash without them
            wanted += [rollout_key, correlation_id]
        wanted += [dict(budget)] if budget else []
        asked = None if key is None else (key, hash_of(wanted))
        if asked is not None and (earlier := await self._earlier(tenant, *asked)) is not None:
            return Started(await self._started(earlier, wait_seconds), created=False)
        run_id = run_id or self._engine.runs.new_id()
        found = await (
            resolve(tenancy, workflow, rollout_key or key or run_id) if workflow else self._keep(definition, tenant)
        )
        if workflow and functions.allowed() is not None:  # at registration more functions may have been allowed
            self._check_functions(await self._engine.library.get(found.ir))
        request = Request(
            kind="start",
            run_id=run_id,
            tenant=tenant,
            source="" if origin is None else origin.run_id,
            key=asked,
            by=tenancy.by,
            ir=found.ir,
            workflow_version=found.version,
            inputs=inputs,
            tags=dict(tags or {}),
            deadline_seconds=deadline_seconds,
            alias=found.alias,
            correlation_id=correlation_id or "",
            budget=read_budget(budget),
        )
        reply = await tenancy.ask(request)
        said = await self._warn_of_unknown(found.ir, inputs)
        if reply.run_id != run_id:  # another caller with the same key was faster
            return Started(await self._started(reply.run_id, wait_seconds), created=False)
        if wait_seconds > 0 or reply.state in TERMINAL:
            return Started({**await self._started(run_id, wait_seconds), **said}, created=True)
        view = {"run_id": run_id, "workflow": found.name, "version": found.version, "state": reply.state}
        return Started({**view, "outputs": None, "error": None, **said}, created=True)

    async def _warn_of_unknown(self, ir: str, inputs: Any) -> View:
        """Warnings of inputs that look like typos: the schema neither knows nor forbids them."""
        said = find_unknown((await self._engine.library.get(ir)).inputs_schema, inputs) if inputs else []
        return {"warnings": said} if said else {}

    def _check_functions(self, ir: IR) -> None:
        if refused := find_refused_functions(ir):
            raise FunctionNotAllowed("; ".join(refused[:5]))

    async def _earlier(self, tenant: str, key: str, body_hash: str) -> str | None:
        found = await self._engine.journal.find_idempotency(tenant, key)
        if found is None:
            return None
        if found[1] != body_hash:
            raise Refused(KEY_USED, code="idempotency_conflict")
        if await self._engine.journal.find_run(found[0]) is None:
            raise Refused(key_outlived(found[0]), code="idempotency_conflict")
        return found[0]

    async def _keep(self, definition: Any, tenant: str) -> Resolved:
        compiled = await self._engine.workflows.checker.check_data(
            definition, tenant=tenant, budget=self._tenancy.budget
        )
        ir = await self._engine.workflows.keep(compiled, tenant=tenant, checked=True)
        return Resolved(name=ir.name, version=0, ir=ir.hash)

    async def _started(self, run_id: str, wait_seconds: float) -> View:
        tenancy = self._tenancy
        if wait_seconds > 0:
            await self._engine.feed.wait_for_end(run_id, wait_seconds)
        record = await tenancy.get_run(run_id)
        view = {name: run_summary(record)[name] for name in ("run_id", "workflow", "version", "state", "error")}
        view["outputs"] = None
        if record.row.ended_at is not None:
            state = await self._engine.runs.state_of(record)
            view["outputs"] = (
                await self._engine.contents.view(state, raw=True, nodes=False, budget=self._tenancy.budget)
            )["outputs"]
        return view


def _check_bounds(wait_seconds: float, tags: Mapping[str, str] | None) -> None:
    if wait_seconds > LONGEST_WAIT_SECONDS:
        message = (
            f"wait_seconds is at most {LONGEST_WAIT_SECONDS:g}, this is {wait_seconds:g}; "
            "to wait longer, start the run and follow it until it ends"
        )
        raise Invalid(message, [Trouble("wait_seconds", "wrong_value", message)])
    if tags is not None and len(tags) > MOST_TAGS:
        many = f"a run has at most {MOST_TAGS} tags, these are {len(tags)}"
        message = f"{many}; what a run works on belongs in its inputs"
        raise Invalid(message, [Trouble("tags", "wrong_value", message)])


def hash_of(asked: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()
