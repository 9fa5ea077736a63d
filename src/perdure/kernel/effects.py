"""What is to be done after an append: the kernel says it, the runtime does it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from perdure.kernel.address import Address
from perdure.kernel.adopted import Adopted, Carried
from perdure.kernel.events import Scope
from perdure.kernel.values import Error, Fired, Heard
from perdure.model.money import Budget


class Effect(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something to do after the append. Losing one costs time only: it can be derived again from the state."""


class Dispatch(Effect, frozen=True, kw_only=True):
    """Send this attempt to a worker, or execute it in the coordinator when its type is trivial."""

    address: Address


class Recall(Effect, frozen=True, kw_only=True):
    """Take the task back if no worker has claimed it, and answer `Withdraw`; otherwise answer `Begin`."""

    address: Address


class Stop(Effect, frozen=True, kw_only=True):
    """Tell the worker that runs this attempt to stop. Only a cancelling run waits for the answer."""

    address: Address


class CloseStream(Effect, frozen=True, kw_only=True):
    """Tell the readers of the edition of this attempt that it is over, and how. It is so in the journal (rule 64)."""

    address: Address
    reason: Literal["end", "failed", "cancelled", "restart"]
    error: Error | None = None


class DropStreams(Effect, frozen=True, kw_only=True):
    """Forget the chunks of a run that has ended (F10)."""


class SetTimer(Effect, frozen=True, kw_only=True):
    timer: str
    due_at: float


class ClearTimer(Effect, frozen=True, kw_only=True):
    timer: str


class StartMore(Effect, frozen=True, kw_only=True):
    """Answer `NextItems` when it is this run's turn again: one decision starts only so many items of a map (rule 36)."""

    address: Address


class StartChild(Effect, frozen=True, kw_only=True):
    """See to it that this child runs: start it, retry it when it failed, report its end when it completed."""

    child: str
    address: Address
    """The attempt that waits for the child."""
    workflow: str
    inputs: Any = None
    generation: int = 1
    budget: Budget | None = None


class ApplyPatch(Effect, frozen=True, kw_only=True):
    """Make the definition that a handler asks for, and answer `ApplyPatch` (rule 87)."""

    address: Address
    ask: str


class StopChild(Effect, frozen=True, kw_only=True):
    child: str
    rollback: bool = False


class NotifyParent(Effect, frozen=True, kw_only=True):
    """A generation of this run ended, so its parent's wait can resolve."""

    parent: tuple[str, str, Scope, int | None]


class ContinueRun(Effect, frozen=True, kw_only=True):
    """Start the run that continues this endless one."""

    run_id: str
    adopted: tuple[Adopted, ...]
    inputs: Any = None
    signals: tuple[tuple[str, Any], ...] = ()
    signals_seen: tuple[str, ...] = ()
    heard: Heard | None = None
    pauses: tuple[tuple[str, str], ...] = ()
    mailboxes: tuple[Carried, ...] = ()


class StartRun(Effect, frozen=True, kw_only=True):
    """Start this run: the commit that records `trigger.started` carries the notice of it, so it is not lost."""

    run_id: str
    workflow: str
    version: int
    ir: str
    inputs: Any = None
    trigger: Fired
    name: str
    item: str
    """What the source calls the item."""
    asked_by: tuple[str, ...] = ()
    """Who registered the trigger as it is, and who fired the item or let it in again."""


class NotifyTrigger(Effect, frozen=True, kw_only=True):
    """This run ended, so the trigger that started it counts it no more: in the commit of the end, like `NotifyParent`."""

    trigger: Fired
    state: Literal["completed", "failed", "cancelled", "rolled_back"]


class TellTopic(Effect, frozen=True, kw_only=True):
    """This run ended, which happens on the topic of its workflow: in the commit of the end, like `NotifyParent`."""

    state: Literal["completed", "failed", "cancelled", "rolled_back"]


class StopRun(Effect, frozen=True, kw_only=True):
    """Cancel a run of this trigger: a newer item takes its place (rule 48)."""

    run_id: str
    number: int
    force: bool = False
