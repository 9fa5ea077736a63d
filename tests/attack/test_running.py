"""One run, or one tenant, does not stop the others: a run that kills its process is found out (S05)."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.attack.marks import attack
from tests.engine.helpers import ended, opened, running, task, transform, workflow
from tests.engine.runner import Folder

BOMBS = {
    "a trivial node": workflow(task("a"), transform("boom", "{{ inputs.a ~ 'BOMB' }}", ["a"]), name="bomb"),
    "the config of a task": workflow(task("boom", args={"value": "{{ inputs.a ~ 'BOMB' }}"}), name="bomb"),
    "a condition": workflow(task("a", loop={"condition": "'BOMB' == ''", "max_iterations": 2}), name="bomb"),
}
INNOCENT = workflow(task("fine"), name="fine")


@attack("S05", "a run kills the server at every start")
@pytest.mark.parametrize("name", BOMBS)
def test_a_run_that_kills_its_process_twice_is_quarantined_at_the_third_start(tmp_path, name):
    folder = Folder(tmp_path)
    folder.add("innocent", INNOCENT)
    folder.add("killer", BOMBS[name], {"a": "x"})
    del folder.spec["runs"]["innocent"]
    for start in (1, 2):
        with folder.process(PERDURE_TEST_BOMB="BOMB") as process:
            assert process.wait(60) == -signal.SIGKILL, (start, folder.errors())
    folder.spec["runs"] = {"innocent": ["fine", None]}
    with folder.process(PERDURE_TEST_BOMB="BOMB") as process:
        assert process.wait(60) == 0, folder.errors()
    asyncio.run(_released_when_a_person_says_so(tmp_path))


async def _released_when_a_person_says_so(path):
    engine = await opened(path)
    try:
        record = await engine.journal.get_run("killer")
        assert "2 times the process died" in str(record.quarantined)
        assert (await engine.journal.get_run("innocent")).row.state == "completed"
        await engine.journal.unquarantine("killer")
    finally:
        await engine.close()
    async with running(path) as engine:  # with enough memory, as it were
        assert (await ended(engine, "killer")).state.value == "completed"
        assert (await engine.journal.get_run("killer")).quarantined is None
    assert not list(path.glob("*handled*"))


@attack("S05", "a run that goes on between two deaths is no culprit")
def test_a_run_that_was_at_hand_at_two_deaths_and_went_on_between_them_is_left_alone(tmp_path):
    from perdure.runtime.handled import Handled

    for seq in (5, 7, 7):
        handled = Handled(tmp_path / "handled")
        handled.enter("r", seq)
        handled._map.close()  # as if the process had died here
        handled.unlock()
    assert [(one.run_id, one.seq, one.times) for one in Handled(tmp_path / "handled").deaths] == [("r", 7, 2)]


@attack("S05", "a request for a run kills the server at every start")
def test_a_run_whose_first_decision_kills_the_process_twice_is_refused_the_third_time(tmp_path):
    folder = Folder(tmp_path)
    folder.add("killer", workflow(transform("boom", "{{ inputs.a ~ 'BOMB' }}"), name="bomb"), {"a": "x"})
    for start in (1, 2):
        with folder.process(PERDURE_TEST_BOMB="BOMB") as process:
            assert process.wait(60) == -signal.SIGKILL, (start, folder.errors())
    with folder.process(PERDURE_TEST_BOMB="BOMB") as process:
        assert process.wait(60) == 1, folder.errors()
    assert "run killer does not exist" in folder.errors()  # it was refused, and the process lived to look for it
