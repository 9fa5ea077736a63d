"""Streams in workflow functions: a call of a function that yields is what a parameter annotated `perdure.Stream` takes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

import perdure
from tests.sdk.tasks import echo, fetch
from tests.sdk.test_build import same

HERE = __name__


@perdure.task
async def say(text: str) -> AsyncIterator[str]:
    for word in text.split():
        yield word


@perdure.task(stream={"collect": "count"})
def sort(words: perdure.Stream[str]) -> Iterator[Any]:
    for word in words:
        yield perdure.On("long", word) if len(word) > 3 else word


@perdure.task
async def count(words: perdure.Stream[str], more: int = 0) -> int:
    return len([word async for word in words]) + more


@perdure.workflow
def spoken(text: str):
    words = say(text)
    sorted_ = sort(words)
    short = count.options(id="short")(sorted_, more=100)
    long = count.options(id="long")(words=perdure.port(sorted_, "long"))
    return {"all": count.options(id="all")(perdure.merge(words, sorted_)), "short": short, "long": long, "words": words}


def test_what_is_given_for_a_stream_becomes_an_edge_with_ports():
    same(
        spoken,
        """
        name: spoken
        inputs: {type: object, required: [text], properties: {text: {type: string}}, additionalProperties: false}
        nodes:
          - {id: say, type: task, config: {function: "HERE:say", args: {text: "{{ inputs.text }}"}}}
          - {id: sort, type: task, config: {function: "HERE:sort"}, stream: {collect: count, ports: [long]}}
          - {id: short, type: task, config: {function: "HERE:count", args: {more: 100}}, output_schema: {type: integer}}
          - {id: long, type: task, config: {function: "HERE:count"}, output_schema: {type: integer}}
          - {id: all, type: task, config: {function: "HERE:count"}, output_schema: {type: integer}}
        edges:
          - {from: say.out, to: sort.words}
          - {from: sort.out, to: short.words}
          - {from: sort.long, to: long.words}
          - {from: say.out, to: all.words}
          - {from: sort.out, to: all.words}
        outputs: {all: "{{ all }}", short: "{{ short }}", long: "{{ long }}", words: "{{ say }}"}
        """.replace("HERE", HERE),
    )


def test_it_runs_as_it_reads():
    text = "a few words of which two are longer"
    found = perdure.run(spoken, text=text, db=":memory:").result()
    assert found == {"all": 13, "short": 105, "long": 3, "words": text.split()}


def test_a_stream_that_may_be_skipped_skips_its_reader():
    @perdure.workflow
    def perhaps(text: str):
        words = say.options(when=f"{text} != ''")(text)
        return {"spoken": count(words)}

    assert perhaps.definition()["edges"] == [{"from": "say.out", "to": "count.words", "required": True}]
    assert perdure.run(perhaps, text="", db=":memory:").result() == {"spoken": None}
    assert perdure.run(perhaps, text="a b", db=":memory:").result() == {"spoken": 2}


def test_a_branch_may_hold_a_whole_stream_and_the_reader_of_one_from_before():
    @perdure.workflow
    def ways(text: str, loud: bool):
        words = say(text)
        return perdure.branch(
            loud,
            {loud == True: lambda: count(sort(say.options(id="again")(text)))},  # noqa: E712  a handle
            default=lambda: count.options(id="other")(words),
        )

    assert perdure.run(ways, text="a bc d", loud=True, db=":memory:").result() == 3
    assert perdure.run(ways, text="a bc loud", loud=False, db=":memory:").result() == 3


anything: Any = count
"""The task, for calls that a type checker would refuse."""

WRONG: list[tuple[Any, str]] = [
    (lambda text: count(perdure.merge()), "perdure.merge takes what calls"),
    (lambda text: perdure.merge(say(text), text), "what perdure.merge takes is a stream"),
    (lambda text: anything(["a"]), "give what a call of a function that yields gave"),
    (lambda text: count(text), "argument 'words' of count is a stream"),
    (lambda text: count(echo(text)), "got echo"),
    (lambda text: count(cast("Any", say(text)).first), r"got say\.first"),
    (lambda text: perdure.port(fetch(text), "long"), "perdure.port takes what a call of a function that yields"),
    (lambda text: {"port": perdure.port(say(text), "long")}, "which only a parameter annotated perdure.Stream"),
    (lambda text: perdure.map(count, [say(text)]), "cannot be the item of a map"),
    (lambda text: anything(words := say(text), more=words), "reads the stream of say while it yields"),
    (lambda text: count.options(after=(words := say(text)))(words), "cannot wait for its end"),
]


@pytest.mark.parametrize(("make", "said"), WRONG)
def test_what_is_no_stream_is_refused_where_it_is_written(make, said):
    @perdure.workflow(name="wrong")
    def wrong(text: str):
        return make(text)

    with pytest.raises(perdure.BuildError, match=said):
        wrong.definition()


def test_in_a_loop_the_compiler_says_that_it_is_not_built():
    @perdure.workflow
    def around(text: str):
        return perdure.loop(lambda: count(say(text)), while_=lambda found: found < 3, max_iterations=3)

    assert {problem.code for problem in around.compiled.problems} == {"stream_not_built"}
