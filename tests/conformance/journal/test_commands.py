"""put_command, read_commands, answer_command, find_answer: what another process asks of the holder."""

from perdure.journal import Conflict, partition_of
from tests.conformance.journal.adapters import PARTITIONS
from tests.conformance.journal.commits import append, commit


async def bodies(journal, *arguments, **named):
    return [command.body for command in await journal.read_commands(*arguments, **named)]


async def test_commands_are_read_in_the_order_they_were_put(handles, journal):
    other = await handles.open()
    for number in range(5):
        await other.put_command("r1", b"%d" % number)
    commands = await journal.read_commands()
    assert [command.body for command in commands] == [b"0", b"1", b"2", b"3", b"4"]
    assert await bodies(journal, after=commands[2].position) == [b"3", b"4"]
    assert await bodies(journal, limit=2) == [b"0", b"1"]


async def test_a_command_carries_what_was_put_and_the_run_need_not_exist(journal):
    command_id = await journal.put_command("not yet there", b"\x00start")
    (command,) = await journal.read_commands()
    assert (command.command_id, command.run_id, command.body) == (command_id, "not yet there", b"\x00start")
    assert command.put_at > 0


async def test_a_command_put_again_under_its_id_is_one_command(journal):
    assert await journal.put_command("r1", b"a", command_id="mine") == "mine"
    assert await journal.put_command("r1", b"b", command_id="mine") == "mine"
    assert await bodies(journal) == [b"a"]


async def test_the_commit_that_handles_it_answers_it(handles, journal):
    caller = await handles.open()
    command_id = await caller.put_command("r1", b"cancel")
    assert await caller.find_answer(command_id) is None
    await append(journal, commit("r1", command_answers=((command_id, b"done"),)))
    assert await caller.find_answer(command_id) == b"done"
    assert await journal.read_commands() == []


async def test_a_commit_in_conflict_answers_nothing(journal):
    command_id = await journal.put_command("r1", b"cancel")
    stale = commit("r1", 5, command_answers=((command_id, b"done"),))
    assert await append(journal, stale) == Conflict(0, "")
    assert await journal.find_answer(command_id) is None


async def test_a_command_can_be_answered_without_a_commit_and_the_first_answer_stands(journal):
    command_id = await journal.put_command("r1", b"cancel")
    await journal.answer_command(command_id, b"refused")
    await journal.answer_command(command_id, b"other")
    await append(journal, commit("r1", command_answers=((command_id, b"third"),)))
    assert await journal.find_answer(command_id) == b"refused"


async def test_an_unknown_command_has_no_answer_and_takes_none(journal):
    await journal.answer_command("nobody", b"?")
    assert await journal.find_answer("nobody") is None


async def test_an_answered_command_is_not_put_again(journal):
    await journal.put_command("r1", b"a", command_id="mine")
    await journal.answer_command("mine", b"")
    await journal.put_command("r1", b"a", command_id="mine")
    assert await journal.read_commands() == []
    assert await journal.find_answer("mine") == b""


async def test_only_the_partitions_asked_for(journal):
    await journal.put_command("p1", b"1")
    await journal.put_command("p2", b"2")
    assert await bodies(journal, [partition_of("p2", PARTITIONS)]) == [b"2"]
    assert await bodies(journal, []) == []


async def test_prune_commands_forgets_answered_ones_only(journal):
    first = await journal.put_command("r1", b"a")
    await journal.put_command("r1", b"b")
    await journal.answer_command(first, b"done")
    assert await journal.prune_commands(0.0) == 0
    assert await journal.prune_commands(1e12) == 1
    assert await journal.find_answer(first) is None
    assert await bodies(journal) == [b"b"]
