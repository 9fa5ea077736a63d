"""100,000 nodes compile within ten seconds: linear in every shape, from JSON and from YAML, right and wrong."""

import json
import time

import pytest
import yaml

from perdure.model import compile_text
from tests.model.helpers import again

COUNT = 20_000
"""A fifth of what was promised shows what grows with the square, in a fifth of the time; `tests/kernel/test_scale.py` compiles
the whole of it once."""


def chain(count):
    return [
        {
            "id": f"n{i}",
            "type": "task",
            "config": {"function": "m:f", "args": {"x": f"{{{{ n{i - 1}.value }}}}" if i else 1}},
            "dependencies": [f"n{i - 1}"] if i else [],
        }
        for i in range(count)
    ]


def fan(count):
    middle = [f"n{i}" for i in range(count - 2)]
    return [
        {"id": "first", "type": "task"},
        *({"id": id, "type": "task", "config": {"v": "{{ first.x }}"}, "dependencies": ["first"]} for id in middle),
        {"id": "last", "type": "task", "config": {"v": [f"{{{{ {id}.x }}}}" for id in middle]}, "dependencies": middle},
    ]


def loops(count):
    """Loops of five nodes in a row, the first node of each outside."""
    nodes = []
    for i in range(count):
        node: dict = {"id": f"n{i}", "type": "task", "dependencies": [f"n{i - 1}"] if i else []}
        if i % 5 == 4:
            node["loop"] = again(f"n{i - 3}", condition=f"output.ok != true && ctx.n{i - 4}.output.x > 1")
        nodes.append(node)
    return nodes


def ladder(count):
    """Two rails with every rung: each node reads one that is far up and dominates nothing."""
    nodes = []
    for i in range(count // 2):
        for side in "ab":
            node: dict = {"id": f"{side}{i}", "type": "task"}
            if i:
                node["dependencies"] = [f"a{i - 1}", f"b{i - 1}"]
                node["config"] = {"v": f"{{{{ a{i // 2}.x }}}}"}
            nodes.append(node)
    return nodes


def branches(count):
    """Every third node chooses between the next two; what joins them may read a skipped one."""
    nodes = []
    for i in range(0, count, 4):
        choice = {"rules": [{"condition": "output.x", "next_nodes": [f"n{i + 1}"]}], "default": [f"n{i + 2}"]}
        nodes += [
            {"id": f"n{i}", "type": "task", "dependencies": [f"n{i - 1}"] if i else [], "branch": choice},
            {"id": f"n{i + 1}", "type": "task"},
            {"id": f"n{i + 2}", "type": "task"},
            {
                "id": f"n{i + 3}",
                "type": "task",
                "dependencies": [f"n{i + 1}", f"n{i + 2}"],
                "config": {"v": f"{{{{ n{i + 1}.x | default('') }}}}{{{{ n{i}.x }}}}"},
            },
        ]
    return nodes


def seconds_for(text):
    started = time.process_time()
    result = compile_text(text)
    elapsed = time.process_time() - started
    assert result.problems == ()
    assert result.ir is not None
    return elapsed


SHAPES = [chain, fan, loops, ladder, branches]


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_twenty_thousand_nodes_compiles_within_four_seconds(shape):
    assert seconds_for(json.dumps({"name": "w", "nodes": shape(COUNT)})) < 4


@pytest.mark.slow
def test_five_thousand_nodes_in_yaml_compile_within_three_seconds():
    text = yaml.dump({"name": "w", "nodes": chain(COUNT // 4)}, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))
    assert seconds_for(text) < 3


@pytest.mark.slow
def test_ten_thousand_wrong_nodes_are_refused_within_six_seconds():
    nodes = [{**node, "retires": 1, "dependencies": ["nobody"]} for node in chain(COUNT // 2)]
    started = time.process_time()
    result = compile_text(json.dumps({"name": "w", "nodes": nodes}, indent=1))
    assert time.process_time() - started < 6
    assert result.problems[-1].code == "too_many_problems"
    assert all(p.line for p in result.problems[:-1])
