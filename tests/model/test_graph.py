"""Edges, order, loops, joins and regions of the compiled graph."""

import pytest

from perdure.model import compile_definition
from perdure.model.ir import decode, encode
from tests.model.helpers import again, by_id, codes, compiled, edge, ids, index, message, node, workflow


def branch(*targets, default=()):
    return {"rules": [{"condition": "output.x", "next_nodes": list(targets)}], "default": list(default)}


def test_nodes_are_in_level_order_with_ties_by_id():
    ir = compiled(node("z"), node("d", "a", "c"), node("c", "z"), node("b", "z"), node("a"))
    assert [n.id for n in ir.nodes if n] == ["a", "z", "b", "c", "d"]
    assert ids(ir, ir.entries) == ["a", "z"]
    assert ids(ir, ir.terminals) == ["b", "d"]


def test_a_cycle_is_refused_and_named():
    result = compile_definition(workflow(node("s"), node("c", "b"), node("b", "a", "s"), node("a", "c")))
    assert "a -> b -> c -> a" in message(result, "cycle")
    assert "use loop" in message(result, "cycle")


def test_other_problems_are_reported_beside_a_cycle():
    found = codes(
        workflow(
            node("a", "b", config={"x": "{{ b.y }}"}),
            node("b", "a", config={"x": "{{ a.y }}"}),
            node("d", retires=1),
            node("e", "d", "zz", join={"at_least": 9}),
            node("f", config={"x": "{{ e.y }}"}),
            node("g", "d", loop=again("f")),
        )
    )
    assert found == {
        "cycle",
        "unknown_key",
        "unknown_node",
        "impossible_join",
        "not_upstream",
        "loop_not_dominated",
        "unreachable",
        "no_terminal_reachable",
    }


def test_going_back_by_a_branch_is_a_cycle():
    assert "cycle" in codes(workflow(node("a"), node("b", "a", branch=branch("a"))))


@pytest.mark.slow
def test_many_cycles_are_one_report_and_stay_linear():
    nodes = [node(f"n{i}", f"n{(i + 1) % 5000}", f"n{(i + 7) % 5000}") for i in range(5000)]
    result = compile_definition(workflow(*nodes))
    assert sum(p.code == "cycle" for p in result.problems) == 1


@pytest.mark.parametrize(
    "keys",
    [
        {"branch": branch("b")},
        {"branch": branch("c", default=["b"])},
        {"branch": {"type": "agent_driven", "available_next_nodes": ["b", "c"]}},
        {"loop": again(break_path=["b"])},
        {"loop": again(timeout_path=["b"])},
        {"type": "human", "rejection_path": ["b"]},
        {"on_failure": {"path": ["b"]}},
    ],
)
def test_what_a_routing_names_is_a_named_edge(keys):
    ir = compiled({**node("a"), **keys}, node("b"), node("c", "a"))
    assert edge(ir, "a", "b").named
    assert edge(ir, "a", "c").named == ("'c'" in str(keys))
    assert "b" not in ids(ir, ir.entries)


def test_paths_are_indexes():
    ir = compiled(
        {"id": "a", "type": "human", "rejection_path": ["r"], "on_failure": {"path": ["f"]}, "dependents": ["b"]},
        node("b"),
        node("f"),
        node("r"),
    )
    a = by_id(ir, "a")
    assert (a.on_failure, ids(ir, a.failure_path), ids(ir, a.rejection_path)) == ("path", ["f"], ["r"])


def test_a_node_loops_over_itself_by_default():
    ir = compiled(node("s"), node("x", "s", loop=again()), node("e", "x"))
    x = by_id(ir, "x")
    assert x.loop is not None
    assert x.loop.head == index(ir, "x")
    assert x.loop.body == (index(ir, "x"),)
    assert x.loops == (index(ir, "x"),)
    assert (edge(ir, "s", "x").kind, edge(ir, "x", "e").kind, edge(ir, "x", "x").kind) == ("entry", "exit", "back")
    assert [ir.edges[e].target for e in x.loop.exits] == [index(ir, "e")]
    back = ir.edges.index(edge(ir, "x", "x"))
    assert back not in x.edges_in + x.edges_out


def test_a_body_is_every_node_between_and_the_side_chains_that_hang_on_it():
    ir = compiled(
        node("s"),
        node("h", "s"),
        node("m", "h"),
        node("n", "h"),
        node("side", "m"),
        node("leaf", "side"),
        node("half", "m", "s"),
        node("x", "m", "n", loop=again("h")),
        node("after", "x"),
        node("both", "m", "x"),
    )
    loop = by_id(ir, "x").loop
    assert loop is not None
    assert sorted(ids(ir, loop.body)) == ["h", "leaf", "m", "n", "side", "x"]
    assert list(loop.body) == sorted(loop.body)
    assert by_id(ir, "half").loops == ()
    assert {(ir.nodes[ir.edges[e].source].id, ir.nodes[ir.edges[e].target].id) for e in loop.exits} == {  # type: ignore[union-attr]
        ("m", "half"),
        ("x", "after"),
        ("m", "both"),
        ("x", "both"),
    }
    assert edge(ir, "h", "m").kind == "inner"
    assert edge(ir, "h", "m").common == 1
    assert edge(ir, "x", "h").kind == "back"


def test_loops_nest_and_edges_know_how_many_they_share():
    ir = compiled(
        node("s"),
        node("o", "s"),
        node("i", "o"),
        node("j", "i", loop=again("i")),
        node("p", "j", loop=again("o")),
        node("e", "p"),
    )
    outer, inner = index(ir, "p"), index(ir, "j")
    assert by_id(ir, "i").loops == (outer, inner)
    assert by_id(ir, "o").loops == (outer,)
    assert by_id(ir, "j").loops == (outer, inner)
    kinds = {(e.kind, e.common) for e in ir.edges}
    assert (edge(ir, "o", "i").kind, edge(ir, "o", "i").common) == ("entry", 1)
    assert (edge(ir, "j", "p").kind, edge(ir, "j", "p").common) == ("exit", 1)
    assert (edge(ir, "j", "i").kind, edge(ir, "j", "i").common) == ("back", 2)
    assert ("entry", 0) in kinds
    assert ("exit", 0) in kinds


def test_an_edge_from_one_loop_into_another_leaves_before_it_enters():
    ir = compiled(node("a", loop=again()), node("b", "a", loop=again()))
    assert edge(ir, "a", "b").kind == "exit"
    assert edge(ir, "a", "b").common == 0


def test_a_second_entry_into_a_body_is_legal_for_an_all_join():
    ir = compiled(node("o"), node("h"), node("m", "h", "o"), node("x", "m", loop=again("h")))
    assert edge(ir, "o", "m").kind == "entry"
    assert edge(ir, "h", "m").kind == "inner"


def test_an_any_join_at_the_head_may_have_several_entries():
    ir = compiled(node("o"), node("p"), node("h", "o", "p", join="any"), node("x", "h", loop=again("h")))
    assert by_id(ir, "h").join.at_least == 1


def test_a_head_with_only_a_back_edge_is_an_entry():
    ir = compiled(node("h"), node("x", "h", loop=again("h")))
    assert ids(ir, ir.entries) == ["h"]
    assert ids(ir, ir.terminals) == ["x"]


def test_two_loops_with_the_same_body_do_not_nest():
    assert "loops_overlap" in codes(
        workflow(node("h"), node("x", "h", loop=again("h")), node("y", "h", loop=again("h")))
    )


def test_loops_that_share_a_head_nest():
    ir = compiled(node("h"), node("x", "h", loop=again("h")), node("y", "x", loop=again("h")))
    assert by_id(ir, "h").loops == (index(ir, "y"), index(ir, "x"))


def test_sixteen_loops_may_nest():
    nodes = [node("h"), *(node(f"x{i:02}", "h" if i == 0 else f"x{i - 1:02}", loop=again("h")) for i in range(16))]
    assert len(by_id(compiled(*nodes), "h").loops) == 16


def test_an_endless_loop_needs_something_that_waits():
    loop = {"condition": "true", "loop_back_to": "w"}
    ir = compiled({"id": "w", "type": "wait"}, node("x", "w", loop=loop), endless=True)
    assert ir.endless
    assert by_id(ir, "x").loop.max_iterations is None  # type: ignore[union-attr]
    assert compiled({"id": "w", "type": "wait"}, node("x", "w", loop={**loop, "endless": True})).hash == ir.hash
    assert "endless_without_wait" in codes(workflow(node("w"), node("x", "w", loop=loop), endless=True))
    assert "loop_without_maximum" in codes(workflow({"id": "w", "type": "wait"}, node("x", "w", loop=loop)))
    # One loop that says so of itself does not speak for the others.
    other = node("y", "x", loop={"condition": "true"})
    assert "loop_without_maximum" in codes(
        workflow({"id": "w", "type": "wait"}, node("x", "w", loop={**loop, "endless": True}), other)
    )


def test_a_failure_is_lenient_when_only_racing_joins_can_see_it():
    ir = compiled(
        node("s"),
        node("a", "s"),
        node("b", "s"),
        node("b2", "b"),
        node("j", "a", "b2", join="any"),
        node("e", "j"),
    )
    assert [n.id for n in ir.nodes if n and n.lenient] == ["s", "a", "b", "b2"]
    assert {n.id: ir.nodes[n.region].id for n in ir.nodes if n and n.region is not None} == {  # type: ignore[union-attr]
        "s": "j",
        "a": "j",
        "b": "j",
        "b2": "j",
    }


def test_a_node_that_also_leads_elsewhere_is_neither_lenient_nor_in_the_region():
    ir = compiled(node("a"), node("b"), node("j", "a", "b", join={"at_least": 1, "cancel_rest": True}), node("c", "a"))
    assert not by_id(ir, "a").lenient
    assert by_id(ir, "a").region is None
    assert by_id(ir, "b").region == index(ir, "j")


def test_a_handler_of_failures_ends_leniency_upstream():
    ir = compiled(node("a"), node("m", "a", on_failure="park"), node("b"), node("j", "m", "b", join="any"))
    assert by_id(ir, "m").lenient
    assert not by_id(ir, "a").lenient
    assert by_id(ir, "a").region == index(ir, "j")


def test_two_joins_are_no_common_region():
    ir = compiled(node("a"), node("j", "a", join="any"), node("k", "a", join="any"))
    assert by_id(ir, "a").lenient
    assert by_id(ir, "a").region is None


def test_the_ir_survives_encoding():
    ir = compiled(
        node("s"),
        node("x", "s", loop=again(timeout_path=[], break_path=["e"]), config={"a": [1, 2.5, None]}),
        node("e"),
        {"id": "m", "type": "map", "config": {"over": "{{ s.x }}", "node": {"type": "http"}}, "dependencies": ["s"]},
        outputs={"x": "{{ e.y }}"},
    )
    assert decode(encode(ir)) == ir
    assert encode(decode(encode(ir))) == encode(ir)
