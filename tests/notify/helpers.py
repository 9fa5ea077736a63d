"""Receivers of webhooks, workflows that tell them, and a clock that is ahead."""

from __future__ import annotations

import json
from typing import Any

from perdure.clock import system
from perdure.runtime.notifier import Notifier
from perdure.secrets.signatures import read_keys, verify
from tests.egress.server import Seen, serving
from tests.engine.helpers import transform, until_true, workflow

__all__ = ["serving"]

SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
KEYS = read_keys(SECRET)
OK = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"


def status(number: int) -> bytes:
    return f"HTTP/1.1 {number} Said\r\nContent-Length: 0\r\n\r\n".encode()


def asking(port: int, *, name: str = "asking", notify: dict[str, str] | None = None, **config: Any) -> dict[str, Any]:
    notify = notify or {"url": f"http://127.0.0.1:{port}/told?for=perdure", "secret": "hook"}
    human = {"id": "ask", "type": "human", "config": {"show": {"amount": 50}, "notify": notify, **config}}
    return workflow(human, transform("said", "{{ ask.decision }} by {{ ask.decided_by }}", ["ask"]), name=name)


def message(seen: Seen, ahead: float = 0.0) -> Any:
    """What was told, if it was signed as it should be."""
    assert verify(KEYS, seen.headers, seen.body, system.now() + ahead) is not None, seen.headers
    return json.loads(seen.body)


async def notification(journal: Any, approval_id: str = "r1:ask:1", tenant: str = "default") -> Any:
    return await journal.archive.find_notification(tenant, approval_id)


async def until_settled(journal: Any, state: str, approval_id: str = "r1:ask:1") -> Any:
    async def look() -> Any:
        found = await notification(journal, approval_id)
        settled = found is not None and found.state == state and (state != "waiting" or found.last_error)
        return found if settled else None

    return await until_true(look, f"the notification of {approval_id} is {state}")


class Ahead:
    """The clock of a process in the future: what others claimed is due there."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.monotonic, self.sleep, self.random, self.new_id = (
            system.monotonic,
            system.sleep,
            system.random,
            system.new_id,
        )

    def now(self) -> float:
        return system.now() + self._seconds


def notifier(engine: Any, ahead: float = 0.0, **options: Any) -> Notifier:
    return Notifier(engine.journal, engine.archive, engine.vault, Ahead(ahead), **options)
