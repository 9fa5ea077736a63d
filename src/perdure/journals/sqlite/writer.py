"""The one thread that writes, and its group commit.

Everything that waits goes into one transaction, so the more is asked at once, the cheaper each commit becomes. The
thread owns the writing connection from opening to closing. It must not know what the jobs write.

A job that cannot be stored must not take the others with it: when one fails, the transaction is rolled back and each
job gets a transaction of its own. No caller has been answered by then, so nothing has to be taken back. When the
*database* fails, all jobs of the transaction get that error.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from perdure.clock import Clock
from perdure.errors import PerdureError, StoreUnavailable
from perdure.journal import Appended, Commit, JournalClosed, JournalReplaced, OutcomeUnknown
from perdure.journals.sqlite import schema
from perdure.journals.sqlite.appender import Appender, Known
from perdure.journals.sqlite.connection import Options, connect_writer, resolve_place
from perdure.journals.sqlite.errors import translate, translate_commit

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]

MAX_JOBS = 4096
"""The most jobs in one transaction: bounds how long the first of them waits for the last."""


MOST_RUNS = 10_000
"""The most runs whose rows are remembered from one transaction to the next."""


class _Job:
    __slots__ = ("commits", "error", "future", "result", "work")

    def __init__(self, future: asyncio.Future[Any], commits: Sequence[Commit], work: Work[Any] | None) -> None:
        self.future = future
        self.commits = commits
        self.work = work
        self.result: Any = None
        self.error: PerdureError | None = None


class Writer:
    """Made and used on one event loop. `queue_limit` bounds the jobs that wait; further callers wait for a place."""

    def __init__(self, options: Options, clock: Clock, partitions: int, queue_limit: int) -> None:
        self.partition_count = partitions
        self._options = options
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._places = asyncio.Semaphore(queue_limit)
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._connection: sqlite3.Connection | None = None
        self._known = Known()
        """True as long as `_version` is that of the file."""
        self._version = 0
        self._path = os.fspath(options.path)
        self._place: tuple[int, int] | None = None
        """The file that was opened; None until then."""
        self._closed = False
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="perdure-journal-writer", daemon=True)

    async def open(self) -> None:
        """Start the thread and wait until the file is open and migrated; on an error nothing is left behind."""
        self._thread.start()
        try:
            await asyncio.shield(self._opened)
        except BaseException:
            await self.close()
            raise

    async def append(self, commits: Sequence[Commit]) -> list[Appended]:
        answers: list[Appended] = await self._submit(commits, None)
        return answers

    async def run(self, work: Work[Result]) -> Result:
        """Run this work inside the next transaction."""
        result: Result = await self._submit((), work)
        return result

    async def _submit(self, commits: Sequence[Commit], work: Work[Any] | None) -> Any:
        await self._places.acquire()
        if self._closed:
            self._places.release()
            raise JournalClosed(f"journal {self._options.path} is closed")
        job = _Job(self._loop.create_future(), commits, work)
        self._queue.put(job)
        # A caller that is cancelled from here on does not know the outcome; the job is done all the same.
        return await job.future

    def check_place(self) -> None:
        """Raise if another file stands where the journal's stood, or none. SQLite would go on writing to the old one,
        which nobody can find again: what was answered would be gone with this process."""
        if self._place is not None and (found := resolve_place(self._path)) != self._place:
            path = self._options.path
            what = "is gone" if found is None else "was replaced by another file"
            raise JournalReplaced(
                f"journal {path} {what} while this process had it open; nothing more is written. End every process that "
                "uses it, put its files back, run `perdure migrate --restored`, then start again"
            )

    async def close(self) -> None:
        """Finish what waits, then end the thread."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await asyncio.shield(self._ended)
        self._thread.join()

    # -- on the loop

    def _resolve(self, jobs: list[_Job]) -> None:
        for job in jobs:
            self._places.release()
            if job.future.done():
                continue  # cancelled
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)

    def _resolve_opened(self, error: PerdureError | None) -> None:
        if self._opened.done():
            return
        if error is None:
            self._opened.set_result(None)
        else:
            self._opened.set_exception(error)

    # -- on the thread

    def _run(self) -> None:
        try:
            error: PerdureError | None = None
            try:
                self._connect()
            except Exception as raised:  # noqa: BLE001 - the caller that opens must learn of it
                error = translate(raised, self._options.path)
            self._tell(self._resolve_opened, error)
            while jobs := self._take():
                self._write(jobs)
                self._tell(self._resolve, jobs)
        finally:
            self._disconnect()
            self._tell(self._ended.set_result, None)

    def _tell(self, callback: Callable[..., None], *arguments: Any) -> None:
        # A loop that was closed before the journal has no caller left to tell; what was written stays written.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _take(self) -> list[_Job]:
        """All jobs that wait, at least one; none when the writer is closed."""
        job = self._queue.get()
        if job is None:
            return []
        jobs = [job]
        while len(jobs) < MAX_JOBS:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                break
            if job is None:
                self._queue.put(None)  # the next call sees the end
                break
            jobs.append(job)
        return jobs

    def _write(self, jobs: list[_Job]) -> None:
        try:
            self._transact(jobs)
        except Exception as raised:  # noqa: BLE001 - every job gets an answer, or its caller waits for ever
            error = translate(raised, self._options.path)
            if isinstance(error, OutcomeUnknown):
                self._disconnect()
            if len(jobs) == 1 or isinstance(error, StoreUnavailable):
                for job in jobs:
                    job.error = error
            else:
                for job in jobs:
                    self._write([job])

    def _transact(self, jobs: list[_Job]) -> None:
        connection = self._connect()
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._check_known(connection)
            appender = Appender(connection, self.partition_count, self._clock.now(), self._known)
            for job in jobs:
                if job.work is None:
                    job.result = appender.append(job.commits)
                else:
                    appender.flush()  # the work may look at what the commits before it wrote
                    self._known.forget()
                    job.result = job.work(connection)
                    appender = Appender(connection, self.partition_count, self._clock.now(), self._known)
            appender.flush()
            self.check_place()
        except BaseException:
            self._roll_back(connection)
            raise
        # Crash here: nothing of this batch is in the file and no caller was answered; callers append again.
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back(connection)
            raise translate_commit(error, self._options.path) from error
        # Crash here: durable, but unanswered; the same commit id is found and accepted again (J7).

    def _check_known(self, connection: sqlite3.Connection) -> None:
        """Forget what is known if any other connection, of whichever process, has written since."""
        version = connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version or len(self._known.runs) > MOST_RUNS:
            self._known.forget()
        self._version = version

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        self._known.forget()
        # After some errors SQLite has rolled back already.
        if connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except sqlite3.Error:
                self._disconnect()  # closing rolls back

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            self.check_place()  # after a failure: files that were put back meanwhile are left alone
            connection = connect_writer(self._options)
            try:
                self._place = resolve_place(self._options.path)
                schema.migrate(connection, self._options.path, self.partition_count)
                self.partition_count = schema.partition_count(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._known.forget()
        if connection is not None:
            connection.close()
