"""Hearing what handlers print and log, by attempt: `print` and Python's `logging` write where they always do, and the
lines are kept with the run as well.

This file owns the two places where handlers are overheard, standard output and the making of log records, for as long
as this process has a listener (from `begin` to `end`); standard error is only kept free of secrets. Which attempt
speaks is a context variable, which coroutines and the threads of a worker inherit. It must not know where lines go.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable
from contextvars import ContextVar, Token
from typing import Any

from perdure.plain_text import clean_text, hide

MOST_LINES = 2_000
"""The most lines kept of what one attempt prints and logs; a run has a budget of its own in the archive."""
_LONGEST_PART = 10_000
"""The most characters without an end of line; a longer part counts as a line."""

Keep = Callable[[int, str], None]


class Speaker:
    """One attempt whose lines are heard."""

    __slots__ = ("_count", "_keep", "_lock", "_part", "_token")

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._part = ""
        self._count = 0
        self._lock = threading.Lock()
        self._token: Token[Speaker | None]

    def __enter__(self) -> None:
        self._token = _speaker.set(self)

    def __exit__(self, *raised: object) -> None:
        _speaker.reset(self._token)
        self.end()

    def print(self, text: str) -> None:
        """Keep whole lines; the rest waits for its end. Secrets are taken out before the lines are told apart: one may
        have several."""
        with self._lock:
            whole, _, self._part = (self._part + text).rpartition("\n")
            if len(self._part) > _LONGEST_PART:
                whole, self._part = f"{whole}\n{self._part}", ""
        for line in hide(whole).split("\n"):
            self._say(logging.INFO, line)

    def log(self, level: int, text: str) -> None:
        self._say(level, text)

    def end(self) -> None:
        if self._part:
            with self._lock:
                part, self._part = self._part, ""
            self._say(logging.INFO, part)

    def _say(self, level: int, line: str) -> None:
        if not line.strip():
            return
        with self._lock:
            self._count += 1
            count = self._count
        if count <= MOST_LINES:
            self._keep(level, line)
        elif count == MOST_LINES + 1:
            self._keep(
                logging.WARNING, f"… it said more; of one attempt {MOST_LINES:,} printed and logged lines are kept"
            )


_speaker: ContextVar[Speaker | None] = ContextVar("perdure_speaker", default=None)


heard = Speaker
"""A context that gives what is printed and logged in it to `keep` as well, also from the worker's threads."""


# -- the two places ----------------------------------------------------------------------------------------------------


class Tee:
    """A stream in place of `inner`: it takes secrets out of whatever is written to it and, if `kept`, lets the
    attempt's speaker overhear it. In all else it is `inner`, which other code may replace."""

    def __init__(self, inner: Any, *, kept: bool = True) -> None:
        self.inner = inner
        self._kept = kept

    def write(self, text: str) -> Any:
        speaker = _speaker.get()
        if speaker is not None and self._kept:
            speaker.print(text)
        text = hide(text)  # also in a thread that a handler started, whose attempt is not known
        return self.inner.write(text if speaker is None or not self.inner.isatty() else clean_text(text))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class _Listening:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners = 0
        self.records: _Records | None = None
        self._lowered = False

    def begin(self) -> None:
        with self._lock:
            self._listeners += 1
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)  # other code may have replaced the one that is heard already
                if stream is not None and not isinstance(stream, Tee):
                    setattr(sys, name, Tee(stream, kept=name == "stdout"))
            if self._listeners > 1:
                return
            self.records = _Records(logging.getLogRecordFactory())
            logging.setLogRecordFactory(self.records)
            root = logging.getLogger()
            # The program has not configured logging: records of `info` are made, and heard. Without a handler Python
            # shows no more than before.
            self._lowered = not root.handlers and root.level == logging.WARNING
            if self._lowered:
                root.setLevel(logging.INFO)

    def end(self) -> None:
        with self._lock:
            self._listeners -= 1
            if self._listeners:
                return
            for name in ("stdout", "stderr"):
                if isinstance(stream := getattr(sys, name), Tee):
                    setattr(sys, name, stream.inner)
            if self.records is not None and logging.getLogRecordFactory() is self.records:
                logging.setLogRecordFactory(self.records.before)
            self.records = None
            if self._lowered and logging.getLogger().level == logging.INFO:
                logging.getLogger().setLevel(logging.WARNING)


class _Records:
    """A log record factory around the one before it. Other code may have wrapped it in turn, and may put it back after
    the last listener has gone: it does no harm then, and the next one takes its place."""

    def __init__(self, before: Callable[..., logging.LogRecord]) -> None:
        self.before: Callable[..., logging.LogRecord] = before.before if isinstance(before, _Records) else before

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = self.before(*args, **kwargs)
        speaker = _speaker.get()
        if _listening.records is not self:  # one inside what other code has put around it, since the last listener
            return record
        # What Perdure logs is not the handler's; `ctx.log` keeps its lines itself.
        if speaker is not None and record.levelno >= logging.INFO and record.name.partition(".")[0] != "perdure":
            speaker.log(record.levelno, describe(record.msg, record.args, record.exc_info))
        return record


def describe(msg: object, args: Any, exc_info: Any) -> str:
    """The line of a log record, with the error it is about. One that cannot be formatted is kept as it is: logging must
    not fail a handler."""
    try:
        text = str(msg) % args if args else str(msg)
    except (TypeError, ValueError, KeyError):
        text = f"{msg} {args!r}"
    error = exc_info[1] if isinstance(exc_info, tuple) else sys.exc_info()[1] if exc_info is True else exc_info
    return f"{text}: {type(error).__name__}: {error}" if isinstance(error, BaseException) else text


_listening = _Listening()
begin, end = _listening.begin, _listening.end
