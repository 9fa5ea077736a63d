"""Webhooks of triggers: whether a delivery is genuine, and what becomes of it.

The tenant is that of the hook's row, never of the request (X18). A delivery that is refused costs the same work and is
answered alike, whether there is no such hook or its signature is wrong, old or missing (X22, X30). It must not know HTTP.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from perdure.budget import ANSWER_BYTES, ANSWER_REFERENCES, Budget
from perdure.clock import new_key
from perdure.errors import NotFound, Refused
from perdure.journal import TriggerRow
from perdure.kernel.commands import Delivered
from perdure.kernel.values import Error
from perdure.model.trigger_sources import Verify, Webhook
from perdure.model.triggers import Trigger
from perdure.runtime.coordinator.kept_inputs import Kept, store_inputs, weigh_inputs
from perdure.runtime.coordinator.requests import ItemFate
from perdure.runtime.signing_secrets import reveal_unless_a_key
from perdure.secrets.signatures import WeakSecret
from perdure.service.errors import Overloaded, TriggerFull
from perdure.service.triggers.triggers import read_spec
from perdure.service.views import View
from perdure.threads import aside
from perdure.triggers.deliveries import QUEUE, Genuine, Unproven, read_secrets, verify
from perdure.triggers.mapping import UNMAPPED, Filtered, Poison, facts_of_item, map_item
from perdure.triggers.trials import fill_answer

if TYPE_CHECKING:
    from perdure.engine import Engine

logger = logging.getLogger("perdure.hooks")

LONGEST_HOOK = 64
SMALL_BYTES = 4 * 1024
"""The largest body that is looked at on the loop, and mapped there where no filter is asked."""
LOOP_STEPS, LOOP_CHARACTERS = 4_000, 50_000
"""What the mapping of such a body may take on the loop, a few milliseconds; what takes more is mapped anew in a thread."""
MOST_HEADERS = 50
LONGEST_HEADER = 2000
_TRIES = 5
_LOOK_SECONDS = 0.01
_HEADERS = frozenset(
    {"content-type", "user-agent", "webhook-id", "webhook-timestamp", "idempotency-key", "traceparent"}
)
_SECRET = ("signature", "token", "secret", "auth", "key", "cookie", "password", "forwarded", "real-ip", "credential")
"""Parts of names of headers beginning with `x-` that may hold what proves who sends, or where the sender is."""
_DECOY = Verify("hmac", header="x-signature")

Cause = Literal["unknown", "missing", "signature", "old", "secret"]
Outcome = Literal["taken", "duplicate", "filtered", "parked"]


class HookRefused(NotFound):
    """There is no such hook, or the delivery does not prove that it may use it. The cause is for the figures alone."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(
            "there is no webhook here that takes this delivery: its address or its signature is wrong, or too old"
        )
        self.cause = cause


class Caller(msgspec.Struct, frozen=True):
    """A delivery that is genuine."""

    row: TriggerRow
    trigger: Trigger
    id: str
    """What the sender calls it; empty where the scheme has no ids."""

    @property
    def source(self) -> Webhook:
        assert isinstance(self.trigger.source, Webhook)
        return self.trigger.source


class Delivery(msgspec.Struct, frozen=True):
    """What became of a delivery."""

    outcome: Outcome
    taken: ItemFate | None = None
    """None: the filter let it not pass."""


async def authenticate(engine: Engine, hook: str, headers: Mapping[str, str], body: bytes) -> Caller:
    """The trigger that a delivery is for. Raises HookRefused, after the same work whatever is wrong."""
    row = await engine.journal.find_hook(hook) if len(hook) <= LONGEST_HOOK else None
    trigger = None if row is None else read_spec(row)
    how, secrets, cause = _choose_secrets(engine, row, trigger)
    now = engine.clock.now()
    tenant = "" if row is None else row.tenant
    if len(body) > SMALL_BYTES:
        said = await aside(tenant, verify, how, headers, body, secrets, now)
    else:
        said = verify(how, headers, body, secrets, now)
    if row is None or trigger is None or cause is not None:
        raise HookRefused(cause or "unknown")
    if isinstance(said, Unproven):
        raise HookRefused(said.cause)
    assert isinstance(said, Genuine)
    return Caller(row, trigger, said.id)


def _choose_secrets(
    engine: Engine, row: TriggerRow | None, trigger: Trigger | None
) -> tuple[Verify, tuple[str, ...], Cause | None]:
    """How the delivery is to be verified, and why it cannot be. Where it cannot, a random secret is used, so that the same work is
    done."""
    decoy = (new_key(32).hex(),)
    if row is None or trigger is None or not isinstance(trigger.source, Webhook):
        return _DECOY, decoy, "unknown"
    how = trigger.source.verify
    if how.scheme == "none":
        return how, (), None if engine.triggers.allow_unsigned else "secret"
    try:
        if engine.vault is None:
            raise LookupError("this process has no secrets")
        return how, read_secrets(how.scheme, reveal_unless_a_key(engine.vault, how.secret, row.tenant, QUEUE)), None
    except (LookupError, WeakSecret) as error:
        said = str(error)
        if not isinstance(error, WeakSecret):
            todo = f"where the server runs: export PERDURE_SECRET_{how.secret.upper()}=…, or add it to its secrets file"
            said = f"there is no secret {how.secret} for queue {QUEUE}; {todo}"
        logger.warning("trigger %s of %s refuses its deliveries: %s", row.name, row.tenant, said)
        return _DECOY, decoy, "secret"


def keep_headers(headers: Mapping[str, str], how: Verify) -> dict[str, str]:
    """The headers that templates may read, by an allow-list: never those that prove who sends."""
    proofs = {how.header, how.timestamp_header if how.scheme == "hmac" else ""}
    kept: dict[str, str] = {}
    for name, value in headers.items():
        extra = name.startswith("x-") and not any(one in name for one in _SECRET)
        if (name in _HEADERS or extra) and name not in proofs and len(kept) < MOST_HEADERS:
            kept[name] = value[:LONGEST_HEADER]
    return kept


async def deliver(engine: Engine, caller: Caller, item: Any, size: int) -> Delivery:
    """Map a genuine delivery by the present revision of its trigger, and give it to the trigger. Raises TriggerFull, and HookRefused
    when the trigger is deleted meanwhile."""
    fresh = engine.clock.new_id()  # the identity of a delivery that its sender gives none
    facts = facts_of_item(engine.clock.now())
    for _ in range(_TRIES):
        made = await _map(engine, caller, item, size, facts)
        if made is None:
            return Delivery("filtered")
        if not made.id:
            made = msgspec.structs.replace(made, id=fresh)
        row = caller.row
        about: dict[str, Any] = {"tenant": row.tenant, "life": row.life}
        reply = await engine.triggers.deliver(row.name, [made], row.revision, **about)
        if not reply.refused:
            (taken,) = reply.items
            known: Outcome = "duplicate" if taken.fate == "known" else "parked" if taken.fate == "parked" else "taken"
            return Delivery(known, taken)
        if reply.code == "trigger_full":
            raise TriggerFull(reply.message)
        if reply.code == "overloaded":
            raise Overloaded(reply.message)
        found = await engine.journal.find_hook(row.hook or "")
        if found is None:
            raise HookRefused("unknown")
        if reply.code != "stale_revision":
            raise Refused(reply.message, code=reply.code)
        caller = Caller(found, read_spec(found), caller.id)
    raise Overloaded(f"trigger {caller.row.name} is being changed; send it again in a moment")


async def _map(engine: Engine, caller: Caller, item: Any, size: int, facts: dict[str, Any]) -> Delivered | None:
    """The item as its mailbox takes it; None: the filter does not let it pass. What a body and its templates make long is done beside
    the loop: on the loop little is tried, and given up when it turns out to be much."""
    tenant, little = caller.row.tenant, Budget(LOOP_STEPS, LOOP_CHARACTERS)
    small = size <= SMALL_BYTES and caller.trigger.filter is None
    made, kept = _map_with(caller, item, facts, little) if small else (None, Kept(0, 0))
    if not small or little.steps < 0 or little.characters < 0:
        made, kept = await aside(tenant, _map_with, caller, item, facts, Budget())
    return None if made is None else await store_inputs(engine.contents.store, tenant, made, kept)


def _map_with(caller: Caller, item: Any, facts: dict[str, Any], budget: Budget) -> tuple[Delivered | None, Kept]:
    found = map_item(caller.trigger, item, facts, id=caller.id, budget=budget)
    if isinstance(found, Filtered):
        return None, Kept(0, 0)
    if isinstance(found, Poison):  # kept as it came: a person mends the trigger, and has it mapped anew
        said = f"{found.part}: {found.message}"[:1000]
        made = Delivered(id=caller.id, inputs=item, error=Error(UNMAPPED, said))
    else:
        gathered = found.inputs is None  # in a window, which is mapped as a whole
        made = Delivered(id=found.id, key=found.key, inputs=item if gathered else found.inputs)
    return made, weigh_inputs(made.inputs)


async def wait_for_answer(engine: Engine, caller: Caller, item: Any, run_id: str, seconds: float) -> tuple[bool, Any]:
    """Whether the run has ended in time, and what its sender is answered then."""
    source, until = caller.source, engine.clock.monotonic() + seconds
    record = None
    while (left := until - engine.clock.monotonic()) > 0 and (record is None or record.row.ended_at is None):
        if record is None:  # its start is durable, and a coordinator is about to make it
            await engine.clock.sleep(min(_LOOK_SECONDS, left))
        else:
            await engine.feed.wait_for_end(run_id, left)
        record = await engine.journal.find_run(run_id)
    if record is None or record.row.ended_at is None or source.answer is None:
        return False, None
    state = await engine.runs.state_of(record)
    # As much as any answer holds: who sends it need not be a user, and may wait for as many as there are places.
    budget = Budget(size=ANSWER_BYTES, references=ANSWER_REFERENCES, partial=True)
    view: View = await engine.contents.view(state, nodes=False, budget=budget)
    run = {name: view.get(name) for name in ("run_id", "workflow", "version", "state", "outputs", "error")}
    return True, await aside(caller.row.tenant, fill_answer, caller.trigger, source.answer.body, run, item)
