"""How long a refusal takes says nothing about the key: Welch's t between kinds of wrong keys stays small."""

import gc
import statistics
import time
from typing import NamedTuple

import pytest

from perdure.access import Authenticator, Unauthenticated
from perdure.clock import new_key, system
from tests.access.test_keys import issue

KEYS = 100
ROUNDS = 100
"""So 10,000 samples of each kind."""
LIMIT = 4.5
SMALL = 0.01
"""A difference below this part of the whole is where things lie in memory; leaving out one step is many times more."""
TRIES = 4
"""Other processes on the machine disturb one measurement; a real difference shows in each."""


class Difference(NamedTuple):
    t: float
    part: float

    @property
    def shows(self) -> bool:
        return abs(self.t) >= LIMIT and abs(self.part) >= SMALL


async def measure(authenticator, one: list[str], other: list[str]) -> Difference:
    """Over the keys of each kind, of the mean of the faster three quarters of the times that one key took."""
    taken: list[list[list[int]]] = [[[] for _ in range(KEYS)] for _ in range(2)]
    gc.collect()
    gc.disable()
    try:
        for number in range(ROUNDS):
            for place in range(KEYS):
                for kind in ((0, 1), (1, 0))[(number + place) % 2]:  # none always comes first
                    header = (one, other)[kind][place]
                    start = time.perf_counter_ns()
                    try:
                        await authenticator.authenticate(header)
                    except Unauthenticated:
                        taken[kind][place].append(time.perf_counter_ns() - start)
    finally:
        gc.enable()
    assert {len(times) for kind in taken for times in kind} == {ROUNDS}
    first, second = ([statistics.fmean(sorted(times)[: ROUNDS * 3 // 4]) for times in kind] for kind in taken)
    spread = (statistics.variance(first) + statistics.variance(second)) / KEYS
    difference = statistics.fmean(first) - statistics.fmean(second)
    return Difference(difference / spread**0.5, difference / statistics.fmean(first))


def altered(text: str, place: int) -> str:
    return text[:place] + ("a" if text[place] != "a" else "b") + text[place + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["unknown or known id", "first or last letter wrong"])
async def test_the_time_of_a_refusal_tells_nothing(archive, case, monkeypatch):
    # Remembered for the whole test: what is measured is the program, not the disk.
    monkeypatch.setattr("perdure.access.authenticator.REMEMBER_SECONDS", 3600.0)
    found = []
    for _ in range(TRIES):
        authenticator = Authenticator(archive, system, keys=True)
        issued = [(await issue(archive, system)).text for _ in range(KEYS)]
        one, other = {
            "unknown or known id": (
                [f"perdure_{new_key(8).hex()}_{text[-43:]}" for text in issued],
                [altered(text, 40) for text in issued],
            ),
            "first or last letter wrong": (
                [altered(text, 22) for text in issued],
                [altered(text, 63) for text in issued],
            ),
        }[case]
        found.append(await measure(authenticator, *([f"Bearer {text}" for text in texts] for texts in (one, other))))
        if not found[-1].shows:
            return
    raise AssertionError(f"{case}: {found}")


async def test_the_measure_sees_a_difference_that_is_there():
    class Leaky:
        async def authenticate(self, header: str) -> None:
            if header == "known":
                hash(header * 100)
            raise Unauthenticated("")

    assert (await measure(Leaky(), ["known"] * KEYS, ["unknown"] * KEYS)).shows
