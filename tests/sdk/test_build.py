"""What a workflow function comes to is what a person would have written in YAML."""

from __future__ import annotations

import textwrap
from typing import Any, Literal

import pytest

import perdure
from perdure.model import compile_definition, compile_text
from tests.sdk import tasks
from tests.sdk.tasks import combine, echo, fetch, grow, headlines, join, rate, undo

HERE = tasks.__name__


def same(workflow: perdure.Workflow[..., Any], text: str) -> None:
    """Both compile, without a warning, to the same canonical definition."""
    written = compile_text(textwrap.dedent(text).replace("HERE", HERE), format="yaml")
    assert written.problems == ()
    built = workflow.compiled
    assert built.problems == ()
    assert built.definition == written.definition


def test_calls_become_nodes_and_what_they_pass_on_becomes_edges_and_templates():
    @perdure.workflow
    def briefing(city: str):
        """Fetch two sources and combine them."""
        return combine(fetch(city), headlines(city, most=2))

    same(
        briefing,
        """
        name: briefing
        description: Fetch two sources and combine them.
        inputs: {type: object, required: [city], properties: {city: {type: string}}, additionalProperties: false}
        nodes:
          - id: fetch
            type: task
            config: {function: "HERE:fetch", args: {city: "{{ inputs.city }}"}}
            output_schema: {type: object}
          - id: headlines
            type: task
            config: {function: "HERE:headlines", args: {city: "{{ inputs.city }}", most: 2}}
            output_schema: {type: array, items: {type: string}}
          - id: combine
            type: task
            config: {function: "HERE:combine", args: {weather: "{{ fetch }}", news: "{{ headlines }}"}}
            dependencies: [fetch, headlines]
            output_schema: {type: string}
        outputs: {result: "{{ combine }}"}
        """,
    )


def test_fields_lists_and_texts_of_handles_become_templates():
    @perdure.workflow
    def shapes(city: str, tags: list[str]):
        found = fetch(city)
        echo(
            {
                "degrees": found["degrees"],
                "deep": [found["a"]["b"][0], {"in": city}],
                "odd key": found["odd key"]["output"],
            }
        )
        return {"text": f"{city}: {found['degrees']}°", "alone": f"{tags}", "output": found["output"], "tags": tags}

    nodes = shapes.definition()["nodes"]
    assert nodes[1]["config"]["args"]["value"] == {
        "degrees": "{{ fetch.degrees }}",
        "deep": ["{{ fetch.a.b[0] }}", {"in": "{{ inputs.city }}"}],
        "odd key": '{{ fetch["odd key"].output }}',
    }
    assert shapes.definition()["outputs"] == {
        "text": "{{ inputs.city }}: {{ fetch.degrees }}°",
        "alone": "{{ inputs.tags | string }}",
        "output": "{{ fetch.output.output }}",
        "tags": "{{ inputs.tags }}",
    }


@pytest.mark.parametrize(
    "text",
    [
        "{{ secrets.x }}",
        "a {{ b",
        "{% if %}",
        "{# c #}",
        "{{{ {%{# }}",
        "{}",
        "{",
        '{"json": {"a": 1}}',
        "{{-}}",
        "'{{' \"{{\" \\",
        "⟪ quoted ⟫",
    ],
)
def test_text_that_looks_like_a_template_stays_text(text):
    @perdure.workflow
    def literal(name: str):
        return {"plain": echo(text), "mixed": echo(f"{text}{name}{text}"), "wrapped": echo(f"{{{name}}}")}

    run = perdure.run(literal, name="n", db=":memory:")
    assert run.outputs == {"plain": text, "mixed": f"{text}n{text}", "wrapped": "{n}"}


def test_ids_come_from_the_functions_and_can_be_given():
    @perdure.task(name="tests.sdk.named_by_hand")
    def loop() -> int:
        return 1

    @perdure.workflow
    def many(city: str):
        return [
            fetch(city),
            fetch(city),
            fetch.options(id="fetch_3")(city),
            fetch(city),
            echo.options(id="first")(1),
            loop(),
        ]

    ids = [node["id"] for node in many.definition()["nodes"]]
    assert ids == ["fetch", "fetch_2", "fetch_3", "fetch_4", "first", "tests_sdk_named_by_hand"]


def test_an_id_that_templates_could_not_read_is_not_used():
    def item() -> int:
        return 1

    task = perdure.task(item)

    @perdure.workflow
    def odd():
        return [task(), task()]

    assert [node["id"] for node in odd.definition()["nodes"]] == ["task_item", "task_item_2"]
    assert odd.compiled.problems == ()


def test_options_are_the_keys_of_a_node():
    @perdure.task(retry=perdure.Retry(max_attempts=5, backoff_ms=10, retry_on=["timeout"]), timeout=30, queue="gpu")
    def train(data: Any) -> Any:
        return data

    @perdure.workflow(name="options", deadline_seconds=60, max_hops=50, on_failure="compensate")
    def many(key: str):
        a = train.options(
            id="a",
            priority=3,
            effect="at_most_once",
            on_failure="park",
            sensitive=("ssn",),
            isolation="process",
            max_crashes=2,
            queue_timeout=1,
            total_timeout=2,
            heartbeat_timeout=3,
            concurrency={"key": key, "limit": 2},
            rate={"key": f"rate {key}", "limit": 5, "per_seconds": 60},
            compensator=lambda output: undo.options(timeout=9, retry=2)(output["booking"]),
            output_schema={"type": "object"},
        )(1)
        train.options(id="b", retry=2, when=a["ok"] == True, after=a)(2)  # noqa: E712

    same(
        many,
        f"""
        name: options
        inputs: {{type: object, required: [key], properties: {{key: {{type: string}}}}, additionalProperties: false}}
        limits: {{deadline_seconds: 60, max_hops: 50}}
        on_failure: {{compensate: true}}
        nodes:
          - id: a
            type: task
            config: {{function: "{many.__module__}:{train.fn.__qualname__}", args: {{data: 1}}}}
            retry: {{max_attempts: 5, backoff_ms: 10, retry_on: [timeout]}}
            timeout_seconds: 30
            queue: gpu
            priority: 3
            effect: at_most_once
            on_failure: park
            sensitive: [ssn]
            isolation: process
            max_crashes: 2
            queue_timeout_seconds: 1
            total_timeout_seconds: 2
            heartbeat_timeout_seconds: 3
            concurrency: {{key: "{{{{ inputs.key }}}}", limit: 2}}
            rate: {{key: "rate {{{{ inputs.key }}}}", limit: 5, per_seconds: 60}}
            output_schema: {{type: object}}
            compensator:
              type: task
              config: {{function: "HERE:undo", args: {{booking: "{{{{ output.booking }}}}"}}}}
              timeout_seconds: 9
              retry: {{max_attempts: 2}}
          - id: b
            type: task
            config: {{function: "{many.__module__}:{train.fn.__qualname__}", args: {{data: 2}}}}
            retry: {{max_attempts: 2}}
            timeout_seconds: 30
            queue: gpu
            when: ctx.a.output.ok == true
            dependencies: [a]
        """,
    )


def test_parameters_become_inputs_with_their_schemas_and_defaults():
    @perdure.workflow
    def typed(
        city: str,
        count: int,
        unit: Literal["C", "F"] = "C",
        scale: float | None = 1.5,
        tags: list[str] = [],  # noqa: B006
        note: str | None = None,
        anything=None,
    ):
        echo([city, count, unit, scale, tags, note, anything])
        return {"unit": unit, "tag": tags[0]}

    definition = typed.definition()
    assert definition["inputs"] == {
        "type": "object",
        "required": ["city", "count"],
        "properties": {
            "city": {"type": "string"},
            "count": {"type": "integer"},
            "unit": {"enum": ["C", "F"], "default": "C"},
            "scale": {"type": ["number", "null"], "default": 1.5},
            "tags": {"type": "array", "items": {"type": "string"}, "default": []},
            "note": {"type": ["string", "null"]},
            "anything": {},
        },
        "additionalProperties": False,
    }
    assert definition["nodes"][0]["config"]["args"]["value"][2:] == [
        '{{ inputs.unit | default("C") }}',
        "{{ inputs.scale if inputs.scale is defined else 1.5 }}",
        "{{ inputs.tags | default([]) }}",
        "{{ inputs.note | default(none) }}",
        "{{ inputs.anything | default(none) }}",
    ]
    assert definition["outputs"]["tag"] == "{{ (inputs.tags | default([]))[0] }}"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ["C", 1.5, None, False]),
        ({"unit": "F", "scale": None, "note": "n"}, ["F", None, "n", False]),
        ({"unit": "X"}, ["X", 1.5, None, True]),
    ],
)
def test_defaults_are_used_where_an_input_is_not_given(given, expected):
    @perdure.workflow
    def defaults(unit: str = "C", scale: float | None = 1.5, note: str | None = None):
        odd = perdure.branch(unit, {(unit != "C") & (unit != "F"): lambda: echo(True)}, default=lambda: echo(False))
        return {"all": [unit, scale, note, odd]}

    assert perdure.run(defaults, inputs=given, db=":memory:").outputs == {"all": expected}


def test_a_branch_is_a_branch_of_the_node_it_looks_at():
    @perdure.workflow
    def review(text: str):
        score = rate(text)
        return perdure.branch(
            score,
            {score["value"] > 0.8: lambda: echo(text), "output.value > 0.5": lambda: grow(score["reason"])},
            default=lambda: "dropped",
        )

    same(
        review,
        """
        name: review
        inputs: {type: object, required: [text], properties: {text: {type: string}}, additionalProperties: false}
        nodes:
          - id: rate
            type: task
            config: {function: "HERE:rate", args: {text: "{{ inputs.text }}"}}
            output_schema:
              title: Score
              type: object
              properties: {value: {type: number}, reason: {type: string}}
              required: [reason, value]
            branch:
              rules:
                - {condition: output.value > 0.8, next_nodes: [echo]}
                - {condition: output.value > 0.5, next_nodes: [grow]}
              default: [rate_value]
          - {id: echo, type: task, config: {function: "HERE:echo", args: {value: "{{ inputs.text }}"}}}
          - id: grow
            type: task
            config: {function: "HERE:grow", args: {text: "{{ rate.reason }}"}}
            output_schema: {type: string}
          - {id: rate_value, type: transform, config: {value: dropped}}
        outputs: {result: "{{ echo | default(grow | default(rate_value | default(none))) }}"}
        """,
    )


def test_a_node_in_an_arm_that_needs_something_from_outside_is_bound_to_the_choice():
    @perdure.workflow
    def bound(a: int):
        other, score = fetch("x"), rate("y")
        return join(other, perdure.branch(score, {score["value"] > 1: lambda: echo(other)}))

    nodes = {node["id"]: node for node in bound.definition()["nodes"]}
    assert nodes["echo"]["dependencies"] == ["fetch", {"node": "rate", "required": True}]
    assert nodes["join"]["dependencies"] == ["fetch", "echo", "rate"]
    assert bound.compiled.problems == ()


def test_a_call_that_needs_a_value_which_may_be_skipped_is_skipped_with_it():
    @perdure.workflow
    def maybe(a: int):
        perhaps = echo.options(when=perdure.cel(f"{a} > 3"))(a)
        return join(fetch("x"), perhaps)

    nodes = {node["id"]: node for node in maybe.definition()["nodes"]}
    assert nodes["echo"]["when"] == "inputs.a > 3"
    assert nodes["join"]["dependencies"] == ["fetch", {"node": "echo", "required": True}]
    assert maybe.compiled.problems == ()


def test_a_way_that_comes_to_nothing_is_waited_for_and_gives_null():
    @perdure.workflow
    def quiet(n: int):
        def way() -> None:
            grow("a")
            echo(n)

        done = perdure.branch(n, {n == 1: way}, default=lambda: None)
        return echo.options(id="last")([done])

    nodes = {node["id"]: node for node in quiet.definition()["nodes"]}
    assert nodes["decide"]["branch"] == {
        "rules": [{"condition": "inputs.n == 1", "next_nodes": ["grow", "echo"]}],
        "default": [],
    }
    assert nodes["last"]["dependencies"] == ["grow", "echo", "decide"]
    assert nodes["last"]["config"]["args"] == {"value": ["{{ none }}"]}
    assert [perdure.run(quiet, n=n, db=":memory:").result() for n in (1, 2)] == [[None], [None]]


def test_switch_compares_with_values():
    @perdure.workflow
    def route(kind: str):
        return perdure.switch(
            kind, {"a": lambda: echo(1), 'q"uote': lambda: echo(2), 3: lambda: echo(3), None: lambda: echo(4)}
        )

    decide = route.definition()["nodes"][0]
    assert (decide["id"], decide["type"]) == ("decide", "transform")
    conditions = [rule["condition"] for rule in decide["branch"]["rules"]]
    assert conditions == [
        'inputs.kind == "a"',
        'inputs.kind == "q\\"uote"',
        "inputs.kind == 3",
        "inputs.kind == null",
    ]
    assert route.compiled.problems == ()


def test_conditions_are_comparisons_combined_or_cel_with_handles_in_it():
    @perdure.workflow
    def conditions(a: int, flag: bool):
        found = fetch("x")
        both = (found["degrees"] >= a) & ~(found["city"] == "Oslo") | flag
        perdure.branch(found, {both: lambda: echo(1), perdure.cel(f"size({found}.items) > {a}"): lambda: echo(2)})
        echo.options(when=flag)(3)
        echo.options(when=f"{a} in [1, 2]")(4)
        echo.options(when=found["in"]["loop"]["a b"][0] != 1)(5)

    nodes = conditions.definition()["nodes"]
    assert [rule["condition"] for rule in nodes[0]["branch"]["rules"]] == [
        '((output.degrees >= inputs.a) && !(output.city == "Oslo")) || inputs.flag',
        "size(output.items) > inputs.a",
    ]
    assert [node["when"] for node in nodes if "when" in node] == [
        "inputs.flag",
        "inputs.a in [1, 2]",
        'ctx.fetch.output["in"]["loop"]["a b"][0] != 1',
    ]
    assert conditions.compiled.problems == ()


def test_a_loop_goes_back_to_where_its_body_begins():
    @perdure.workflow
    def improve(text: str):
        return perdure.loop(
            lambda loop: rate(grow(loop.previous["reason"], text)),
            while_=lambda score: score["value"] < 0.9,
            max_iterations=5,
            delay=0.5,
            on_exhausted="stop",
        )

    nodes = improve.definition()["nodes"]
    assert nodes[0]["config"]["args"] == {"text": "{{ loop.previous.reason }}", "by": "{{ inputs.text }}"}
    assert nodes[1]["loop"] == {
        "condition": "output.value < 0.9",
        "max_iterations": 5,
        "loop_back_to": "grow",
        "timeout_path": [],
        "delay_ms": 500,
    }
    assert improve.definition()["outputs"] == {"result": "{{ rate }}"}


def test_a_loop_with_several_beginnings_and_ends_gets_one_of_each():
    @perdure.workflow
    def wide(text: str):
        def body(loop: perdure.Loop) -> Any:
            value = join(echo(loop.iteration), echo(text))
            grow(text)
            return value[0]

        return perdure.loop(body, while_=lambda value: value < 3, max_iterations=5)

    nodes = {node["id"]: node for node in wide.definition()["nodes"]}
    assert nodes["iteration"] == {"id": "iteration", "type": "transform", "config": {"value": "{{ loop.iteration }}"}}
    assert [nodes[name]["dependencies"] for name in ("echo", "echo_2", "grow")] == [["iteration"]] * 3
    assert nodes["again"]["dependencies"] == ["join", "grow"]
    assert nodes["again"]["loop"]["loop_back_to"] == "iteration"
    assert wide.compiled.problems == ()
    assert perdure.run(wide, text="t", db=":memory:").result() == 3


def test_a_map_calls_one_task_or_workflow_for_each_item():
    @perdure.workflow
    def one(city: str):
        return {"degrees": fetch(city)["degrees"]}

    @perdure.workflow
    def all_of(cities: list[str], unit: str):
        fixed = perdure.map(lambda city: echo({"city": city, "unit": unit}), ["a", "b"], id="fixed")
        return [perdure.map(fetch, cities, max_concurrency=2, tolerated_failures=1), perdure.map(one, cities), fixed]

    same(
        all_of,
        """
        name: all_of
        inputs:
          type: object
          required: [cities, unit]
          properties: {cities: {type: array, items: {type: string}}, unit: {type: string}}
          additionalProperties: false
        nodes:
          - id: fixed
            type: map
            config:
              over: [a, b]
              node:
                type: task
                config: {function: "HERE:echo", args: {value: {city: "{{ item }}", unit: "{{ inputs.unit }}"}}}
          - id: fetch_each
            type: map
            config:
              over: "{{ inputs.cities }}"
              node:
                type: task
                config: {function: "HERE:fetch", args: {city: "{{ item }}"}}
                output_schema: {type: object}
              max_concurrency: 2
              tolerated_failures: 1
          - id: one_each
            type: map
            config: {over: "{{ inputs.cities }}", workflow: one, inputs: {city: "{{ item }}"}}
        outputs: {result: ["{{ fetch_each }}", "{{ one_each }}", "{{ fixed }}"]}
        """,
    )


def test_the_other_nodes_are_as_one_would_write_them():
    @perdure.workflow
    def others(city: str):
        page = perdure.http(
            f"https://example.com/{city}",
            method="POST",
            headers={"Authorization": perdure.secret("TOKEN")},
            json={"a": city},
        )
        asked = perdure.approval(
            page["body"], approvers=("ann", "bob"), quorum=2, timeout=60, on_reject=lambda: echo("no")
        )
        told = perdure.wait(60, signal="go", after=asked, id="told")
        perdure.wait(until="2030-01-01T00:00:00Z")
        perdure.transform({"a": perdure.expr(f"{city} | upper"), "b": perdure.expr(f"{page} | length + 1")})
        return {
            "hit": perdure.node("search", {"query": told["text"]}, queue="slow"),
            "first": perdure.first(page, told, cancel_rest=True),
        }

    assert others.definition()["nodes"] == [
        {
            "id": "http",
            "type": "http",
            "config": {
                "url": "https://example.com/{{ inputs.city }}",
                "method": "POST",
                "headers": {"Authorization": "{{ secrets.TOKEN }}"},
                "json": {"a": "{{ inputs.city }}"},
            },
        },
        {
            "id": "approval",
            "type": "human",
            "config": {"show": "{{ http.body }}", "approvers": ["ann", "bob"], "quorum": 2},
            "dependencies": ["http"],
            "timeout_seconds": 60,
            "rejection_path": ["echo"],
        },
        {"id": "echo", "type": "task", "config": {"function": f"{HERE}:echo", "args": {"value": "no"}}},
        {"id": "told", "type": "wait", "config": {"seconds": 60, "signal": "go"}, "dependencies": ["approval"]},
        {"id": "wait", "type": "wait", "config": {"until": "2030-01-01T00:00:00Z"}},
        {
            "id": "transform",
            "type": "transform",
            "config": {"value": {"a": "{{ inputs.city | upper }}", "b": "{{ http | length + 1 }}"}},
            "dependencies": ["http"],
        },
        {
            "id": "search",
            "type": "search",
            "config": {"query": "{{ told.text }}"},
            "dependencies": ["told"],
            "queue": "slow",
        },
        {
            "id": "first",
            "type": "transform",
            "config": {"value": "{{ http | default(told | default(none)) }}"},
            "dependencies": ["http", "told"],
            "join": {"at_least": 1, "cancel_rest": True},
        },
    ]


def test_a_failure_can_go_another_way():
    @perdure.workflow
    def careful(city: str):
        return fetch.options(on_failure=lambda error: echo(f"failed: {error['code']}"))(city)

    definition = careful.definition()
    assert definition["nodes"][0]["on_failure"] == {"path": ["echo"]}
    assert definition["nodes"][1]["config"]["args"] == {"value": "failed: {{ fetch.error.code }}"}
    assert definition["outputs"] == {"result": "{{ echo | default(fetch | default(none)) }}"}
    assert careful.compiled.problems == ()


def test_a_workflow_called_in_another_is_a_child():
    @perdure.workflow
    def inner(city: str, most: int = 2):
        return headlines(city, most)

    @perdure.workflow
    def outer(city: str):
        return grow(inner.options(id="news", retry=2)(city)[0])

    nodes = outer.definition()["nodes"]
    assert nodes[0] == {
        "id": "news",
        "type": "workflow",
        "config": {"workflow": "inner", "inputs": {"city": "{{ inputs.city }}"}},
        "retry": 2,
    }
    assert nodes[1]["config"]["args"] == {"text": "{{ news.result[0] }}"}
    assert outer.children() == [inner]


def test_the_yaml_of_a_workflow_is_the_workflow():
    @perdure.workflow
    def briefing(city: str = "Oslo"):
        return combine(fetch(city), headlines(city))

    again = compile_text(briefing.to_yaml(), format="yaml")
    assert again.definition == briefing.compiled.definition == compile_definition(briefing.definition()).definition
    assert "&id" not in briefing.to_yaml()


def test_building_calls_no_task_and_happens_once():
    called = []

    @perdure.task
    def never() -> None:
        called.append("task")

    @perdure.workflow
    def once():
        called.append("workflow")
        never()

    once.definition()
    assert once.compiled is once.compiled
    assert called == ["workflow"]
