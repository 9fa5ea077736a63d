"""What measures the loop sees what holds it up, and is not misled by a neighbour."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.attack import watchdog
from tests.attack.conftest import is_measurement, pytest_runtest_protocol
from tests.attack.watchdog import (
    MEASUREMENTS,
    MOST_GROWTH,
    HeldTooLong,
    Yardstick,
    judge,
    taking_at_most,
    watching,
    watching_calls,
)

pytest_plugins = ["pytester"]


def spend(seconds: float) -> None:
    """Use so much processor time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def hold(seconds: float) -> None:
    await asyncio.sleep(0)
    spend(seconds)
    await asyncio.sleep(0)


async def test_a_turn_that_holds_the_loop_is_found_and_waiting_is_not() -> None:
    with pytest.raises(HeldTooLong, match="held by"), watching(0.02):
        await hold(0.05)
    with watching(0.02):
        await asyncio.sleep(0.05)


async def hold_beside_another_loop(seconds: float) -> None:
    await asyncio.sleep(0)
    spend(seconds)
    other = threading.Thread(target=asyncio.run, args=(asyncio.sleep(0),))
    other.start()
    other.join()
    await asyncio.sleep(0)


async def test_the_loop_of_another_thread_has_turns_of_its_own() -> None:
    """A server of another test may have one: its turns were taken for ours."""
    with pytest.raises(HeldTooLong, match="held by"), watching(0.02):
        await hold_beside_another_loop(0.05)


@pytest.mark.parametrize("beside", [False, True])
def test_a_call_in_which_no_thread_has_a_turn_is_found_wherever_it_is_made(beside: bool) -> None:
    many = [*range(3_000_000)]

    def hold() -> None:
        many.count(-1)  # one call in C

    def do(work: Callable[[], None]) -> None:
        if beside:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        else:
            work()

    with pytest.raises(HeldTooLong, match="count"), watching_calls(0.005):
        do(hold)
    with watching_calls(0.02):
        do(lambda: spend(0.05))


def test_a_block_that_takes_longer_than_any_neighbour_explains_is_found() -> None:
    with pytest.raises(HeldTooLong), taking_at_most(0.02):
        spend(0.02 * MOST_GROWTH + 0.01)


def test_the_limit_grows_with_what_a_fixed_piece_of_work_takes_twofold_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = [1.0]
    monkeypatch.setattr(Yardstick, "measure", staticmethod(lambda: taken[0]))
    monkeypatch.setattr(watchdog, "_yardsticks", [Yardstick()])
    found = []
    for now in (1.0, 1.5, 9.0):
        taken[0] = now
        found.append(watchdog.growth())
    assert found == [1.0, 1.5, MOST_GROWTH]
    judge(0.19, 0.1, "while it is busy")
    with pytest.raises(HeldTooLong):
        judge(0.21, 0.1, "while it is busy")
    taken[0] = 1.0
    with pytest.raises(HeldTooLong):
        judge(0.11, 0.1, "while it is quiet")
    judge(0.11, 0.1, "it was busy when it began", 1.2)


def test_only_a_measurement_is_repeated() -> None:
    held = HeldTooLong("0.2 s")
    assert is_measurement(held)
    assert is_measurement(BaseExceptionGroup("some", [ExceptionGroup("of a group", [held])]))
    assert not is_measurement(AssertionError("wrong"))
    assert not is_measurement(ExceptionGroup("some", [held, ValueError("wrong")]))
    assert not is_measurement(None)


def test_tests_elsewhere_are_not_measured() -> None:
    item: Any = SimpleNamespace(path=Path(watchdog.__file__).parents[1] / "api" / "test_edge.py")
    assert pytest_runtest_protocol(item, None) is None


@pytest.mark.slow
@pytest.mark.parametrize(("over", "told"), [(MEASUREMENTS - 1, "passed"), (MEASUREMENTS, "failed")])
def test_of_three_measurements_the_shortest_counts(pytester: pytest.Pytester, over: int, told: str) -> None:
    pytester.makeconftest(
        "from tests.attack.conftest import measured as pytest_runtest_protocol, pytest_runtest_makereport"
    )
    pytester.makepyfile(
        f"""
        from tests.attack.watchdog import HeldTooLong
        seen = []
        def test_measured(tmp_path):
            seen.append(tmp_path)
            assert len(set(seen)) == len(seen) <= {MEASUREMENTS}, "each begins anew"
            if len(seen) <= {over}:
                raise HeldTooLong("over")
        def test_wrong():
            seen.append(None)
            assert seen.count(None) == 2
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:cacheprovider")
    counts = {"passed": 1, "failed": 1} if told == "passed" else {"failed": 2}
    result.assert_outcomes(**counts)
