"""save_budget, delete_budget, read_purses: budgets over several runs, with what appends brought (rule 85)."""

import asyncio

from perdure.purses import BudgetRow, Purse
from tests.conformance.archive.test_ledger import used
from tests.conformance.journal.commits import append, commit

WHOLE = BudgetRow(tenant="acme", scope="tenant", usd=10**12, tokens=1_000, calls=7, per="month", share=0.25)
OF_ORDERS = BudgetRow(tenant="acme", scope="workflow:orders", calls=3, per="day")


async def purses(journal, tenant="acme", day="2026-11-19", **more):
    return {one.scope: one for one in await journal.read_purses(tenant, day, f"{day[:8]}01", **more)}


async def test_a_budget_is_kept_replaced_and_deleted(office):
    archive, journal, _ = office
    assert await purses(journal) == {}
    await archive.save_budget(WHOLE)
    await archive.save_budget(OF_ORDERS)
    await archive.save_budget(BudgetRow(tenant="other", scope="tenant", calls=1))
    assert (await purses(journal))["tenant"] == Purse(
        tenant="acme", scope="tenant", usd=10**12, tokens=1_000, calls=7, per="month", share=0.25
    )
    await archive.save_budget(BudgetRow(tenant="acme", scope="tenant", tokens=5, per="day"))
    found = (await purses(journal))["tenant"]
    assert (found.usd, found.tokens, found.calls, found.per, found.share) == (None, 5, None, "day", 1.0)
    assert await archive.delete_budget("acme", "tenant")
    assert not await archive.delete_budget("acme", "tenant")
    assert list(await purses(journal)) == ["workflow:orders"]
    assert list(await purses(journal, "other")) == ["tenant"]


async def test_a_purse_has_what_was_used_since_its_period_began_and_what_is_set_aside(office):
    archive, journal, _ = office
    for budget in (WHOLE, OF_ORDERS):
        await archive.save_budget(budget)
    await append(journal, commit("r1", ledger=(used(day="2026-10-31"), used(day="2026-11-01"), used(model="slow"))))
    await append(journal, commit("r2", ledger=(used(day="2026-11-19", calls=2), used(workflow="mails", calls=4))))
    await append(journal, commit("r3", ledger=(used(tenant="other", day=""), used(day="", model="", calls=5))))
    await append(journal, commit("r4", ledger=(used(day="", model="", calls=-2, usd=-500, input=-40, output=0),)))
    found = await purses(journal)
    whole, orders = found["tenant"], found["workflow:orders"]
    assert (whole.spent_calls, whole.spent_usd, whole.spent_tokens) == (8, 8_000, 440)
    assert (whole.held_calls, whole.held_usd, whole.held_tokens) == (3, 1_500, 70)
    assert (orders.spent_calls, orders.held_calls) == (2, 3)
    assert (await purses(journal, day="2026-12-01"))["tenant"].spent_calls == 0
    assert await archive.sum_ledger("acme", "day", "2026-01-01", "2027-01-01", limit=1) != []
    assert "" not in {one.name for one in await archive.sum_ledger("acme", "day", "2026-01-01", "2027-01-01")}


async def test_only_what_holds_for_a_workflow_is_read_for_its_runs(office):
    archive, journal, _ = office
    for scope in ("tenant", "workflow:orders", "workflow:mails"):
        await archive.save_budget(BudgetRow(tenant="acme", scope=scope, calls=1))
    assert list(await purses(journal)) == ["tenant", "workflow:mails", "workflow:orders"]
    assert list(await purses(journal, workflow="orders")) == ["tenant", "workflow:orders"]
    assert list(await purses(journal, limit=2)) == ["tenant", "workflow:mails"]


async def test_what_two_processes_set_aside_at_once_is_added_up(office):
    archive, journal, open_again = office
    other = await open_again()
    await archive.save_budget(WHOLE)
    one, two = ([commit(f"{name}{n}", ledger=(used(day="", calls=1),)) for n in range(20)] for name in "ab")
    await asyncio.gather(append(journal, *one), append(other.journal, *two))
    assert (await purses(journal))["tenant"].held_calls == 40
