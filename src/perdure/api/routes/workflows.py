"""Workflows over HTTP: register, read, name, change, forget. What each does is in `perdure.service.workflows.workflows`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from perdure.access import Permission
from perdure.api.endpoints import Answer, Call, Routes
from perdure.api.parameters import Limit, Text, either, moment
from perdure.api.problem_details import BadBody
from perdure.api.request_reader import Body, Query, definition_format, off_the_loop, read_bytes, read_json
from perdure.api.schemas import general_schemas as s
from perdure.api.schemas import search_schemas
from perdure.api.schemas.graph_schemas import ValidatedWith
from perdure.api.schemas.registered_schemas import Patched, Registered
from perdure.model.reader import Format
from perdure.service.errors import Invalid, Trouble

routes = Routes("workflows")
READ, WRITE = Permission.WORKFLOWS_READ, Permission.WORKFLOWS_WRITE
YAML = "application/yaml"
SENDS = ("application/json", YAML)
Version = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Why = Annotated[str, Meta(description="Why; it is written down.", max_length=2000)]


class Paged(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Limit = 100
    cursor: Text | None = None


# -- writing -----------------------------------------------------------------------------------------------------------


async def read_definition(call: Call) -> tuple[bytes, Format]:
    data = await read_bytes(call.request)
    if not data:
        raise BadBody("the body is empty; send a definition", [Trouble("", "syntax", "the body is empty")])
    kind = definition_format(call.request)
    if kind == "json":
        await off_the_loop(
            call.request, data, lambda: read_json(data)
        )  # text that is no JSON at all is a bad request, not a bad definition
    return data, kind


class Register(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Why = ""
    triggers: Annotated[
        bool, Meta(description="Apply its triggers, and pause those that the version before had and it has not.")
    ] = True


@routes.post("/workflows", WRITE, Registered, status=201, also={200: Registered}, sends=SENDS)
async def register(call: Call, query: Register) -> Answer:
    """Register a definition: the body, as JSON or YAML. Its triggers are applied.

    201: it is a new version. 200: it is a version already, and stays that.
    """
    data, kind = await read_definition(call)
    view = await call.service.workflows.register(data, format=kind, reason=query.reason, triggers=query.triggers)
    call.object = f"{view['name']}@{view['version']}"
    return Answer(view, 201 if view["created"] else 200, {"Location": f"/api/v1/workflows/{view['name']}"})


class Validate(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    graph: Annotated[bool, Meta(description="Also its picture, as GET /workflows/{name}/graph gives it.")] = False
    definition: Annotated[bool, Meta(description="Also its canonical form.")] = False
    direction: Annotated[Literal["down", "right"], Meta(description="Where arrows of the picture lead.")] | None = None
    opened: Annotated[
        tuple[Annotated[str, Meta(max_length=200)], ...], Meta(description="The stacks of the picture to draw open.")
    ] = msgspec.field(default=(), name="open")


@routes.post("/workflows/validate", READ, ValidatedWith, sends=SENDS, audited=False)
async def validate(call: Call, query: Validate) -> Any:
    """Compile a definition only; every problem at once, with its path. Nothing is stored or executed."""
    data, kind = await read_definition(call)
    about: dict[str, Any] = {"graph": query.graph, "canonical": query.definition, "direction": query.direction}
    return await call.service.workflows.validate(data, format=kind, **about, opened=query.opened)


class PatchWorkflow(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    patch: Annotated[list[Any], Meta(description="A JSON Patch (RFC 6902) of the highest version.")] | None = None
    operations: Annotated[list[Any], Meta(description="Another name of `patch`.")] | None = None
    base_version: Annotated[Version, Meta(description="Refuse if another version came meanwhile.")] | None = None
    reason: Why = ""
    description: Annotated[str, Meta(description="Another name of `reason`.", max_length=2000)] = ""
    dry_run: bool = False


@routes.post("/workflows/{name}/patch", WRITE, Patched, status=200, also={201: Patched})
async def patch(call: Call, body: PatchWorkflow) -> Any:
    """Make the next version by a JSON Patch of the highest one.

    The patch is applied to the canonical form, as GET /workflows/{name} shows it, which always has `nodes` and `edges`.
    """
    operations = either("patch", body.patch, "operations", body.operations)
    reason = either("reason", body.reason or None, "description", body.description or None) or ""
    view = await call.service.workflows.patch(
        call.path("name"), operations, base_version=body.base_version, reason=reason, dry_run=body.dry_run
    )
    return Answer(view, 201 if view["created"] else 200)


class WhichVersion(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Version | None = None


@routes.delete("/workflows/{name}", Permission.WORKFLOWS_DELETE, s.WorkflowDeleted)
async def delete(call: Call, query: WhichVersion) -> Any:
    """Delete a workflow, or one version of it. Refused while runs that have not ended need it."""
    return await call.service.workflows.delete(call.path("name"), version=query.version)


# -- reading -----------------------------------------------------------------------------------------------------------


class ListWorkflows(Paged, frozen=True, kw_only=True, forbid_unknown_fields=True):
    q: Annotated[str, Meta(description="Its name holds this, in whatever case.", max_length=200)] | None = None
    figures: Annotated[
        bool, Meta(description="Also what each is for, its open runs, what failed in 24 hours and when one last began.")
    ] = False


@routes.get("/workflows", READ, s.WorkflowPage)
async def list_(call: Call, query: ListWorkflows) -> Any:
    """List the workflows by name, each with its highest version. With `q` a page may be short and still have a `next_cursor`."""
    listing = call.service.workflows.list
    return await listing(q=query.q, figures=query.figures, limit=query.limit, cursor=query.cursor).first()


class Since(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    since: Annotated[str, Meta(description="Runs made then or later: seconds since 1970, or RFC 3339.")] | None = None


@routes.get("/workflows/{name}/stats", READ, search_schemas.WorkflowStats)
async def stats(call: Call, query: Since) -> Any:
    """Get figures of a workflow by version: runs started, how they ended and how long they took; of the newest 10,000."""
    return await call.service.workflows.stats(call.path("name"), since=moment("since", query.since))


class GetWorkflow(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Version | None = None
    alias: Annotated[str, Meta(description="`latest`, or a name that was given.", max_length=64)] | None = None


@routes.get("/workflows/{name}", READ, s.WorkflowDetails)
async def get(call: Call, query: GetWorkflow) -> Any:
    """Get a workflow with its definition: the highest version, unless a version or an alias is given."""
    return await call.service.workflows.get(call.path("name"), version=query.version, alias=query.alias)


@routes.get("/workflows/{name}/definition.yaml", READ, YAML)
async def definition_yaml(call: Call, query: GetWorkflow) -> Any:
    """Get the definition of a workflow as a file that can be registered again."""
    text = await call.service.workflows.definition_yaml(call.path("name"), version=query.version, alias=query.alias)
    return Response(text, media_type=YAML, headers={"Content-Disposition": "attachment"})


@routes.get("/workflows/{name}/versions", READ, s.VersionPage)
async def versions(call: Call, query: Paged) -> Any:
    """List the versions of a workflow, highest first, with who registered each, when and why."""
    return await call.service.workflows.versions(call.path("name"), limit=query.limit, cursor=query.cursor).first()


Which = Annotated[str, Meta(description="A version or an alias.", min_length=1, max_length=64)]


class DiffVersions(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    before: Which
    after: Which = "latest"


@routes.get("/workflows/{name}/diff", READ, s.WorkflowDiff)
async def diff(call: Call, query: DiffVersions) -> Any:
    """Compare two versions of a workflow."""
    return await call.service.workflows.diff(call.path("name"), query.before, query.after)


class Users(Paged, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Version | None = None


@routes.get("/workflows/{name}/users", READ, s.UserPage)
async def users(call: Call, query: Users) -> Any:
    """List the runs that have not ended and use a workflow, or one version of it."""
    users = call.service.workflows.users
    return await users(call.path("name"), version=query.version, limit=query.limit, cursor=query.cursor).first()


# -- aliases -----------------------------------------------------------------------------------------------------------


class ShareOf(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Version
    percent: Annotated[float, Meta(gt=0, le=100)]


class PutAlias(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Version | UnsetType = UNSET
    versions: (
        Annotated[
            list[ShareOf],
            Meta(
                description="Several versions instead, each for a percentage of the starts.",
                min_length=1,
                max_length=20,
            ),
        ]
        | UnsetType
    ) = UNSET
    reason: Why = ""
    expected_revision: (
        Annotated[
            int,
            Meta(
                description="The revision the alias must still have, or the request is refused; 0 means that it must not exist yet.",
                ge=0,
                le=2**31,
            ),
        ]
        | None
    ) = None


@routes.get("/workflows/{name}/aliases", READ, s.AliasPage)
async def aliases(call: Call, query: Paged) -> Any:
    """List the aliases of a workflow. `latest` always means the highest version and is not listed."""
    return await call.service.workflows.aliases(call.path("name"), limit=query.limit, cursor=query.cursor).first()


@routes.put("/workflows/{name}/aliases/{alias}", WRITE, s.Alias)
async def put_alias(call: Call, body: PutAlias) -> Any:
    """Point an alias to a version, or to several versions, each for a percentage of the starts.

    A stable hash of the start's key chooses the version: raising a version's percentage takes no start away
    from it.
    """
    if (body.version is UNSET) == (body.versions is UNSET):
        message = "give either version or versions"
        raise Invalid(message, [Trouble("version", "missing_key", message)])
    if body.version is not UNSET:
        shares = [(body.version, 100.0)]
    else:
        assert body.versions is not UNSET
        shares = [(share.version, share.percent) for share in body.versions]
    return await call.service.workflows.put_alias(
        call.path("name"), call.path("alias"), shares, reason=body.reason, expected_revision=body.expected_revision
    )


@routes.delete("/workflows/{name}/aliases/{alias}", WRITE, s.AliasDeleted)
async def delete_alias(call: Call) -> Any:
    """Delete an alias. Runs that were started by it continue."""
    return await call.service.workflows.delete_alias(call.path("name"), call.path("alias"))


@routes.get("/workflows/{name}/aliases/{alias}/moves", READ, s.AliasPage)
async def alias_moves(call: Call, query: Paged) -> Any:
    """List the versions that an alias has pointed to, the present one first."""
    moves = call.service.workflows.alias_moves
    return await moves(call.path("name"), call.path("alias"), limit=query.limit, cursor=query.cursor).first()


class RollbackAlias(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Why = ""


@routes.post("/workflows/{name}/aliases/{alias}/rollback", WRITE, s.Alias, needs_body=False)
async def rollback_alias(call: Call, body: RollbackAlias) -> Any:
    """Point an alias back to the version it pointed to before."""
    return await call.service.workflows.rollback_alias(call.path("name"), call.path("alias"), reason=body.reason)
