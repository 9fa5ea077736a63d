"""What loops do while a server is away."""

import logging

from perdure.runtime.patience import COMPLAINT_SECONDS, OutageLog
from tests.doubles.fake_clock import FakeClock


async def test_what_keeps_failing_is_said_at_once_and_then_now_and_then(caplog):
    clock = FakeClock()
    complaints = OutageLog(clock, logging.getLogger("tests"), "commands")
    with caplog.at_level("WARNING", "tests"):
        for _ in range(50):
            complaints.say(RuntimeError("the server is away"))
        await clock.advance(COMPLAINT_SECONDS)
        complaints.say(RuntimeError("it is still away"))
    assert [record.message for record in caplog.records] == [
        "commands: the server is away",
        "commands: it is still away (49 more times meanwhile)",
    ]
