"""A few thousand bad inputs, always the same (`make fuzz` makes a million): no error that is not meant, nothing slow, no growth."""

import pytest

from tests.fuzz.running import LIMIT_SECONDS, fuzz
from tests.fuzz.targets import TARGETS, Sandboxes

pytestmark = pytest.mark.slow

CASES = {
    "json": 400,
    "yaml": 200,
    "definitions": 280,
    "templates": 400,
    "cel": 600,
    "cross-node": 400,
    "jsonpath": 400,
    "patterns": 200,
    "schemas": 400,
    "conditions": 400,
    "code": 400,
    "pipelines": 160,
    "answers": 400,
}
PATIENCE = 3
"""Times the limit: processor time too grows when two tests share a core's caches."""


@pytest.mark.parametrize("name", TARGETS)
def test_bad_input_is_refused_quickly_with_an_error_that_is_meant(name):
    report = fuzz(name, TARGETS[name], CASES[name], limit=PATIENCE * LIMIT_SECONDS)
    assert report.broken == []


@pytest.mark.parametrize("name", ["sandbox", "jq"])
def test_bad_programs_cost_their_own_call_and_nothing_else(name):
    sandboxes = Sandboxes()
    try:
        report = fuzz(name, sandboxes.targets[name], 150, limit=PATIENCE * LIMIT_SECONDS)
    finally:
        sandboxes.close()
    assert report.broken == []


def test_the_harness_finds_what_is_slow_what_fails_and_what_grows():
    def slow(random):
        if random.random() < 0.1:
            sum(range(3_000_000))

    def fail(random):
        if random.random() < 0.1:
            raise KeyError("x")

    kept = []

    def grow(random):
        kept.append(bytearray(1_000_000))

    assert "took" in fuzz("slow", slow, 50, limit=0.01).broken[0]
    assert "KeyError" in fuzz("fail", fail, 50).broken[0]
    assert "grew" in fuzz("grow", grow, 100).broken[0]
