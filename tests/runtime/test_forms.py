"""Where the form of an approval is found in a long run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from perdure.contents import Contents
from perdure.journal import StoredEvent
from perdure.kernel import events as e
from perdure.runtime.forms import read_form

LENGTH = 20_000


class Long:
    """The journal of one run, in which every tenth event requests an approval; it counts the events that were read."""

    def __init__(self, *, backwards: bool = False) -> None:
        self.read = 0
        self._backwards = backwards

    def at(self, seq: int) -> float:
        return float(LENGTH - seq if self._backwards else seq)

    async def find_run(self, run_id: str) -> Any:
        return SimpleNamespace(run_id=run_id, seq=LENGTH, row=SimpleNamespace(tenant="default"))

    async def get_approval(self, approval_id: str) -> Any:
        return SimpleNamespace(requested_at=self.at(int(approval_id)))

    async def read_events(self, run_id: str, after: int, limit: int) -> list[StoredEvent]:
        found = [self._event(seq) for seq in range(after + 1, min(after + limit, LENGTH) + 1)]
        self.read += len(found)
        return found

    def _event(self, seq: int) -> StoredEvent:
        if seq % 10:
            return StoredEvent(seq, "run.signalled", self.at(seq), b"")
        asked = e.ApprovalRequested(seq=seq, at=self.at(seq), node="n", approval=str(seq), form={"const": seq})
        return StoredEvent(seq, asked.type, self.at(seq), e.encode(asked))


@pytest.mark.parametrize("number", [10, 1000, 13_370, LENGTH])
async def test_a_vote_in_a_long_run_does_not_read_all_of_it(number):
    journal = Long()
    assert await read_form(cast(Any, journal), Contents(None), "run", str(number)) == {"const": number}
    assert journal.read < 1100


async def test_the_form_is_found_where_a_clock_was_set_back():
    journal = Long(backwards=True)
    assert await read_form(cast(Any, journal), Contents(None), "run", "13370") == {"const": 13_370}


async def test_an_approval_that_does_not_exist_has_no_form():
    assert await read_form(cast(Any, Long()), Contents(None), "run", "7") is None
