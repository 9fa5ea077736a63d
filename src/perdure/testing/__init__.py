"""Workflows in tests: the real engine in virtual time, with stubs for what nodes do.

    run = perdure.testing.run("order.yaml", inputs={…}, stubs={"pay": Stub(fails=2, then={"ok": True}), "ask": approve(by="ann")})
    assert_run(run, state="completed", attempts={"pay": 3}, never=["refund"])

    report = simulate("order.yaml", inputs={…}, stubs={…}, seeds=100)     # through crashes, duplicates and delays
    assert report.ok, report

    fired = run_schedule("nightly.yaml", since="2026-03-28", until="2026-04-01", workflows=["report.yaml"], stubs={…})
    fired = deliver("orders.yaml", {"body": {"order": 7}}, workflows=["take-order.yaml"], stubs={…})

    assert replay("run.json").same                                        # what `perdure runs export` wrote, played again

The public surface is `__all__`.
"""

from __future__ import annotations

from perdure.llms.scripted.scripted_model import ScriptedModel
from perdure.outcomes import Chosen
from perdure.simulation.stage.stubs import Call, Signal, Stub, StubInvalid, approve, nobody, one_of, reject
from perdure.simulation.stage.user_triggers import Pushed
from perdure.testing.assertions import assert_run
from perdure.testing.fired_runs import Fired, ParkedItem, Skipped, TriggerInvalid, deliver, run_schedule
from perdure.testing.histories import simulate
from perdure.testing.replay import Replay, ReplayInvalid, replay
from perdure.testing.report import Bad, End, Report
from perdure.testing.scripted_run import BrokenPromise, Run, run
from perdure.testing.source_checks import SourceBroken, check_source

__all__ = [
    "Bad",
    "BrokenPromise",
    "Call",
    "Chosen",
    "End",
    "Fired",
    "ParkedItem",
    "Pushed",
    "Replay",
    "ReplayInvalid",
    "Report",
    "Run",
    "ScriptedModel",
    "Signal",
    "Skipped",
    "SourceBroken",
    "Stub",
    "StubInvalid",
    "TriggerInvalid",
    "approve",
    "assert_run",
    "check_source",
    "deliver",
    "nobody",
    "one_of",
    "reject",
    "replay",
    "run",
    "run_schedule",
    "simulate",
]
