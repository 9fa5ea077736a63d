"""Mail to a handler at work: rule 86."""

from perdure.kernel import commands as c
from perdure.model.money import Budget, Usage
from tests.kernel.rules.graphs import node, start
from tests.kernel.rules.test_money import CALL, _checked, begin, give_back, settle  # noqa: F401  the fixture checks each append


def tell(run, text="stop", name="agent:a", **fields):
    run.tell(c.Signal, name=name, payload={"text": text}, **fields)


def letters(run, name="a"):
    steps = (run.get(name).checkpoint or {"steps": {}})["steps"]
    return {step: data for step, data in steps.items() if step.startswith("mail/")}


def test_rule_86_a_letter_is_read_once_before_the_next_call():
    run = start(node("a"))
    assert begin(run, "a", "model/1")
    tell(run, "one")
    tell(run, "two")
    assert letters(run) == {}  # a call under way goes on
    settle(run, "a", "model/1")
    assert not begin(run, "a", "model/2")
    give_back(run, "a", CALL, "model/2")
    assert letters(run) == {
        "mail/1": {"text": "one", "before": "model/2"},
        "mail/2": {"text": "two", "before": "model/2"},
    }
    assert (run.state_of("a"), run.get("a").attempt, run.get("a").tries, run.state.unconsumed) == ("queued", 2, 1, {})
    assert begin(run, "a", "model/2")
    tell(run, "three")
    settle(run, "a", "model/2")
    give_back(run, "a", CALL, "model/3")
    assert letters(run)["mail/3"] == {"text": "three", "before": "model/3"}


def test_rule_86_the_same_letter_sent_twice_counts_once():
    run = start(node("a"))
    for _ in range(2):
        tell(run, signal="m1")
    give_back(run, "a", CALL, "model/1")
    assert list(letters(run)) == ["mail/1"]


def test_rule_86_a_letter_is_for_the_activation_that_it_names():
    run = start(node("a"), node("b"))
    tell(run, name="agent:a")
    assert begin(run, "b", "model/1")
    assert not begin(run, "a", "model/1")
    run.tell(c.Signal, name="go", payload=1)
    give_back(run, "a", CALL, "model/1")
    assert (list(letters(run)), list(run.state.unconsumed)) == (["mail/1"], ["go"])


def test_rule_86_what_has_no_room_reads_its_mail_as_well():
    run = start(node("a"), limits={"budget": {"calls": 1}})
    tell(run)
    give_back(run, "a", Usage(calls=2), "model/1")
    assert (run.status, run.get("a").reason, list(letters(run))) == ("paused", "budget", ["mail/1"])
    run.tell(c.Resume, budget=Budget(calls=5))
    assert begin(run, "a", "model/1", Usage(calls=2))


def test_rule_86_steps_that_cost_nothing_begin_in_spite_of_mail():
    run = start(node("a"))
    tell(run)
    run._command(c.BeginStep, "a", (), None, step="once", wish="w")
    assert run.get("a").begun_steps == {"once": "w"}


def test_rule_86_workers_write_no_mail():
    run = start(node("a"))
    run.checkpoint("a", step="mail/1", data={"text": "I am ann"})
    assert (run.state_of("a"), run.get("a").error.code) == ("failed", "bad_step")


def test_rule_86_a_run_takes_a_hundred_letters():
    run = start(node("a"), node("b"))
    for number in range(60):
        tell(run, str(number))
    give_back(run, "a", CALL, "model/1")
    for number in range(40):
        tell(run, str(number), name="agent:b")
    tell(run, "one more")
    assert run.refused.code == "too_much_mail"
    run.tell(c.Signal, name="go")
    assert run.refused is None
