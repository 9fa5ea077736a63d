"""What a type checker must accept: workflows read as the functions they are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

import perdure
from perdure.client.views import Event, RunStarted, RunState, RunSummary


@dataclasses.dataclass
class Weather:
    city: str
    degrees: float


@perdure.task(retry=perdure.Retry(max_attempts=3), timeout=30, on_failure="park")
async def fetch(city: str, *, unit: str = "C") -> Weather:
    return Weather(city, 21)


@perdure.task
def headlines(city: str, most: int = 3) -> list[str]:
    return [city] * most


@perdure.task
def combine(weather: Weather, news: list[str]) -> str:
    return f"{weather} {news}"


@perdure.task
def order(ctx: perdure.Context, item: str, count: int = 1) -> dict[str, str]:
    receipt: str = ctx.step("charge", lambda: "r1")
    return {"receipt": receipt, "count": str(count)}


class Embedder:
    def __init__(self) -> None:
        self.size = 3

    async def __call__(self, text: str, *, scale: float = 1) -> list[float]:
        return [scale] * self.size


embed = perdure.task(Embedder)
embed_slowly = perdure.task(timeout=60)(Embedder)


@perdure.task(isolation="process")
async def order_later(ctx: perdure.Context, item: str) -> int:
    await ctx.checkpoint({"item": item})
    return ctx.attempt


@perdure.task(stream={"restart": "repeat"})
async def words(text: str) -> AsyncIterator[str]:
    for word in text.split():
        yield word


@perdure.task
def lengths(said: perdure.Stream[str]) -> Iterator[int]:
    for word in said:
        yield len(word)


@perdure.task
def add(numbers: perdure.Stream[int]) -> int:
    return sum(numbers)


@perdure.workflow
def streamed(text: str) -> int:
    said = words(text)
    assert_type(said, perdure.Stream[str])
    assert_type(lengths(said), perdure.Stream[int])
    assert_type(add(perdure.port(lengths(said), "long")), int)
    return add(lengths(said))


@perdure.workflow
def briefing(city: str, unit: str = "C") -> str:
    weather = fetch(city, unit=unit)
    assert_type(weather, Weather)
    news = headlines(city)
    assert_type(news, list[str])
    return combine(weather, news)


@perdure.workflow(name="everything", deadline_seconds=60, on_failure="compensate")
def everything(city: str, cities: list[str]) -> dict[str, Any]:
    weather = fetch.options(id="first", retry=2, when=f"{city} != ''")(city)
    assert_type(weather, Weather)
    receipt = order("book", count=2)
    assert_type(receipt, dict[str, str])
    assert_type(order_later("book"), int)
    assert_type(embed("book", scale=2), list[float])
    assert_type(embed_slowly("book"), list[float])
    text = perdure.branch(
        weather,
        {weather.degrees > 20: lambda: headlines(city)[0], perdure.cel(f"{weather}.degrees < 0"): lambda: "cold"},
        default=lambda: 3,
    )
    assert_type(text, str | int)
    perhaps = perdure.switch(weather.city, {"Oslo": lambda: combine(weather, [])})
    assert_type(perhaps, str | None)
    all_of = perdure.map(headlines, cities, max_concurrency=10, id="all")
    assert_type(all_of, list[list[str]])
    inner = perdure.map(lambda one: briefing(one), cities)
    assert_type(inner, list[str])
    again = perdure.loop(lambda loop: fetch(city), while_=lambda found: found.degrees < 3, max_iterations=5)
    assert_type(again, Weather)
    decided = perdure.approval({"text": text}, approvers=["ann"], timeout=60)
    assert_type(decided["comments"], str)
    page = perdure.http(
        "https://example.com", headers={"Authorization": perdure.secret("TOKEN")}, after=[weather], retry=3
    )
    assert_type(page["status"], int)
    assert_type(perdure.first(weather, again, cancel_rest=True), Weather)
    perdure.wait(60, signal="go", queue="slow")
    return {"text": text, "weather": weather, "body": page["body"], "raw": perdure.node("search", {"q": city})}


run = perdure.run(briefing, city="Oslo", db=":memory:")
assert_type(run, perdure.Run[str])
assert_type(run.result(), str)
assert_type(perdure.run(order, item="book").result(), dict[str, str])
assert_type(perdure.run(fetch, city="Oslo").result(), Weather)
assert_type(perdure.run("flow.yaml", run_id="r").result(), Any)
assert_type(perdure.run({"name": "w", "nodes": []}).result(), Any)
perdure.run(briefing, city="Oslo", on_approval=lambda approval: approval.node == "a")


async def main() -> None:
    again = await perdure.arun(everything, city="Oslo", cities=[], run_id="r", retry_failed=True, tags={"a": "b"})
    assert_type(again.result(), dict[str, Any])
    assert_type(again.waiting[0].command, str)
    await fetch.fn("Oslo")


def use(client: perdure.Client) -> None:
    assert_type(client.runs.start("orders", {"n": 1}, wait_seconds=5)["state"], RunState)
    for run in client.runs.list(state=["failed"], limit=10):
        assert_type(run, RunSummary)
    assert_type(client.runs.list().first()["next_cursor"], str | None)
    for event in client.runs.stream("r1"):
        assert_type(event, Event)
    assert_type(client.blobs.get("sha256:0"), bytes)


async def use_later(client: perdure.AsyncClient) -> None:
    assert_type(await client.runs.start("orders", {"n": 1}), RunStarted)
    async for run in client.runs.list():
        assert_type(run, RunSummary)
    async for event in client.runs.stream("r1"):
        assert_type(event, Event)
    assert_type(await client.blobs.get("sha256:0"), bytes)
