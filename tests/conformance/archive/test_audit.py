"""append_audit, read_audit, find_audit_head, list_audit: chains that only grow."""

import asyncio
from typing import Any

from perdure.archive.audit_chain import NO_HASH, AuditEntry, AuditFilter, AuditHead, audit_hash, audit_payload


def entry(number: int, **fields) -> AuditEntry:
    values: dict[str, Any] = {
        "tenant": "acme",
        "at": 100.25 + number,
        "principal": ("ada", "bob")[number % 2],
        "action": ("key.created", "alias.moved", "run.cancelled")[number % 3],
        "object": f"thing {number % 4}",
        "detail": b'{"number":%d}' % number,
        "request_id": f"q{number}",
    }
    return AuditEntry(**values | fields)


def objects(page) -> list[bytes]:
    return [record.entry.detail for record in page.items]


async def test_entries_come_back_in_order_chained_to_each_other(archive):
    entries = [entry(number) for number in range(5)]
    await archive.append_audit(entries[:3])
    await archive.append_audit(entries[3:])
    records = await archive.read_audit("acme")
    assert [record.entry for record in records] == entries
    assert [record.seq for record in records] == [1, 2, 3, 4, 5]
    assert [record.previous_hash for record in records] == [NO_HASH, *(record.hash for record in records[:-1])]
    for record in records:
        assert record.hash == audit_hash(record.previous_hash, record.seq, audit_payload(record.entry))
    assert await archive.find_audit_head("acme") == AuditHead(5, records[-1].hash)
    assert [record.seq for record in await archive.read_audit("acme", after=2, limit=2)] == [3, 4]


async def test_each_tenant_has_a_chain_of_its_own(archive):
    await archive.append_audit([entry(0), entry(1, tenant="globex"), entry(2), entry(3, tenant="globex")])
    for tenant, numbers in (("acme", [0, 2]), ("globex", [1, 3])):
        records = await archive.read_audit(tenant)
        assert [record.seq for record in records] == [1, 2]
        assert [record.entry for record in records] == [entry(number, tenant=tenant) for number in numbers]
    assert await archive.read_audit("nobody") == []
    assert await archive.find_audit_head("nobody") is None


async def test_chains_stay_whole_when_two_processes_write_at_once(office):
    archive, _, open_again = office
    archives = [archive, (await open_again()).archive]
    batches = [
        [entry(number), entry(number, tenant="globex"), entry(number + 1)][:: 1 if number % 2 else -1]
        for number in range(30)
    ]
    await asyncio.gather(*(archives[number % 2].append_audit(batch) for number, batch in enumerate(batches)))
    for tenant, count in (("acme", 60), ("globex", 30)):
        records = await archive.read_audit(tenant)
        assert [record.seq for record in records] == list(range(1, count + 1))
        last = NO_HASH
        for record in records:
            assert record.previous_hash == last
            last = audit_hash(last, record.seq, audit_payload(record.entry))
            assert record.hash == last
        assert await archive.find_audit_head(tenant) == AuditHead(count, last)


async def test_every_float_and_every_letter_is_hashed_as_it_was_written(archive):
    await archive.append_audit([entry(0, at=at, object="ö … 'x' \\") for at in (0.1 + 0.2, 1e15 + 0.3, 1e-9)])
    for record in await archive.read_audit("acme"):
        assert record.hash == audit_hash(record.previous_hash, record.seq, audit_payload(record.entry))


async def test_entries_are_listed_newest_first_in_pages(archive):
    await archive.append_audit([entry(number) for number in (2, 0, 1, 3, 4)])
    page = await archive.list_audit("acme", limit=3)
    assert objects(page) == [b'{"number":%d}' % number for number in (4, 3, 2)]
    page = await archive.list_audit("acme", limit=3, cursor=page.next_cursor)
    assert objects(page) == [b'{"number":%d}' % number for number in (1, 0)]
    assert page.next_cursor is None
    assert (await archive.list_audit("globex")).items == ()


async def test_entries_of_the_same_moment_are_paged_without_a_loss(archive):
    await archive.append_audit([entry(number, at=7.0) for number in range(5)])
    seen, cursor = [], None
    while True:
        page = await archive.list_audit("acme", limit=2, cursor=cursor)
        seen += [record.seq for record in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [5, 4, 3, 2, 1]


async def test_filters_hold_together(archive):
    await archive.append_audit([entry(number) for number in range(12)])

    async def numbers(**where) -> list[int]:
        page = await archive.list_audit("acme", AuditFilter(**where))
        return [int(detail[10:-1]) for detail in objects(page)]

    assert await numbers(principal="bob") == [11, 9, 7, 5, 3, 1]
    assert await numbers(action="alias.moved") == [10, 7, 4, 1]
    assert await numbers(object="thing 2") == [10, 6, 2]
    assert await numbers(since=106.25) == [11, 10, 9, 8, 7, 6]
    assert await numbers(until=102.25) == [1, 0]
    assert await numbers(principal="ada", action="alias.moved", since=104.25, until=110.25) == [4]
    assert await numbers(principal="ada' OR 1=1 --") == []
    assert await numbers(object="\0") == []
