"""What docs/operations/postgres.md says can be done, can."""

import re
from pathlib import Path

from tests.conformance.journal.commits import append, commit

DOCUMENT = (Path(__file__).parents[3] / "docs" / "operations" / "postgres.md").read_text(encoding="utf-8")


async def test_every_statement_it_shows_works(journal, admin):
    await append(journal, commit("r1", timers_set=(("t", 1.0),)))
    await journal.leases.lease("coordinator", 60.0)
    statements = re.findall(r"```sql\n(.*?)```", DOCUMENT, re.DOTALL)
    assert len(statements) >= 2
    for statement in statements:
        await admin.execute(statement)
    await append(journal, commit("r1", 1))


async def test_every_table_is_named(admin):
    rows = await admin.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'perdure' AND tablename !~ '^events_'")
    assert [row[0] for row in rows if f"`{row[0]}`" not in DOCUMENT] == []
