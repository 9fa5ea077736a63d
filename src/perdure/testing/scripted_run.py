"""One run in virtual time, exactly as the script says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from perdure.errors import PerdureError
from perdure.kernel import events as e
from perdure.kernel.readings.explain import explain
from perdure.kernel.state import State
from perdure.simulation.stage.people import RUN
from perdure.simulation.stage.stubs import Call, Signal, StubInvalid
from perdure.simulation.stage.user_world import UserWorld, belongs, calm_plan
from perdure.simulation.story import tell
from perdure.testing.definitions import Definition, importing, make_setting

Result = TypeVar("Result")


class BrokenPromise(PerdureError):
    """Perdure broke a rule of its own. Please report it; the message says which."""

    code = "broken_promise"


class Run:
    """A run that was played: what `perdure runs show --json` says of it, what was called, and why nodes did not run."""

    def __init__(self, world: UserWorld, run_id: str = RUN) -> None:
        self._state: State = world.checks.fold(run_id)
        self._lines = world.lines or []
        view = world.view(self._state)
        self.run_id = run_id
        self.inputs: Any = view["inputs"]
        self.tags: dict[str, str] = dict(self._state.tags)
        self.state: str = view["state"]
        self.outputs: Any = view["outputs"]
        self.error: dict[str, Any] | None = view["error"]
        self.nodes: dict[str, dict[str, Any]] = view["nodes"]
        """The nodes by id: `{state, attempt, output, error, …}`; inside a loop, of the last iteration."""
        self.calls: tuple[Call, ...] = tuple(
            call for call in world.calls if run_id == RUN or belongs(call.run_id, run_id)
        )
        """Every execution, in order, except of types that need no worker."""
        self.waiting: tuple[str, ...] = tuple(world.waits("" if run_id == RUN else run_id))
        """What the run waits for, if it has not ended."""
        self.seconds: float = (self._state.ended_at or world.clock.now()) - self._state.created_at
        """How long the run took, in virtual time."""
        self.events: tuple[dict[str, Any], ...] = tuple(
            e.public(e.decode(stored.body)) for stored in world.store.events[run_id]
        )

    def calls_of(self, node: str) -> tuple[Call, ...]:
        return tuple(call for call in self.calls if call.node == node)

    def has_run(self, node: str) -> bool:
        """Whether a node was begun at least once, whatever came of it."""
        index = self._state.index(node)
        return any(a.attempt > 0 for a in self._state.activations.values() if a.node == index)

    def explain(self, node: str) -> str:
        """A sentence that says why a node has not run, or how it is."""
        return explain(self._state, node)

    def history(self) -> list[str]:
        """The history of the run, line by line."""
        return tell(self._lines)

    def __repr__(self) -> str:
        nodes = ", ".join(f"{name} {node['state']}" for name, node in self.nodes.items())
        return f"<Run {self._state.workflow} {self.state}: {nodes}>"


def run(
    definition: Definition,
    *,
    inputs: Mapping[str, Any] | None = None,
    stubs: Mapping[str, Any] | None = None,
    signals: Sequence[Signal] = (),
    workflows: Sequence[Definition] = (),
    real: bool | Collection[str] = False,
    seed: int = 0,
) -> Run:
    """Run a workflow until it ends, or until it waits for a person or signal that the script does not play.

    A stub is an output, an exception to raise, a function of the `Call`, a `Stub`, or `one_of(…)`; for `human` nodes
    `approve()`, `reject()` or `nobody()`, or a list of them for a node that is reached several times. A node that needs
    a worker and has no stub is an error, unless `real` is true or names it: then its handler is called. `workflows` are
    those that `workflow` nodes start. `seed` determines everything that is left to chance.
    """
    setting = make_setting(definition, inputs=inputs, stubs=stubs, workflows=workflows, signals=signals, real=real)
    world = UserWorld(setting, calm_plan(setting, seed), tracing=True)
    with importing(definition):
        off_loop(world.run)
    try:
        raise_failure(world)
        return Run(world)
    finally:
        world.loop.close()


def raise_failure(world: UserWorld) -> None:
    if world.blamed:
        raise world.blamed[0]
    if world.failures:
        failure = world.failures[0]
        message = str(failure).removeprefix(f"{failure.rule}: ")
        if failure.rule in ("stub", "script"):
            raise StubInvalid(message)
        raise BrokenPromise(str(failure))


def off_loop(work: Callable[[], Result]) -> Result:
    """Call here, or in a thread when an event loop runs here, so that an async test may call it too."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    answers: list[Result] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            answers.append(work())
        except BaseException as error:  # noqa: BLE001  raised again where it was called
            errors.append(error)

    thread = threading.Thread(target=call, name="perdure-testing")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return answers[0]
