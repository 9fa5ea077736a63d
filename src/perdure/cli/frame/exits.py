"""Exit codes, and how an error becomes a message and one of them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from enum import IntEnum

from perdure.cli.terminal.speech import echo, echo_json, style, width_of, wrap


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1
    """A run failed or was cancelled, a request was refused, a check found something."""
    USAGE = 2
    """A bad definition, flag or setting."""
    WAITING = 3
    """A run waits for a person."""
    INTERRUPTED = 130
    """Ctrl-C."""
    PIPE = 141
    """The reader of the output is gone: `perdure runs list | head -1`."""
    TERMINATED = 143
    """SIGTERM."""


def report(error: BaseException, *, as_json: bool = False) -> ExitCode:
    """Say what went wrong, where and what to do, without a traceback."""
    from perdure.errors import PerdureError, SettingsInvalid

    tell = say_problem if as_json else lambda code, message: say_error(message)
    for one in leaves(error):
        if isinstance(one, PerdureError):
            tell(one.code, one.message)
            return ExitCode.USAGE if isinstance(one, SettingsInvalid) else ExitCode.FAILED
        if isinstance(one, OSError):
            name = f"{one.filename}: " if one.filename else ""
            tell("os_error", f"{name}{one.strerror or one}")
            return ExitCode.FAILED
        tell(
            "internal_error",
            f"{type(one).__name__}: {one}\n"
            "This is a bug in Perdure. What was durable is intact; the same command with --debug shows where it happened.",
        )
    return ExitCode.FAILED


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors inside an exception group; the error itself if it is not a group."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from leaves(one)
    else:
        yield error


def say_error(message: str) -> None:
    say(style("Error: ", fg="red", bold=True) + message)


def say_problem(code: str, message: str) -> None:
    """Print an error for programs, which read `code`."""
    import msgspec  # late: `perdure --help` needs none of it

    echo_json(msgspec.json.encode({"error": {"code": code, "message": message}}), err=True)


def say(message: str = "") -> None:
    """Print progress or a hint for people, on standard error: standard output is for results."""
    echo(wrap(message, width_of(sys.stderr)), err=True)


def say_details(details: object) -> None:
    """Print, below an error, the lines of the user's code that it came through."""
    from perdure.runtime.failures import show_details

    for line in show_details(details):
        say(style(line, fg="bright_black"))


class Logs(logging.Handler):
    """The engine's log as lines for people; tracebacks only with --debug."""

    def __init__(self, debug: bool) -> None:
        super().__init__(logging.DEBUG if debug else logging.WARNING)
        self._debug = debug

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record) if self._debug else record.getMessage()
        text = text.replace("\n", "\n  ")  # indented, so that no line of a message looks like a new one
        colour = "red" if record.levelno >= logging.ERROR else "yellow"
        say(style(f"{record.levelname.lower()}: ", fg=colour) + text)


def show_logs(debug: bool) -> None:
    logger = logging.getLogger("perdure")
    for handler in [handler for handler in logger.handlers if isinstance(handler, Logs)]:
        logger.removeHandler(handler)
    logger.addHandler(Logs(debug))
    logger.propagate = False
    logger.setLevel(logging.DEBUG if debug else logging.WARNING)
