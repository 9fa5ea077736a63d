"""Workflows: register definitions as versions, read them, name them, change them, delete them.

A changed definition becomes the next version; an unchanged one keeps its version. Runs keep the version they started
with. It must not know HTTP or permissions.
"""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec
import yaml

from perdure.archive import Archive
from perdure.archive.aliases import LATEST, Alias, Share, VersionNote
from perdure.drawing import Direction
from perdure.errors import Conflict, NotFound, Refused
from perdure.journal import Page, WorkflowVersion
from perdure.model import Compiled, DefinitionError
from perdure.model.reader import Format
from perdure.nodes.config_checks import joined
from perdure.service.diffs import diff_definitions
from perdure.service.errors import Invalid, Trouble
from perdure.service.pages import listing
from perdure.service.pictures import Graph, draw_graph
from perdure.service.runs.patches import apply_patch
from perdure.service.scans import scan
from perdure.service.tenancy import Tenancy
from perdure.service.triggers.definition_triggers import OwnTriggers
from perdure.service.views import View, page_view, problem_view, run_summary
from perdure.service.workflows.exposed_workflows import ExposedWorkflows
from perdure.service.workflows.versions import MOST_VERSION, get_version
from perdure.service.workflows.workflow_figures import read_figures
from perdure.service.workflows.workflow_stats import read_stats
from perdure.threads import aside

Definition = Mapping[str, Any] | str | bytes
"""A definition as data, or as text in one of the formats."""


class Workflows:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy
        self._engine = tenancy.engine

    @property
    def _archive(self) -> Archive:
        return self._tenancy.archive

    # -- writing -------------------------------------------------------------------------------------------------------

    async def validate(
        self,
        definition: Definition,
        *,
        format: Format = "yaml",
        graph: bool = False,
        canonical: bool = False,
        direction: Direction | None = None,
        opened: Sequence[str] = (),
    ) -> View:
        """Only compile a definition, and list every problem at once. Nothing is executed and nothing stored. With `graph`
        also its picture, as `graph` gives it, and with `canonical` the form it would be stored in."""
        compiled = await self._compile(definition, format)
        problems = [problem_view(one) for one in compiled.problems]
        ir = compiled.ir
        view: View = {"valid": ir is not None, "hash": ir and ir.hash, "problems": problems}
        if canonical:
            view["definition"] = compiled.definition
        if graph:
            wanted = None if ir is None else self._wanted(ir.hash, direction, opened)
            view["graph"] = wanted and msgspec.json.decode(await draw_graph(wanted, compiled.get_ir()))
        return view

    async def register(
        self, definition: Definition | Compiled, *, format: Format = "yaml", reason: str = "", triggers: bool = True
    ) -> View:
        """Store a definition as a version of its workflow, and apply its triggers, unless `triggers` says otherwise. One that the
        caller has compiled is checked here for what only the database knows."""
        if isinstance(definition, Compiled):
            problems = await self._engine.workflows.checker.find_problems(definition, tenant=self._tenancy.tenant)
            compiled = joined(definition, problems)
        else:
            compiled = await self._compile(definition, format)
        if compiled.ir is None:
            raise DefinitionError(compiled.problems)
        return await self._register(compiled, reason, triggers=triggers)

    async def _compile(self, definition: Definition, format: Format) -> Compiled:
        if isinstance(definition, Mapping):
            definition, format = msgspec.json.encode(definition), "json"
        text = definition.encode() if isinstance(definition, str) else definition
        return await self._engine.workflows.checker.check_text(
            text, format, tenant=self._tenancy.tenant, budget=self._tenancy.budget
        )

    async def _register(self, compiled: Compiled, reason: str, *, triggers: bool = True) -> View:
        tenancy = self._tenancy
        own = None
        if triggers and compiled.definition is not None:
            own = OwnTriggers(tenancy, compiled.definition, await self._find_highest(compiled.get_ir().name))
            await own.check()
        before = await self._engine.journal.find_workflow(compiled.get_ir().name, tenant=tenancy.tenant)
        ir, version = await self._engine.workflows.register(compiled, tenant=tenancy.tenant, checked=True)
        at = self._engine.clock.now()
        # Crash here: the version is stored without a note of who registered it, until it is registered again.
        if tenancy.by or reason:
            note = VersionNote(
                tenant=tenancy.tenant, workflow=ir.name, version=version, by=tenancy.by, at=at, reason=reason
            )
            await self._archive.note_version(note)
        # Crash here: its tool is as it was; registering the same definition again offers it.
        if ir.expose or before is not None:
            await ExposedWorkflows(tenancy).offer(ir, version)
        # Crash here: the triggers are as they were; registering the same definition again applies them.
        applied: View = {"applied": [], "paused": []} if own is None else await own.apply(version)
        return {
            "name": ir.name,
            "version": version,
            "hash": ir.hash,
            "created": before is None or version > before.version,
            "problems": [problem_view(one) for one in compiled.problems],
            "triggers": applied,
        }

    async def _find_highest(self, name: str) -> Mapping[str, Any]:
        """The definition of the highest version; empty if there is none."""
        found = await self._engine.journal.find_workflow(name, tenant=self._tenancy.tenant)
        return {} if found is None else await self._definition(found)

    async def patch(
        self, name: str, operations: Any, *, base_version: int | None = None, reason: str = "", dry_run: bool = False
    ) -> View:
        """Register the highest version, changed by a JSON Patch, as the next one. With `base_version`, only if that is
        still the highest."""
        found = await get_version(self._tenancy, name)
        if operations is None:  # checked only now: a caller that may not see the workflow must learn nothing of it
            message = "give patch, a list of operations"
            raise Invalid(message, [Trouble("patch", "missing_key", message)])
        if base_version is not None and found.version != base_version:
            raise Conflict(
                f"workflow {name} is at version {found.version}, not {base_version}; read it and patch again"
            )
        before = await self._definition(found)
        compiled = await self._engine.workflows.checker.check_data(
            await aside(self._tenancy.tenant, apply_patch, before, operations, self._tenancy.budget),
            tenant=self._tenancy.tenant,
            budget=self._tenancy.budget,
        )
        if compiled.get_ir().name != name:
            message = "a patch may not rename a workflow; register it under its new name"
            raise Invalid(message, [Trouble("name", "wrong_value", message)])
        assert compiled.definition is not None
        changes = await aside(self._tenancy.tenant, diff_definitions, before, compiled.definition)
        if dry_run:
            view: View = {"name": name, "version": found.version, "hash": compiled.get_ir().hash, "created": False}
            view |= {"problems": [problem_view(one) for one in compiled.problems], "changes": changes}
            return {**view, "triggers": {"applied": [], "paused": []}}
        return {**await self._register(compiled, reason), "changes": changes}

    async def delete(self, name: str, *, version: int | None = None) -> View:
        """Delete a workflow, or one version. Refused while runs that have not ended need it."""
        await get_version(self._tenancy, name, "" if version is None else str(version))
        deleted = await self._archive.delete_workflow(self._tenancy.tenant, name, version)
        if await self._engine.journal.find_workflow(name, tenant=self._tenancy.tenant) is None:
            await ExposedWorkflows(self._tenancy).withdraw(name)
        return {"name": name, "versions_deleted": deleted}

    # -- reading -------------------------------------------------------------------------------------------------------

    @listing
    async def list(
        self, *, q: str | None = None, figures: bool = False, limit: int = 100, cursor: str | None = None
    ) -> View:
        """The highest version of each workflow, ordered by name; with `q`, those whose names hold it, in whatever case. A
        page may then be short, and even empty, and still have a cursor. With `figures`, what it is for and how its runs do."""

        def read(most: int, after: str | None) -> Awaitable[Page[WorkflowVersion]]:
            return self._engine.journal.list_workflows(tenant=self._tenancy.tenant, limit=most, cursor=after)

        async def choose(found: Sequence[WorkflowVersion]) -> builtins.list[WorkflowVersion]:
            return [one for one in found if (q or "").casefold() in one.name.casefold()]

        page = await (read(limit, cursor) if not q else scan(read, choose, limit, cursor))
        beside = await read_figures(self._tenancy, page.items) if figures else {}
        return page_view(page, lambda one: _version_view(one) | beside.get(one.name, {}))

    async def definition_yaml(self, name: str, *, version: int | None = None, alias: str | None = None) -> str:
        """The definition of a version as a file that can be registered again."""
        definition = await self._definition(await self._get(name, version, alias))
        return await aside(self._tenancy.tenant, _to_yaml, definition)

    async def stats(self, name: str, *, since: float | None = None) -> View:
        """By version: how many runs were started since then, how they ended, and how long they took; of the newest 10,000."""
        await self._get(name, None, None)
        return await read_stats(self._tenancy, name, since)

    async def get(self, name: str, *, version: int | None = None, alias: str | None = None) -> View:
        """A version with its definition, in the canonical form that always has `nodes` and `edges`."""
        found = await self._get(name, version, alias)
        return {**await self._with_note(found), "definition": await self._definition(found)}

    async def _get(self, name: str, version: int | None, alias: str | None) -> WorkflowVersion:
        if version is not None and alias:
            message = "give either version or alias"
            raise Invalid(message, [Trouble("alias", "conflicting_keys", message)])
        return await get_version(self._tenancy, name, alias or "" if version is None else str(version))

    async def graph(
        self,
        name: str,
        *,
        version: int | None = None,
        alias: str | None = None,
        direction: Direction | None = None,
        opened: Sequence[str] = (),
    ) -> View:
        """The nodes and edges of a version with their places. Nodes that are alike are stacked, but for the stacks that
        are `opened`; `*` opens all."""
        found = await self.plan_graph(name, version=version, alias=alias, direction=direction, opened=opened)
        view: View = msgspec.json.decode(await found.draw())
        return view

    async def graph_svg(
        self, name: str, *, version: int | None = None, alias: str | None = None, direction: Direction | None = None
    ) -> str:
        """A version as a picture (SVG)."""
        found = await self.plan_graph(name, version=version, alias=alias, direction=direction, format="svg")
        return (await found.draw()).decode()

    async def plan_graph(
        self,
        name: str,
        *,
        version: int | None = None,
        alias: str | None = None,
        direction: Direction | None = None,
        opened: Sequence[str] = (),
        format: Literal["json", "svg"] = "json",
    ) -> Graph:
        found = await self._get(name, version, alias)
        return msgspec.structs.replace(self._wanted(found.ir_hash, direction, opened), format=format)

    def _wanted(self, ir: str, direction: Direction | None, opened: Sequence[str]) -> Graph:
        about: dict[str, Any] = {"library": self._engine.library, "tenant": self._tenancy.tenant}
        return Graph(**about, ir=ir, direction=direction, opened=tuple(opened))

    @listing
    async def versions(self, name: str, *, limit: int = 100, cursor: str | None = None) -> View:
        """The versions of a workflow, highest first, each with who registered it, when and why."""
        await get_version(self._tenancy, name)
        page = await self._engine.journal.list_workflow_versions(
            name, tenant=self._tenancy.tenant, limit=limit, cursor=cursor
        )
        notes = await self._notes(name, [one.version for one in page.items])
        return page_view(page, lambda one: _version_view(one) | _note_view(notes.get(one.version)))

    async def diff(self, name: str, before: str, after: str) -> View:
        """What changed from one version (or alias) to another."""
        first = await get_version(self._tenancy, name, before)
        second = await get_version(self._tenancy, name, after)
        old, new = await self._definition(first), await self._definition(second)
        changes = await aside(self._tenancy.tenant, diff_definitions, old, new)
        return {"name": name, "before": first.version, "after": second.version, **changes}

    @listing
    async def users(
        self, name: str, *, version: int | None = None, limit: int = 100, cursor: str | None = None
    ) -> View:
        """The runs that have not ended and use this version, or any version; and how many there are."""
        await get_version(self._tenancy, name, "" if version is None else str(version))
        tenant = self._tenancy.tenant
        page = await self._archive.list_users(tenant, name, version, limit=limit, cursor=cursor)
        return {"count": await self._archive.count_users(tenant, name, version), **page_view(page, run_summary)}

    async def _definition(self, version: WorkflowVersion) -> dict[str, Any]:
        stored = await self._engine.library.read(version.definition_hash)
        definition: dict[str, Any] = msgspec.json.decode(stored)
        return definition

    async def _with_note(self, version: WorkflowVersion) -> View:
        notes = await self._notes(version.name, [version.version])
        return _version_view(version) | _note_view(notes.get(version.version))

    async def _notes(self, name: str, versions: Collection[int]) -> dict[int, VersionNote]:
        return dict(await self._archive.find_notes(self._tenancy.tenant, name, versions))

    # -- aliases -------------------------------------------------------------------------------------------------------

    @listing
    async def aliases(self, name: str, *, limit: int = 100, cursor: str | None = None) -> View:
        """The aliases of a workflow, ordered by name. `latest` moves by itself and is not among them."""
        await get_version(self._tenancy, name)
        page = await self._archive.list_aliases(self._tenancy.tenant, name, limit=limit, cursor=cursor)
        return page_view(page, _alias_view)

    async def put_alias(
        self,
        name: str,
        alias: str,
        version: int | Mapping[int, float] | Sequence[tuple[int, float]],
        *,
        reason: str = "",
        expected_revision: int | None = None,
    ) -> View:
        """Let an alias mean one version, or several, each for a percentage of the starts."""
        await get_version(self._tenancy, name)
        given = {version: 100.0} if isinstance(version, int) else version
        shares = given.items() if isinstance(given, Mapping) else given
        wanted = Alias(
            tenant=self._tenancy.tenant,
            workflow=name,
            alias=alias,
            shares=tuple(Share(min(number, MOST_VERSION), percent) for number, percent in shares),
            by=self._tenancy.by,
            at=self._engine.clock.now(),
            reason=reason,
        )
        return _alias_view(await self._archive.put_alias(wanted, expected_revision=expected_revision))

    @listing
    async def alias_moves(self, name: str, alias: str, *, limit: int = 100, cursor: str | None = None) -> View:
        """The history of where an alias pointed, the present first."""
        await self._get_alias(name, alias)
        page = await self._archive.list_alias_moves(self._tenancy.tenant, name, alias, limit=limit, cursor=cursor)
        return page_view(page, _alias_view)

    async def rollback_alias(self, name: str, alias: str, *, reason: str = "") -> View:
        """Move an alias back to where it pointed before."""
        present = await self._get_alias(name, alias)
        cursor = None
        while True:
            page = await self._archive.list_alias_moves(self._tenancy.tenant, name, alias, cursor=cursor)
            earlier = next((move for move in page.items if move.shares != present.shares), None)
            cursor = page.next_cursor
            if earlier is not None or cursor is None:
                break
        if earlier is None:
            raise Refused(
                f"alias {alias} of workflow {name} has never pointed to another version, so it cannot be moved back",
                code="nothing_before",
            )
        shares = [(share.version, share.percent) for share in earlier.shares]
        why = reason or f"back to revision {earlier.revision}"
        return await self.put_alias(name, alias, shares, reason=why, expected_revision=present.revision)

    async def delete_alias(self, name: str, alias: str) -> View:
        await self._get_alias(name, alias)
        await self._archive.delete_alias(self._tenancy.tenant, name, alias)
        return {"name": name, "alias": alias}

    async def _get_alias(self, name: str, alias: str) -> Alias:
        await get_version(self._tenancy, name)
        found = None if alias == LATEST else await self._archive.find_alias(self._tenancy.tenant, name, alias)
        if found is None:
            raise NotFound(f"workflow {name} has no alias {alias[:80]}")
        return found


def _to_yaml(definition: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(definition, sort_keys=False, allow_unicode=True, width=120)
    return text


def _version_view(version: WorkflowVersion) -> View:
    return {
        "name": version.name,
        "version": version.version,
        "hash": version.ir_hash,
        "registered_at": version.registered_at,
    }


def _note_view(note: VersionNote | None) -> View:
    return {"by": "" if note is None else note.by, "reason": "" if note is None else note.reason}


def _alias_view(alias: Alias) -> View:
    return {
        "name": alias.workflow,
        "alias": alias.alias,
        "version": alias.shares[0].version if len(alias.shares) == 1 else None,
        "versions": [{"version": share.version, "percent": share.percent} for share in alias.shares],
        "revision": alias.revision,
        "by": alias.by,
        "at": alias.at,
        "reason": alias.reason,
    }
