"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import Literal, TypedDict


class WorkerTask(TypedDict):
    run_id: str
    node: str
    item: int | None
    attempt: int
    since: float | None
    """Since when its handler is at work; null until the worker says so, a moment after it began."""


class Worker(TypedDict):
    worker: str
    state: Literal["alive", "dead"]
    """Dead if the worker was silent for `worker_dead_seconds`: its tasks are tried again."""
    host: str | None
    """The host; like `pid` and `running`, null without the permission `system:operate`."""
    pid: int | None
    queues: list[str]
    types: list[str]
    functions: list[str]
    slots: int
    running: int | None
    tasks: list[WorkerTask]
    """What it executes for runs that you may read, at most 100."""
    silent_seconds: float
    lag_seconds: float


class Queue(TypedDict):
    queue: str
    workers: int
    """The number of workers that are alive."""
    slots: int
    running: int | None
    """The tasks that run. Like `waiting` and `backlog` it counts those of all tenants: null without the permission
    `system:operate`."""
    waiting: int | None
    """Tasks that were sent and that no worker has taken."""
    backlog: int | None
    """Tasks the answering process has not sent yet: as many are out as the slots could take, or a limit is reached."""
    held: int | None
    """Nodes that are held because no worker that lives can take them."""
