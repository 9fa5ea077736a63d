"""What a node yields in pieces holds no secret either, for whom ever reads it (S2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import perdure
from perdure.runtime.worker import outflow
from perdure.secrets.providers import open_secrets
from perdure.secrets.vault import Vault
from perdure.settings import read_secrets
from tests.engine.helpers import ended, running, start, workflow
from tests.engine.test_streams import flow, outputs

pytestmark = pytest.mark.slow

KEY = "canary/+7f3a9=c&Zz"
HERE = __name__


async def spell(token: str, ctx: perdure.Context) -> AsyncIterator[Any]:
    yield "it is "
    for at in range(0, len(token), 3):
        yield token[at : at + 3]
    yield 7
    yield token[:6]
    if ctx.is_undoing is False and ctx.node == "covered":
        await ctx.checkpoint({})
    yield token[6:]
    yield "cana"


def spell_in_thread(token: str) -> Iterator[str]:
    yield "it is "
    yield from token


async def wait_in_the_middle(token: str, said: str) -> AsyncIterator[str]:
    """Go on only when the reader has had the beginning: what is held back is let go."""
    yield token[:9]
    await gates[said].wait()
    yield token[9:]


gates: dict[str, asyncio.Event] = {}


async def hear(words: perdure.Stream[Any]) -> list[Any]:
    return [word async for word in words]


async def hear_and_open(words: perdure.Stream[str], said: str) -> list[str]:
    found = []
    async for word in words:
        found.append(word)
        gates[said].set()
    return found


def node(id: str, function: str, **more: Any) -> dict[str, Any]:
    args = {"token": "{{ secrets.canary }}", **more.pop("args", {})}
    return {"id": id, "type": "task", "config": {"function": f"{HERE}:{function}", "args": args}, **more}


def reader(id: str, function: str = "hear", **args: Any) -> dict[str, Any]:
    return {"id": id, "type": "task", "config": {"function": f"{HERE}:{function}", "args": args}}


async def play(path: Any, *nodes: dict[str, Any], edges: list[dict[str, str]]) -> dict[str, Any]:
    vault = Vault(open_secrets(read_secrets({"PERDURE_SECRET_CANARY": KEY})))
    async with running(path, vault=vault) as engine:
        await start(engine, workflow(*nodes, edges=edges))
        found = outputs(await ended(engine))
    for file in path.rglob("*"):
        assert not file.is_file() or KEY[4:].encode() not in file.read_bytes(), file
    return found


@pytest.mark.parametrize("restart", ["anew", "repeat", "checkpoint"])
async def test_a_secret_in_pieces_reaches_neither_readers_nor_the_output(tmp_path, restart):
    id = "covered" if restart == "checkpoint" else "a"
    nodes = (node(id, "spell", stream={"restart": restart}), reader("b"))
    found = await play(tmp_path, *nodes, edges=[flow(id, "b.words")])
    assert found[id] == found["b"]
    pieces = found["b"]
    texts = ["".join(map(str, pieces[: pieces.index(7)])), "".join(pieces[pieces.index(7) + 1 :])]
    masked = "******" if restart == "checkpoint" else "***"  # what a checkpoint covers cannot be held back
    assert texts == ["it is can***", f"{masked}cana"]
    assert len(pieces) == 1 + len(KEY) / 3 + 4


async def test_so_it_is_where_a_plain_function_yields_it_letter_by_letter(tmp_path):
    nodes = (node("a", "spell_in_thread", stream={"collect": "text"}), reader("b"))
    found = await play(tmp_path, *nodes, edges=[flow("a", "b.words")])
    assert found["a"] == "it is can***"
    assert "".join(found["b"]) == found["a"]


async def test_what_is_held_back_is_let_go_after_a_moment(tmp_path, monkeypatch):
    monkeypatch.setattr(outflow, "HELD_SECONDS", 0.01)
    said = gates.setdefault(tmp_path.name, asyncio.Event()) and tmp_path.name
    nodes = (node("a", "wait_in_the_middle", args={"said": said}), reader("b", "hear_and_open", said=said))
    found = await play(tmp_path, *nodes, edges=[flow("a", "b.words")])
    assert found["b"] == ["***", "***"]
