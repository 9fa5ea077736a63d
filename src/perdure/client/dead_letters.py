"""Dead letters: what is parked after it failed, to be tried again or given up; one, or many by a filter."""

from __future__ import annotations

from typing import Any, Literal

from perdure.client import views as v
from perdure.client.http_calls import Call, get, given, post
from perdure.client.operations import AsyncNoun, Noun, Page, listing, operation

PAGE = 100


class DeadLettersCalls:
    """Every operation on dead letters, described once."""

    @listing
    def list(
        self,
        *,
        state: Literal["pending", "requeued", "discarded"] | None = None,
        run_id: str | None = None,
        workflow: str | None = None,
        node: str | None = None,
        code: str | None = None,
        limit: int = PAGE,
        cursor: str | None = None,
    ) -> Call[Page[v.DeadLetter]]:
        """The dead letters, oldest first. `code` is that of the error; with it, a workflow or a node a page may be short."""
        about = {"state": state, "run_id": run_id, "workflow": workflow, "node": node, "code": code}
        return get("dead-letters", **about, limit=limit, cursor=cursor)

    @operation
    def counts(
        self,
        *,
        state: Literal["pending", "requeued", "discarded"] = "pending",
        workflow: str | None = None,
        node: str | None = None,
        code: str | None = None,
    ) -> Call[v.DeadLetterCounts]:
        """How many dead letters there are by workflow, node and code of the error: of the oldest 10,000."""
        return get("dead-letters", "counts", state=state, workflow=workflow, node=node, code=code)

    @operation
    def get(self, dead_letter_id: str) -> Call[v.DeadLetterDetails]:
        return get("dead-letters", dead_letter_id)

    @operation
    def requeue(
        self, dead_letter_id: str, *, config: Any = None, steps: dict[str, Any] | None = None
    ) -> Call[v.DeadLetter]:
        """Try the parked work again, with another config for its node if one is given. `steps`: what steps gave that began, and of
        which nobody knew whether they happened."""
        return post("dead-letters", dead_letter_id, "requeue", body=given(config=config, steps=steps))

    @operation
    def discard(self, dead_letter_id: str, *, as_: Literal["skip", "fail", "continue"] = "skip") -> Call[v.DeadLetter]:
        """Give the parked work up: as skipped, as failed, or as failed while the run continues."""
        return post("dead-letters", dead_letter_id, "discard", body={"as": as_})

    @operation
    def preview_discard(
        self, dead_letter_id: str, *, as_: Literal["skip", "fail", "continue"] = "skip"
    ) -> Call[v.Preview]:
        """What giving the parked work up would do to its run, or why it is not possible. Nothing is changed."""
        body = {"as": as_, "dry_run": True}
        return post("dead-letters", dead_letter_id, "discard", body=body, repeatable=True)

    @operation
    def requeue_many(
        self,
        *,
        run_id: str | None = None,
        workflow: str | None = None,
        node: str | None = None,
        code: str | None = None,
        expected: int | None = None,
    ) -> Call[v.ManyChanged]:
        """Requeue all dead letters that match. Without `expected` they are only counted; with it, they are requeued if
        exactly so many match."""
        body = given(run_id=run_id, workflow=workflow, node=node, code=code, expected=expected)
        return post("dead-letters", "requeue", body=body, repeatable=expected is None)

    @operation
    def discard_many(
        self,
        *,
        run_id: str | None = None,
        workflow: str | None = None,
        node: str | None = None,
        code: str | None = None,
        expected: int | None = None,
        as_: Literal["skip", "fail", "continue"] = "skip",
    ) -> Call[v.ManyChanged]:
        """Discard all dead letters that match. Without `expected` they are only counted; with it, they are discarded if
        exactly so many match."""
        body = {"as": as_, **given(run_id=run_id, workflow=workflow, node=node, code=code, expected=expected)}
        return post("dead-letters", "discard", body=body, repeatable=expected is None)


class DeadLetters(DeadLettersCalls, Noun):
    __doc__ = DeadLettersCalls.__doc__


class AsyncDeadLetters(DeadLettersCalls, AsyncNoun):
    __doc__ = DeadLettersCalls.__doc__
