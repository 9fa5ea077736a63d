"""Chunks of very many parts: each is small, and all that wait are read, and made into an output, beside the loop (S05)."""

import threading
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
import pytest

import perdure
from perdure.runtime.worker import inflow, outflow
from tests.api.helpers import serving
from tests.attack.marks import attack
from tests.attack.watchdog import watching
from tests.engine.helpers import DEADLINE, until_true

PARTS, COUNT = 10_000, 30
"""Empty lists of a chunk, 30 KB, and how many chunks there are."""
yielded: dict[str, int] = {}


async def lists(count: int, ctx: perdure.Context) -> AsyncIterator[Any]:
    for number in range(count):
        yielded[ctx.run_id] = number + 1
        yield [[]] * PARTS


async def late(chunks: perdure.Stream[Any], count: int, ctx: perdure.Context) -> int:
    """Read once all is there."""
    await until_true(lambda: yielded.get(ctx.run_id) == count, "all was yielded")
    return sum([len(one) async for one in chunks])


def node(id: str, name: str, count: int, **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "type": "task",
        "config": {"function": f"tests.attack.test_chunks:{name}", "args": {"count": count}},
        **more,
    }


async def _is_ended(server: Any, run_id: str) -> bool:
    return (await server.engine.journal.find_run(run_id)).row.ended_at is not None


@attack("S05", "a node that yields chunks of very many parts, and one that reads them late")
@pytest.mark.parametrize("collect", ["list", "count"])
async def test_chunks_of_many_parts_are_read_beside_the_loop(tmp_path, monkeypatch, collect):
    """An output of 200 of them held the loop for 150 ms, and a reader that came late for 105 ms."""
    read: list[bool] = []

    def decode(data: bytes) -> Any:
        read.append(threading.current_thread() is threading.main_thread())
        return msgspec.json.decode(data)

    for module in (inflow, outflow):
        monkeypatch.setattr(module, "_decode", decode)
    nodes = [node("a", "lists", COUNT, stream={"collect": collect})]
    flow: dict[str, Any] = {"name": "w", "nodes": nodes}
    if collect == "count":
        nodes.append(node("b", "late", COUNT))
        flow["edges"] = [{"from": "a", "to": "b.chunks"}]
    async with serving(tmp_path) as server:
        with watching():
            run = await server.start(flow, wait=0)
            await until_true(partial(_is_ended, server, run["run_id"]), "the run is done", DEADLINE * 2)
        shown = await server.ok(f"/runs/{run['run_id']}")
        assert shown["state"] == "completed", shown
        if collect == "count":
            assert shown["outputs"] == {"b": COUNT * PARTS}
    assert len(read) == COUNT
    assert read.count(True) < COUNT // 2  # what comes while hardly any waits


def test_a_piece_is_what_its_chunks_are():
    values = [1, "a,[{", None, [[]] * 60_000, {"a": [1, {}]}]
    data = msgspec.json.encode(values)
    assert inflow.decode_piece(data) == inflow.decode_piece(bytearray(data)) == values
    assert inflow.decode_piece(b"[1,2]") == [1, 2]


@attack("S05", "a piece of a stream, of four megabytes of empty lists, that a node reads again")
def test_no_call_of_the_decoder_reads_a_whole_piece_of_many_parts(monkeypatch):
    """It lets no other thread have its turn."""
    read: list[int] = []

    def decode(data: bytes) -> Any:
        read.append(len(data))
        return msgspec.json.decode(data)

    monkeypatch.setattr(inflow, "_decode", decode)
    assert len(inflow.decode_piece(b"[" + b",".join([b"[" + b"[]," * 1_000 + b"0]"] * 100) + b"]")) == 100
    assert max(read) < 4_000
