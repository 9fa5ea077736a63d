"""Ids stand in addresses: whatever is shown under an id is found under it, with nothing escaped."""

import re
from typing import Any

import pytest

from perdure.kernel import run_ids
from perdure.kernel.address import Address
from perdure.model import compile_definition
from tests.api.helpers import serving
from tests.engine.helpers import task, transform, until_true, workflow

PLAIN = re.compile(r"[A-Za-z0-9._~:-]+")
"""Unreserved characters and the colon: no client, shell or proxy writes them otherwise."""

PARKED: dict[str, Any] = {"on_failure": "park", "retry": {"max_attempts": 1}}


@pytest.fixture
async def server(tmp_path):
    async with serving(tmp_path) as made:
        yield made


async def test_every_id_of_children_in_maps_in_loops_is_found_as_it_is_written(server):
    human = {"id": "ask", "type": "human", "config": {}}
    child = workflow(human, task("pay", "fail", **PARKED), name="child")
    await server.engine.workflows.register(compile_definition(child))
    each = {"id": "each", "type": "map", "config": {"over": [1, 2], "workflow": "child"}}
    one = task("one", "fail", retry={"max_attempts": 1})
    items = {"id": "items", "type": "map", "config": {"over": [1], "node": one}, "on_failure": "park"}
    loop = {"condition": "false", "max_iterations": 2, "loop_back_to": "start"}
    end = transform("end", 1, ["each", "items"], loop=loop)
    parent = workflow(transform("start", 1), *({**one, "dependencies": ["start"]} for one in (each, items)), end)
    run_id = (await server.start(parent, wait=0))["run_id"]

    async def look():
        letters = (await server.ok("/dead-letters?state=pending"))["items"]
        approvals = (await server.ok("/approvals?state=pending"))["items"]
        return (letters, approvals) if (len(letters), len(approvals)) == (3, 2) else None

    letters, approvals = await until_true(look, "everything waits for somebody")
    children = (await server.ok(f"/runs?parent={run_id}"))["items"]
    assert {one["run_id"] for one in children} == {f"{run_id}:each~1~0", f"{run_id}:each~1~1"}
    assert {one["dead_letter_id"] for one in letters} == {
        *(f"{one['run_id']}:pay" for one in children),
        f"{run_id}:items~1",
    }
    assert {one["approval_id"] for one in approvals} == {f"{one['run_id']}:ask:1" for one in children}
    for kind, name, found in (
        ("runs", "run_id", children),
        ("dead-letters", "dead_letter_id", letters),
        ("approvals", "approval_id", approvals),
    ):
        for one in found:
            assert PLAIN.fullmatch(one[name])
            assert (await server.ok(f"/{kind}/{one[name]}"))[name] == one[name]
    assert (await server.post(f"/approvals/{approvals[0]['approval_id']}/decide", {"decision": "approve"})).is_success
    assert (await server.post(f"/dead-letters/{letters[0]['dead_letter_id']}/discard")).is_success


def test_no_two_places_share_an_id():
    places = [("n", scope, item) for scope in ((), (1,), (1, 2), (12,)) for item in (None, 0, 1, 12)]
    children = [Address("r", *one).child_id(undone) for one in places for undone in (0, 1)]
    grandchildren = [Address(run_id, *one).child_id() for run_id in children for one in places]
    made = [*children, *grandchildren]
    assert len(set(made)) == len(made)
    assert all(PLAIN.fullmatch(one) and run_ids.root_of(one) == "r" and run_ids.is_child(one) for one in made)
    asked = [Address("r", *one, attempt).approval_id for one in places for attempt in (1, 12)]
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("name", ["a:b", "a~2", "a/b", "~a", ""])
def test_a_run_may_not_be_named_like_what_derives_from_one(name):
    assert not run_ids.RUN_ID.fullmatch(name)
    assert run_ids.RUN_ID.fullmatch("Order_2024-11.15")
