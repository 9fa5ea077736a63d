"""Some thousands of bad inputs, always the same: no error that is not meant, nothing slow, no growth."""

import pytest

from tests.fuzz.running import LIMIT_SECONDS, fuzz
from tests.fuzz.targets import TARGETS, Sandboxes

pytestmark = pytest.mark.slow

CASES = {
    "json": 1000,
    "yaml": 500,
    "definitions": 700,
    "templates": 1000,
    "cel": 1500,
    "cross-node": 1000,
    "jsonpath": 1000,
    "patterns": 500,
    "schemas": 1000,
    "conditions": 1000,
    "code": 1000,
    "pipelines": 400,
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
