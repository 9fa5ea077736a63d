"""A process that keeps another one: `perdure dev` forks, the child does everything, and a child that is killed is followed by
another one. What must outlive it, such as a listening socket, is opened before.

The two end together. The code of a child that ends by itself is the code of its parent; a signal to the parent is passed on; and
a child does not outlive its parent, however that ends. This file must not know what the child does.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from collections.abc import Callable

from perdure import clock as clocks
from perdure.private_servers.launcher import die_with_parent

_PASSED_ON = {signal.SIGTERM, signal.SIGINT}
_ENDING = _PASSED_ON | {signal.SIGHUP, signal.SIGQUIT}
"""Signals by which a user ends a process. One that dies by another was killed, and is started again."""
_AWAITED = {*_PASSED_ON, signal.SIGHUP, signal.SIGCHLD}
STEADY_SECONDS = 5.0
"""A child that lived for so long is followed at once; others after a pause that grows."""
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0


class Kept:
    """What a child knows of its parent."""

    def __init__(self, lives: int, orders: int, reports: int) -> None:
        self.lives = lives
        """Which child of its parent this is; the first is 1."""
        self._orders = orders
        self._reports = reports

    def listen(self, on_stop: Callable[[signal.Signals], None]) -> None:
        """Call `on_stop` for each signal that the parent got; called in the event loop. From now on they come this way, so that
        one sent to both processes, as a terminal or a service manager does, is not taken for two."""

        def read() -> None:
            passed_on = os.read(self._orders, 64)
            if not passed_on:  # the parent is gone; where the kernel ends its children, this is not reached
                signal.raise_signal(signal.SIGKILL)
            for number in passed_on:
                on_stop(signal.Signals(number))

        asyncio.get_running_loop().add_reader(self._orders, read)
        os.write(self._reports, b"l")

    def say_ready(self) -> None:
        """From now on this process is followed by another one when it is killed."""
        os.write(self._reports, b"r")


def keep() -> Kept:
    """Fork. Returns in the child, and in each further one; the parent leaves with the code of the last."""
    keeper = _Keeper()
    lives = 0
    pause = 0.0
    while True:
        lives += 1
        begun = clocks.system.monotonic()
        if (kept := keeper.start(lives)) is not None:
            return kept
        keeper.attend()
        steady = clocks.system.monotonic() - begun > STEADY_SECONDS
        pause = 0.0 if steady else min(max(pause * 2, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
        if pause and lives > 1:
            keeper.rest(pause)


class _Keeper:
    def __init__(self) -> None:
        self._parent = os.getpid()
        self._child = 0
        self._orders = self._reports = -1
        self._reported = b""
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)

    def start(self, lives: int) -> Kept | None:
        """Fork; None in the parent."""
        orders, write_orders = os.pipe()
        read_reports, reports = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._child = os.fork()
        if self._child == 0:
            die_with_parent()
            if os.getppid() != self._parent:  # it died before that call
                os._exit(1)
            os.close(write_orders)
            os.close(read_reports)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._before)
            return Kept(lives, orders, reports)
        os.close(orders)
        os.close(reports)
        self._orders, self._reports, self._reported = write_orders, read_reports, b""
        os.set_blocking(read_reports, False)
        return None

    def attend(self) -> None:
        """Pass signals on until the child is gone. Returns if it was killed; else leaves with its code."""
        status = self._wait()
        self._read_reports()
        os.close(self._orders)
        os.close(self._reports)
        if os.WIFEXITED(status):
            sys.exit(os.WEXITSTATUS(status))
        died_by = os.WTERMSIG(status)
        if died_by in _ENDING or b"r" not in self._reported:
            sys.exit(128 + died_by)

    def _wait(self) -> int:
        while True:
            number, is_ours = _next_signal()
            if number != signal.SIGCHLD:
                self._pass_on(number, is_ours)
                continue
            found, status = os.waitpid(self._child, os.WNOHANG)
            if found and (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
                return status

    def rest(self, seconds: float) -> None:
        """Wait before a child that dies soon is started once more; a signal ends the wait and this process."""
        if sys.platform != "linux":
            select.select([], [], [], seconds)
        elif (found := signal.sigtimedwait(_AWAITED - {signal.SIGCHLD}, seconds)) is not None:
            sys.exit(128 + found.si_signo)

    def _pass_on(self, number: signal.Signals, is_ours: bool) -> None:
        self._read_reports()
        if number in _PASSED_ON and b"l" in self._reported:
            try:
                os.write(self._orders, bytes([number]))
            except BrokenPipeError:  # it is just ending, and that will be heard of next
                return
        elif is_ours:
            os.kill(self._child, number)

    def _read_reports(self) -> None:
        try:
            self._reported += os.read(self._reports, 64)
        except BlockingIOError:
            return


def _next_signal() -> tuple[signal.Signals, bool]:
    """The next signal, and whether it was sent to this process alone, as far as that is known: a terminal sends its signals to
    the child as well."""
    if sys.platform != "linux":
        return signal.Signals(signal.sigwait(_AWAITED)), True
    info = signal.sigwaitinfo(_AWAITED)
    return signal.Signals(info.si_signo), info.si_code <= 0
