"""Dead letters over HTTP. What each does is in `perdure.service.dead_letters`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from perdure.access import Permission
from perdure.api.endpoints import Call, Routes, hash_of
from perdure.api.parameters import DryRun, Limit, Text
from perdure.api.request_reader import Body, Query
from perdure.api.routes.approvals import Id
from perdure.api.schemas import dead_letter_schemas as s
from perdure.api.schemas.action_schemas import Preview
from perdure.service.dead_letters import As
from perdure.service.errors import Invalid, Trouble

routes = Routes("dead-letters")
READ, OPERATE = Permission.DEAD_LETTERS_READ, Permission.DEAD_LETTERS_OPERATE


class ListDeadLetters(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    state: Literal["pending", "requeued", "discarded"] | None = None
    run_id: Id | None = None
    workflow: Text | None = None
    node: Annotated[str, Meta(max_length=200)] | None = None
    code: Annotated[str, Meta(description="The code of the error.", max_length=200)] | None = None
    limit: Limit = 100
    cursor: Text | None = None


@routes.get("/dead-letters", READ, s.DeadLetterPage)
async def list_(call: Call, query: ListDeadLetters) -> Any:
    """List dead letters, oldest first.

    With `workflow`, `node` or `code` a page looks at 2,000 at most: it may be short, even empty, and still have a `next_cursor`.
    """
    about = {"workflow": query.workflow, "node": query.node, "code": query.code}
    pages = call.service.dead_letters.list(
        state=query.state, run_id=query.run_id, **about, limit=query.limit, cursor=query.cursor
    )
    return await pages.first()


class CountDeadLetters(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    state: Literal["pending", "requeued", "discarded"] = "pending"
    workflow: Text | None = None
    node: Annotated[str, Meta(max_length=200)] | None = None
    code: Annotated[str, Meta(description="The code of the error.", max_length=200)] | None = None


@routes.get("/dead-letters/counts", READ, s.DeadLetterCounts)
async def counts(call: Call, query: CountDeadLetters) -> Any:
    """Count dead letters by workflow, node and code of the error: of the oldest 10,000; `capped` says that there are more."""
    return await call.service.dead_letters.counts(
        state=query.state, workflow=query.workflow, node=query.node, code=query.code
    )


class Filter(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run_id: Id | None = None
    workflow: Text | None = None
    node: Annotated[str, Meta(max_length=200)] | None = None
    code: Annotated[str, Meta(description="The code of the error.", max_length=200)] | None = None
    expected: (
        Annotated[int, Meta(description="How many there are. Without it they are only counted.", ge=0, le=10_000)]
        | None
    ) = None

    def given(self) -> dict[str, Any]:
        about = {"run_id": self.run_id, "workflow": self.workflow, "node": self.node, "code": self.code}
        return {**about, "expected": self.expected}

    def note(self, call: Call, changed: Any) -> Any:
        """Say in the audit which letters were meant, and of how many something was done."""
        call.object = " ".join(filter(None, (self.workflow, self.node, self.code, self.run_id)))
        call.noted = {"matched": changed["matched"], "done": changed["done"]}
        return changed


class DiscardMany(Filter, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"as_": "as"}):
    as_: As = "skip"


@routes.post("/dead-letters/requeue", OPERATE, s.ManyChanged, needs_body=False)
async def requeue_many(call: Call, body: Filter) -> Any:
    """Try many dead letters again. Without `expected` they are only counted; with that count as `expected` it is done."""
    return body.note(call, await call.service.dead_letters.requeue_many(**body.given()))


@routes.post("/dead-letters/discard", OPERATE, s.ManyChanged, needs_body=False)
async def discard_many(call: Call, body: DiscardMany) -> Any:
    """Give up many dead letters. Without `expected` they are only counted; with that count as `expected` it is done."""
    return body.note(call, await call.service.dead_letters.discard_many(**body.given(), as_=body.as_))


@routes.get("/dead-letters/{dead_letter_id}", READ, s.DeadLetterDetails)
async def get(call: Call) -> Any:
    """Get a dead letter: the node, its error, and the config and inputs the node was given."""
    return await call.service.dead_letters.get(call.path("dead_letter_id"))


class Requeue(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    input: Annotated[Any, Meta(description="Another config for the node, whole; it is written down.")] = UNSET
    config: Annotated[Any, Meta(description="The same as `input`.")] = UNSET
    steps: (
        Annotated[
            dict[Annotated[str, Meta(min_length=1, max_length=1000)], Any],
            Meta(
                description="What steps gave that began and of which nobody knew whether they happened.", max_length=100
            ),
        ]
        | None
    ) = None


@routes.post("/dead-letters/{dead_letter_id}/requeue", OPERATE, s.DeadLetter, needs_body=False)
async def requeue(call: Call, body: Requeue) -> Any:
    """Try a dead letter again. Giving it another config also needs the permission `workflows:write`."""
    if body.input is not UNSET and body.config is not UNSET:
        message = "give either input or config; they mean the same"
        raise Invalid(message, [Trouble("config", "conflicting_keys", message)])
    config: Any | UnsetType = body.input if body.input is not UNSET else body.config
    if config is not UNSET:  # another config changes what the node does, as a patch would
        call.principal.require(Permission.WORKFLOWS_WRITE)
        call.noted = {"config": hash_of(config)}
    given = None if config is UNSET else config
    if body.steps:
        call.noted = {**(call.noted or {}), "steps": {name: hash_of(one) for name, one in body.steps.items()}}
    letter = call.path("dead_letter_id")
    return await call.service.dead_letters.requeue(letter, config=given, steps=body.steps)


class Discard(Body, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"as_": "as"}):
    as_: Annotated[As, Meta(description="What the node counts as from then on.")] = "skip"
    dry_run: DryRun = False


@routes.post("/dead-letters/{dead_letter_id}/discard", OPERATE, s.DeadLetter | Preview, needs_body=False)
async def discard(call: Call, body: Discard) -> Any:
    """Give up a dead letter: its node counts as skipped, as failed, or as failed with the run going on.

    With `dry_run` nothing changes: the answer says what would happen to the run.
    """
    if body.dry_run:
        call.noted = {"dry_run": True}
        return await call.service.dead_letters.preview_discard(call.path("dead_letter_id"), as_=body.as_)
    return await call.service.dead_letters.discard(call.path("dead_letter_id"), as_=body.as_)
