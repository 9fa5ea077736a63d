"""Rate limits: per key and per tenant, exact, in bounded memory."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.access import LOCAL, Buckets, RateLimited, RateLimiter, make_principal
from perdure.access.rate_limits import BURST_SECONDS
from tests.doubles.fake_clock import FakeClock


def principal(tenant: str = "acme", name: str = "ci", key_id: str = "k1", kind: Literal["key", "jwt"] = "key"):
    return make_principal(tenant=tenant, name=name, kind=kind, roles=("viewer",), key_id=key_id)


def passed(limiter: RateLimiter, who, count: int) -> int:
    done = 0
    for _ in range(count):
        try:
            limiter.check(who)
        except RateLimited:
            continue
        done += 1
    return done


async def test_a_burst_passes_and_then_the_rate(clock):
    limiter = RateLimiter(clock, per_key=10, per_tenant=0)
    assert passed(limiter, principal(), 100) == 10 * BURST_SECONDS
    for _ in range(5):
        await clock.advance(1)
        assert passed(limiter, principal(), 100) == 10


async def test_who_is_refused_hears_when_to_come_back_and_then_passes(clock):
    limiter = RateLimiter(clock, per_key=4, per_tenant=0)
    passed(limiter, principal(), 100)
    with pytest.raises(RateLimited, match=r"ci sends too many requests; try again in 0.25 s") as error:
        limiter.check(principal())
    assert (error.value.code, error.value.status, error.value.retry_after) == ("rate_limited", 429, 0.25)
    await clock.advance(error.value.retry_after)
    limiter.check(principal())
    with pytest.raises(RateLimited):
        limiter.check(principal())


async def test_keys_have_buckets_of_their_own_and_share_that_of_their_tenant(clock):
    limiter = RateLimiter(clock, per_key=10, per_tenant=15)
    assert passed(limiter, principal(key_id="k1"), 100) == 20
    assert passed(limiter, principal(key_id="k2"), 100) == 10
    with pytest.raises(RateLimited, match="tenant acme"):
        limiter.check(principal(key_id="k3"))


async def test_a_tenant_at_a_hundred_times_its_limit_takes_nothing_from_another(clock):
    limiter = RateLimiter(clock, per_key=10, per_tenant=10)
    quiet, loud = principal("globex", key_id="q"), principal("acme", key_id="l")
    for _ in range(20):
        passed(limiter, loud, 100)
        assert passed(limiter, quiet, 1) == 1
        await clock.advance(0.1)


async def test_a_request_that_one_bucket_refuses_costs_the_other_nothing(clock):
    limiter = RateLimiter(clock, per_key=1, per_tenant=100)
    assert passed(limiter, principal(key_id="k1"), 150) == 2
    assert sum(passed(limiter, principal(key_id=f"k{number}"), 2) for number in range(2, 101)) == 198


async def test_subjects_of_tokens_are_told_apart_by_tenant(clock):
    limiter = RateLimiter(clock, per_key=1, per_tenant=0)
    assert passed(limiter, principal("acme", "ada", "", "jwt"), 9) == 2
    assert passed(limiter, principal("globex", "ada", "", "jwt"), 9) == 2
    assert passed(limiter, principal("acme", "bob", "", "jwt"), 9) == 2


async def test_a_limit_of_0_is_none_and_who_is_at_the_machine_is_not_counted(clock):
    assert passed(RateLimiter(clock, per_key=0, per_tenant=0), principal(), 10_000) == 10_000
    assert passed(RateLimiter(clock, per_key=1, per_tenant=1), LOCAL, 1000) == 1000


async def test_memory_is_bounded_and_the_buckets_in_use_are_kept(clock):
    buckets = Buckets(clock, rate=1, burst=1, capacity=100)
    buckets.spend("busy")
    for number in range(10_000):
        buckets.spend(f"key {number}")
        if number % 50 == 0:
            assert buckets.wait("busy") > 0
            buckets.spend("busy")
    assert len(buckets) == 100


@given(
    rate=st.floats(0.1, 1000),
    steps=st.lists(st.tuples(st.floats(0, 5), st.integers(0, 30)), max_size=30),
)
def test_no_more_ever_passes_than_burst_and_rate_allow(rate, steps):
    clock = FakeClock()
    buckets = Buckets(clock, rate)
    start, done = clock.now(), 0
    for pause, tries in steps:
        clock._now += pause
        for _ in range(tries):
            if buckets.wait("x") == 0:
                buckets.spend("x")
                done += 1
        assert done <= max(1.0, rate * BURST_SECONDS) + (clock.now() - start) * rate + 1e-6
