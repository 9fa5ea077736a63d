"""The tasks that append, and their group commit.

Everything that waits goes into one statement, so the more is asked at once, the cheaper each commit
becomes. While one statement is under way, the next task collects what comes meanwhile. Each task owns a
connection, and replaces a lost one.

A job that cannot be stored must not take the others with it: when one fails, nothing was written, and each job gets a
transaction of its own. When the *database* fails, all jobs of the transaction get that error.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

import msgspec

from perdure.clock import Clock
from perdure.errors import PerdureError, StoreUnavailable
from perdure.journal import Accepted, Appended, Commit, JournalClosed
from perdure.journals.postgres import appender
from perdure.journals.postgres.connections import TRIES, Connection, Options, disconnect, open_connection
from perdure.journals.postgres.errors import is_lost, is_rivalry, translate_write
from perdure.journals.postgres.witness import Witness

MAX_COMMITS = 4096
MAX_BYTES = 32 * 2**20
"""The most that goes into one statement: bounds how long the first commit waits for the last, and memory."""


class _Job:
    __slots__ = ("commits", "future", "size")

    def __init__(self, commits: Sequence[Commit], future: asyncio.Future[list[Appended]]) -> None:
        self.commits = commits
        self.future = future
        self.size = sum(len(event.body) for commit in commits for event in commit.events)

    def fail(self, error: PerdureError) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def answer(self, answers: list[Appended]) -> None:
        if not self.future.done():
            self.future.set_result(answers)


class Writer:
    """Made and used on one event loop. `queue_limit` bounds the jobs that wait; further callers wait for a place."""

    def __init__(self, options: Options, clock: Clock, witness: Witness, count: int, queue_limit: int) -> None:
        # The statements of an append are planned once: planning them takes longer than they do.
        self._options = msgspec.structs.replace(options, plans="force_generic_plan")
        self._clock = clock
        self._witness = witness
        self._places = asyncio.Semaphore(queue_limit)
        self._waiting: deque[_Job] = deque()
        self._wake = asyncio.Event()
        self._closed = False
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._tasks = [
            loop.create_task(self._run(), name=f"perdure-journal-writer-{number}") for number in range(count)
        ]

    async def append(self, commits: Sequence[Commit]) -> list[Appended]:
        async with self._places:
            if self._closed:
                raise JournalClosed(f"journal {self._options.name} is closed")
            job = _Job(commits, self._loop.create_future())
            self._waiting.append(job)
            self._wake.set()
            # A caller that is cancelled from here on does not know the outcome; the job is done all the same.
            return await job.future

    async def close(self) -> None:
        """Finish what waits, then end the tasks."""
        self._closed = True
        self._wake.set()
        await asyncio.gather(*self._tasks)

    async def _run(self) -> None:
        connection: Connection | None = None
        try:
            while jobs := await self._take():
                connection = await self._write(jobs, connection)
        finally:
            if connection is not None:
                await disconnect(connection)

    async def _take(self) -> list[_Job]:
        """All jobs that wait, at least one; none when the writer is closed."""
        while not self._waiting:
            if self._closed:
                return []
            self._wake.clear()
            await self._wake.wait()
        jobs: list[_Job] = []
        commits = size = 0
        while self._waiting and (not jobs or (commits < MAX_COMMITS and size < MAX_BYTES)):
            jobs.append(self._waiting.popleft())
            commits += len(jobs[-1].commits)
            size += jobs[-1].size
        return jobs

    async def _write(self, jobs: list[_Job], connection: Connection | None) -> Connection | None:
        """Answer every job. Returns the connection if it is still of use."""
        try:
            if connection is None or connection.is_closed():
                connection = await open_connection(self._options, self._witness.greet)
            answers = await self._transact(jobs, connection)
        except asyncio.CancelledError:
            for job in jobs:
                job.future.cancel()
            raise
        except Exception as raised:  # noqa: BLE001 - every job gets an answer, or its caller waits for ever
            if is_lost(raised) and connection is not None:
                connection.terminate()
                connection = None
            error = translate_write(raised, self._options.name)
            if len(jobs) == 1 or isinstance(error, StoreUnavailable):
                for job in jobs:
                    job.fail(error)
            else:
                for job in jobs:
                    connection = await self._write([job], connection)
            return connection
        start = 0
        for job in jobs:
            job.answer(answers[start : start + len(job.commits)])
            start += len(job.commits)
        return connection

    async def _transact(self, jobs: list[_Job], connection: Connection) -> list[Appended]:
        commits = [commit for job in jobs for commit in job.commits]
        rounds = appender.rounds(commits)
        for left in reversed(range(TRIES)):
            try:
                found = await self._append(connection, commits, rounds)
            except Exception as error:
                if left and is_rivalry(error):
                    continue
                raise
            answers = [found[place] for place in range(len(commits))]
            self._note(commits, answers)
            return answers
        raise AssertionError

    async def _append(
        self, connection: Connection, commits: list[Commit], rounds: list[list[int]]
    ) -> dict[int, Appended]:
        count, now = self._witness.partition_count, self._clock.now()
        if len(rounds) == 1:
            # A statement by itself is a transaction.
            # Crash here: nothing of this batch is there and no caller was answered; callers append again.
            return await appender.append(connection, commits, rounds[0], count, now)
            # Crash here: durable, but unanswered; the same commit id is found and accepted again (J7).
        answers: dict[int, Appended] = {}
        async with connection.transaction():
            # A round locks what it moves, in order, and leaves a stale commit's run alone; a later round that moves that run
            # would lock it out of order.
            await appender.lock(connection, commits)
            for places in rounds:
                answers |= await appender.append(connection, commits, places, count, now)
        return answers

    def _note(self, commits: list[Commit], answers: list[Appended]) -> None:
        """Remember one commit that is durable."""
        for commit, answer in zip(reversed(commits), reversed(answers), strict=True):
            if isinstance(answer, Accepted):
                self._witness.note_commit(commit.run_id, answer.seq)
                return
