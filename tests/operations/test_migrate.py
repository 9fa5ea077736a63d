"""`perdure migrate`: from nothing, once, by many at a time; and after a restore."""

from __future__ import annotations

import asyncio
import json

import pytest

from perdure.journals.postgres.schema import migrations
from tests.cli.helpers import Shell
from tests.servers.postgres import PostgresServers


@pytest.mark.slow
def test_of_several_at_a_time_one_makes_the_schema_and_the_others_find_it_done(
    postgres_servers: PostgresServers, tmp_path
):
    server = postgres_servers.get_stoppable("wheel", durable=True)
    url = server.url(asyncio.run(server.create_database()))
    shell = Shell(tmp_path)
    try:
        processes = [shell.start("migrate", "--json", "--db", url) for _ in range(3)]
        answers = [json.loads(process.wait(0)) for process in processes]
        texts = [shell.start("migrate", "--db", url).wait(0), shell.start("migrate", "--restored", "--db", url).wait(0)]
    finally:
        shell.close()
    everything = [number for number, _ in migrations()]
    assert sorted((answer["applied"] for answer in answers), key=len) == [[], [], everything]
    assert {answer["incarnation"] for answer in answers} == {1}
    assert texts[0] == "The database is up to date.\n"
    assert "Its incarnation is 1001 now" in texts[1]


def test_a_file_has_an_incarnation_too_and_one_that_is_missing_is_not_made(tmp_path):
    shell = Shell(tmp_path)
    file = tmp_path / "runs.db"
    assert "there is no database" in shell.error("migrate", "--db", file)
    assert not file.exists()
    flow = tmp_path / "flow.yaml"
    flow.write_text("{name: one, nodes: [{id: a, type: input}]}")
    shell.run("run", flow, "--db", file)
    assert shell.json("migrate", "--db", file) == {"applied": [], "incarnation": 1}
    assert shell.json("migrate", "--restored", "--db", file) == {"applied": [], "incarnation": 1001}
    shell.run("run", flow, "--db", file)
