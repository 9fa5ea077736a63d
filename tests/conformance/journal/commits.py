"""Short ways to say a commit."""

from __future__ import annotations

from typing import Any

from perdure.journal import Commit, Journal, RunRow, StoredEvent, partition_of
from tests.conformance.journal.adapters import PARTITIONS

ROW = {"state", "workflow", "workflow_version", "ir", "tenant", "tags", "generation", "counter", "parent", "error"}
ROW |= {"busy", "created_at", "started_at", "ended_at", "partition"}


def event(seq: int, body: bytes | None = None) -> StoredEvent:
    return StoredEvent(seq, "node.completed", 1000.0 + seq, body or b'{"seq":%d}' % seq)


def commit(run_id: str = "r1", seq: int = 0, count: int = 1, commit_id: str | None = None, **fields: Any) -> Commit:
    """`count` events after `seq`. Fields of the row and of the commit are told apart by name."""
    row: dict[str, Any] = {"state": "running", "workflow": "orders", "created_at": 100.0}
    row["partition"] = partition_of(run_id, PARTITIONS)
    row |= {name: fields.pop(name) for name in list(fields) if name in ROW}
    fields.setdefault("events", tuple(event(seq + number) for number in range(1, count + 1)))
    return Commit(
        run_id=run_id, expected_seq=seq, commit_id=commit_id or f"{run_id}@{seq}", row=RunRow(**row), **fields
    )


async def append(journal: Journal, *commits: Commit) -> Any:
    """The answer, or the answers if there were several commits."""
    answers = await journal.append(commits)
    return answers[0] if len(commits) == 1 else answers
