"""The clock of the system: its ids."""

import os

from perdure.clock import SystemClock


def test_ids_are_unique_and_say_that_they_are_version_7():
    clock = SystemClock()
    found = [clock.new_id() for _ in range(1_000)]
    assert len(set(found)) == 1_000
    assert {len(one) for one in found} == {32}
    assert {(one[12], one[16] in "89ab") for one in found} == {("7", True)}
    assert [one[:12] for one in found] == sorted(one[:12] for one in found)


def test_a_forked_child_makes_other_ids():
    clock = SystemClock()
    clock.new_id()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, clock.new_id()[17:].encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100).decode() != clock.new_id()[17:]
    os.close(reader)
    os.close(writer)
