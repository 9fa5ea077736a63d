"""The fast graph algorithms against slow ones that are obviously right."""

from hypothesis import assume, given
from hypothesis import strategies as st

from perdure.model import compile_definition
from perdure.model.graph import Graph, Pair
from perdure.model.upstream import Certainty, find_unreached
from tests.model.helpers import again, by_id, codes, ids, node, workflow


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 9))
    return [sorted(draw(st.sets(st.integers(0, i - 1), max_size=3))) if i else [] for i in range(count)]


def descendants(parents, start):
    found = {start}
    for i in range(start + 1, len(parents)):
        if found & set(parents[i]):
            found.add(i)
    return found


def as_nodes(parents):
    return [node(f"n{i}", *(f"n{p}" for p in above)) for i, above in enumerate(parents)]


def as_graph(parents):
    names = [f"n{i}" for i in range(len(parents))]
    pairs = {(p, i): Pair() for i, above in enumerate(parents) for p in above}
    children = [[j for j, above in enumerate(parents) if i in above] for i in range(len(parents))]
    return Graph(names, {name: i for i, name in enumerate(names)}, pairs, parents, children, set())


@given(graphs(), st.data())
def test_the_body_of_a_loop_is_what_its_definition_says(parents, data):
    looping = data.draw(st.integers(0, len(parents) - 1))
    head = data.draw(st.integers(0, looping))
    nodes = as_nodes(parents)
    nodes[looping]["loop"] = again(f"n{head}")
    result = compile_definition(workflow(*nodes))
    if looping not in descendants(parents, head):
        assert [p.code for p in result.problems] == ["loop_not_dominated"]
        return
    body = {i for i in descendants(parents, head) if looping in descendants(parents, i)}
    for i, above in enumerate(parents):
        if above and set(above) <= body - {looping}:
            body.add(i)
    ir = result.get_ir()
    loop = by_id(ir, f"n{looping}").loop
    assert loop is not None
    assert sorted(ids(ir, loop.body)) == sorted(f"n{i}" for i in body)


@given(graphs(), st.data())
def test_two_loops_are_accepted_exactly_when_their_bodies_nest(parents, data):
    bodies = []
    nodes = as_nodes(parents)
    for looping in (
        data.draw(st.sets(st.integers(0, len(parents) - 1), min_size=2, max_size=2)) if len(parents) > 1 else ()
    ):
        head = data.draw(st.integers(0, looping))
        assume(looping in descendants(parents, head))
        body = {i for i in descendants(parents, head) if looping in descendants(parents, i)}
        for i, above in enumerate(parents):
            if above and set(above) <= body - {looping}:
                body.add(i)
        bodies.append(body)
        nodes[looping]["loop"] = again(f"n{head}")
    assume(len(bodies) == 2)
    one, other = bodies
    assert (codes(workflow(*nodes)) == set()) == (one < other or other < one or not one & other)


@given(graphs(), st.data())
def test_upstream_is_reachability(parents, data):
    graph = as_graph(parents)
    every = [(a, b) for a in range(len(parents)) for b in range(len(parents))]
    questions = data.draw(st.sets(st.sampled_from(every)))
    wrong = {(a, b) for a, b in questions if a == b or b not in descendants(parents, a)}
    assert find_unreached(graph, questions) == wrong


@given(graphs(), st.data())
def test_a_node_surely_ran_only_if_no_choice_of_skips_avoids_it(parents, data):
    """Any set of conditional nodes may be skipped; a node runs when one of its parents did (join all)."""
    conditional = [data.draw(st.booleans()) for _ in parents]
    certainty = Certainty(as_graph(parents), conditional, [None] * len(parents), set())
    ran_together: dict[tuple[int, int], bool] = {}
    for choice in range(2 ** sum(conditional)):
        off = {i for k, i in enumerate(i for i, c in enumerate(conditional) if c) if choice >> k & 1}
        ran: set[int] = set()
        for i, above in enumerate(parents):
            if i not in off and (not above or ran & set(above)):
                ran.add(i)
        for reader in ran:
            for other in range(reader):
                key = (other, reader)
                ran_together[key] = ran_together.get(key, True) and other in ran
    for (other, reader), always in ran_together.items():
        if certainty.surely_ran(other, reader) and reader in descendants(parents, other):
            assert always
