"""The forms of approvals in a long run: it is read once, not for each vote."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from perdure.contents import Contents
from perdure.journal import StoredEvent
from perdure.kernel import events as e
from perdure.runtime.forms import Forms

LENGTH = 20_000


class Long:
    """The journal of one run, in which every tenth event requests an approval; it counts the events that were read."""

    def __init__(self) -> None:
        self.read = 0
        self.moved = 0
        """How many places all events have moved."""

    async def find_run(self, run_id: str) -> Any:
        return SimpleNamespace(run_id=run_id, seq=LENGTH, row=SimpleNamespace(tenant="default"))

    async def read_events(self, run_id: str, after: int, limit: int) -> list[StoredEvent]:
        await asyncio.sleep(0)
        found = [self._event(seq) for seq in range(after + 1, min(after + limit, LENGTH) + 1)]
        self.read += len(found)
        return found

    def _event(self, seq: int) -> StoredEvent:
        number = seq - self.moved
        if number % 10:
            return StoredEvent(seq, "run.signalled", 1.0, b"")
        asked = e.ApprovalRequested(seq=seq, at=1.0, node="n", approval=str(number), form={"const": number})
        return StoredEvent(seq, asked.type, 1.0, e.encode(asked))


async def test_votes_in_a_long_run_read_it_once():
    journal = Long()
    forms = Forms(cast(Any, journal), Contents(None))
    found = await asyncio.gather(*(forms.read("run", str(number)) for number in (13_370, 10, 1000)))
    assert found == [{"const": 13_370}, {"const": 10}, {"const": 1000}]
    assert await forms.read("run", str(LENGTH)) == {"const": LENGTH}
    assert journal.read < LENGTH + 10


async def test_a_place_that_a_restore_made_wrong_is_looked_for_again():
    journal = Long()
    forms = Forms(cast(Any, journal), Contents(None))
    await forms.read("run", "10")
    journal.moved = 3
    assert await forms.read("run", "13370") == {"const": 13_370}


async def test_an_approval_that_does_not_exist_has_no_form():
    forms = Forms(cast(Any, Long()), Contents(None))
    assert await forms.read("run", "7") is None
    assert await forms.read("run", "7") is None
