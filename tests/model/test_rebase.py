from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.model import compile_definition
from perdure.model.rebase import rebase
from tests.model.helpers import again, by_id, compiled, ids, index, node
from tests.model.strategies import definitions


def names(ir: Any) -> object:
    """An IR with every index replaced by the id it stands for."""

    def node_ids(indexes):
        return None if indexes is None else sorted(ids(ir, indexes))

    def edge_ids(indexes):
        return sorted(map(str, ((ir.nodes[ir.edges[e].source].id, ir.nodes[ir.edges[e].target].id) for e in indexes)))

    every = {}
    for n in ir.nodes:
        if n is None:
            continue
        every[n.id] = (
            ids(ir, n.loops),
            edge_ids(n.edges_in),
            edge_ids(n.edges_out),
            node_ids(n.rejection_path),
            node_ids(n.failure_path),
            None if n.region is None else ir.nodes[n.region].id,
            n.branch
            and (
                [node_ids(r.next_nodes) for r in n.branch.rules],
                node_ids(n.branch.default),
                node_ids(n.branch.available),
            ),
            n.loop
            and (
                node_ids([n.loop.head]),
                node_ids(n.loop.body),
                node_ids(n.loop.break_path),
                node_ids(n.loop.timeout_path),
                edge_ids(n.loop.exits),
            ),
            (n.type, n.config, n.join, n.retry, n.item, n.references, n.terminal, n.lenient),
        )
    edges = sorted(
        (ir.nodes[e.source].id, ir.nodes[e.target].id, e.kind, e.common, e.named, e.required) for e in ir.edges
    )
    return every, edges, node_ids(ir.entries), node_ids(ir.terminals), ir.hash


@pytest.mark.slow
@given(definitions())
def test_an_ir_rebased_on_itself_is_itself(data):
    ir = compile_definition(data).get_ir()
    assert rebase(ir, ir) == ir


@pytest.mark.slow
@given(definitions(), definitions())
def test_rebasing_keeps_indexes_and_meaning(one, other):
    base, ir = compile_definition(one).get_ir(), compile_definition(other).get_ir()
    rebased = rebase(ir, base)
    assert names(rebased) == names(ir)
    old = {n.id: i for i, n in enumerate(base.nodes) if n}
    for i, n in enumerate(rebased.nodes):
        if n is not None:
            assert old.get(n.id, i) == i
            assert n.id in old or i >= len(base.nodes)
    assert rebase(ir, rebased) == rebased


@pytest.mark.slow
@given(definitions(), st.data())
def test_a_chain_of_patches_keeps_every_index(data, draw):
    ir = compile_definition(data).get_ir()
    current, known = ir, {n.id: i for i, n in enumerate(ir.nodes) if n}
    for _ in range(3):
        current = rebase(compile_definition(draw.draw(definitions())).get_ir(), current)
        for i, n in enumerate(current.nodes):
            if n is not None:
                assert known.get(n.id, i) == i
        known = {n.id: i for i, n in enumerate(current.nodes) if n}


def test_removed_nodes_leave_holes_and_new_ones_come_after():
    base = compiled(node("a"), node("b", "a"), node("c", "b", loop=again("b")))
    ir = compiled(node("A"), node("a", "A"), node("c", "a", loop=again("a")))
    rebased = rebase(ir, base)
    assert [n and n.id for n in rebased.nodes] == ["a", None, "c", "A"]
    assert rebased.entries == (3,)
    assert by_id(rebased, "c").loop.head == index(base, "a")  # type: ignore[union-attr]
    assert by_id(rebased, "c").loops == (2,)


def test_an_id_that_comes_back_finds_the_number_it_had():
    first = compiled(node("a"), node("b"), node("c"))
    second = rebase(compiled(node("a"), node("c"), node("d")), first)
    third = rebase(compiled(node("b"), node("e")), first, second)
    assert [n and n.id for n in second.nodes] == ["a", None, "c", "d"]
    assert [n and n.id for n in third.nodes] == [None, "b", None, None, "e"]
