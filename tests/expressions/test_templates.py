"""What templates mean: paths, types, texts, and what is missing."""

import pytest

from perdure.expressions.errors import NeedsBlob, TemplateError
from perdure.expressions.namespace import Namespace, Run
from perdure.expressions.rendered_config import BlobRef
from perdure.expressions.templates import has_templates, render
from perdure.kernel.causal_past import Seen
from tests.expressions.helpers import NODES, completed, namespace, show


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ a }}", NODES["a"].output),
        ("{{ a.output }}", NODES["a"].output),
        ("{{ a.output.output }}", "inner"),
        ("{{ a.x }}", 1),
        ("{{ a.output.x }}", 1),
        ("{{a.x}}", 1),
        ("{{   a.x   }}", 1),
        ("{{ a.rows[1].n }}", 2),
        ("{{ a.rows.1.n }}", 2),
        ('{{ a["x"] }}', 1),
        ("{{ a['odd key'] }}", 5),
        ("{{ a['output'] }}", NODES["a"].output),
        ("{{ failed.error.code }}", "http:503"),
        ("{{ failed.error }}", {"code": "http:503", "message": "gone", "attempts": 3}),
        ("{{ inputs }}", {"city": "Rome", "list": [3, 1, 2], "none": None, "yes": True, "big": 2**53}),
        ("{{ inputs.city }}", "Rome"),
        ("{{ inputs.list }}", [3, 1, 2]),
        ("{{ inputs.none }}", None),
        ("{{ inputs.yes }}", True),
        ("{{ run.id }}", "run-1"),
        ("{{ run.workflow }}", "enrich"),
        ("{{ run.version }}", 4),
        ("{{ loop.iteration }}", 2),
        ("{{ loop.previous.k }}", 7),
        ("{{ loop.parent.iteration }}", 5),
        ("{{ loop.parent.previous }}", None),
        ("{{ my-node.v }}", 5),
        ("{{ my-node.v + 1 }}", 6),
        ("{{ my - node }}", 6),
        ("{{ empty }}", None),
        ("{{ skipped }}", None),
        ("{{ skipped.output }}", None),
        ("{{ stored }}", BlobRef("cas://sha256:ab")),
        ("{{ stored.output }}", BlobRef("cas://sha256:ab")),
    ],
)
def test_one_expression_keeps_its_type(template, expected):
    value = show(template)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("x {{ a.x }} y", "x 1 y"),
        (" {{ a.x }}", " 1"),
        ("{{ a.x }}\n", "1\n"),
        ("{{ a.x }}{{ a.text }}", "1hi"),
        ("<{{ inputs.none }}>", "<>"),
        ("<{{ skipped }}>", "<>"),
        ("{{ inputs.yes }}!", "true!"),
        ("{{ inputs.list }}!", "[3,1,2]!"),
        ("{{ a.rows }}!", '[{"n":1},{"n":2}]!'),
        ("{{ 1.5 }}!", "1.5!"),
        ("{{ '}}' }}{{ '{{' }}", "}}{{"),
        ("a  {{- a.x -}}  b", "a1b"),
        ("no template", "no template"),
        ("} } { {", "} } { {"),
        ("https://my-node.example/{{ inputs.city }}", "https://my-node.example/Rome"),
        ("", ""),
    ],
)
def test_text_around_an_expression_makes_text(template, expected):
    assert show(template) == expected


def test_configs_are_rendered_however_deep_and_keys_are_left_alone():
    config = {"{{ a.x }}": [{"y": ("{{ a.x }}", 2, None, True, 1.5)}], "z": "{{ a.rows }}"}
    assert show(config) == {"{{ a.x }}": [{"y": [1, 2, None, True, 1.5]}], "z": [{"n": 1}, {"n": 2}]}


def test_item_and_the_names_of_compensators_exist_where_they_are_given():
    assert show("{{ item.id }}", item={"id": 3}) == 3
    assert show("{{ output.x }}-{{ config.url }}", output={"x": 1}, config={"url": "u"}) == "1-u"
    with pytest.raises(TemplateError, match="there is no 'item' here"):
        show("{{ item }}")


def test_a_name_that_exists_only_here_comes_before_a_node_of_that_name():
    nodes = {"config": Seen("completed", "node")}
    assert show("{{ config }}", nodes) == "node"
    assert show("{{ config }}", nodes, config="own") == "own"


def test_nodes_are_asked_for_only_when_they_are_named():
    class Lazy(dict):
        asked: list[str] = []

        def get(self, key, default=None):
            self.asked.append(key)
            return Seen("completed", 1)

    nodes = Lazy()
    assert render(["{{ b }}", "text", "{{ inputs.city }}"], Namespace(Run("r", "w", {"city": 1}), nodes)) == [
        1,
        "text",
        1,
    ]
    assert nodes.asked == ["b"]


@pytest.mark.parametrize(
    ("template", "path", "part", "says"),
    [
        ("{{ a.y }}", "a.y", "y", "'a' has no 'y'"),
        ("{{ a.y.z.w }}", "a.y.z.w", "y", "'a' has no 'y'"),
        ("{{ a.output.y }}", "a.output.y", "y", "'a.output' has no 'y'"),
        ("{{ a.x.y }}", "a.x.y", "y", "'a.x' is a number"),
        ("{{ a.text.upper }}", "a.text.upper", "upper", "'a.text' is text"),
        ("{{ a.rows[2] }}", "a.rows[2]", "2", "'a.rows' is a list of 2"),
        ("{{ a.rows.n }}", "a.rows.n", "n", "'a.rows' is a list of 2"),
        ("{{ a['no such'] }}", 'a["no such"]', "no such", "'a' has no 'no such'"),
        ("{{ inputs.none.x }}", "inputs.none.x", "x", "'inputs.none' is null"),
        ("{{ empty.x }}", "empty.x", "x", "'empty' is null"),
        ("{{ skipped.x }}", "skipped.x", "x", "node 'skipped' was skipped"),
        ("{{ skipped.output.x }}", "skipped.output.x", "x", "node 'skipped' was skipped"),
        ("{{ later.x }}", "later.x", "later", "node 'later' has not ended"),
        ("{{ nobody }}", "nobody", "nobody", "there is no 'nobody' here"),
        ("{{ a.y | upper }}", "a.y", "y", "'a' has no 'y'"),
        ("{{ a.y + 1 }}", "a.y", "y", "'a' has no 'y'"),
        ("{{ [a.y] }}", "a.y", "y", "'a' has no 'y'"),
        ("{{ a.y or 1 }}", "a.y", "y", "'a' has no 'y'"),
    ],
)
def test_a_missing_value_names_the_template_the_path_and_the_first_missing_part(template, path, part, says):
    with pytest.raises(TemplateError) as caught:
        show(f"text {template}")
    error = caught.value
    assert (error.path, error.missing, error.code) == (path, part, "template_error")
    assert repr(f"text {template}") in error.message
    assert says in error.message


def test_outside_a_loop_there_is_no_loop():
    with pytest.raises(TemplateError, match="in no loop"):
        render("{{ loop.iteration }}", Namespace(Run("r", "w")))


@pytest.mark.parametrize(
    "template",
    ["{{ skipped.x | default(3) }}", "{{ skipped | default(3) }}", "{{ a.y.z | default(3) }}", "{{ later.x | d(3) }}"],
)
def test_a_default_stands_in_for_what_is_missing_or_null(template):
    assert show(template) == 3


@pytest.mark.parametrize(
    "template",
    [
        "{{",
        "{{ a",
        "{{ }}",
        "{{ a. }}",
        "{{ a.x }",
        "{{ a..x }}",
        "{{ 'open }}",
        "{{ a[ }}",
        "{{ a b }}",
        "{% if a %}x{% endif %}",
        "{# comment #}",
        "{{ a.x }}{% raw %}",
        "{{ (a }}",
        "{{ a = 1 }}",
        "{{ $ }}",
    ],
)
def test_text_that_is_no_template_is_an_error_that_names_it(template):
    with pytest.raises(TemplateError) as caught:
        show(template)
    assert caught.value.template == template


@pytest.mark.parametrize(
    "template",
    ["{{ stored.x }}", "text {{ stored }}", "{{ stored | tojson }}", "{{ [stored] }}", "{{ stored[inputs.city] }}"],
)
def test_looking_into_a_blob_says_which_blob(template):
    with pytest.raises(NeedsBlob, match="cas://sha256:ab") as caught:
        show(template)
    assert caught.value.ref == "cas://sha256:ab"


def test_the_previous_iteration_may_be_a_blob_too():
    from perdure.kernel.causal_past import LoopView

    loop = LoopView(2, Seen("completed", output_ref="cas://sha256:cd"))
    assert render("{{ loop.previous }}", Namespace(Run("r", "w"), loop=loop)) == BlobRef("cas://sha256:cd")
    for template in ("{{ loop.previous.x }}", "{{ loop | tojson }}", "{{ loop }} text"):
        with pytest.raises(NeedsBlob):
            render(template, Namespace(Run("r", "w"), loop=loop))


def test_a_hyphen_is_part_of_a_name_only_when_a_node_is_called_so():
    both = {"x-y": Seen("completed", 1), "x": Seen("completed", 5), "y": Seen("completed", 3)}
    assert show("{{ x-y }}", both) == 2  # not among the known ones of this workflow
    assert render("{{ x-y }}", Namespace(Run("r", "w"), both)) == 1
    assert render("{{ x - y }}", Namespace(Run("r", "w"), both)) == 2
    assert render("{{ x-y | string ~ x }}", Namespace(Run("r", "w"), both)) == "15"


def test_the_same_template_gives_the_same_value_every_time():
    template = {"a": "{{ a }}", "b": "{{ a.rows | tojson }} {{ inputs }}", "c": "{{ words | unique | sort }}"}
    first = show(template)
    assert all(show(template) == first for _ in range(5))


def test_a_config_nested_without_end_is_refused():
    config: list = []
    for _ in range(500):
        config = [config]
    with pytest.raises(TemplateError, match="nested"):
        show(config)


@pytest.mark.parametrize(
    "config",
    [
        "{{ fetch.n }}",
        "{% if fetch.n %}1{% endif %}",
        "{# a note #}",
        {"a": [{"b": "{{ fetch.n }}"}]},
        {"a": (1, 2)},
        {"a": [[[[[[[[["{{ fetch.n }}"]]]]]]]]]},
    ],
)
def test_a_config_that_is_not_rendered_has_no_template(config):
    assert has_templates(config)
    assert not has_templates({"a": ["{ fetch.n }", {"{{ key }}": None}, 1.5, True], "b": {}})


def test_rendering_changes_neither_the_config_nor_the_outputs():
    config = {"x": ["{{ a.rows }}", "{{ words | sort }}"]}
    before = repr((config, NODES))
    render(config, namespace())
    assert repr((config, NODES)) == before
    assert completed([1])["a"].output == [1]
