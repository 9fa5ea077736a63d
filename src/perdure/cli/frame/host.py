"""A process that does nothing but host an engine: it is opened when its servers answer, opened anew when a part of it
gave up, and closed in order when the process is told to stop.

Owns signals and second tries. The caller says what the engine does.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from perdure import clock as clocks
from perdure import functions, llms
from perdure.cli.frame import log_lines
from perdure.cli.frame.exits import leaves, say
from perdure.errors import StoreUnavailable
from perdure.runtime.patience import first_of
from perdure.tempo import GRACE_SECONDS

if TYPE_CHECKING:
    from perdure.cli.frame.keeper import Kept
    from perdure.engine import Engine
    from perdure.settings import Settings

logger = logging.getLogger("perdure.host")

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0

Begin = Callable[["Engine", asyncio.Event], Awaitable[None]]
"""A function that starts the parts of an engine, and serves until the event is set or it is cancelled."""


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` on the faster event loop, uvloop, where it is installed.

    A task or callback that a function left on the loop may raise SystemExit, which asyncio lets through to here. It ends
    that task and, through the task that awaits it, the attempt, but not a process that others use too."""
    with asyncio.Runner(loop_factory=_find_loop()) as runner:
        loop = runner.get_loop()
        task = loop.create_task(main)
        while True:
            try:
                return loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt) as error:
                if task.done() or isinstance(error, _LeaveAtOnce) or _is_ctrl_c(error):
                    raise
                logger.error(
                    "something that a function started raised %s; it is ended, and this process goes on",
                    repr(error)[:200],
                )


def _find_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class _LeaveAtOnce(SystemExit):
    """The second signal."""


def _is_ctrl_c(error: BaseException) -> bool:
    """Whether it came from the terminal: once `host` has its handlers, a signal raises nothing."""
    return isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler


async def host(
    settings: Settings, begin: Begin, *, grace_seconds: float = GRACE_SECONDS, kept: Kept | None = None
) -> None:
    """Host an engine until SIGTERM or Ctrl-C; a second signal ends the process at once. In a process that another one keeps
    (`kept`), what both are told counts once."""
    log_lines.configure(settings)
    if (modules := settings.allowed_modules) is not None:
        functions.restrict(modules)
    if settings.agents_file:  # an operator who starts this process can mend the file
        llms.configure(settings.agents_file)
        llms.get_models()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    stopper = _Stopper(stop)
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, stopper.tell, "here", one)
    if kept is not None:
        kept.listen(partial(stopper.tell, "parent"))
    pause = FIRST_PAUSE_SECONDS
    while not stop.is_set():
        engine = await _open(settings, stop)
        if engine is None:
            return
        began = clocks.system.monotonic()
        try:
            await first_of(_serve(engine, begin, stop), _lose_patience(stop, grace_seconds))
        except* _Broken as group:
            error = group.exceptions[0]
            logger.error("%s; starting again in %.1f s", error, pause)
        finally:
            await engine.close(grace_seconds if stop.is_set() else 0.0)
        if not stop.is_set():
            if clocks.system.monotonic() - began > 60:
                pause = FIRST_PAUSE_SECONDS
            await first_of(clocks.system.sleep(pause), stop.wait())
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


class _Broken(Exception):
    """A part of the engine gave up: the database went back in time, a server is gone. The journal is intact."""


async def _serve(engine: Engine, begin: Begin, stop: asyncio.Event) -> None:
    from perdure.journal import JournalReplaced
    from perdure.runtime.parts import EngineStopped
    from perdure.transport import TransportUnavailable

    try:
        await first_of(_begin(engine, begin, stop), engine.until_broken())
    except* (EngineStopped, StoreUnavailable, TransportUnavailable) as errors:
        for error in leaves(errors):
            if isinstance(error.__cause__, JournalReplaced):  # files that are being put back must be left alone
                raise error.__cause__ from errors
        raise _Broken(str(next(leaves(errors)))) from errors


async def _lose_patience(stop: asyncio.Event, grace_seconds: float) -> None:
    """Return when the grace after a stop is over: requests under way may use it, and a part that hangs gets no more."""
    await stop.wait()
    await clocks.system.sleep(grace_seconds)


async def _begin(engine: Engine, begin: Begin, stop: asyncio.Event) -> None:
    await begin(engine, stop)


async def _open(settings: Settings, stop: asyncio.Event) -> Engine | None:
    """The engine, as soon as the servers it needs answer; None when the process was told to stop meanwhile."""
    from perdure.opener import open_engine
    from perdure.transport import TransportUnavailable

    pause = FIRST_PAUSE_SECONDS
    while not stop.is_set():
        engine = None
        try:
            engine = await open_engine(settings)
            if engine.distributed:
                await engine.connect()
            return engine
        except (StoreUnavailable, TransportUnavailable) as error:
            if engine is not None:
                await engine.close(0.0)
            say(f"{error}; trying again in {pause:.1f} s")
            await first_of(clocks.system.sleep(pause), stop.wait())
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
    return None


class _Stopper:
    """Signals come here, or to the process that keeps this one, or to both: the second that comes the same way is a second one."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._told = {"here": 0, "parent": 0}

    def tell(self, way: Literal["here", "parent"], which: signal.Signals) -> None:
        self._told[way] += 1
        if self._told[way] > 1:
            raise _LeaveAtOnce(128 + which)
        if not self._stop.is_set():
            say("Stopping: what runs now has its grace. Again to leave at once.")
            self._stop.set()
