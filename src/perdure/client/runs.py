"""Runs: start them, look at them, follow them, and change their course."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from perdure.client import views as v
from perdure.client.errors import Invalid
from perdure.client.http_calls import Call, get, given, is_header, post
from perdure.client.operations import AsyncNoun, Noun, Page, Written, listing, operation, streaming
from perdure.client.run_lists import RunListsCalls
from perdure.client.run_readings import RunReadingsCalls
from perdure.client.workflows import register_children
from perdure.clock import system

PAGE = 100


def with_key(idempotency_key: str | None) -> dict[str, str]:
    """The header by which a repeated try is known."""
    key = system.new_id() if idempotency_key is None else idempotency_key
    if not is_header(key) or not 1 <= len(key) <= 255:
        raise Invalid("idempotency_key: expected 1 to 255 printable ASCII characters without spaces")
    return {"Idempotency-Key": key}


class RunsCalls(RunListsCalls, RunReadingsCalls):
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
        budget: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[v.RunStarted]:
        """Start a run of a registered workflow (`name`, `name@3`, `name@alias`), of one written in Python, or of a
        `definition`.

        `tag` is the version or alias, for a `workflow` that is a name alone; by its `tags` the run is found. It returns
        when the start is durable; with `wait_seconds` (at most 300), when the run has ended or the time is up. Each call has a key of
        its own, so that a repeated try starts nothing twice; give `idempotency_key` where the program itself may be
        repeated: the same key gives the run that it started. Where an alias means several versions, the same
        `rollout_key` (a customer, …) gets the same version until the alias moves. `correlation_id` is your own name for
        this work: children, tasks and webhooks carry it. `budget` is what its calls may use: `usd`, `tokens`, `calls`.
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
            budget=budget,
        )
        headers = with_key(idempotency_key)
        return post("runs", body=body, headers=headers, repeatable=True, wait_seconds=wait_seconds, before=before)

    @operation
    def get(self, run_id: str, *, outputs: bool = True, values: bool = True) -> Call[v.Run]:
        """A run: state, nodes, outputs, error. Of very many nodes only the first, and `next_nodes` to continue from. Without `outputs`
        those of nodes are left out; without `values` these and its own inputs and outputs."""
        return get("runs", run_id, outputs=None if outputs else False, values=None if values else False)

    @listing
    def nodes(
        self, run_id: str, *, outputs: bool = False, limit: int = PAGE, cursor: str | None = None
    ) -> Call[Page[v.NodeItem]]:
        """The nodes of a run, in the order of the definition; without outputs, their sizes."""
        return get("runs", run_id, "nodes", outputs=outputs, limit=limit, cursor=cursor)

    @operation
    def node(
        self, run_id: str, node: str, *, at: int | None = None, outputs: bool | None = None
    ) -> Call[v.NodeDetails]:
        """One node with every visit and its complete output; with `outputs=False`, its size instead."""
        return get("runs", run_id, "nodes", node, at=at, outputs=outputs)

    @listing
    def events(
        self,
        run_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        node: str | None = None,
        type: str | Sequence[str] = (),
        outputs: bool = True,
        limit: int = PAGE,
        cursor: str | None = None,
    ) -> Call[Page[v.Event]]:
        """Everything that happened to a run so far, in order, or with `before` the newest first. Without `outputs`, the
        values of users are left out."""
        types = [type] if isinstance(type, str) else builtins.list(type)
        which = {"after": after, "before": before, "node": node, "type": types, "outputs": None if outputs else False}
        return get("runs", run_id, "events", **which, limit=limit, cursor=cursor)

    @streaming
    def stream(
        self,
        run_id: str,
        *,
        after: int = 0,
        with_: Literal["working", "logs", "working,logs"] | None = None,
        outputs: bool = True,
        logs_after: int | None = None,
    ) -> Call[v.Event]:
        """The events of a run as they happen, until it has ended. A stream that is cut continues where it was. With
        `working`, also the tasks that are executed, whenever they change: `{"type": "working", "tasks": […]}`; with
        `logs`, also what handlers say, above the position `logs_after`: `{"type": "log", "message": …}`. These are no
        events and have no `seq`. Without `outputs`, the values of users are left out."""
        more = {"outputs": None if outputs else False, "logs_after": logs_after}
        return get("runs", run_id, "stream", **{"after": after, "with": with_}, **more)

    @operation
    def state_at(self, run_id: str, seq: int, *, outputs: bool = True, values: bool = True) -> Call[v.Run]:
        """A run as it was when event `seq` had just happened."""
        return get(
            "runs", run_id, "state", at=seq, outputs=None if outputs else False, values=None if values else False
        )

    @listing
    def path(self, run_id: str, *, after: int = 0, limit: int = PAGE, cursor: str | None = None) -> Call[Page[v.Step]]:
        """The edges that were taken, in order, and the rule that chose them."""
        return get("runs", run_id, "path", after=after, limit=limit, cursor=cursor)

    @operation
    def working(self, run_id: str) -> Call[v.WorkingTasks]:
        """The attempts of a run that are executed now: by which worker, and since when."""
        return get("runs", run_id, "working")

    @operation
    def explain(self, run_id: str, node: str | None = None) -> Call[v.Explanation]:
        """Why a node has not run, or what each node that has not completed waits for."""
        return get("runs", run_id, "explain", node=node)

    @operation
    def diff(
        self, run_id: str, *, at: int | None = None, other: str | None = None, to: int | None = None
    ) -> Call[v.RunDiff]:
        """The differences between two points of a run (`at`, `to`), or between it and an `other` run."""
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
        """What handlers of a run printed, logged and said with `ctx.log`, in order."""
        return get("runs", run_id, "logs", node=node, after=after, limit=limit, cursor=cursor)

    # -- changing ------------------------------------------------------------------------------------------------------

    @operation
    def cancel(self, run_id: str, *, reason: str = "", force: bool = False) -> Call[v.RunSummary]:
        """Stop a run. With `force`, do not wait for what is running, and undo nothing."""
        return post("runs", run_id, "cancel", body={"reason": reason, "force": force})

    @operation
    def pause(self, run_id: str, *, reason: str = "") -> Call[v.RunSummary]:
        """Pause a run: nothing new begins; what is running may finish."""
        return post("runs", run_id, "pause", body={"reason": reason})

    @operation
    def resume(self, run_id: str, *, budget: Mapping[str, Any] | None = None) -> Call[v.RunSummary]:
        """Let a paused run go on; one whose budget is used up needs a larger `budget`: `usd`, `tokens`, `calls`."""
        return post("runs", run_id, "resume", body=given(budget=budget))

    @operation
    def usage(self, run_id: str) -> Call[v.RunUsage]:
        """What a run has used: in all, by node and by model, its children included."""
        return get("runs", run_id, "usage")

    @operation
    def retry(
        self,
        run_id: str,
        *,
        definition: Mapping[str, Any] | None = None,
        reason: str = "",
        budget: Mapping[str, Any] | None = None,
    ) -> Call[v.RunSummary]:
        """Retry a failed run: what completed is kept, what failed runs again, perhaps by a mended `definition`. One whose budget
        is used up needs a larger `budget`: `usd`, `tokens`, `calls`."""
        body = {"reason": reason, **given(definition=definition, budget=budget)}
        return post("runs", run_id, "retry", body=body)

    @operation
    def rollback(self, run_id: str) -> Call[v.RunSummary]:
        """Undo a run that has ended: its compensators run, last node first."""
        return post("runs", run_id, "rollback")

    @operation
    def actions(self, run_id: str) -> Call[v.RunActions]:
        """What can be done with a run now, what each would do, and why the others are refused."""
        return get("runs", run_id, "actions")

    @operation
    def preview(
        self,
        run_id: str,
        action: Literal["cancel", "retry", "rerun", "rollback"],
        *,
        force: bool = False,
        from_node: str = "",
        inputs: Mapping[str, Any] | None = None,
        definition: Mapping[str, Any] | None = None,
    ) -> Call[v.Preview]:
        """What a change of a run would do: which nodes run again, keep their results, are undone or stopped, or why it
        is not possible. Nothing is changed."""
        about = {"force": force or None, "from_node": from_node or None, "inputs": inputs, "definition": definition}
        return post("runs", run_id, action, body={"dry_run": True, **given(**about)}, repeatable=True)

    @operation
    def rerun(
        self,
        run_id: str,
        *,
        from_node: str = "",
        inputs: Mapping[str, Any] | None = None,
        definition: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[v.RunStarted]:
        """Make a new run out of an old one: from a node on, or from the start with `inputs` merged over the old ones;
        by a mended `definition` if one is given. The `idempotency_key` is as in `start`."""
        body = {"from_node": from_node, **given(inputs=inputs, definition=definition)}
        return post("runs", run_id, "rerun", body=body, headers=with_key(idempotency_key), repeatable=True)

    @operation
    def what_if(
        self,
        run_id: str,
        *,
        node: str | None = None,
        visit: int | None = None,
        item: int | None = None,
        model: str | None = None,
        instructions: str | None = None,
        params: Mapping[str, Any] | None = None,
        turns: int | None = None,
        tools: Literal["pure", "recorded"] = "pure",
        budget: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[v.WhatIfStarted]:
        """Start a what-if: the conversations of a run with models, or those of `node`, are gone through again with another `model`,
        other `instructions` or `params`. The model is called, within `budget`; tools are answered from history, and nothing with
        an effect is done. `what_if_report` says what came of it. The `idempotency_key` is as in `start`."""
        which = given(node=node, visit=visit, item=item, model=model, instructions=instructions, params=params)
        body = {"tools": tools, **which, **given(turns=turns, budget=budget)}
        return post("runs", run_id, "what-if", body=body, headers=with_key(idempotency_key), repeatable=True)

    @operation
    def what_if_report(self, run_id: str) -> Call[v.WhatIfReport]:
        """What the what-if `run_id` came to, as far as it is: where each conversation diverges, what it used and answered, and what the
        guard decides otherwise."""
        return get("runs", run_id, "what-if")

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
        """Give a run under way another definition: by a JSON Patch, or the whole of it. With `dry_run`, only say what
        would change, and whether the run can take it."""
        body = {"dry_run": dry_run, "reason": reason, **given(patch=operations, definition=definition)}
        return post("runs", run_id, "patch", body=body, repeatable=dry_run)

    @operation
    def signal(
        self, run_id: str, name: str, payload: Any = None, *, signal_id: str | None = None
    ) -> Call[v.RunSummary]:
        """Send a signal to a run. The same `signal_id` twice counts once; without one, each call has its own."""
        body = {"name": name, "payload": payload, "signal_id": system.new_id() if signal_id is None else signal_id}
        return post("runs", run_id, "signal", body=body, repeatable=True)

    @operation
    def tell(
        self, run_id: str, node: str, text: str, *, item: int | None = None, message_id: str | None = None
    ) -> Call[v.RunSummary]:
        """Say something to an agent at work, which reads it before its next turn. The same `message_id` twice counts once."""
        body = {"text": text, "item": item, "message_id": system.new_id() if message_id is None else message_id}
        return post("runs", run_id, "nodes", node, "messages", body=body, repeatable=True)


class Runs(RunsCalls, Noun):
    __doc__ = __doc__

    def wait(self, run_id: str) -> v.Run:
        """Wait until a run has ended, and give it."""
        for _ in self.stream(run_id):
            pass
        return self.get(run_id)


class AsyncRuns(RunsCalls, AsyncNoun):
    __doc__ = __doc__

    async def wait(self, run_id: str) -> v.Run:
        """Wait until a run has ended, and give it."""
        async for _ in self.stream(run_id):
            pass
        return await self.get(run_id)
