"""Workflows: register definitions as versions, read them, name them, change them, delete them."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from perdure.client import views as v
from perdure.client.http_calls import Call, delete, get, given, path_of, post, put, read_text
from perdure.client.operations import AsyncNoun, Noun, Page, Written, listing, operation

PAGE = 100
Format = Literal["json", "yaml"]
Direction = Literal["down", "right"]


Definition = Mapping[str, Any] | Written | str | bytes


def register_children(workflow: Written, reason: str = "") -> tuple[Call[Any], ...]:
    """The calls that register the workflows which one written in Python starts; they are made before its own."""
    return tuple(
        _definition("workflows", definition=child.definition(), format="json", reason=reason or None)
        for child in workflow.children()
    )


def _definition(*parts: str, definition: Definition, format: Format, **query: Any) -> Call[Any]:
    """A call with a definition as its body. It may be repeated: the same definition twice is the same version."""
    if not isinstance(definition, str | bytes | Mapping):
        definition = definition.definition()
    if isinstance(definition, str | bytes):
        body = definition.encode() if isinstance(definition, str) else definition
    else:
        body, format = msgspec.json.encode(definition), "json"
    headers = {"Content-Type": f"application/{format}"}
    return Call(method="POST", path=path_of(*parts), query=query, body=body, headers=headers, repeatable=True)


class WorkflowsCalls:
    """Every operation on workflows, described once. A `definition` is data, text in a `format`, or Python."""

    @operation
    def register(
        self, definition: Definition, *, format: Format = "yaml", reason: str = "", triggers: bool = True
    ) -> Call[v.Registered]:
        """Register a definition: a changed one becomes the next version, an unchanged one keeps its version. The
        workflows that one written in Python starts are registered with it. Its triggers are applied, and those that it no
        longer has are paused, unless `triggers` is False."""
        about = {"reason": reason or None, "triggers": None if triggers else False}
        call: Call[v.Registered] = _definition("workflows", definition=definition, format=format, **about)
        if isinstance(definition, str | bytes | Mapping):
            return call
        return msgspec.structs.replace(call, before=register_children(definition, reason))

    @operation
    def validate(
        self,
        definition: Definition,
        *,
        format: Format = "yaml",
        graph: bool = False,
        canonical: bool = False,
        direction: Direction | None = None,
        opened: Sequence[str] = (),
    ) -> Call[v.ValidatedWith]:
        """Only compile a definition, and list every problem at once, with its path. With `graph` also its picture, as
        `graph` gives it, and with `canonical` the form it would be stored in."""
        asked = {"graph": graph or None, "definition": canonical or None}
        call = _definition("workflows", "validate", definition=definition, format=format)
        query = {**asked, "direction": direction, "open": builtins.list(opened)}
        return msgspec.structs.replace(call, query=query)

    @listing
    def list(
        self, *, q: str | None = None, figures: bool | None = None, limit: int = PAGE, cursor: str | None = None
    ) -> Call[Page[v.ListedWorkflow]]:
        """The highest version of each workflow, by name; with `q`, those whose names hold it, in whatever case. With `figures`, what
        each is for and how its runs do."""
        return get("workflows", q=q, figures=figures, limit=limit, cursor=cursor)

    @operation
    def stats(self, name: str, *, since: float | str | None = None) -> Call[v.WorkflowStats]:
        """By version: how many runs were started since then, how they ended and how long they took; of the newest 10,000."""
        return get("workflows", name, "stats", since=since)

    @operation
    def get(self, name: str, *, version: int | None = None, alias: str | None = None) -> Call[v.WorkflowDetails]:
        """A version with its definition, in the canonical form that always has `nodes` and `edges`."""
        return get("workflows", name, version=version, alias=alias)

    @operation
    def graph(
        self,
        name: str,
        *,
        version: int | None = None,
        alias: str | None = None,
        direction: Direction | None = None,
        opened: Sequence[str] = (),
    ) -> Call[v.Graph]:
        """The nodes and edges of a version with their places. Nodes that are alike are stacked, but for the stacks that
        are `opened`; `*` opens all."""
        about = {"version": version, "alias": alias, "direction": direction, "open": builtins.list(opened)}
        return get("workflows", name, "graph", **about)

    @operation
    def definition_yaml(self, name: str, *, version: int | None = None, alias: str | None = None) -> Call[str]:
        """The definition as a file that can be registered again."""
        call = get("workflows", name, "definition.yaml", version=version, alias=alias)
        return msgspec.structs.replace(call, read=read_text)

    @operation
    def graph_svg(
        self, name: str, *, version: int | None = None, alias: str | None = None, direction: Direction | None = None
    ) -> Call[str]:
        """A version as a picture (SVG)."""
        call = get("workflows", name, "graph.svg", version=version, alias=alias, direction=direction)
        return msgspec.structs.replace(call, read=read_text)

    @listing
    def versions(self, name: str, *, limit: int = PAGE, cursor: str | None = None) -> Call[Page[v.WorkflowVersion]]:
        """The versions of a workflow, highest first, each with who registered it, when and why."""
        return get("workflows", name, "versions", limit=limit, cursor=cursor)

    @operation
    def diff(self, name: str, before: int | str, after: int | str = "latest") -> Call[v.WorkflowDiff]:
        """What changed from one version, or alias, to another."""
        return get("workflows", name, "diff", before=before, after=after)

    @listing
    def users(
        self, name: str, *, version: int | None = None, limit: int = PAGE, cursor: str | None = None
    ) -> Call[Page[v.RunSummary]]:
        """The runs that have not ended and use this version, or any version."""
        return get("workflows", name, "users", version=version, limit=limit, cursor=cursor)

    @operation
    def patch(
        self,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        *,
        base_version: int | None = None,
        reason: str = "",
        dry_run: bool = False,
    ) -> Call[v.Patched]:
        """Register the highest version, changed by a JSON Patch, as the next one. With `base_version`, only if that is
        still the highest."""
        body = {"patch": builtins.list(operations), "reason": reason, "dry_run": dry_run}
        return post("workflows", name, "patch", body=body | given(base_version=base_version), repeatable=dry_run)

    @operation
    def delete(self, name: str, *, version: int | None = None) -> Call[v.WorkflowDeleted]:
        """Delete a workflow, or one version. Refused while runs that have not ended need it."""
        return delete("workflows", name, version=version)

    # -- aliases -------------------------------------------------------------------------------------------------------

    @listing
    def aliases(self, name: str, *, limit: int = PAGE, cursor: str | None = None) -> Call[Page[v.Alias]]:
        """The aliases of a workflow, ordered by name. `latest` moves by itself and is not among them."""
        return get("workflows", name, "aliases", limit=limit, cursor=cursor)

    @operation
    def put_alias(
        self,
        name: str,
        alias: str,
        version: int | Mapping[int, float],
        *,
        reason: str = "",
        expected_revision: int | None = None,
    ) -> Call[v.Alias]:
        """Let an alias mean a version, or several: `{3: 90, 4: 10}` gives each its percentage of the starts."""
        which: dict[str, Any] = {"version": version}
        if isinstance(version, Mapping):
            which = {"versions": [{"version": number, "percent": share} for number, share in version.items()]}
        body = {**which, "reason": reason, **given(expected_revision=expected_revision)}
        return put("workflows", name, "aliases", alias, body=body, repeatable=expected_revision is None)

    @listing
    def alias_moves(
        self, name: str, alias: str, *, limit: int = PAGE, cursor: str | None = None
    ) -> Call[Page[v.Alias]]:
        """The history of where an alias pointed, the present first."""
        return get("workflows", name, "aliases", alias, "moves", limit=limit, cursor=cursor)

    @operation
    def rollback_alias(self, name: str, alias: str, *, reason: str = "") -> Call[v.Alias]:
        """Move an alias back to where it pointed before."""
        return post("workflows", name, "aliases", alias, "rollback", body={"reason": reason})

    @operation
    def delete_alias(self, name: str, alias: str) -> Call[v.AliasDeleted]:
        """Delete an alias. Runs that were started by it go on."""
        return delete("workflows", name, "aliases", alias)


class Workflows(WorkflowsCalls, Noun):
    __doc__ = __doc__


class AsyncWorkflows(WorkflowsCalls, AsyncNoun):
    __doc__ = __doc__
