"""What the compiler says a template or condition reads is all that it reads: the kernel gathers nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.expressions.cel import check
from perdure.expressions.errors import NeedsBlob, TemplateError
from perdure.expressions.namespace import Namespace
from perdure.expressions.templates import render
from perdure.kernel.causal_past import Seen
from perdure.model.references import BadExpression, find_in_expression, find_in_template
from tests.expressions.helpers import LOOP, NODES, RUN


class Recorder(dict[str, Seen]):
    """Nodes, and which of them were asked for."""

    def __init__(self):
        super().__init__(NODES)
        self.asked: set[str] = set()

    def get(self, key, default=None):
        self.asked.add(key)
        return super().get(key, default)


names = st.sampled_from(
    "a a.x a.rows[0].n a.rows words my-node my-node.v my node failed.error skipped stored inputs.city inputs.list run.id loop.iteration "
    "item.k 1 'x' true none".split()
)
operators = st.sampled_from([" + ", " - ", "-", " ~ ", " == ", " in ", " and ", " or ", " if a.x else "])
filters = st.sampled_from(
    ["", " | default(my)", " | default(words) | length", " | tojson", " | join(node)", "[a.x]", "[0:a.x]"]
)
expressions = st.recursive(
    st.tuples(names, filters).map("".join),
    lambda inner: (
        st.tuples(inner, operators, inner).map("".join)
        | inner.map(lambda text: f"({text})")
        | st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | inner.map(lambda text: f"{{'k': {text}}}")
    ),
    max_leaves=6,
)
templates = st.lists(
    st.sampled_from(["", "text ", "a.x ", "'"]) | expressions.map(lambda e: "{{ " + e + " }}"), max_size=4
)


@given(templates.map("".join))
def test_rendering_asks_for_no_node_the_compiler_did_not_find(template):
    try:
        found = {reference.node for reference in find_in_template(template, NODES)}
    except BadExpression:
        with pytest.raises(TemplateError):
            render(template, Namespace(RUN, NODES, loop=LOOP, extra={"item": {"k": 1}}))
        return
    nodes = Recorder()
    try:
        render(template, Namespace(RUN, nodes, loop=LOOP, extra={"item": {"k": 1}}, known=NODES))
    except (TemplateError, NeedsBlob):
        pass
    assert nodes.asked <= found


@pytest.mark.parametrize(
    "expression",
    [
        "loop.iteration < 3",
        "output.loop == 1",
        "has(ctx.a.output.x) && ctx.a.output.x > 1",
        "ctx['my-node'].output.v == 5",
        "output.rows.all(r, r.n > inputs.max)",
        "ctx.a.metadata.duration_ms < 5.0",
        "current.output.x == 1",
    ],
)
def test_what_the_compiler_accepts_cel_accepts(expression):
    find_in_expression(expression, NODES)
    assert check(expression) is None
