"""Functions that ask, in virtual time: days pass at once, and people are scripted."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure.simulation.stage.stubs import StubInvalid
from perdure.testing import Signal, approve, nobody, reject, run

DEFINITION = {
    "name": "refund",
    "nodes": [{"id": "pay", "type": "task", "config": {"function": "tests.testing.test_asks:refund"}}],
}


async def refund(ctx: perdure.Context) -> dict[str, object]:
    await ctx.sleep("cool", 3 * 86_400)
    answers = await ctx.ask(
        {"ok": perdure.Approval(show={"sum": 7}, approvers=["ann"]), "paid": perdure.Signal("payment")}
    )
    return {"decision": answers["ok"]["decision"], "paid": answers["paid"]["payload"]}


def play(decision: object, **more: Any) -> Any:
    return run(DEFINITION, real=True, stubs={"pay.ask.ok": decision}, **more)


def test_answers_are_scripted_and_days_pass_at_once() -> None:
    signals = [Signal("payment", {"sum": 7}, at=5)]
    for decision, said in ((approve(), "approve"), (reject(by="ann", after=60), "reject")):
        played = play(decision, signals=signals)
        assert played.state == "completed", (played.error, played.waiting)
        assert played.nodes["pay"]["output"] == {"decision": said, "paid": {"sum": 7}}
        assert played.seconds >= 3 * 86_400


def test_what_nobody_answers_is_said() -> None:
    played = play(nobody())
    assert played.state == "running"
    assert "ok (a decision by ann)" in played.explain("pay")
    assert "paid (the signal 'payment')" in played.explain("pay")


def test_a_person_is_asked_there() -> None:
    with pytest.raises(StubInvalid, match="a person is asked there"):
        play({"decision": "approve"})
    with pytest.raises(StubInvalid, match="names no node"):
        run(DEFINITION, real=True, stubs={"play.ask.ok": approve()})
