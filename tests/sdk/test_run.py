"""`perdure.run` and `perdure.arun`: the same run in a script, a loop, a thread; once and again."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import PerdureError, Refused, SettingsInvalid
from tests.sdk.tasks import combine, echo, fail, fetch, grow, headlines, join, rate

MEMORY = ":memory:"


@perdure.workflow
def briefing(city: str):
    return combine(fetch(city), headlines(city))


@perdure.workflow
def asks(text: str):
    decided = perdure.approval(text, approvers=["ann", "bob"], quorum=2)
    return {"decision": decided["decision"], "by": decided["decided_by"]}


def test_a_run_says_how_it_went(tmp_path):
    run = perdure.run(briefing, city="Oslo", db=tmp_path / "perdure.db", tags={"team": "a"})
    assert (run.state, run.outputs, run.result()) == (
        "completed",
        {"result": "Oslo: 21, 3 news"},
        "Oslo: 21, 3 news",
    )
    assert (run.workflow, run.version, run.error, run.waiting, run.inputs) == (
        "briefing",
        1,
        None,
        (),
        {"city": "Oslo"},
    )
    assert {name: node["state"] for name, node in run.nodes.items()} == dict.fromkeys(
        ["combine", "fetch", "headlines"], "completed"
    )
    assert run.tags == {"team": "a"}
    assert run.ended_at is not None
    assert run.view["run_id"] == run.run_id
    assert repr(run) == f"<Run {run.run_id} of briefing: completed>"


@pytest.mark.slow
def test_a_run_that_fails_raises_only_when_its_result_is_asked_for():
    @perdure.workflow
    def failing():
        return grow(fail("out of stock"))

    run = perdure.run(failing, db=MEMORY)
    assert (run.state, run.outputs, run.nodes["grow"]["state"]) == ("failed", None, "upstream_failed")
    with pytest.raises(perdure.RunFailed, match=r"of failing failed at fail: aborted: out of stock") as caught:
        run.result()
    assert caught.value.run is run


def test_the_default_database_is_that_of_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    perdure.run(briefing, city="Oslo")
    assert (tmp_path / ".perdure" / "perdure.db").exists()
    monkeypatch.setenv("PERDURE_DATABASE_URL", "sqlite:///other/place.db")
    perdure.run(briefing, city="Oslo")
    assert (tmp_path / "other" / "place.db").exists()


def test_a_database_in_memory_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    perdure.run(briefing, city="Oslo", db=MEMORY)
    assert [path.name for path in tmp_path.rglob("*")] == ["temporary"]


@pytest.mark.parametrize("kind", ["data", "yaml", "json"])
def test_a_definition_or_a_file_runs_as_well(tmp_path, kind):
    given: Any = briefing.definition()
    if kind != "data":
        given = tmp_path / f"flow.{kind}"
        given.write_text(briefing.to_yaml() if kind == "yaml" else __import__("json").dumps(briefing.definition()))
    run = perdure.run(given, city="Oslo", db=MEMORY)
    assert run.result() == {"result": "Oslo: 21, 3 news"}


@pytest.mark.slow
def test_a_task_runs_as_a_workflow_of_one_node():
    run = perdure.run(headlines, city="Oslo", db=MEMORY)
    assert (run.workflow, run.result(), list(run.nodes)) == ("headlines", ["Oslo 1", "Oslo 2", "Oslo 3"], ["headlines"])
    assert perdure.run(headlines, city="Oslo", most=1, db=MEMORY).result() == ["Oslo 1"]
    assert perdure.run(fetch.options(retry=2), city="Oslo", db=MEMORY).result() == {"city": "Oslo", "degrees": 21}


def test_an_input_may_have_the_name_of_an_option():
    @perdure.workflow
    def odd(db: str, inputs: int):
        return echo([db, inputs])

    assert perdure.run(odd, inputs={"db": "x", "inputs": 3}, db=MEMORY).result() == ["x", 3]


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, r"inputs of briefing\(city: 'str'\): missing a required argument: 'city'"),
        ({"city": "x", "town": "y"}, "unexpected keyword argument 'town'"),
        ({"town": "y"}, "unexpected keyword argument 'town', missing a required argument: 'city'"),
        ({"city": object()}, "the inputs are not JSON"),
        ({"city": [float("nan")]}, "the inputs are not JSON: a number in it is NaN or infinite"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_before_anything_starts(inputs, words, tmp_path):
    with pytest.raises(PerdureError, match=words):
        perdure.run(briefing, inputs=inputs, db=tmp_path / "perdure.db")


def test_an_id_that_others_could_not_write_is_refused():
    with pytest.raises(PerdureError, match=r"run_id 'a/b': use up to 128 letters"):
        perdure.run(briefing, city="x", run_id="a/b", db=MEMORY)


def test_inputs_are_held_to_the_schema():
    with pytest.raises(Refused, match="3 is not of type") as caught:
        perdure.run(briefing, city=3, db=MEMORY)
    assert caught.value.code == "invalid_inputs"


@pytest.mark.parametrize(
    ("given", "words"),
    [(3, "got int"), (print, "decorate it with @perdure.workflow or @perdure.task"), (None, "got NoneType")],
)
def test_what_is_no_workflow_is_refused(given, words):
    with pytest.raises(PerdureError, match=words):
        perdure.run(given, db=MEMORY)


# -- loops and threads -------------------------------------------------------------------------------------------------


async def test_run_inside_a_loop_says_what_to_write():
    with pytest.raises(PerdureError, match=r"await perdure.arun"):
        perdure.run(briefing, city="Oslo", db=MEMORY)


@pytest.mark.slow
async def test_many_runs_in_one_loop_each_with_a_database_of_its_own(tmp_path):
    runs = await asyncio.gather(
        *(perdure.arun(briefing, city=f"c{number}", db=tmp_path / f"{number}.db") for number in range(5))
    )
    assert [run.result() for run in runs] == [f"c{number}: 21, 3 news" for number in range(5)]


async def test_many_runs_in_one_loop_on_one_database(tmp_path):
    runs = await asyncio.gather(*(perdure.arun(briefing, city=f"c{n}", db=tmp_path / "perdure.db") for n in range(5)))
    assert [run.result() for run in runs] == [f"c{n}: 21, 3 news" for n in range(5)]


def test_one_workflow_is_built_once_for_many_threads(tmp_path):
    built = []

    @perdure.workflow
    def slow(city: str):
        built.append(city)
        return [fetch(city) for _ in range(300)]

    @perdure.workflow
    def around(city: str):
        return slow(city)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: (around if number % 2 else slow).definition()["name"], range(16)))
    assert found == ["slow", "around"] * 8
    assert len(built) == 1


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_threads_run_side_by_side(tmp_path, shared):
    def work(number: int) -> Any:
        return perdure.run(briefing, city=f"c{number}", db=tmp_path / f"{0 if shared else number}.db").result()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == [f"c{number}: 21, 3 news" for number in range(8)]


def test_threads_in_which_one_run_outlives_the_other_finish_both(tmp_path, monkeypatch):
    """Whoever holds the database leaves first; the other takes over."""
    monkeypatch.setattr("perdure.sdk.runner.GRACE_SECONDS", 0.1)
    second_started, first_done = threading.Event(), threading.Event()

    @perdure.task
    def first_ends() -> str:
        assert second_started.wait(20)
        return "first"

    @perdure.task
    def second_goes_on() -> str:
        second_started.set()
        assert first_done.wait(20)
        return "second"

    def first() -> Any:
        try:
            return perdure.run(first_ends, db=tmp_path / "perdure.db").result()
        finally:
            first_done.set()

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(first)
        two = pool.submit(lambda: perdure.run(second_goes_on, db=tmp_path / "perdure.db").result())
        assert (one.result(30), two.result(30)) == ("first", "second")


async def test_a_cancelled_run_goes_on_later(tmp_path, monkeypatch):
    monkeypatch.setattr("perdure.sdk.runner.STOP_SECONDS", 0.1)
    started, may_end = asyncio.Event(), asyncio.Event()

    @perdure.task
    async def slow() -> str:
        started.set()
        await may_end.wait()
        return "done"

    async with asyncio.TaskGroup() as group:
        running = group.create_task(perdure.arun(slow, run_id="r", db=tmp_path / "perdure.db"))
        await started.wait()
        running.cancel()
    may_end.set()
    assert (await perdure.arun(slow, run_id="r", db=tmp_path / "perdure.db")).result() == "done"


# -- once and again ----------------------------------------------------------------------------------------------------


def test_the_same_id_gives_back_the_run_that_has_ended(tmp_path):
    calls: list[int] = []

    @perdure.task
    def count(n: int) -> int:
        calls.append(n)
        return n

    runs = [perdure.run(count, n=7, run_id="once", db=tmp_path / "perdure.db") for _ in range(3)]
    assert [run.result() for run in runs] == [7, 7, 7]
    assert calls == [7]


def test_the_same_id_with_other_inputs_or_another_workflow_is_refused(tmp_path):
    perdure.run(briefing, city="Oslo", run_id="r", db=tmp_path / "perdure.db")
    with pytest.raises(Refused, match="began with other inputs") as caught:
        perdure.run(briefing, city="Bergen", run_id="r", db=tmp_path / "perdure.db")
    assert caught.value.code == "other_inputs"
    with pytest.raises(Refused, match="is of another workflow") as caught:
        perdure.run(echo, value=1, run_id="r", db=tmp_path / "perdure.db")
    assert caught.value.code == "other_workflow"


def test_a_workflow_that_was_edited_since_is_not_called_another_one(tmp_path):
    def made(value: int, outcome: str):
        @perdure.task
        def give() -> int:
            if outcome == "fails":
                raise perdure.Abort("no")
            return value

        @perdure.workflow(name="edited")
        def flow():
            return give.options(id=f"give_{value}")()

        return flow

    where = {"db": tmp_path / "perdure.db"}
    perdure.run(made(1, "completes"), run_id="done", **where)
    with pytest.raises(
        Refused, match=r"began with another definition of edited \(version 1\), which was changed since"
    ) as caught:
        perdure.run(made(2, "completes"), run_id="done", **where)
    assert caught.value.code == "other_workflow"
    assert "run the workflow as it was to have what it gave, or choose another run_id" in caught.value.message
    perdure.run(made(3, "fails"), run_id="failed", **where)
    with pytest.raises(Refused, match="retry_failed=True to go on by the workflow as it is now"):
        perdure.run(made(2, "completes"), run_id="failed", **where)


def test_a_failed_run_is_given_back_failed_unless_it_is_to_be_tried_again(tmp_path):
    outcomes = [perdure.Abort("first"), None]
    done: list[str] = []

    @perdure.task
    def before() -> str:
        done.append("before")
        return "b"

    @perdure.task
    def flaky(text: str) -> str:
        error = outcomes.pop(0)
        if error:
            raise error
        return text + "!"

    @perdure.workflow
    def twice():
        return flaky(before())

    db = tmp_path / "perdure.db"
    assert perdure.run(twice, run_id="r", db=db).state == "failed"
    assert perdure.run(twice, run_id="r", db=db).state == "failed"
    assert perdure.run(twice, run_id="r", db=db, retry_failed=True).result() == "b!"
    assert perdure.run(twice, run_id="r", db=db, retry_failed=True).result() == "b!"
    assert (done, outcomes) == (["before"], [])


# -- approvals ---------------------------------------------------------------------------------------------------------


def test_without_anybody_to_ask_the_run_is_left_waiting_and_goes_on_later(tmp_path):
    db = tmp_path / "perdure.db"
    run = perdure.run(asks, text="please", run_id="r", db=db)
    assert (run.state, run.nodes["approval"]["state"]) == ("running", "waiting")
    assert [(ask.kind, ask.node, ask.approvers) for ask in run.waiting] == [("approval", "approval", ("ann", "bob"))]
    with pytest.raises(perdure.RunFailed, match="waits for a person: perdure approvals approve r:approval:1 --by ann"):
        run.result()
    asked: list[perdure.ApprovalRequest] = []

    def approve(approval: perdure.ApprovalRequest) -> bool:
        asked.append(approval)
        return True

    run = perdure.run(asks, text="please", run_id="r", db=db, on_approval=approve)
    assert run.result() == {"decision": "approve", "by": "bob"}
    assert [one.approval_id for one in asked] == ["r:approval:1"] * 2
    assert asked[0].shown["show"] == "please"


@pytest.mark.parametrize("answer", [False, "reject", perdure.Decision(decision="reject", by="bob", comments="no")])
def test_a_rejection_fails_the_run(answer):
    run = perdure.run(asks, text="please", db=MEMORY, on_approval=lambda approval: answer)
    assert run.error is not None
    assert (run.state, run.error["code"]) == ("failed", "rejected")


def test_a_decision_whose_data_is_no_json_is_refused():
    answer = perdure.Decision(decision="approve", data={"amount": float("inf")})
    with pytest.raises(PerdureError, match="the data of the Decision is not JSON: a number in it is NaN or infinite"):
        perdure.run(asks, text="please", db=MEMORY, on_approval=lambda approval: answer)


def test_a_path_that_sqlite_cannot_open_is_refused_before_its_folders_are_made(tmp_path):
    with pytest.raises(SettingsInvalid, match="SQLite opens none of more than 504"):
        perdure.run(briefing, city="x", db=tmp_path / ("y/" * 2_000) / "perdure.db")
    assert list(tmp_path.iterdir()) == []
    length = 504 - len(str(tmp_path)) - len("//perdure.db") - 200
    assert (
        perdure.run(briefing, city="x", db=tmp_path / ("y" * 199) / ("z" * length) / "perdure.db").state == "completed"
    )


async def test_an_async_callback_is_awaited_and_may_leave_a_decision_to_others():
    async def later(approval: perdure.ApprovalRequest) -> None:
        await asyncio.sleep(0)

    run = await perdure.arun(asks, text="please", db=MEMORY, on_approval=later)
    assert [ask.kind for ask in run.waiting] == ["approval"]


def test_the_callback_is_shown_the_form_and_held_to_it():
    form = {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number"}}}
    definition = {"name": "f", "nodes": [{"id": "ask", "type": "human", "config": {"form": form}}]}

    def fill_in(approval: perdure.ApprovalRequest) -> perdure.Decision:
        assert approval.form == form
        return perdure.Decision(decision="approve", data={"amount": 3})

    assert perdure.run(definition, db=MEMORY, on_approval=fill_in).outputs["ask"]["data"] == {"amount": 3}
    with pytest.raises(Refused, match="does not fit the form of"):
        perdure.run(definition, db=MEMORY, on_approval=lambda approval: True)


def test_an_answer_that_is_none_is_an_error():
    with pytest.raises(PerdureError, match="on_approval answered with int"):
        perdure.run(asks, text="please", db=MEMORY, on_approval=lambda approval: 3)


def test_an_error_of_the_callback_is_raised_and_the_run_waits(tmp_path):
    def broken(approval: perdure.ApprovalRequest) -> bool:
        raise KeyError("nobody")

    with pytest.raises(KeyError, match="nobody"):
        perdure.run(asks, text="please", run_id="r", db=tmp_path / "perdure.db", on_approval=broken)
    assert perdure.run(asks, text="please", run_id="r", db=tmp_path / "perdure.db").waiting


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_callback_that_does_not_answer_does_not_hold_the_end_of_the_run(kind):
    """The approval has a time, and nobody waits for an answer that comes later."""

    @perdure.workflow
    def hasty(text: str):
        return perdure.approval(text, timeout=0.3)["decision"]

    freed, held = threading.Event(), []

    def stuck(approval: perdure.ApprovalRequest) -> None:
        held.append(not freed.wait(20))

    async def stuck_too(approval: perdure.ApprovalRequest) -> None:
        await asyncio.sleep(20)
        held.append(True)

    try:
        run = perdure.run(hasty, text="x", db=MEMORY, on_approval=stuck if kind == "sync" else stuck_too)
        assert (run.state, held) == ("failed", [])
    finally:
        freed.set()


def test_the_approvals_of_children_are_asked_too(tmp_path):
    @perdure.workflow
    def parent(text: str):
        return perdure.map(asks, [text, "other"])

    answers = perdure.run(parent, text="please", db=tmp_path / "perdure.db", on_approval=lambda approval: True).result()
    assert [answer["decision"] for answer in answers] == ["approve", "approve"]


@pytest.mark.slow
def test_a_branch_on_an_approval_sees_a_rejection():
    @perdure.workflow
    def careful(text: str):
        decided = perdure.approval(text)
        return perdure.branch(
            decided, {decided["decision"] == "reject": lambda: echo("kept")}, default=lambda: echo("sent")
        )

    assert perdure.run(careful, text="x", db=MEMORY, on_approval=lambda a: False).result() == "kept"
    assert perdure.run(careful, text="x", db=MEMORY, on_approval=lambda a: True).result() == "sent"


def test_what_follows_an_approval_with_on_reject_is_skipped_when_it_is_rejected():
    @perdure.workflow
    def careful(text: str):
        other = fetch("x")
        decided = perdure.approval(text, on_reject=lambda: echo("told"))
        return {"sent": join(other, decided["decision"])}

    rejected = perdure.run(careful, text="x", db=MEMORY, on_approval=lambda a: False)
    assert (rejected.state, rejected.nodes["echo"]["output"], rejected.nodes["join"]["state"]) == (
        "completed",
        "told",
        "skipped",
    )
    approved = perdure.run(careful, text="x", db=MEMORY, on_approval=lambda a: True)
    assert (approved.nodes["echo"]["state"], approved.nodes["join"]["output"][1]) == ("skipped", "approve")


# -- what the graph means ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.9, ["published", {"city": "x", "degrees": 21}, None]),
        (0.6, ["edited!", None, None]),
        (0.1, [None, None, None]),
    ],
)
def test_only_the_chosen_way_runs_and_its_value_arrives(value, expected):
    @perdure.workflow
    def review(value: float):
        other, score = fetch("x"), rate("text", value)
        shown = perdure.branch(
            score,
            {
                score["value"] > 0.8: lambda: join("published", other),
                score["value"] > 0.5: lambda: join(grow("edited", "!")),
            },
        )
        return {"shown": echo(shown), "also": join(other, shown)}

    run = perdure.run(review, value=value, db=MEMORY)
    assert run.outputs["shown"] == (expected if value > 0.5 else None)
    assert run.outputs["also"][0] == {"city": "x", "degrees": 21}
    assert run.outputs["also"][1] == (expected if value > 0.5 else None)
    states = {name: run.nodes[name]["state"] for name in ("join", "grow", "join_2")}
    assert states == {
        "join": "completed" if value > 0.8 else "skipped",
        "grow": "completed" if value == 0.6 else "skipped",
        "join_2": "completed" if value == 0.6 else "skipped",
    }


@pytest.mark.parametrize(("a", "b", "expected"), [(1, 1, "both"), (1, 2, "only a"), (2, 1, "none"), (2, 2, "none")])
def test_branches_inside_branches(a, b, expected):
    @perdure.workflow
    def nested(a: int, b: int):
        outside = fetch("x")

        def inner() -> Any:
            return perdure.branch(
                b,
                {b == 1: lambda: join("both", outside, b)},
                default=lambda: perdure.transform(["only a", outside["city"]]),
            )

        return perdure.branch(a, {a == 1: inner}, default=lambda: echo(["none"]))[0]

    assert perdure.run(nested, a=a, b=b, db=MEMORY).result() == expected


@pytest.mark.parametrize(("given", "expected"), [(5, [5, "x", None]), (1, None)])
def test_a_call_whose_argument_was_skipped_is_skipped(given, expected):
    @perdure.workflow
    def maybe(n: int):
        return join(echo.options(when=perdure.cel(f"{n} > 3"))(n), echo("x"))

    assert perdure.run(maybe, n=given, db=MEMORY).result() == expected


@pytest.mark.slow
def test_loops_inside_loops_know_their_iterations():
    @perdure.workflow
    def nested():
        def outer(loop: perdure.Loop) -> Any:
            def inner(inside: perdure.Loop) -> Any:
                return echo([loop.iteration, inside.iteration, inside.previous])

            last = perdure.loop(inner, while_=lambda value: perdure.cel(f"{inner_count(value)} < 2"), max_iterations=5)
            return echo([loop.iteration, last, loop.previous])

        def inner_count(value: Any) -> Any:
            return value[1]

        return perdure.loop(outer, while_=lambda value: value[0] < 2, max_iterations=5)

    first = [1, [1, 2, [1, 1, None]], None]
    assert perdure.run(nested, db=MEMORY).result() == [2, [2, 2, [2, 1, None]], first]


@pytest.mark.slow
@pytest.mark.parametrize(("most", "expected"), [(10, "xxx"), (2, "xx")])
def test_a_loop_that_may_not_go_on_stops_or_fails(most, expected):
    def make(on_exhausted: Any) -> Any:
        @perdure.workflow
        def growing():
            return perdure.loop(
                lambda loop: grow(loop.previous),
                while_=lambda text: perdure.cel(f"size({text}) < 3"),
                max_iterations=most,
                on_exhausted=on_exhausted,
            )

        return growing

    assert perdure.run(make("stop"), db=MEMORY).result() == expected
    failed = perdure.run(make("fail"), db=MEMORY)
    assert failed.state == ("completed" if most == 10 else "failed")


@pytest.mark.slow
def test_a_failure_handled_in_the_graph_gives_the_value_of_its_path():
    @perdure.workflow
    def careful(text: str):
        risky = fail.options(on_failure=lambda error: echo(f"saved from {error['code']}"))
        return {"bad": grow(risky(text)), "good": echo.options(on_failure=lambda error: echo("never"))(text)}

    assert perdure.run(careful, text="x", db=MEMORY).outputs == {"bad": "saved from abortedx", "good": "x"}


def test_a_race_gives_the_first_value_and_cancels_the_rest():
    @perdure.workflow
    def race():
        slow = perdure.wait(3600)
        return perdure.first(echo("fast"), slow, cancel_rest=True)

    run = perdure.run(race, db=MEMORY)
    assert (run.result(), run.nodes["wait"]["state"]) == ("fast", "cancelled")


def test_maps_of_tasks_and_workflows_give_lists_in_order():
    @perdure.workflow
    def one(city: str):
        return fetch(city)["city"]

    @perdure.workflow
    def all_of(cities: list[str]):
        return {"tasks": perdure.map(headlines, cities), "workflows": perdure.map(one, cities), "first": one(cities[0])}

    assert perdure.run(all_of, cities=["a", "b"], db=MEMORY).outputs == {
        "tasks": [["a 1", "a 2", "a 3"], ["b 1", "b 2", "b 3"]],
        "workflows": ["a", "b"],
        "first": "a",
    }


def test_a_task_called_outside_of_a_workflow_is_the_function():
    @perdure.task
    def stepping(ctx: perdure.Context, n: int, unit: str = "x") -> list[Any]:
        """Document."""
        ctx.heartbeat()
        ctx.checkpoint(1)
        return [ctx.step("a", lambda: n), ctx.run_id, unit]

    @perdure.task
    async def stepping_async(ctx: perdure.Context, n: int) -> Any:
        await ctx.checkpoint({"n": n})
        return [await ctx.step("a", lambda: n), ctx.last_checkpoint]

    assert stepping(3) == [3, "local", "x"]
    assert stepping(n=3, unit="y") == [3, "local", "y"]
    assert asyncio.run(stepping_async.fn(*_context(), 4)) == [4, {"n": 4}]
    assert asyncio.run(stepping_async(5)) == [5, {"n": 5}]
    assert asyncio.run(_inside_a_loop(stepping)) == [6, "local", "x"]
    assert stepping.__doc__ == "Document."
    with pytest.raises(TypeError, match="missing a required argument: 'n'"):
        stepping()


async def _inside_a_loop(task: Any) -> Any:
    return task(6)


def _context() -> tuple[Any]:
    from perdure.runtime.worker.local_context import LocalContext

    return (LocalContext("by hand", is_async=True),)


def test_functions_may_be_named_alone_in_a_definition(tmp_path: Path):
    @perdure.task(name="tests.sdk.alone")
    def alone(x: int) -> int:
        return x + 1

    definition = {
        "name": "w",
        "nodes": [{"id": "a", "type": "task", "config": {"function": "tests.sdk.alone", "args": {"x": 1}}}],
    }
    assert perdure.run(definition, db=MEMORY).outputs == {"a": 2}
