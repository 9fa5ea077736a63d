"""Standard output is for results alone: what functions and modules of the user print goes to standard error instead.

This is done with file descriptors, so that it holds for their subprocesses, isolated processes and C libraries, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

_STDOUT, _STDERR = 1, 2
_results: IO[str] | None = None


def results() -> IO[str]:
    """The stream to which a command writes its results."""
    return sys.stdout if _results is None else _results


def divert(*, as_json: bool) -> None:
    """Keep standard output for the results of this command, if a program reads them. It stays so for the rest of the
    process: an abandoned thread may print until then."""
    global _results  # noqa: PLW0603  there is one standard output
    if _results is not None or sys.stdout is None or not (as_json or not sys.stdout.isatty()):
        return
    stdout = sys.stdout
    stdout.flush()
    if _is_first(stdout):
        _results = os.fdopen(_point_elsewhere(), "w", encoding=stdout.encoding, errors=stdout.errors)
        stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # in order with what standard error says
    else:  # a test has replaced standard output
        _results, sys.stdout = stdout, sys.stderr
        click.get_current_context().call_on_close(_give_back)


@contextmanager
def diverted() -> Iterator[None]:
    """Divert standard output while a command that runs nothing imports a module of the user."""
    if _results is not None or sys.stdout is None:
        yield
        return
    stdout = sys.stdout
    stdout.flush()
    kept = _point_elsewhere() if _is_first(stdout) else None
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = stdout
        if kept is not None:
            os.dup2(kept, _STDOUT)
            os.close(kept)


def _is_first(stream: Any) -> bool:
    try:
        return bool(stream.fileno() == _STDOUT)
    except (OSError, ValueError, AttributeError):  # io.UnsupportedOperation is both an OSError and a ValueError
        return False


def _point_elsewhere() -> int:
    """Point descriptor 1 at standard error, or at nothing where there is none, and return a copy of what it was."""
    kept = os.dup(_STDOUT)
    try:
        os.dup2(_STDERR, _STDOUT)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, _STDOUT)
        os.close(nowhere)
    return kept


def _give_back() -> None:
    global _results
    if _results is not None:
        sys.stdout, _results = _results, None
