"""A workflow through many histories of crashes, duplicates and delays, each made by its seed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.simulation.history_checks import Failed
from perdure.simulation.plan import Plan
from perdure.simulation.stage.people import RUN
from perdure.simulation.stage.samples import sample
from perdure.simulation.stage.stubs import Signal
from perdure.simulation.stage.user_stage import Setting
from perdure.simulation.stage.user_world import UserWorld, rough_plan
from perdure.simulation.story import tell
from perdure.testing.definitions import Definition, load, make_setting
from perdure.testing.report import Bad, End, Report
from perdure.testing.scripted_run import off_loop

TRIES = 40
"""How many histories are tried to make a bad one shorter."""
_OURS = ("stuck", "endless")


class _History(msgspec.Struct, kw_only=True):
    seed: int
    state: str
    reason: str
    message: str
    failure: Failed | None
    reached: set[str]
    events: int
    seconds: float
    faults: int
    digest: str


def simulate(
    definition: Definition,
    *,
    inputs: Mapping[str, Any] | None = None,
    stubs: Mapping[str, Any] | None = None,
    signals: Sequence[Signal] = (),
    workflows: Sequence[Definition] = (),
    seeds: int = 100,
    start: int = 0,
    progress: Callable[[int, int], None] = lambda done, bad: None,
) -> Report:
    """Run a workflow `seeds` times, from seed `start` on, each time with other faults.

    Stubs are those of `run`. A node without one succeeds with `{}`, or with a value that fits its output schema; people
    without one are played by the seed, which also requeues or discards parked nodes. Required inputs that are not given
    are made up from the schema. The same seed gives the same history.
    """
    setting = make_rough_setting(definition, inputs=inputs, stubs=stubs, signals=signals, workflows=workflows)
    return off_loop(lambda: simulate_setting(setting, range(start, start + seeds), progress))


def make_rough_setting(
    definition: Definition, *, inputs: Mapping[str, Any] | None, workflows: Sequence[Definition] = (), **more: Any
) -> Setting:
    given = fill_inputs(load(definition).inputs_schema, inputs or {})
    return make_setting(definition, inputs=given, workflows=workflows, lenient=True, **more)


def tell_history(setting: Setting, seed: int) -> list[str]:
    """One history as it happened, line by line."""
    return tell(_play(setting, rough_plan(setting, seed), tracing=True).lines or (), limit=1000)


def fill_inputs(schema: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs, completed with those that the schema requires and that are not given."""
    made = sample(schema) if isinstance(schema, dict) else {}
    return {**(made if isinstance(made, dict) else {}), **inputs}


def simulate_setting(setting: Setting, seeds: range, progress: Callable[[int, int], None]) -> Report:
    ends: dict[tuple[str, str], End] = {}
    reached: set[str] = set()
    digest = hashlib.blake2b(digest_size=16)
    worst: _History | None = None
    seconds, faults, bad = 0.0, 0, 0
    for done, seed in enumerate(seeds, 1):
        history = _summarise(_play(setting, rough_plan(setting, seed)))
        kind = (history.state, history.reason)
        known = ends.get(kind) or End(state=kind[0], reason=kind[1], message=history.message, example=seed)
        ends[kind] = msgspec.structs.replace(known, seeds=known.seeds + 1)
        reached |= history.reached
        digest.update(history.digest.encode())
        seconds += history.seconds
        faults += history.faults
        if history.failure is not None:
            bad += 1
            if worst is None or _weight(history) < _weight(worst):
                worst = history
        progress(done, bad)
    main = setting.workflows[0]
    names = [(ir.name, node.id) for ir in setting.workflows for node in ir.nodes if node is not None]
    return Report(
        workflow=main.name,
        start=seeds.start,
        seeds=len(seeds),
        ends=tuple(sorted(ends.values(), key=lambda end: (not end.bad, -end.seeds, end.state, end.reason))),
        never_reached=tuple(
            node if name == main.name else f"{name}/{node}" for name, node in names if f"{name}/{node}" not in reached
        ),
        bad=None if worst is None else _shorten(setting, worst),
        virtual_seconds=round(seconds, 3),
        faults=faults,
        digest=digest.hexdigest(),
    )


def _play(setting: Setting, plan: Plan, *, tracing: bool = False) -> UserWorld:
    world = UserWorld(setting, plan, tracing=tracing)
    try:
        world.run()
    finally:
        world.loop.close()
    if world.blamed:
        raise world.blamed[0]
    return world


def _summarise(world: UserWorld) -> _History:
    failure = world.failures[0] if world.failures else None
    state, reason, message, reached = "broken", "", "", set()
    for run_id in world.store.runs:
        folded = world.checks.fold(run_id)
        reached |= {f"{folded.workflow}/{folded.name(a.node)}" for a in folded.activations.values() if a.attempt}
    if failure is None:
        last = world.last()
        state = last.state.value
        if last.error is not None and state != "completed":
            reason = f"{last.failed_node}: {last.error.code}" if last.failed_node else last.error.code
            message = last.error.message
    elif failure.rule in _OURS:
        state = failure.rule
        reason = ", ".join(_open_nodes(world)) if state == "stuck" else ""
    else:
        reason = failure.rule
    return _History(
        seed=world.plan.seed,
        state=state,
        reason=reason,
        message=message,
        failure=failure,
        reached=reached,
        events=sum(run.seq for run in world.store.runs.values()),
        seconds=world.loop.time() + world.loop.ahead,
        faults=sum(count for name, count in world.chaos.hit.items() if not name.startswith("exit:")),
        digest=world.digest(),
    )


def _open_nodes(world: UserWorld) -> list[str]:
    model = world.checks.checkers[RUN].model if RUN in world.checks.checkers else None
    waiting = {} if model is None else {a.node: None for a in model.acts.values() if a.state in _WAITING}
    return [f"{name} waits" for name in waiting]


_WAITING = ("held", "queued", "running", "waiting", "retrying", "parked")


def _weight(history: _History) -> tuple[bool, int, int]:
    """A sort key: what Perdure did wrong is worse than what the workflow does; then the shorter history comes first."""
    return history.state != "broken", history.events, history.faults


def _shorten(setting: Setting, history: _History) -> Bad:
    """The same end with fewer faults, if there is such a history nearby."""
    assert history.failure is not None
    best, plan = history, rough_plan(setting, history.seed)
    tries, most = 0, 1 if history.state == "endless" else TRIES
    going = True
    while going and tries < most:
        going = False
        for rates in _fewer(plan.rates):
            tries += 1
            smaller = msgspec.structs.replace(plan, rates=rates)
            found = _summarise(_play(setting, smaller))
            if found.failure is not None and found.failure.rule == history.failure.rule:
                best, plan, going = found, smaller, bool(rates)
                break
            if tries >= most:
                break
    world = _play(setting, plan, tracing=True)
    failure = best.failure or history.failure
    return Bad(
        seed=history.seed,
        kind=failure.rule if best.state != "broken" else f"broken rule {failure.rule}",
        message=str(failure).removeprefix(f"{failure.rule}: "),
        history=tuple(tell(world.lines or ())),
        faults=tuple(name for name in plan.rates if world.chaos.hit[name]),
    )


def _fewer(rates: dict[str, float]) -> list[dict[str, float]]:
    names = list(rates)
    if not names:
        return []
    half = len(names) // 2
    chosen = [[], *([names[:half], names[half:]] if half else []), *([n for n in names if n != one] for one in names)]
    return [{name: rates[name] for name in kept} for kept in chosen if len(kept) < len(names)]
