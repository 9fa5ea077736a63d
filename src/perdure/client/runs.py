"""Runs: start them, look at them, follow them, and change their course."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from perdure.client import views as v
from perdure.client.errors import Invalid
from perdure.client.operations import (
    AsyncNoun,
    Call,
    Noun,
    Page,
    Written,
    get,
    given,
    is_header,
    listing,
    operation,
    post,
    streaming,
)
from perdure.client.workflows import register_children
from perdure.clock import system

PAGE = 100


class RunsCalls:
    """Every operation on runs, described once."""

    @operation
    def start(
        self,
        workflow: str | Written | None = None,
        inputs: Mapping[str, Any] | None = None,
        *,
        definition: Mapping[str, Any] | None = None,
        tag: str | None = None,
        tags: Mapping[str, str] | None = None,
        deadline_seconds: float | None = None,
        wait_seconds: float = 0.0,
        rollout_key: str | None = None,
        correlation_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[v.RunStarted]:
        """Start a run of a registered workflow (`name`, `name@3`, `name@alias`), of one written in Python, or of a `definition`.

        `tag` is the version or alias, for a `workflow` that is a name alone; `tags` are what the run is found by.
        It returns when the start is durable; with `wait_seconds`, when the run has ended or the time is up. Each call has a key
        of its own, so that a try that is repeated starts nothing twice; give `idempotency_key` where the program itself may be
        repeated: the same key gives the run that it started. Where an alias means several versions, the same `rollout_key` (a
        customer, …) gets the same one each time. `correlation_id` is what you call this work: children, tasks and webhooks have it.
        """
        before: tuple[Call[Any], ...] = ()
        if workflow is not None and not isinstance(workflow, str):
            if definition is not None:
                raise Invalid("give a workflow or a definition, not both")
            before, definition, workflow = register_children(workflow), workflow.definition(), None
        body = given(
            workflow=workflow,
            definition=definition,
            inputs=inputs,
            tag=tag,
            tags=tags,
            deadline_seconds=deadline_seconds,
            wait_seconds=wait_seconds or None,
            rollout_key=rollout_key,
            correlation_id=correlation_id,
        )
        key = system.new_id() if idempotency_key is None else idempotency_key
        if not is_header(key) or not 1 <= len(key) <= 255:
            raise Invalid("idempotency_key: expected 1 to 255 printable ASCII characters without spaces")
        headers = {"Idempotency-Key": key}
        return post("runs", body=body, headers=headers, repeatable=True, wait_seconds=wait_seconds, before=before)

    @listing
    def list(
        self,
        *,
        state: str | Sequence[str] = (),
        workflow: str | None = None,
        tag: tuple[str, str] | None = None,
        since: float | str | None = None,
        until: float | str | None = None,
        parent: str | None = None,
        children: bool = False,
        limit: int = PAGE,
        cursor: str | None = None,
    ) -> Call[Page[v.RunSummary]]:
        """Runs, newest first; children only with `children` or of a `parent`. `since` and `until` are seconds since 1970, or RFC 3339; `limit` is for one page."""
        states = [state] if isinstance(state, str) else builtins.list(state)
        named = None if tag is None else f"{tag[0]}={tag[1]}"
        more = {"since": since, "until": until, "parent": parent, "limit": limit, "cursor": cursor}
        more |= {"children": True} if children else {}
        return get("runs", state=states, workflow=workflow, tag=named, **more)

    @operation
    def get(self, run_id: str, *, outputs: bool = True) -> Call[v.Run]:
        """A run: state, nodes, outputs, error. Of a very large one the first nodes, and `next_nodes`."""
        return get("runs", run_id, outputs=None if outputs else False)

    @listing
    def nodes(
        self, run_id: str, *, outputs: bool = False, limit: int = PAGE, cursor: str | None = None
    ) -> Call[Page[v.NodeItem]]:
        """The nodes of a run, in the order of the definition; without outputs, their sizes."""
        return get("runs", run_id, "nodes", outputs=outputs, limit=limit, cursor=cursor)

    @operation
    def node(self, run_id: str, node: str, *, at: int | None = None) -> Call[v.NodeDetails]:
        """One node: every visit, and its output whole."""
        return get("runs", run_id, "nodes", node, at=at)

    @listing
    def events(
        self, run_id: str, *, after: int = 0, limit: int = PAGE, cursor: str | None = None
    ) -> Call[Page[v.Event]]:
        """Everything that happened to a run so far, in order."""
        return get("runs", run_id, "events", after=after, limit=limit, cursor=cursor)

    @streaming
    def stream(self, run_id: str, *, after: int = 0, with_: Literal["working"] | None = None) -> Call[v.Event]:
        """The events of a run as they happen, until it has ended. A stream that is cut goes on where it was. With `working`, also
        what is executed, whenever that changes: `{"type": "working", "tasks": […]}`, which is no event and has no `seq`."""
        return get("runs", run_id, "stream", **{"after": after, "with": with_})

    @operation
    def state_at(self, run_id: str, seq: int, *, outputs: bool = True) -> Call[v.Run]:
        """A run as it was when event `seq` had just happened."""
        return get("runs", run_id, "state", at=seq, outputs=None if outputs else False)

    @listing
    def path(self, run_id: str, *, after: int = 0, limit: int = PAGE, cursor: str | None = None) -> Call[Page[v.Step]]:
        """Which edges were taken, in order, and the rule that chose them."""
        return get("runs", run_id, "path", after=after, limit=limit, cursor=cursor)

    @operation
    def working(self, run_id: str) -> Call[v.WorkingTasks]:
        """What is executed of a run now: which attempts, by whom, since when."""
        return get("runs", run_id, "working")

    @operation
    def explain(self, run_id: str, node: str | None = None) -> Call[v.Explanation]:
        """Why a node has not run, or what each node that has not completed waits for."""
        return get("runs", run_id, "explain", node=node)

    @operation
    def diff(
        self, run_id: str, *, at: int | None = None, other: str | None = None, to: int | None = None
    ) -> Call[v.RunDiff]:
        """What is different between two points of a run (`at`, `to`), or between it and an `other` run."""
        return get("runs", run_id, "diff", at=at, other=other, to=to)

    @operation
    def export(self, run_id: str) -> Call[v.RunFile]:
        """A run as one file: the run, its definitions, its events and its large values."""
        return get("runs", run_id, "export")

    @operation
    def import_file(self, file: Mapping[str, Any]) -> Call[v.RunImported]:
        """Make a run out of a file that was exported, to look at it. It is quarantined: nothing of it is executed."""
        return post("runs", "import", body=file)

    @listing
    def logs(
        self,
        run_id: str,
        *,
        node: str | None = None,
        after: int = 0,
        limit: int = PAGE,
        cursor: str | None = None,
    ) -> Call[Page[v.LogLine]]:
        """What handlers said with `ctx.log`."""
        return get("runs", run_id, "logs", node=node, after=after, limit=limit, cursor=cursor)

    # -- changing ------------------------------------------------------------------------------------------------------

    @operation
    def cancel(self, run_id: str, *, reason: str = "", force: bool = False) -> Call[v.RunSummary]:
        """Stop a run. `force`: do not wait for what is running, and undo nothing."""
        return post("runs", run_id, "cancel", body={"reason": reason, "force": force})

    @operation
    def pause(self, run_id: str, *, reason: str = "") -> Call[v.RunSummary]:
        """Let nothing new begin; what is running may finish."""
        return post("runs", run_id, "pause", body={"reason": reason})

    @operation
    def resume(self, run_id: str) -> Call[v.RunSummary]:
        """Let a paused run go on."""
        return post("runs", run_id, "resume")

    @operation
    def retry(
        self, run_id: str, *, definition: Mapping[str, Any] | None = None, reason: str = ""
    ) -> Call[v.RunSummary]:
        """Try a failed run again: what completed is kept, what failed runs again. With a mended `definition`, by that."""
        return post("runs", run_id, "retry", body={"reason": reason, **given(definition=definition)})

    @operation
    def rollback(self, run_id: str) -> Call[v.RunSummary]:
        """Undo a run that has ended: its compensators run, last node first."""
        return post("runs", run_id, "rollback")

    @operation
    def rerun(
        self,
        run_id: str,
        *,
        from_node: str = "",
        inputs: Mapping[str, Any] | None = None,
        definition: Mapping[str, Any] | None = None,
    ) -> Call[v.RunStarted]:
        """A new run out of an old one: from a node on, or from the start with `inputs` on top of the old ones. With a mended
        `definition`, by that."""
        body = {"from_node": from_node, **given(inputs=inputs, definition=definition)}
        return post("runs", run_id, "rerun", body=body)

    @operation
    def patch(
        self,
        run_id: str,
        operations: Sequence[Mapping[str, Any]] | None = None,
        *,
        definition: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        reason: str = "",
    ) -> Call[v.PatchResult]:
        """Give a run under way another definition: by a JSON Patch, or the whole of it. `dry_run` only says what would change
        and whether the run can take it."""
        body = {"dry_run": dry_run, "reason": reason, **given(patch=operations, definition=definition)}
        return post("runs", run_id, "patch", body=body, repeatable=dry_run)

    @operation
    def signal(
        self, run_id: str, name: str, payload: Any = None, *, signal_id: str | None = None
    ) -> Call[v.RunSummary]:
        """Send a signal. The same `signal_id` twice counts once; each call has one of its own unless it is given."""
        body = {"name": name, "payload": payload, "signal_id": system.new_id() if signal_id is None else signal_id}
        return post("runs", run_id, "signal", body=body, repeatable=True)


class Runs(RunsCalls, Noun):
    __doc__ = __doc__

    def wait(self, run_id: str) -> v.Run:
        """The run when it has ended."""
        for _ in self.stream(run_id):
            pass
        return self.get(run_id)


class AsyncRuns(RunsCalls, AsyncNoun):
    __doc__ = __doc__

    async def wait(self, run_id: str) -> v.Run:
        """The run when it has ended."""
        async for _ in self.stream(run_id):
            pass
        return await self.get(run_id)
