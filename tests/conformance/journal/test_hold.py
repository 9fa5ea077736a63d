"""hold: one coordinator; everybody else may read and put commands."""

from perdure.journal import Accepted, HeldBy
from tests.conformance.journal.commits import append, commit


async def test_the_second_is_told_who_holds_it(handles, journal):
    assert not isinstance(await journal.hold(), HeldBy)
    assert isinstance(await (await handles.open()).hold(), HeldBy)


async def test_a_released_lock_can_be_taken_and_released_again(handles, journal):
    held = await journal.hold()
    held.release()
    other = await (await handles.open()).hold()
    assert not isinstance(other, HeldBy)
    held.release()
    assert isinstance(await journal.hold(), HeldBy)


async def test_closing_the_journal_releases_it(handles, journal):
    await journal.hold()
    await journal.close()
    assert not isinstance(await (await handles.open()).hold(), HeldBy)


async def test_the_same_journal_does_not_hold_twice(journal):
    await journal.hold()
    assert isinstance(await journal.hold(), HeldBy)


async def test_others_read_command_and_append_while_it_is_held(handles, journal):
    await journal.hold()
    other = await handles.open()
    assert await append(other, commit("r1")) == Accepted(1)
    await other.put_command("r1", b"cancel")
    assert [command.body for command in await journal.read_commands()] == [b"cancel"]
