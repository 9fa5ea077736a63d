"""Tasks that the tests of this folder build workflows of; they really do what they say."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, TypedDict

import msgspec

import perdure


@dataclasses.dataclass
class Weather:
    city: str
    degrees: float


class Order(msgspec.Struct):
    id: str
    items: list[str] = []


class Score(TypedDict):
    value: float
    reason: str


@perdure.task
async def fetch(city: str) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"city": city, "degrees": 21}


@perdure.task
def headlines(city: str, most: int = 3) -> list[str]:
    return [f"{city} {number}" for number in range(1, most + 1)]


@perdure.task
def combine(weather: dict[str, Any], news: list[str]) -> str:
    return f"{weather['city']}: {weather['degrees']}, {len(news)} news"


@perdure.task
def measure(city: str) -> Weather:
    return Weather(city, 21.5)


@perdure.task
def describe(weather: Weather, order: Order | None = None) -> str:
    assert isinstance(weather, Weather)
    assert order is None or isinstance(order, Order)
    return f"{weather.city} {weather.degrees}{f' {order.id}' if order else ''}"


@perdure.task
def rate(text: str, to: float = 0.5) -> Score:
    return {"value": to, "reason": text}


@perdure.task
def echo(value: Any = None) -> Any:
    return value


@perdure.task
def join(a: Any = None, b: Any = None, c: Any = None) -> list[Any]:
    return [a, b, c]


@perdure.task
def fail(message: str = "no") -> str:
    raise perdure.Abort(message)


@perdure.task
def grow(text: str | None, by: str = "x") -> str:
    return (text or "") + by


@perdure.task
def undo(booking: str) -> str:
    return f"undid {booking}"
