"""The library of a process: many runs of one workflow read its definition once, and share it."""

import asyncio

from perdure.clock import system
from perdure.journals.sqlite import SqliteJournal
from perdure.model import compile_definition
from perdure.model import ir as irs
from perdure.runtime.coordinator.library import Library


async def test_runs_that_begin_at_once_read_a_new_workflow_once_and_share_it(tmp_path):
    journal = await SqliteJournal.open(tmp_path / "perdure.db", clock=system)
    reads = []
    read = journal.get_definition

    async def counted(name):
        reads.append(name)
        return await read(name)

    journal.get_definition = counted  # type: ignore[method-assign]
    try:
        ir = compile_definition({"name": "one", "nodes": [{"id": "a", "type": "input"}]}).get_ir()
        await journal.put_definition(ir.hash, "ir", irs.encode(ir))
        library = Library(journal)
        found = await asyncio.gather(*(library.get(ir.hash) for _ in range(50)))
        assert reads == [ir.hash]
        assert {id(one) for one in found} == {id(await library.get_now(ir.hash))}
        # A coordinator that loads many runs side by side does not keep one for each of them.
        loading = Library(journal)
        loaded = await asyncio.gather(*(loading.get_now(ir.hash) for _ in range(50)))
        assert len({id(one) for one in loaded}) == 1
    finally:
        await journal.close()
