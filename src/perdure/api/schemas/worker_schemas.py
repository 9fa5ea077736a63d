"""What workers and queues look like over HTTP."""

from __future__ import annotations

from typing import Literal

from perdure.api.schemas.general_schemas import View


class WorkerTask(View, frozen=True, kw_only=True):
    run_id: str
    node: str
    item: int | None
    attempt: int
    since: float | None
    """Since when its handler is at work; null until the worker says so, a moment after it began."""


class Worker(View, frozen=True, kw_only=True):
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


class WorkerPage(View, frozen=True, kw_only=True):
    items: list[Worker]
    next_cursor: str | None


class Queue(View, frozen=True, kw_only=True):
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


class QueuePage(View, frozen=True, kw_only=True):
    items: list[Queue]
    next_cursor: str | None
