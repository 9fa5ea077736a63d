"""The address of an attempt: one text, read back as it was written, and flat only on the wire."""

from __future__ import annotations

import itertools
import re

import msgspec

from perdure.kernel.address import Address, parse_task_id, run_of_task
from perdure.runtime.worker.attempt import Attempt
from perdure.transport import Result, Task
from tests.kernel.driver import Run

SCOPED = Address("r~2:child", "fetch-it", (2, 1), 7, 3, 4, True)


def test_the_name_of_an_attempt_is_read_as_it_was_written():
    parts = itertools.product(
        ("r", "r:m~1~2", "old/child"), ("n", "a.b-c"), ((), (1,), (12, 3)), (None, 0, 7), (1, 12), (1, 3), (False, True)
    )
    made = [Address(*one) for one in parts]
    assert [parse_task_id(one.task_id) for one in made] == made
    assert len({one.task_id for one in made}) == len(made)
    assert [parse_task_id(text) for text in ("", "r", "r/n", "r/n/1", "r/n/1.x", "/n/1.1")] == [None] * 6


def test_every_id_stands_in_an_address_of_the_web_as_it_is():
    """Proxies treat an escaped slash each in their own way, so that no id may need escaping."""
    places = [Address("r~2:child", "fetch-it", scope, item, 3) for scope in ((), (2, 1)) for item in (None, 7)]
    places.append(Address("r" + ":nested" * 60, "n"))
    for place in places:
        asked = (place.ask_approval_id("ok.1_a-b"), place.ask_child_id("ok", 2))
        for one in (place.approval_id, place.child_id(), place.child_id(2), place.dead_letter_id, *asked):
            assert re.fullmatch(r"[A-Za-z0-9._~:-]+", one), one


def test_an_address_is_equal_to_another_of_the_same_attempt_whether_or_not_its_name_was_asked_for():
    one, other = Address("r", "n", (1,)), Address("r", "n", (1,))
    assert one.task_id == "r/n[1]/1.1"
    assert one == other
    assert len({one, other, Address("r", "n", (1,), undo=True)}) == 2


def test_the_name_is_formatted_once():
    assert SCOPED.task_id == "r~2:child/fetch-it[2.1]#7/4.3u"
    assert SCOPED.task_id is SCOPED.task_id
    assert msgspec.structs.replace(SCOPED, attempt=4).task_id == "r~2:child/fetch-it[2.1]#7/4.4u"


def test_a_message_is_flat_on_the_wire_and_keeps_the_order_of_its_fields():
    task = Task.at(SCOPED, type="task", idempotency_key="k")
    assert msgspec.json.encode(task) == (
        b'{"run_id":"r~2:child","node":"fetch-it","scope":[2,1],"item":7,"attempt":3,"generation":4,"undo":true,'
        b'"type":"task","idempotency_key":"k"}'
    )
    result = Result.at(Address("r", "n"), tenant="acme", kind="completed", output=1)
    assert msgspec.json.encode(result) == b'{"tenant":"acme","run_id":"r","node":"n","kind":"completed","output":1}'
    assert msgspec.json.decode(msgspec.json.encode(task), type=Task).address == SCOPED
    assert msgspec.json.decode(msgspec.json.encode(result), type=Result).task_id == "r/n/1.1"


def test_inside_a_process_the_address_is_carried_whole_to_the_worker_and_back():
    task = Task.at(SCOPED, type="task", idempotency_key="k")
    assert task.address is SCOPED
    assert Attempt(task, 0).handed_back("w").address is SCOPED


def test_the_state_gives_the_address_of_the_current_attempt_and_finds_what_it_names():
    run = Run.of({"id": "a"})
    activation = run.get("a")
    assert run.state.address(activation) == Address("run", "a")
    run.lapse("a")
    assert run.state.address(activation) == Address("run", "a", attempt=2)
    assert run.state.locate(Address("run", "a", attempt=9)) is activation
    assert run.state.locate(Address("run", "b")) is None


def test_the_run_of_a_task_is_read_off_its_name_even_where_a_claim_has_cut_it():
    assert [run_of_task(one.task_id) for one in (Address("r", "n", (2, 1), 7, 3), Address("r:n~2", "m"))] == [
        "r",
        "r:n~2",
    ]
    assert run_of_task(Address("old/run", "n", undo=True).task_id) == "old/run"
    assert run_of_task("r/a-long-na#0123") == "r"
    assert run_of_task(f"r/n/1.{'9' * 5000}") == "r", "which no number of Python can be made of"
