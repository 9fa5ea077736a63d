"""Turns what the kernel asks for into finished things: rendered configs, tasks, answers of trivial nodes, verdicts.

Owns the bridge between state and routing. Decides nothing, keeps nothing but caches; every result is a function of the
state, so rendering again after a crash gives the same.
"""

from __future__ import annotations

from typing import Any

from weft.clock import Clock
from weft.kernel import commands as c
from weft.kernel import keys
from weft.kernel.inputs import Context, Seen, context, parents
from weft.kernel.state import Activation, IntegrityError, NodeState, State, index_of
from weft.kernel.values import Error
from weft.model.ir import Reference
from weft.nodes.registry import Call, Done, Failed, NodeType, Registry
from weft.routing.conditions import evaluate
from weft.routing.errors import NeedsBlob, TemplateError
from weft.routing.schemas import check as check_value
from weft.routing.scope import Run, Scope, outcome
from weft.routing.segments import find_segment
from weft.routing.templates import render
from weft.runtime.dispatcher import Entry
from weft.runtime.loaded import Loaded
from weft.transport import Task


class Renderer:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def is_trivial(self, state: State, effect: c.Dispatch) -> bool:
        """It is answered here: its type needs no worker, or nobody has such a type."""
        activation = _get(state, effect)
        name = self._type_name(state, activation, effect.undo)
        found = self._registry.find(name)
        return found is None or found.answer is not None

    def priority(self, state: State, effect: c.Dispatch) -> int:
        return state.pinned(_get(state, effect)).priority

    def is_once(self, state: State, effect: c.Recall) -> bool:
        """Its worker asks before it begins (rule 33)."""
        return not effect.undo and state.pinned(_get(state, effect)).effect == "at_most_once"

    def _type_name(self, state: State, activation: Activation, undo: bool) -> str:
        node = state.pinned(activation)
        return node.compensator.type if undo and node.compensator is not None else node.type

    def answer(self, loaded: Loaded, effect: c.Dispatch, clock: Clock) -> c.Command | None:
        """What a trivial node comes to; None when the dispatch is out of date."""
        state = loaded.state
        activation = state.find(effect.node, effect.scope, effect.item)
        if activation is None or not _is_current(activation, effect.attempt, effect.undo):
            return None
        about: dict[str, Any] = {
            "at": clock.now(),
            "entropy": clock.random(),
            "node": effect.node,
            "scope": effect.scope,
            "item": effect.item,
            "attempt": effect.attempt,
            "generation": state.generation,
            "undo": effect.undo,
        }
        name = self._type_name(state, activation, effect.undo)
        found = self._registry.find(name)
        if found is None or found.answer is None:
            message = f"no node type {name!r}; known are {', '.join(self._registry.names())}"
            return c.Fail(**about, error=Error("unknown_type", message), retryable=False)
        try:
            config = self._config(loaded, activation, effect.undo, found)
            inputs = _inputs(state, activation)
        except (TemplateError, NeedsBlob) as error:
            return c.Fail(**about, error=Error(error.code, str(error)), retryable=False)
        answer = found.answer(
            Call(
                run_id=state.run_id,
                node=effect.node,
                config=config,
                run_inputs=state.inputs,
                inputs=inputs,
                at=about["at"],
                undo=effect.undo,
            )
        )
        if isinstance(answer, Done):
            segment = find_segment(answer.output)
            if segment is not None:  # a secret is never an output, not even by way of a trivial node (S2)
                message = f"{effect.node} would give {type(segment).__name__.lower()} as its output, which is stored"
                return c.Fail(**about, error=Error("bad_output", message), retryable=False)
            return self.checked(state, c.Complete(**about, output=answer.output, started_at=about["at"]))
        if isinstance(answer, Failed):
            return c.Fail(**about, error=Error(answer.code, answer.message), retryable=False)
        return c.Suspend(
            **about,
            wait=answer.wait,
            approvers=answer.approvers,
            quorum=answer.quorum,
            on_timeout=answer.on_timeout,  # type: ignore[arg-type]
            escalate_to=answer.escalate_to,
            timeout_seconds=answer.timeout_seconds,
            shown=answer.shown,
            form=answer.form,
            workflow=answer.workflow,
            inputs=answer.inputs,
        )

    def checked(self, state: State, command: c.Command) -> c.Command:
        """A completion whose output does not fit the node's `output_schema` is a failed attempt."""
        if not isinstance(command, c.Complete) or command.undo:
            return command
        activation = state.find(command.node, command.scope, command.item)
        schema = None if activation is None else state.pinned(activation).output_schema
        problems = [] if schema is None else check_value(schema, command.output)
        if not problems:
            return command
        return c.Fail(
            at=command.at,
            id=command.id,
            entropy=command.entropy,
            node=command.node,
            scope=command.scope,
            item=command.item,
            attempt=command.attempt,
            generation=command.generation,
            error=Error("output_schema", "the output does not fit output_schema: " + "; ".join(problems)),
            worker=command.worker,
        )

    def task(self, loaded: Loaded, entry: Entry, incarnation: int) -> Task | c.Fail | None:
        """The message for a worker, or the failure to make it; None when the entry is out of date."""
        state = loaded.state
        activation = _get(state, entry)
        if entry.generation != state.generation or not _is_current(activation, entry.attempt, entry.undo):
            return None
        node = state.pinned(activation)
        compensator = node.compensator if entry.undo else None
        about: dict[str, Any] = {
            "node": entry.node,
            "scope": entry.scope,
            "item": entry.item,
            "attempt": entry.attempt,
            "generation": entry.generation,
            "undo": entry.undo,
        }
        try:
            config = self._config(loaded, activation, entry.undo, None)
            inputs = _inputs(state, activation)
        except (TemplateError, NeedsBlob) as error:
            return c.Fail(**about, at=activation.scheduled_at, error=Error(error.code, str(error)), retryable=False)
        undone = activation.undone
        return Task(
            **about,
            run_id=state.run_id,
            type=compensator.type if compensator is not None else node.type,
            config=config,
            inputs=inputs,
            idempotency_key=keys.idempotency_key(
                state.run_id, entry.node, entry.scope, entry.item, undo=entry.undo, undone=undone
            ),
            checkpoint=None if entry.undo else activation.checkpoint,
            queue=node.queue,
            priority=node.priority,
            timeout_seconds=compensator.timeout_seconds if compensator is not None else node.timeout_seconds,
            heartbeat_timeout_seconds=None if entry.undo else node.heartbeat_timeout_seconds,
            isolation=node.isolation,
            effect="idempotent" if entry.undo else node.effect,
            incarnation=incarnation,
        )

    def _config(self, loaded: Loaded, activation: Activation, undo: bool, kind: NodeType | None) -> Any:
        state = loaded.state
        node = state.pinned(activation)
        if undo and node.compensator is not None:
            references = (*node.compensator.references, *node.references)
            shown = {
                "output": activation.output,
                "config": self._config(loaded, activation, False, None),
                "error": None if state.error is None else state.error.as_output()["error"],
            }
            return render(node.compensator.config, _scope(state, activation, references, shown))
        if activation.config is not None:
            return activation.config  # a person gave it on requeue: data, not a template
        if node.config_ref is not None:
            raise TemplateError(f"config_ref {node.config_ref}: blobs are not available in this version")
        extra = {"item": self._item(loaded, activation)} if activation.item >= 0 else None
        scope = _scope(state, activation, node.references, extra)
        if kind is not None and kind.raw_keys and isinstance(node.config, dict):
            raw = {key: value for key, value in node.config.items() if key in kind.raw_keys}
            rest = {key: value for key, value in node.config.items() if key not in kind.raw_keys}
            return {**render(rest, scope), **raw}
        return render(node.config, scope)

    def _item(self, loaded: Loaded, activation: Activation) -> Any:
        """The item's own value, from its map's `over` list, rendered once per attempt of the map."""
        state = loaded.state
        name = state.name(activation.node)
        owner = state.find(name, activation.scope)
        if owner is None:
            raise IntegrityError(f"run {state.run_id}: item {activation.item} of {name} has no map")
        key = (name, activation.scope, owner.attempt)
        if key not in loaded.over:
            config = owner.config if owner.config is not None else state.node_in(owner.ir, owner.node).config
            references = state.node_in(owner.ir, owner.node).references
            over = config["over"]
            loaded.over[key] = over if owner.config is not None else render(over, _scope(state, owner, references))
        return loaded.over[key][activation.item]

    # -- verdicts ------------------------------------------------------------------------------------------------------

    def evaluate(self, state: State, question: c.Question) -> c.Verdict:
        match question.need.kind:
            case "collect":
                return c.Verdict(value=[outcome(seen) for seen in question.context.items])
            case "outputs":
                return self._outputs(state, question.context)
            case _:
                return evaluate(question, Run.of(state))

    def _outputs(self, state: State, seen: Context) -> c.Verdict:
        if state.ir.outputs is None:
            return c.Verdict(value={name: outcome(one) for name, one in seen.nodes.items()})
        scope = Scope.of(Run.of(state), seen, known=index_of(state.ir))
        values: dict[str, Any] = {}
        for name, template in state.ir.outputs.items():
            try:
                values[name] = render(template, scope)
            except (TemplateError, NeedsBlob) as error:
                if not _was_skipped(error, seen.nodes):
                    return c.Verdict(error=Error("output_error", f"outputs.{name}: {error}"))
                values[name] = None
        return c.Verdict(value=values)


def _was_skipped(error: TemplateError | NeedsBlob, nodes: dict[str, Seen]) -> bool:
    """A skipped node in `outputs` is null (rule 44)."""
    root = error.path.partition(".")[0].partition("[")[0]
    return root in nodes and nodes[root].state == "skipped"


def _get(state: State, place: c.Dispatch | c.Recall | Entry) -> Activation:
    found = state.find(place.node, place.scope, place.item)
    if found is None:
        raise IntegrityError(
            f"run {state.run_id}: nothing was activated at {keys.place(place.node, place.scope, place.item)}"
        )
    return found


def _is_current(activation: Activation, attempt: int, undo: bool) -> bool:
    """Somebody still wants this attempt."""
    if undo:
        return activation.undo is not None and activation.undo.attempt == attempt and activation.undo.state == "queued"
    return activation.attempt == attempt and activation.state in (NodeState.QUEUED, NodeState.RUNNING)


def _inputs(state: State, activation: Activation) -> dict[str, Any]:
    owner = activation
    if activation.item >= 0:
        owner = state.find(state.name(activation.node), activation.scope) or activation
    return {name: outcome(seen) for name, seen in parents(state, owner).items()}


def _scope(
    state: State, activation: Activation, references: tuple[Reference, ...], extra: dict[str, Any] | None = None
) -> Scope:
    reader = activation
    if activation.item >= 0:
        reader = state.find(state.name(activation.node), activation.scope) or activation
    seen = context(state, reader, references)
    return Scope.of(Run.of(state), seen, extra=extra, known=index_of(state.irs[activation.ir]))
