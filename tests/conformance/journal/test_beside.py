"""archive and leases: what comes with a journal is of the same storage. What they do has suites of its own."""

from perdure.archive.audit_chain import AuditEntry
from perdure.journal import Accepted, Epoch, Fenced, partition_of
from tests.conformance.journal.commits import commit


async def test_the_archive_of_a_journal_is_in_its_storage(handles):
    one, other = await handles.open(), await handles.open()
    if one.archive is None:
        assert other.archive is None
        return
    assert await other.archive.find_audit_head("t") is None
    await one.archive.append_audit([AuditEntry(tenant="t", at=1.0, principal="p", action="a", object="o")])
    assert (await other.archive.find_audit_head("t")).seq == 1


async def test_the_leases_of_a_journal_fence_its_appends(handles):
    one, other = await handles.open(), await handles.open()
    if one.leases is None:
        assert other.leases is None
        return
    partition = partition_of("r1", one.partition_count)
    held = await one.leases.lease("first", 60.0)
    late = commit("r1", epoch=Epoch(partition, held.epochs[partition]))
    await other.leases.leave("first")
    [answer] = await one.append([late])
    assert isinstance(answer, Fenced)
    held = await other.leases.lease("second", 60.0)
    [answer] = await one.append([commit("r1", epoch=Epoch(partition, held.epochs[partition]))])
    assert isinstance(answer, Accepted)
