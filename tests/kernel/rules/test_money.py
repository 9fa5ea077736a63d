"""Budgets and what is used: rules 82 to 85, invariants B1 to B3."""

import pytest

from perdure.invariants import Checker
from perdure.invariants import money as ledger
from perdure.journal import LedgerRow
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.outstanding import outstanding
from perdure.kernel.values import Ask, Wait
from perdure.model.money import NOTHING, Budget, Room, Usage, to_millionths
from perdure.runtime.coordinator.projections import list_used
from tests.kernel.driver import Run, compiled
from tests.kernel.rules import graphs
from tests.kernel.rules.graphs import child, effects, end_child, node, problems, start

FIVE = {"limits": {"budget": {"calls": 5}}}
CALL = Usage(calls=1)
THREE = Usage(calls=3)


@pytest.fixture(autouse=True)
def _checked(monkeypatch):
    """Hold every journal of this file against the checker's own ledger, after each append."""

    class Checked(Run):
        def __init__(self, *given, **keys):
            self.checker, self.fed = None, 0
            super().__init__(*given, **keys)

        def do(self, command):
            result = super().do(command)
            self.checker = self.checker or Checker(self.state.library)
            found = [v for event in self.journal[self.fed :] for v in self.checker.feed(event)]
            self.fed = len(self.journal)
            found += self.checker.settle() + ledger.compare(self.checker.model, self.state)
            assert found == []
            return result

    monkeypatch.setattr(graphs, "Run", Checked)


def begin(run, node, step="call", reserve=CALL, wish="", **fields):
    """Wish to begin a step; whether it was let."""
    wish = wish or f"{node}/{step}"
    run._command(c.BeginStep, node, (), None, step=step, wish=wish, effect="idempotent", reserve=reserve, **fields)
    held = (run.get(node).reserved or {}).get(step)
    return held is not None and held.wish == wish


def give_back(run, node, wants=CALL, step="call", **fields):
    run.lapse(node, reason="handed_back", step=step, wants=wants, **fields)


def settle(run, node, step="call", usage=None):
    run.checkpoint(node, step=step, data={}, usage=usage)


def test_rule_82_a_call_begins_only_if_all_that_is_used_and_set_aside_leaves_room_for_it():
    run = start(*(node(name) for name in "abcd"), **FIVE)
    assert begin(run, "a", reserve=THREE)
    assert run.state.money.reserved == THREE
    assert not begin(run, "b", reserve=THREE)
    assert run.types()[-1] == "step.started"  # a refusal is no event, and ends nothing
    assert run.state_of("b") == "queued"
    assert begin(run, "c", reserve=Usage(calls=2))
    assert not begin(run, "d")


def test_rule_82_one_wish_begins_a_step_and_its_repetition_gets_the_same_answer():
    run = start(node("a"), **FIVE)
    assert begin(run, "a", wish="w1")
    assert begin(run, "a", wish="w1")
    assert not begin(run, "a", wish="w2")
    assert run.state.money.reserved == CALL


def test_rule_82_what_waits_only_for_others_is_held_and_sent_by_the_append_that_settles():
    run = start(node("a"), node("b"), **FIVE)
    assert begin(run, "a", reserve=Usage(calls=4))
    assert not begin(run, "b", reserve=THREE)
    give_back(run, "b", THREE)
    assert (run.state_of("b"), run.get("b").reason, run.status) == ("held", "budget_reserved", "running")
    assert run.get("b").attempt == 1
    settle(run, "a", usage=Usage(calls=1))
    assert run.dispatched() == {"b"}
    assert (run.state_of("b"), run.get("b").attempt, run.get("b").tries) == ("queued", 2, 1)
    assert begin(run, "b", reserve=THREE)
    assert run.state.money.spent == CALL


def test_rule_82_room_for_one_sends_the_oldest_of_two():
    run = start(node("a"), node("b"), node("c"), **FIVE)
    assert begin(run, "a", reserve=Usage(calls=5))
    for name in "bc":
        give_back(run, name, THREE)
    settle(run, "a", usage=CALL)
    assert (run.state_of("b"), run.state_of("c")) == ("queued", "held")


def test_rule_82_what_is_used_up_pauses_the_run_in_the_append_that_holds_the_node():
    run = start(node("a"), node("b"), **FIVE)
    begin(run, "a", reserve=THREE)
    settle(run, "a", usage=THREE)
    assert not begin(run, "a", "more", THREE)
    give_back(run, "a", THREE, "more")
    assert run.types()[-3:] == ["node.held", "limit.reached", "run.paused"]
    reached = run.events("limit.reached")[0]
    assert (reached.limit, reached.of, reached.value, reached.maximum) == ("budget", "calls", 6, 5)
    assert (run.status, run.state.pauses) == ("paused", {"budget": ""})
    assert [type(effect) for effect in run.effects] == [fx.Recall]


def test_rule_82_the_run_pauses_when_what_others_had_set_aside_is_used_in_the_end():
    run = start(node("a"), node("b"), **FIVE)
    begin(run, "a", reserve=THREE)
    give_back(run, "b", THREE)
    settle(run, "a", usage=THREE)
    assert (run.status, run.state_of("b")) == ("paused", "held")


def test_rule_82_on_exceed_fail_fails_the_node_and_no_retry_is_made():
    run = start(node("a"), limits={"budget": {"tokens": 100, "on_exceed": "fail"}})
    give_back(run, "a", Usage(input=60, output=41))
    assert (run.status, run.state.error.code) == ("failed", "budget_exhausted")
    assert "101 tokens; its budget is 100 tokens" in run.state.error.message


def test_rule_82_the_limit_of_the_node_fails_it_whatever_the_run_has_left():
    run = start(node("a"), **FIVE)
    assert begin(run, "a", "one", limit=Budget(calls=2))
    settle(run, "a", "one")
    assert not begin(run, "a", "two", Usage(calls=2), limit=Budget(calls=2))
    give_back(run, "a", Usage(calls=2), "two", limit=Budget(calls=2))
    assert run.state.error.code == "budget_exhausted"


def test_rule_82_work_that_is_given_back_goes_on_at_once_if_there_is_room_by_now():
    run = start(node("a"), **FIVE)
    give_back(run, "a")
    assert (run.state_of("a"), run.get("a").attempt) == ("queued", 2)


def test_rule_82_a_second_worker_of_the_attempt_that_is_refused_gives_nothing_back():
    run = start(node("a"), **FIVE)
    begin(run, "a", reserve=Usage(calls=5))
    give_back(run, "a")
    assert (run.state_of("a"), run.get("a").attempt) == ("queued", 1)


def test_rule_83_the_result_takes_the_place_of_what_was_set_aside():
    run = start(node("a"), **FIVE)
    begin(run, "a", reserve=Usage(input=900, calls=1, usd=5000), model="big")
    used = Usage(input=120, output=30, calls=1, usd=777)
    settle(run, "a", usage=used)
    assert (run.state.money.spent, run.state.money.reserved) == (used, NOTHING)
    assert (run.get("a").spent, run.state.money.models) == (used, {"big": used})
    settle(run, "a", usage=THREE)  # the same step again: it has a result (V9)
    assert run.state.money.spent == used


def test_rule_83_a_result_that_does_not_say_counts_all_that_was_set_aside():
    run = start(node("a"), **FIVE)
    begin(run, "a", reserve=THREE)
    settle(run, "a")
    assert (run.state.money.spent, run.state.money.unsettled) == (THREE, NOTHING)


def test_rule_83_what_certainly_did_not_happen_is_free_again():
    run = start(node("a"), **FIVE)
    begin(run, "a", wish="w", reserve=THREE)
    run._command(c.BeginStep, "a", (), None, step="call", wish="other", not_done=True)
    assert run.state.money.reserved == THREE
    run._command(c.BeginStep, "a", (), None, step="call", wish="w", not_done=True)
    assert (run.state.money.reserved, run.state.money.spent) == (NOTHING, NOTHING)
    assert begin(run, "a", reserve=Usage(calls=5))


ENDS = {
    "crash": lambda run: run.lapse("a"),
    "hand back": lambda run: run.lapse("a", reason="handed_back"),
    "failure": lambda run: run.fail("a", retryable=True),
    "end": lambda run: run.complete("a"),
    "ask": lambda run: run._command(c.AskFor, "a", (), None, asks=(Ask(name="nap", kind="sleep", seconds=1),)),
    "cancel": lambda run: run.tell(c.Cancel, force=True),
    "fatal": lambda run: run.fail("a"),
}


@pytest.mark.parametrize("end", ENDS)
def test_rule_83_whatever_ends_the_attempt_counts_its_open_calls_as_used(end):
    run = start(node("a"), node("b", "a"), **FIVE)
    begin(run, "a", reserve=THREE)
    ENDS[end](run)
    assert (run.state.money.spent, run.state.money.unsettled, run.state.money.reserved) == (THREE, THREE, NOTHING)
    assert run.get("a").reserved is None


def test_rule_83_the_result_of_an_attempt_that_is_over_changes_no_money():
    run = start(node("a"), **FIVE)
    begin(run, "a", reserve=THREE)
    run.lapse("a")
    run.checkpoint("a", step="call", data={}, usage=CALL, attempt=1)
    run.complete("a", attempt=1)  # its work is done, and counts (V3)
    assert run.status == "completed"
    assert run.state.money.spent == THREE


def test_rule_84_a_run_goes_on_with_a_larger_budget_and_not_without_one():
    run = start(node("a"), **FIVE)
    give_back(run, "a", Usage(calls=6))
    run.tell(c.Resume, by="ann")
    assert run.refused.code == "budget_exhausted"
    run.tell(c.Resume, by="ann", budget=Budget(calls=5, usd=7))
    assert run.refused.code == "budget_exhausted"
    run.tell(c.Resume, by="ann", budget=Budget(calls=6))
    assert (run.status, run.dispatched(), run.state.money.budget) == ("running", {"a"}, Budget(calls=6))
    assert begin(run, "a", reserve=Usage(calls=6))


def test_rule_85_what_each_append_adds_to_the_ledger_is_together_what_the_run_has_used():
    run = start(node("a"), node("b"), **FIVE)
    rows: list[LedgerRow] = []
    before = run.state.money
    for what in (
        lambda: begin(run, "a", reserve=THREE, model="small"),
        lambda: settle(run, "a", usage=Usage(calls=1, input=7, usd=5)),
        lambda: begin(run, "b", reserve=CALL, model="large"),
        lambda: run.lapse("b"),  # nobody knows what became of its call
        lambda: run.complete("a"),
    ):
        what()
        rows += list_used(run.state, before, run.now)
        before = run.state.money
        assert list_used(run.state, before, run.now) == ()  # an append that is repeated brings nothing again
    assert {row.model for row in rows} == {"small", "large", ""}
    spent, unsettled = run.state.money.spent, run.state.money.unsettled
    assert (sum(row.calls for row in rows), sum(row.usd for row in rows)) == (spent.calls, spent.usd) == (2, 5)
    assert (sum(row.unsettled_calls for row in rows), sum(row.input for row in rows)) == (unsettled.calls, 7) == (1, 7)


def test_rule_84_a_run_that_failed_for_its_budget_is_retried_with_a_larger_one():
    run = start(node("a"), limits={"budget": {"calls": 5, "tokens": 9, "on_exceed": "fail"}})
    assert begin(run, "a", "one", Usage(calls=4))
    settle(run, "a", "one", usage=Usage(calls=4))
    give_back(run, "a", Usage(calls=4), "two")
    assert (run.status, run.state.error.code) == ("failed", "budget_exhausted")
    run.tell(c.Retry, budget=Budget(calls=8))
    assert (run.status, run.dispatched()) == ("running", {"a"})
    assert run.state.money.budget == Budget(calls=8, tokens=9, on_exceed="fail")
    assert begin(run, "a", "two", Usage(calls=4))
    settle(run, "a", "two", usage=Usage(calls=4))
    assert run.state.money.spent.calls == 8


def test_rule_84_the_end_of_another_pause_needs_no_budget_and_a_running_run_is_given_none():
    run = start(node("a"), **FIVE)
    run.tell(c.Resume, budget=Budget(calls=9))
    assert run.refused.code == "not_paused"
    run.tell(c.Pause, reason="lunch")
    give_back(run, "a", Usage(calls=6))
    assert set(run.state.pauses) == {"lunch", "budget"}
    run.tell(c.Resume, reason="lunch")
    assert (run.status, set(run.state.pauses)) == ("paused", {"budget"})
    run.tell(c.Resume, reason="budget", budget=Budget(calls=9))
    assert run.status == "running"


def test_rule_84_what_was_used_stays_used_in_the_next_generation():
    run = start(node("a", retry={"max_attempts": 1}), **FIVE)
    begin(run, "a", reserve=THREE)
    settle(run, "a")
    run.fail("a")
    run.tell(c.Retry)
    assert run.state.money.spent == THREE
    assert not begin(run, "a", "more", THREE)


def test_rule_84_the_caller_may_give_less_than_the_definition_and_never_more():
    run = Run(compiled(node("a"), limits={"budget": {"usd": 1.5, "calls": 5}}), budget=Budget(calls=9, usd=10))
    assert run.state.money.budget == Budget(usd=10, calls=5)


def test_rule_84_what_a_child_may_use_is_set_aside_and_settled_by_its_end():
    run = start({"id": "w", "type": "workflow", "config": {"workflow": "inner"}}, node("a"), **FIVE)
    begin(run, "a")
    name = child(run, "w", budget=Budget(calls=3))
    assert effects(run, fx.StartChild)[0].budget == Budget(calls=3)
    assert [effect.budget for effect in outstanding(run.state) if isinstance(effect, fx.StartChild)] == [
        Budget(calls=3)
    ]
    assert run.state.money.lent == THREE
    assert not begin(run, "a", "more", Usage(calls=2))
    end_child(run, name, "completed", spent=Usage(calls=2, input=50))
    assert (run.state.money.lent, run.state.money.children) == (NOTHING, Usage(calls=2, input=50))
    assert run.events("child.ended")[0].usage == Usage(calls=2, input=50)
    assert begin(run, "a", "more", Usage(calls=2))


def test_rule_84_a_child_of_a_run_with_a_limit_has_at_most_what_is_left():
    run = start(node("a"), node("b"), **FIVE)
    begin(run, "b", reserve=CALL)
    sub = Ask(name="sub", kind="child", workflow="inner")
    run._command(c.AskFor, "a", (), None, asks=(sub, Ask(name="two", kind="child", workflow="inner")))
    assert [start.budget.calls for start in effects(run, fx.StartChild)] == [4, 0]
    for name in ("sub", "two"):
        end_child(run, f"run:a~~~{name}", "failed", spent=CALL)
    assert run.state.money.spent == Usage(calls=2)
    assert run.state_of("a") == "queued"


def test_rule_84_each_end_of_a_child_brings_only_what_it_used_since_the_one_before():
    run = start({"id": "w", "type": "workflow", "config": {"workflow": "inner"}, "retry": {"max_attempts": 2}})
    name = child(run, "w")
    end_child(run, name, "failed", spent=THREE)
    run.pass_time(3600)
    run.suspend("w", Wait(kind="child"), workflow="inner")
    end_child(run, name, "completed", 2, spent=Usage(calls=5))
    assert [event.usage for event in run.events("child.ended")] == [THREE, Usage(calls=2)]
    assert run.state.money.spent == Usage(calls=5)


def test_a_budget_is_written_in_dollars_and_kept_in_whole_millionths():
    assert (to_millionths(0.1), to_millionths("0.0000001"), to_millionths(1.5)) == (100_000, 1, 1_500_000)
    said = problems(node("a"), limits={"budget": {"usd": -1, "tokens": "many", "on_exceed": "shout", "eur": 1}})
    assert {"wrong_value", "wrong_type", "unknown_key"} <= said.keys()
    assert "limits nothing" in problems(node("a"), limits={"budget": {}})["wrong_value"]


def test_rule_82_what_was_given_back_does_not_begin_in_the_attempt_that_is_over():
    """A recall that found the task with its worker came after that had given it back: the node stood as begun with nobody."""
    run = start(node("a"), node("b"), **FIVE)
    assert begin(run, "a", reserve=Usage(calls=4))
    give_back(run, "b", THREE)
    run.begin("b")
    assert (run.state_of("b"), run.refused.code, run.events("node.started")) == ("held", "stale_attempt", [])


# -- budgets over several runs ------------------------------------------------------------------------------------------

TOMORROW = 86_400.0


def room(left, free=None, scope="tenant", until=TOMORROW, share=None):
    share = None if share is None else Budget(calls=share)
    return (Room(scope, Budget(calls=left), Budget(calls=left if free is None else free), until, share),)


def test_rule_85_a_call_begins_only_if_budgets_over_several_runs_have_room():
    run = start(node("a"), node("b"))
    assert not begin(run, "a", reserve=THREE, rooms=room(2))
    assert not begin(run, "a", reserve=THREE, rooms=room(9, free=2))
    assert not begin(run, "a", reserve=THREE, rooms=(*room(9), *room(2, scope="workflow:w")))
    assert begin(run, "a", reserve=THREE, rooms=room(3))


def test_rule_85_a_budget_that_is_used_up_pauses_until_its_period_ends():
    run = start(node("a"), node("b"))
    give_back(run, "a", THREE, rooms=room(2))
    assert run.types()[-4:] == ["node.held", "limit.reached", "run.paused", "timer.set"]
    assert (run.status, run.state.pauses, run.get("a").reason) == ("paused", {"budget:tenant": ""}, "budget:tenant")
    due = run.state.timers["budget"].due_at
    assert TOMORROW <= due <= TOMORROW + 60
    run.pass_time(TOMORROW - run.now - 1)
    assert run.status == "paused"
    run.pass_time(62)
    assert (run.status, run.state_of("a"), run.get("a").attempt) == ("running", "queued", 2)
    assert begin(run, "a", reserve=THREE, rooms=room(3))


def test_rule_85_what_only_waits_for_calls_under_way_is_tried_again_within_a_minute():
    run = start(node("a"))
    give_back(run, "a", THREE, rooms=room(9, free=2))
    assert run.now <= run.state.timers["budget"].due_at <= run.now + 60
    run.pass_time(61)
    assert (run.status, run.state_of("a")) == ("running", "queued")


def test_rule_85_the_timer_ends_its_own_pauses_and_no_other():
    run = start(node("a"), node("b"))
    give_back(run, "a", THREE, rooms=room(2))
    run.tell(c.Pause, reason="lunch", by="ann")
    give_back(run, "b", THREE, rooms=room(2, scope="workflow:w"))
    assert run.state.pauses.keys() == {"budget:tenant", "budget:workflow:w", "lunch"}
    run.pass_time(TOMORROW + 61)
    assert (run.status, run.state.pauses) == ("paused", {"lunch": "ann"})
    run.tell(c.Resume, reason="lunch")
    assert run.dispatched() == {"a", "b"}


def test_rule_85_a_person_may_resume_before_the_period_ends_and_the_timer_finds_nothing_to_do():
    run = start(node("a"))
    give_back(run, "a", THREE, rooms=room(2))
    run.tell(c.Resume, by="ann")
    assert run.state_of("a") == "queued"
    run.tell(c.Pause, reason="lunch", by="ann")
    run.pass_time(TOMORROW + 61)
    assert run.state.pauses == {"lunch": "ann"}


def test_rule_85_what_lost_its_room_and_has_it_again_is_sent_at_once():
    run = start(node("a"))
    give_back(run, "a", THREE, rooms=room(3))
    assert (run.status, run.state_of("a"), run.get("a").attempt) == ("running", "queued", 2)


def test_rule_85_own_calls_that_end_with_the_attempt_count_as_used():
    run = start(node("a"))
    assert begin(run, "a", reserve=Usage(calls=2), rooms=room(4))
    give_back(run, "a", THREE, "more", rooms=room(4, free=2))
    assert run.state.timers["budget"].due_at >= TOMORROW  # 2 are lost and 3 are wanted, of 4: no settlement makes room


def test_rule_85_no_activation_uses_more_than_its_share_of_the_budget_of_its_tenant():
    run = start(node("a"), node("b"))
    assert not begin(run, "a", reserve=THREE, rooms=room(100, share=2))
    assert begin(run, "b", reserve=Usage(calls=2), rooms=room(100, share=2))
    give_back(run, "a", THREE, rooms=room(100, share=2))
    assert (run.state_of("a"), run.get("a").error.code) == ("failed", "budget_exhausted")


def test_rule_85_a_run_that_goes_on_as_another_does_not_take_such_a_pause_with_it():
    run = Run(compiled(node("a")), pauses=(("budget:tenant", ""), ("lunch", "ann")))
    assert run.state.pauses == {"lunch": "ann"}
