"""A thousand requests made from the OpenAPI document; `python -m tests.api.schemathesis --cases 100000` makes more."""

import pytest

from tests.api.schemathesis import run_cases


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("default")  # of what schemathesis imports
def test_a_thousand_requests_give_no_5xx_and_nothing_undocumented():
    counted = run_cases(1000, seed=0)
    assert sum(counted.values()) >= 1000
    assert not [status for status in counted if status.startswith("5")]
    assert counted["200"] > 100, "too few requests got through to mean anything"
    assert counted["201"] > 5
