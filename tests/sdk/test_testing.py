"""Workflows written in Python in `perdure.testing`."""

from __future__ import annotations

import pytest

import perdure
import perdure.testing
from perdure.testing import Stub, approve, assert_run, simulate
from tests.sdk.tasks import combine, fetch, grow, headlines


@perdure.workflow
def inner(city: str):
    return headlines(city)


@perdure.workflow
def briefing(city: str):
    text = combine(fetch.options(retry=perdure.Retry(max_attempts=3))(city), inner(city))
    perdure.approval(text, timeout=30 * 86_400)
    return perdure.branch(text, {text == "long": lambda: grow(text)}, default=lambda: text)


def test_a_workflow_is_tested_with_stubs_in_virtual_time():
    stubs = {
        "fetch": Stub(fails=2, then={"city": "Oslo", "degrees": 3}),
        "headlines": ["a"],
        "combine": "long",
        "approval": approve(after=20 * 86_400),
        "grow": "longer",
    }
    run = perdure.testing.run(briefing, inputs={"city": "Oslo"}, stubs=stubs)
    assert_run(run, state="completed", outputs={"result": "longer"}, attempts={"fetch": 3}, never=["combine_value"])


def test_a_workflow_is_tested_with_its_real_functions():
    run = perdure.testing.run(briefing, inputs={"city": "Oslo"}, stubs={"approval": approve()}, real=True)
    assert_run(run, state="completed", outputs={"result": "Oslo: 21, 3 news"}, never=["grow"])


@pytest.mark.slow
def test_a_workflow_survives_simulated_trouble():
    report = simulate(briefing, inputs={"city": "Oslo"}, stubs={"combine": "long", "approval": approve()}, seeds=20)
    assert report.ok, report
