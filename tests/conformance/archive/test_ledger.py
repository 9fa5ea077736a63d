"""sum_ledger: what runs have used, added up over days, workflows and models, in the transaction of each append (rule 85)."""

import asyncio

import msgspec

from perdure.journal import Accepted, Conflict, LedgerRow
from tests.conformance.journal.commits import append, commit

ROW = LedgerRow(
    tenant="acme", day="2026-11-18", workflow="orders", model="fast", input=100, output=10, calls=1, usd=2_000
)


def used(**fields):
    return msgspec.structs.replace(ROW, **fields)


async def sums(archive, by, since="2026-01-01", until="2027-01-01", tenant="acme", **more):
    found = await archive.sum_ledger(tenant, by, since, until, **more)
    return {one.name: (one.calls, one.input, one.usd) for one in found}


async def test_what_appends_bring_is_added_up(office):
    archive, journal, _ = office
    more = used(model="", unsettled_calls=1, unsettled_usd=7, input=0, output=0, calls=0, usd=0)
    await append(journal, commit("r1", ledger=(ROW, used(model="slow", usd=5), more)))
    await append(journal, commit("r2", ledger=(used(day="2026-11-19"), used(workflow="mails", unpriced=1))))
    await append(journal, commit("r3", ledger=(used(tenant="other"),)))
    assert await sums(archive, "model") == {"": (0, 0, 0), "fast": (3, 300, 6_000), "slow": (1, 100, 5)}
    assert await sums(archive, "workflow") == {"mails": (1, 100, 2_000), "orders": (3, 300, 4_005)}
    assert await sums(archive, "day") == {"2026-11-18": (3, 300, 4_005), "2026-11-19": (1, 100, 2_000)}
    assert await sums(archive, "tenant") == {"acme": (4, 400, 6_005)}
    assert await sums(archive, "tenant", tenant="other") == {"other": (1, 100, 2_000)}
    assert await sums(archive, "model", since="2026-11-19") == {"fast": (1, 100, 2_000)}
    assert await sums(archive, "tenant", until="2026-11-19") == {"acme": (3, 300, 4_005)}
    assert await sums(archive, "tenant", workflow="mails") == {"acme": (1, 100, 2_000)}
    assert await sums(archive, "model", limit=1) == {"": (0, 0, 0)}
    [whole] = await archive.sum_ledger("acme", "tenant", "2026-01-01", "2027-01-01")
    assert (whole.unpriced, whole.unsettled_calls, whole.unsettled_usd, whole.output) == (1, 1, 7, 40)
    assert await sums(archive, "tenant", since="2026-12-01") == {}


async def test_a_commit_counts_once_and_only_if_it_is_accepted(office):
    archive, journal, _ = office
    made = commit("r1", ledger=(ROW,))
    assert isinstance(await append(journal, made), Accepted)
    assert isinstance(await append(journal, made), Accepted)
    refused = commit("r1", seq=7, ledger=(ROW,))
    assert isinstance(await append(journal, refused), Conflict)
    assert await sums(archive, "tenant") == {"acme": (1, 100, 2_000)}


async def test_many_at_once_lose_nothing(office):
    archive, journal, open_again = office
    other = await open_again()
    rows = [used(model=name, day=day) for name in "cab" for day in ("2026-11-19", "2026-11-18")]
    commits = [commit(f"r{number}", ledger=tuple(rows if number % 2 else reversed(rows))) for number in range(40)]
    one, two = commits[:20], commits[20:]
    await asyncio.gather(append(journal, *one), append(other.journal, *two), append(journal, *one))
    assert await sums(archive, "tenant") == {"acme": (240, 24_000, 480_000)}
    large = used(model="large", usd=10**15, calls=10**9)
    for number in range(3):
        await append(journal, commit(f"large{number}", ledger=(large,)))
    assert (await sums(archive, "model"))["large"] == (3 * 10**9, 300, 3 * 10**15)
