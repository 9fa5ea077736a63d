"""The renderer: turns what the kernel asks for into rendered configs, tasks, answers of trivial nodes and verdicts.

Owns the bridge between state and routing. Decides nothing, keeps nothing but caches; every result is a function of the
state, so rendering again after a crash gives the same. Never waits: where a result needs something that is not at hand,
a blob to look into or a large value to be stored first, `NotAtHand` is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure.agents.transcript_view import TALKING
from perdure.blobs import INLINE_BYTES, WITH_REFS, full_ref, is_ref
from perdure.budget import Budget
from perdure.clock import Clock
from perdure.expressions.at_hand import NOTHING, AtHand, Lost, pick, resolve
from perdure.expressions.errors import ConfigTorn, NeedsSize, TemplateError, size_key
from perdure.expressions.json_schema import check as check_value
from perdure.expressions.json_schema import find_misfits
from perdure.expressions.namespace import Namespace, Run, outcome
from perdure.expressions.rendered_config import find_secret
from perdure.expressions.sight import sensitive_paths
from perdure.expressions.templates import find_urls, has_literal_host, has_templates, render
from perdure.expressions.verdicts import evaluate
from perdure.kernel import commands as c
from perdure.kernel import run_ids, segments
from perdure.kernel.address import Address
from perdure.kernel.causal_past import Evidence, Seen, evidence, parents
from perdure.kernel.lifecycle import IntegrityError, N
from perdure.kernel.segments import BlobRef, has_sealed
from perdure.kernel.settle import default_outputs
from perdure.kernel.state import Activation, State
from perdure.kernel.triggers.receivers import is_poll
from perdure.kernel.triggers.trigger_run import TRIGGER
from perdure.kernel.values import Error, Wait
from perdure.limits import Limit
from perdure.model.blob_content import join_config
from perdure.model.extremes import WHY, has_many
from perdure.model.ir import IR, SHORTEST_RATE_SECONDS, Node, Reference
from perdure.model.references import BadExpression, find_in_template, templates
from perdure.nodes.config_checks import explain_rendered, find_refused_call
from perdure.nodes.registry import Answer, Awaiting, Call, Done, Failed, NodeType, Registry
from perdure.runtime.coordinator.agent_memory import has_session, memory_of, session_limit, session_of
from perdure.runtime.coordinator.asked_for import keep_asks
from perdure.runtime.coordinator.continuations import with_defaults
from perdure.runtime.coordinator.keeper import Keeper, split, without_details
from perdure.runtime.coordinator.loaded import Loaded
from perdure.runtime.coordinator.tasks import gatherer
from perdure.runtime.coordinator.tasks.agent_tasks import about_agent, routes_of
from perdure.runtime.coordinator.tasks.cache import Cache
from perdure.runtime.coordinator.tasks.config_contents import load_config, resolve_top
from perdure.runtime.coordinator.tasks.stream_ends import flow_of
from perdure.runtime.coordinator.triggers.inner_triggers import make_await
from perdure.runtime.coordinator.triggers.mapped_polls import receive_polled
from perdure.runtime.coordinator.triggers.poll_tasks import is_poll_at, make_poll
from perdure.runtime.coordinator.triggers.schedules import answer_moments
from perdure.runtime.coordinator.triggers.targets import NeedsTarget, judge, target_key
from perdure.secrets.keyring import UnknownKey
from perdure.secrets.vault import Vault
from perdure.transport import Task

_SHOWN_MISFITS = 5
LONGEST_LIMIT_KEY = 500


class Renderer:
    def __init__(self, registry: Registry, cache: Cache | None = None, vault: Vault | None = None) -> None:
        """Without a cache nothing can be stored or fetched: every value stays where it is."""
        self._registry = registry
        self._cache = cache
        self.keeper = Keeper(cache)
        self._vault = vault
        self.doubts_sizes = False
        """Whether the sizes of blobs are asked of the store: workers are other processes, and may say anything."""
        self.scarce: set[str] = set()
        """Functions, as `module:name`, that some workers cannot import and others may."""

    # -- blobs ---------------------------------------------------------------------------------------------------------

    def _at_hand(self, tenant: str) -> AtHand:
        return NOTHING if self._cache is None else self._cache.view(tenant)

    def find_at_hand(self, tenant: str) -> AtHand | None:
        """What was fetched or made for messages that wait; None: nothing can be."""
        return None if self._cache is None else self._cache.view(tenant)

    def need_target(self, tenant: str, workflow: str) -> None:
        """Raises NeedsTarget until the version that a trigger starts has been looked up."""
        if target_key(workflow) not in self._at_hand(tenant):
            raise NeedsTarget(workflow)

    def look_into(self, value: Any, path: str, tenant: str) -> Any:
        """The value with the contents of all blobs in it. Raises NotAtHand or ContentLost."""
        return resolve(value, path, self._at_hand(tenant))

    def keep(self, value: Any, tenant: str) -> Any:
        """A value as an event may hold it. Raises NeedsStore."""
        return self.keeper.keep(value, tenant)[0]

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def is_trivial(self, state: State, address: Address) -> bool:
        """Whether the node is answered here: its type needs no worker, or is unknown."""
        activation = _get(state, address)
        name = self._type_name(state, activation, address.undo)
        if name == "trigger":
            return not is_poll(state, activation)
        found = self._registry.find(name)
        if found is None or found.answer is None or found.on_worker is None:
            return found is None or found.answer is not None
        return found.is_answered(_raw_config(state, activation, address.undo))

    def node(self, state: State, address: Address) -> Node:
        """The node of an attempt, as the definition had it when the node was activated."""
        return state.pinned(_get(state, address))

    def limits(self, loaded: Loaded, address: Address) -> list[Limit]:
        """The limits that the node's `concurrency` and `rate` come to. Raises TemplateError for a key that cannot be
        used."""
        activation = _get(loaded.state, address)
        node = loaded.state.pinned(activation)
        found: list[Limit] = []
        if address.undo:  # a compensation is other work than its node, and the node's limits do not count for it
            return found
        for kind, gate in (("concurrency", node.concurrency), ("rate", node.rate)):
            if gate is not None:
                key = self._limit_key(loaded, activation, node, gate.get("key"), f"the key of {kind} of {address.node}")
                seconds = gate.get("per_seconds")
                if seconds is not None:  # a definition that is stored may have less than is allowed now
                    seconds = max(seconds, SHORTEST_RATE_SECONDS)
                found.append(Limit(loaded.state.tenant, key, gate["limit"], seconds))
        if has_session(node):
            session = session_of(self._config(loaded, activation, False, None), address.node)
            if session is not None and session.exclusive:
                found.append(session_limit(loaded.state, address.node, session))
        return found

    def _limit_key(self, loaded: Loaded, activation: Activation, node: Node, template: str | None, what: str) -> str:
        if template is None:
            return f"{loaded.state.workflow}/{node.id}"
        key: Any = template
        if "{" in template:
            extra = {"item": self._item(loaded, activation)} if activation.item >= 0 else None
            key = render(template, self._namespace(loaded.state, activation, node.references, extra))
        if type(key) in (int, float, bool):
            return msgspec.json.encode(key).decode()
        if type(key) is BlobRef or (type(key) is str and len(key) > LONGEST_LIMIT_KEY):
            raise TemplateError(f"{what} may have {LONGEST_LIMIT_KEY} characters, and has more", template=template)
        if type(key) is not str or not key:
            came = "nothing" if key in (None, "") else "something else"
            raise TemplateError(f"{what} must come to text or a number, and came to {came}", template=template)
        return key

    def is_once(self, state: State, address: Address) -> bool:
        """Whether the worker of this attempt asks before it begins (rule 33)."""
        return not address.undo and state.pinned(_get(state, address)).effect == "at_most_once"

    def _type_name(self, state: State, activation: Activation, undo: bool) -> str:
        node = state.pinned(activation)
        return node.compensator.type if undo and node.compensator is not None else node.type

    def answer(self, loaded: Loaded, address: Address, clock: Clock) -> c.Command | None:
        """The outcome of a trivial node, as a command; None when its run no longer wants this attempt."""
        state = loaded.state
        activation = state.locate(address)
        if activation is None or not _is_current(activation, address):
            return None
        about: dict[str, Any] = {"at": clock.now(), "entropy": clock.random(), "address": address}
        if state.ir_hashes[-1] == TRIGGER.hash:  # the mailbox has what comes for it
            return c.Suspend(**about, wait=Wait(kind="trigger"))
        if address.node in state.triggers and not address.undo:  # it is registered as it was rendered once
            return c.Await(**about)
        name = self._type_name(state, activation, address.undo)
        found = self._registry.find(name)
        if found is None or found.answer is None:
            return c.Fail(**about, error=Error("unknown_type", self._registry.explain(name)), retryable=False)
        try:
            config = load_config(
                self._config(loaded, activation, address.undo, found), found, self._at_hand(state.tenant)
            )
            inputs = _inputs(state, activation)
        except TemplateError as error:
            return c.Fail(**about, error=Error(error.code, str(error)), retryable=False)
        # The config of a trivial node may end up in events, where a secret must never be (S2).
        problem = "a secret in its config would be stored; only workers fill secrets in" if find_secret(config) else ""
        problem = problem or explain_rendered(found, config)
        if problem:
            message = f"{name} {address.node}: {problem}"
            return c.Fail(**about, error=Error("bad_config", message), retryable=False)
        answer = found.answer(
            Call(
                run_id=state.run_id,
                node=address.node,
                config=config,
                run_inputs=state.inputs,
                inputs=inputs,
                at=about["at"],
                undo=address.undo,
            )
        )
        return self._command(loaded, answer, about)

    def _command(self, loaded: Loaded, answer: Answer, about: dict[str, Any]) -> c.Command:
        state, keep, room = loaded.state, self.keeper.keep, loaded.room
        if isinstance(answer, Failed):
            return c.Fail(**about, error=Error(answer.code, answer.message), retryable=False)
        if isinstance(answer, Done):
            data, refs = segments.encode(answer.output)
            if has_many(data):
                return c.Fail(**about, error=Error("bad_output", f"output: {WHY}"), retryable=False)
            output, size = self.keeper.store(answer.output, data, refs, state.tenant, room=room)
            return self._fitting(state, c.Complete(**about, **split(output), size=size, started_at=about["at"]))
        if isinstance(answer, Awaiting):
            return make_await(state, answer, about, self.find_at_hand(state.tenant))
        return c.Suspend(
            **about,
            wait=answer.wait,
            approvers=answer.approvers,
            quorum=answer.quorum,
            on_timeout=answer.on_timeout,  # type: ignore[arg-type]
            escalate_to=answer.escalate_to,
            timeout_seconds=answer.timeout_seconds,
            shown=self.keeper.keep_parts(answer.shown, state.tenant, room),
            form=keep(answer.form, state.tenant, room=room)[0],
            notify=answer.notify,
            workflow=answer.workflow,
            inputs=keep(answer.inputs, state.tenant, room=room)[0],
            budget=answer.budget,
        )

    def accepted(self, loaded: Loaded, command: c.Command) -> c.Command:
        """A result as it may be decided on: its large values are stored, and a completion whose output does not fit the
        node's `output_schema` is a failed attempt."""
        state, keep, room = loaded.state, self.keeper.keep, loaded.room
        if isinstance(command, c.Checkpoint):
            data = command.data
            if data is None:
                return command
            if type(data) is BlobRef and self.doubts_sizes:
                said = self._weigh(data.ref, command.size - len(command.step), state.tenant)
                size = command.size if isinstance(said, Lost) else said + len(command.step)
                command = msgspec.structs.replace(command, size=size)
            return msgspec.structs.replace(command, data=keep(data, state.tenant, room=room)[0])
        if isinstance(command, c.AskFor):
            return keep_asks(command, lambda value: keep(value, state.tenant, room=room)[0])
        if isinstance(command, c.Fail):
            return msgspec.structs.replace(command, error=without_details(command.error, room))
        if not isinstance(command, c.Complete):
            return command
        if is_poll_at(state, command.address):
            return receive_polled(state, command, self.find_at_hand(state.tenant))
        if command.renews:
            whole = with_defaults(state, command, self._at_hand(state.tenant))
            if isinstance(whole, Error):
                return _fail(command, whole, retryable=False)
            command = whole
        return self._fitting(state, self._slim(loaded, command))

    def _fitting(self, state: State, command: c.Complete) -> c.Command:
        problems: list[str] = []
        ref = command.output.ref if type(command.output) is BlobRef else command.output_ref
        if self.doubts_sizes and ref is not None and is_ref(ref):
            said = self._weigh(ref, command.size, state.tenant)
            if isinstance(said, Lost):
                return _fail(command, Error("bad_output", f"the output: {said.message}"))
            command = msgspec.structs.replace(command, size=said)
        activation = state.locate(command.address)
        schema = None if activation is None or command.address.undo else state.pinned(activation).output_schema
        if command.output_ref is not None and not is_ref(command.output_ref):
            problems = [f"{command.output_ref[:100]!r} is no reference to a blob"]
        elif schema is not None:
            output = command.output if command.output_ref is None else BlobRef(command.output_ref)
            at_hand = self._at_hand(state.tenant)
            value = resolve(output, "output", at_hand)
            if has_sealed(value):  # then the message names the places, never the values
                opened = self._opener(state.tenant, state.seal_name)(value)
                problems = find_misfits(schema, opened, _SHOWN_MISFITS, at_hand=at_hand)
            else:
                problems = check_value(schema, value, at_hand=at_hand)
        if not problems:
            return command
        return _fail(command, Error("output_schema", "the output does not fit output_schema: " + "; ".join(problems)))

    def _weigh(self, ref: str, said: int, tenant: str) -> int | Lost:
        """The size of a blob, as its store says it. What names further blobs may have more in all: there the worker is
        believed that says so. Raises NeedsSize."""
        at_hand = self._at_hand(tenant)
        if size_key(ref) not in at_hand:
            raise NeedsSize(ref)
        found = at_hand[size_key(ref)]
        if isinstance(found, Lost):
            return found
        return max(found, said) if ref.endswith(WITH_REFS) else int(found)

    def function_of(self, kind: str, config: Any) -> str:
        """The function that a worker must have. One named as `module:name` can be imported by any worker, so it is left
        empty unless some worker lacks it."""
        name = named_function(kind, config)
        return name if ":" not in name or name in self.scarce else ""

    def _slim(self, loaded: Loaded, command: c.Complete) -> c.Complete:
        """Store an output that is still in the result and is too much for it: workers store what is large before they
        report, but one in another language may not, and none knows what else its run has."""
        if type(command.output) not in (dict, list) and (command.output is None or 0 < command.size <= INLINE_BYTES):
            return command
        output, size = self.keeper.keep(command.output, loaded.state.tenant, room=loaded.room)
        return msgspec.structs.replace(command, **split(output), size=size)

    def task(self, loaded: Loaded, address: Address, incarnation: int) -> Task | c.Fail | None:
        """The task for a worker, or the failure to render it; None when its run no longer wants this attempt."""
        state = loaded.state
        activation, undo = _get(state, address), address.undo
        if address.generation != state.generation or not _is_current(activation, address):
            return None
        node = state.pinned(activation)
        if is_poll(state, activation):
            return make_poll(state, activation, address, incarnation)
        compensator = node.compensator if undo else None
        try:
            config = self._config(loaded, activation, undo, None)
            inputs = _inputs(state, activation)
            is_agent = node.type == "agent" and not undo
            talks = node.type in TALKING and not undo
            memory = memory_of(state, activation, address, config, self._at_hand(state.tenant)) if talks else {}
        except TemplateError as error:
            problem = Error(error.code, str(error))
            return c.Fail(at=activation.scheduled_at, address=address, error=problem, retryable=False)
        checkpoint = None
        if not undo and activation.checkpoint is not None:  # many small steps are large together
            checkpoint, _ = self.keeper.keep(activation.checkpoint, state.tenant)
        kind = compensator.type if compensator is not None else node.type
        if (refusal := find_refused_call(kind, config)) is not None:  # a name that was a template until now
            problem = Error("function_not_allowed", refusal)
            return c.Fail(at=activation.scheduled_at, address=address, error=problem, retryable=False)
        return Task(
            run_id=address.run_id,
            node=address.node,
            scope=address.scope,
            item=address.item,
            attempt=address.attempt,
            generation=address.generation,
            undo=undo,
            tenant=state.tenant,
            type=kind,
            function=self.function_of(kind, config),
            config=config,
            inputs=inputs,
            tries=0 if undo or activation.idle == 0 else activation.tries,
            idempotency_key=address.idempotency_key(activation.undone),
            checkpoint=checkpoint,
            asked={} if undo or not activation.asks else {name: one.content for name, one in activation.asks.items()},
            begun=() if undo else tuple(activation.begun_steps or ()),
            metered=state.money.budget is not None and state.money.budget.usd is not None,
            routes=() if undo else routes_of(state, activation),
            **(about_agent(state, activation, self._registry) if is_agent else {}),
            memory=memory,
            queue=node.queue,
            priority=node.priority,
            timeout_seconds=compensator.timeout_seconds if compensator is not None else node.timeout_seconds,
            heartbeat_timeout_seconds=None if undo else node.heartbeat_timeout_seconds,
            isolation=node.isolation,
            effect="idempotent" if undo else node.effect,
            sensitive=() if undo else node.sensitive,
            sealed=bool(sensitive_paths(state.ir)) or run_ids.is_child(state.run_id) or state.sealed_for != "",
            sealed_for=state.sealed_for,
            incarnation=incarnation,
            correlation_id=state.correlation_id,
            flow=flow_of(state, activation) if state.streaming and not undo else None,
        ).keep(address)

    def given(self, loaded: Loaded, activation: Activation, undo: bool) -> tuple[Any, dict[str, Any]]:
        """The config and the inputs that an attempt of this activation is given. Raises TemplateError, NotAtHand."""
        kind = self._registry.find(loaded.state.pinned(activation).type)
        return self._config(loaded, activation, undo, kind), _inputs(loaded.state, activation)

    def wants(self, state: State, address: Address) -> bool:
        """Whether the run still wants this attempt."""
        activation = state.locate(address)
        return activation is not None and address.generation == state.generation and _is_current(activation, address)

    def _config(self, loaded: Loaded, activation: Activation, undo: bool, kind: NodeType | None) -> Any:
        state = loaded.state
        node = state.pinned(activation)
        if undo and node.compensator is not None:
            references = (*node.compensator.references, *node.references)
            shown = {
                "output": activation.output if activation.output_ref is None else BlobRef(activation.output_ref),
                "config": self._config(loaded, activation, False, self._registry.find(node.type)),
                "error": None if state.error is None else state.error.as_output()["error"],
            }
            return self._render(
                node.compensator.type, node.compensator.config, self._namespace(state, activation, references, shown)
            )
        if activation.config is not None:
            return activation.config  # a person gave it on requeue: data, not a template
        config, references = node.config, node.references
        if node.config_ref is not None:
            config, references = self._fetch_config(state, node)
        if not has_templates(config):
            return config
        extra = {"item": self._item(loaded, activation)} if activation.item >= 0 else None
        namespace = self._namespace(state, activation, references, extra)
        if kind is not None and kind.raw_keys and isinstance(config, dict):
            raw = {key: value for key, value in config.items() if key in kind.raw_keys}
            rest = {key: value for key, value in config.items() if key not in kind.raw_keys}
            return {**render(rest, namespace), **raw}
        return self._render(node.type, config, namespace)

    def _render(self, type_name: str, config: Any, namespace: Namespace) -> Any:
        found = self._registry.find(type_name)
        if found is None or not found.urls:
            return render(config, namespace)
        rendered = render(config, namespace, found.urls)
        for url in find_urls(config, found.urls):
            if not has_literal_host(url) and find_secret(rendered) is not None:
                raise TemplateError(
                    "a config with a secret needs the host of its URL written out: else the data would say who gets the secret",
                    template=url,
                )
        return rendered

    def _fetch_config(self, state: State, node: Node) -> tuple[Any, tuple[Reference, ...]]:
        """A config that the definition keeps as a blob, joined with the config beside it. It is part of the definition,
        so its templates are rendered."""
        content = pick(full_ref(node.config_ref or ""), f"config_ref of {node.id}", self._at_hand(state.tenant))
        config, wrong = join_config(node.type, node.config, content, f"node '{node.id}'")
        if wrong:
            raise ConfigTorn("; ".join(wrong))
        known, found = state.ir.numbers, list(node.references)
        try:
            for _, text in templates(config, ()):
                found += find_in_template(text, known)
        except BadExpression as error:
            raise TemplateError(f"config_ref of {node.id}: {error}") from None
        return config, tuple(found)

    def _namespace(
        self,
        state: State,
        activation: Activation,
        references: tuple[Reference, ...],
        extra: dict[str, Any] | None = None,
    ) -> Namespace:
        reader = activation
        if activation.item >= 0:
            reader = state.find(state.name(activation.node), activation.scope) or activation
        seen = evidence(state, reader, references)
        known = state.irs[activation.ir].numbers
        return Namespace.of(Run.of(state), seen, extra=extra, known=known, at_hand=self._at_hand(state.tenant))

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
            if owner.config is None:
                over = render(over, self._namespace(state, owner, references))
            loaded.over[key] = resolve_top(over, "over", self._at_hand(state.tenant))
        return loaded.over[key][activation.item]

    # -- verdicts ------------------------------------------------------------------------------------------------------

    def evaluate(self, state: State, question: c.Question, command: c.Command, budget: Budget) -> c.Verdict:
        """Answer a question of the kernel. The state is the one before the command: of a run that is being started,
        only the command knows."""
        run, ir, sealed_for = Run.of(state), state.ir if state.irs else None, state.sealed_for
        if isinstance(command, c.Start):
            started, sealed_for = command, command.sealed_for
            run = Run(
                started.run_id, started.ir.name, started.inputs, started.workflow_version, started.tenant, started.tags
            )
        if isinstance(command, c.Start | c.Patch | c.ApplyPatch | c.Retry) and command.ir is not None:
            ir = command.ir
        assert ir is not None
        match question.need.kind:
            case "moments":
                return answer_moments(question.evidence, budget)
            case "target":
                return judge(question.evidence, self._at_hand(run.tenant), budget)
            case "collect":
                return self._collect(state, question, command)
            case "outputs":
                return self._outputs(run, ir, question.evidence)
            case _:
                sensitive = sensitive_paths(ir)
                may_hold = sensitive or run_ids.is_child(run.id) or sealed_for
                open_sealed = self._opener(run.tenant, sealed_for or run.id) if may_hold else None
                return evaluate(question, run, self._at_hand(run.tenant), sensitive, open_sealed, budget)

    def _opener(self, tenant: str, run_id: str) -> Callable[[Any], Any]:
        """A function that opens sealed fields in memory, for conditions and schemas that read them. A child may get
        such fields from its parent."""

        def open_sealed(value: Any) -> Any:
            if self._vault is None:
                raise UnknownKey("a condition reads sealed fields, and this process has no keys")
            return self._vault.sealer(tenant, run_id).open(value)

        return open_sealed

    def _collect(self, state: State, question: c.Question, command: c.Command) -> c.Verdict:
        items, at_hand = question.evidence.items, self._at_hand(state.tenant)
        if self._cache is not None and len(items) > gatherer.FEW:
            key = gatherer.key_of(state, question.need, command)
            if key not in at_hand:
                raise gatherer.NeedsGathered(key, items)
            found = at_hand[key]
            if type(found) is Lost:
                return c.Verdict(error=Error("bad_output", f"the outputs of all items together: {found.message}"))
            verdict: c.Verdict = found
            return verdict
        gathered = gatherer.gather(items)
        kept, _ = self.keeper.store(None, gathered.data, gathered.refs, state.tenant)
        return gatherer.judge(gathered, items, kept.ref if type(kept) is BlobRef else "")

    def _outputs(self, run: Run, ir: IR, seen: Evidence) -> c.Verdict:
        if ir.outputs is None:
            return _as_verdict(*self.keeper.keep(default_outputs(ir, seen.nodes), run.tenant))
        namespace = Namespace.of(run, seen, known=ir.numbers, at_hand=self._at_hand(run.tenant))
        values: dict[str, Any] = {}
        for name, template in ir.outputs.items():
            try:
                values[name] = render(template, namespace)
            except TemplateError as error:
                if not _was_skipped(error, seen.nodes):
                    return c.Verdict(error=Error("output_error", f"outputs.{name}: {error}"))
                values[name] = None
        if find_secret(values) is not None:
            return c.Verdict(error=Error("output_error", "a secret cannot be an output of a run, which is stored"))
        return _as_verdict(*self.keeper.keep(values, run.tenant))


def _as_verdict(value: Any, size: int) -> c.Verdict:
    return c.Verdict(output_ref=value.ref, size=size) if type(value) is BlobRef else c.Verdict(value=value, size=size)


def _fail(command: c.Complete, error: Error, *, retryable: bool = True) -> c.Fail:
    return c.Fail(
        retryable=retryable,
        at=command.at,
        id=command.id,
        entropy=command.entropy,
        address=command.address,
        error=error,
        worker=command.worker,
    )


def named_function(kind: str, config: Any) -> str:
    """The function a task calls, as its config names it; empty where that is known only after rendering."""
    name = config.get("function") or config.get("action") if kind == "task" and isinstance(config, dict) else None
    return name if isinstance(name, str) and "{{" not in name else ""


def _was_skipped(error: TemplateError, nodes: dict[str, Seen]) -> bool:
    """Whether a template failed because it names a skipped node, which is null in `outputs` (rule 44)."""
    root = error.path.partition(".")[0].partition("[")[0]
    return root in nodes and nodes[root].state == "skipped"


def _get(state: State, address: Address) -> Activation:
    found = state.locate(address)
    if found is None:
        raise IntegrityError(f"run {state.run_id}: nothing was activated at {address.place}")
    return found


def _raw_config(state: State, activation: Activation, undo: bool) -> Any:
    """The config before rendering; None when the definition keeps it as a blob."""
    node = state.pinned(activation)
    if undo and node.compensator is not None:
        return node.compensator.config
    if activation.config is not None:
        return activation.config
    return node.config if node.config_ref is None else None


def _is_current(activation: Activation, address: Address) -> bool:
    """Whether the activation still wants this attempt; the generation is not compared."""
    if address.undo:
        undo = activation.undo
        return undo is not None and undo.attempt == address.attempt and undo.state == "queued"
    return activation.attempt == address.attempt and activation.state in (N.QUEUED, N.RUNNING)


def _inputs(state: State, activation: Activation) -> dict[str, Any]:
    owner = activation
    if activation.item >= 0:
        owner = state.find(state.name(activation.node), activation.scope) or activation
    return {name: outcome(seen) for name, seen in parents(state, owner).items()}
