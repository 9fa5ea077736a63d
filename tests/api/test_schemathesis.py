"""A few requests to every operation of the OpenAPI document, good and bad; `make api` makes many more."""

import pytest


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("default")  # of what schemathesis imports
def test_three_hundred_requests_give_no_5xx_and_nothing_undocumented():
    from tests.api.schemathesis import run_cases  # a large library, which nobody else needs

    counted = run_cases(300, seed=0)
    assert sum(counted.values()) >= 300
    assert not [status for status in counted if status.startswith("5")]
    assert counted["200"] > 30, "too few requests got through to mean anything"
    assert counted["201"] > 1
