"""The task of a poll, for workers (rule 51). What its answer becomes is in `mapped_polls.py`. Decides nothing and keeps nothing."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from perdure.expressions.errors import TemplateError
from perdure.expressions.namespace import Namespace, Run
from perdure.expressions.templates import render
from perdure.kernel import commands as c
from perdure.kernel.address import Address
from perdure.kernel.state import Activation, State
from perdure.kernel.triggers.mailbox import Mailbox
from perdure.kernel.triggers.receivers import is_poll
from perdure.kernel.values import Error
from perdure.model.triggers import Trigger
from perdure.transport import Task

QUEUE = "triggers"
TYPE = "trigger"
POLLED = ("table", "folder", "stream", "poll")
"""The kinds of triggers that workers poll."""
_MANNER = ("every", "settle", "from", "reread", "notify")
"""What says how a source is read, and not which items it has."""
_SECRETS = ("database", "redis", "url", "config")
"""The keys of a source in which a secret may stand."""
_NOBODY = Run("", "")


def names_of(trigger: Trigger) -> tuple[str, str]:
    """What is read, and how: both are names that only tell whether they have changed. Empty for what is not polled."""
    if trigger.kind not in POLLED:
        return "", ""
    source = msgspec.to_builtins(trigger.source)
    manner = {key: source.pop(key) for key in _MANNER if key in source}
    return _hash(source), _hash(manner)


def _hash(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:16]


def queue_of(state: State, address: Address, queue: str) -> str:
    """The queue of an attempt: polls have one of their own, so that those that sleep take no slot of work."""
    return QUEUE if is_poll_at(state, address) else queue


def is_poll_at(state: State, address: Address) -> bool:
    activation = state.locate(address) if state.triggers else None
    return activation is not None and is_poll(state, activation)


def custom_source(box: Mailbox) -> str:
    """The name of the source that a worker must have to poll; empty: every worker has it."""
    return str(dict(box.spec.get("source") or {}).get("type", "")) if box.kind == "poll" else ""


def render_source(said: dict[str, Any]) -> dict[str, Any]:
    """A source in which secrets are named, and not yet filled in. Raises TemplateError."""
    namespace = Namespace(_NOBODY)
    return {key: render(value, namespace) if key in _SECRETS else value for key, value in said.items()}


def make_poll(state: State, activation: Activation, address: Address, incarnation: int) -> Task | c.Fail:
    box = state.triggers[address.node]
    try:
        source = render_source(box.spec["source"])
    except TemplateError as error:
        problem = Error(error.code, f"{box.name}: only secrets can be named in a source: {error}"[:1000])
        return c.Fail(at=activation.scheduled_at, address=address, error=problem)
    if box.begins:
        source["from"] = box.begins
    slow = not box.more and box.polled > 0 and activation.failures == 0
    place = f"{box.trigger}/{address.node}" if box.inner else box.trigger
    config = {"source": source, "cursor": box.cursor, "slow": slow, "trigger": place, "revision": box.revision}
    return Task.at(
        address,
        tenant=state.tenant,
        type=TYPE,
        function=custom_source(box),
        config=config,
        queue=QUEUE,
        idempotency_key=address.idempotency_key(activation.undone),
        incarnation=incarnation,
    )
