"""Events about a whole run: begun, paused, patched, signalled, ended."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from perdure.kernel.event_base import Event, Place, Scope
from perdure.kernel.values import Error, Fired, Heard
from perdure.model.money import Budget


class RunCreated(Event, frozen=True, kw_only=True, tag="run.created"):
    VERSION: ClassVar[int] = 3
    run_id: str
    workflow: str
    workflow_version: int
    ir: str
    inputs: Any = None
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    tenant: str = "default"
    deadline_at: float | None = None
    parent: tuple[str, str, Scope, int | None] | None = None
    """The (run, node, scope, item) that this run is a child of."""
    origin: tuple[str, str] | None = None
    """The (run, node or "") that this run was rerun from or continues."""
    overrides: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    """Values that a node sees instead of the outputs of nodes before it (rerun): reader to node to value (rule 40)."""
    by: str = ""
    depth: int = 0
    """How many runs this one is nested in."""
    signals_seen: tuple[str, ...] = ()
    """Ids of signals that the run this one continues has received: a signal that comes again is the same signal."""
    imported: str = ""
    """The run whose journal an imported file held: this run is only looked at, never decided on."""
    alias: str = ""
    """The alias by which the workflow version was chosen."""
    correlation_id: str = ""
    """The caller's own name for this work; children and tasks carry the same."""
    sealed_for: str = ""
    """The run whose sealed fields this one may open, and under whose name it seals: the first of the runs it was rerun
    from or continues. Empty: the run at the top of its own tree."""
    asked_by: tuple[str, ...] = ()
    """Who started the runs that led to this one: the run it was rerun from or continues, and the one it is a child of. They
    may be forgotten before this run is."""
    generation: int = 1
    """The first generation: above 1 for a child whose start failed before, as its parent then accepts no older one."""
    trigger: Fired | None = None
    """The firing of a trigger that this run, or the one it continues, was started by."""
    budget: Budget | None = None
    """What the calls of this run may use (rule 82); from version 2 on."""
    deadline_seconds: float | None = None
    """How long the first of the runs that this one continues was given, which a retry is given again; `deadline_at` is that one's."""
    heard: Heard | None = None
    """What the run this one continues has heard of events (rule 53); in version 3 only."""


class RunPaused(Event, frozen=True, kw_only=True, tag="run.paused"):
    by: str = ""
    reason: str = ""


class RunResumed(Event, frozen=True, kw_only=True, tag="run.resumed"):
    VERSION: ClassVar[int] = 2
    by: str = ""
    reason: str = ""
    """The reason whose pause is over."""
    left: tuple[str, ...] = ()
    """The reasons the run stays paused for; with none left it goes on."""
    budget: Budget | None = None
    """The budget that the run has from here on (rule 84); in version 2 only."""


class RunFailing(Event, frozen=True, kw_only=True, tag="run.failing"):
    error: Error
    node: str | None = None
    scope: Scope = ()


class RunFailed(Event, frozen=True, kw_only=True, tag="run.failed"):
    error: Error


class RunCancelling(Event, frozen=True, kw_only=True, tag="run.cancelling"):
    by: str = ""
    reason: str = ""
    grace_until: float | None = None
    orphaned: bool = False
    """The parent, which no longer goes on, cancelled this run: if the parent is retried, so is this run (rule 35)."""


class RunCancelled(Event, frozen=True, kw_only=True, tag="run.cancelled"):
    by: str = ""
    forced: bool = False
    not_compensated: tuple[Place, ...] = ()
    """Activations that a forced end left uncompensated: dead letters."""


class RunCompensating(Event, frozen=True, kw_only=True, tag="run.compensating"):
    ends: Literal["failed", "cancelled", "rolled_back"]
    plan: tuple[Place, ...]
    generation: int
    by: str = ""


class RunRolledBack(Event, frozen=True, kw_only=True, tag="run.rolled_back"):
    pass


class RunCompleted(Event, frozen=True, kw_only=True, tag="run.completed"):
    outputs: Any = None
    outputs_ref: str | None = None
    continued_as: str | None = None


class RunRetried(Event, frozen=True, kw_only=True, tag="run.retried"):
    VERSION: ClassVar[int] = 2
    generation: int
    deadline_at: float | None = None
    by: str = ""
    budget: Budget | None = None
    """The budget that the run has from here on (rule 84); in version 2 only."""


class RunPatched(Event, frozen=True, kw_only=True, tag="run.patched"):
    VERSION: ClassVar[int] = 2
    ir: str
    by: str = ""
    reason: str = ""
    patch: Any = None
    mends: bool = False
    """The patch came with a retry, so what runs again uses it too."""
    ask: str = ""
    """The ask of a handler that this is; the answer is the next event (rule 87). In version 2 only."""


class RunSignalled(Event, frozen=True, kw_only=True, tag="run.signalled"):
    name: str
    payload: Any = None
    signal: str = ""
    """The sender's id of this signal; a second one with the same id is the same signal."""
    by: str = ""


class RunUndelivered(Event, frozen=True, kw_only=True, tag="run.undelivered"):
    """The run that was to continue this one can never begin, so what was left to it is not done."""

    to: str
    error: Error
