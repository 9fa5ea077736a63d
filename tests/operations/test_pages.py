"""What the operations pages say is true where a machine can tell: settings, commands, files and rights."""

from __future__ import annotations

import asyncio
import configparser
import re
import shlex
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import click
import pytest
import yaml

from perdure.cli.app import app
from perdure.journals.postgres import migrate_postgres
from perdure.settings import NAMES, SECRET_PREFIX
from tests.distributed.helpers import PARTITIONS, Deployment
from tests.documents import blocks
from tests.engine.helpers import ended, start, task, workflow
from tests.servers.postgres import PostgresServers
from tests.servers.redis import RedisServer

FOLDER = Path(__file__).parents[2] / "docs" / "operations"
PAGES = ["deployment", "sizing", "backup", "upgrade"]


def read(page: str) -> str:
    return (FOLDER / f"{page}.md").read_text(encoding="utf-8")


def parse(arguments: list[str]) -> None:
    """As the command line would, without running it: raises for what does not exist."""
    command: click.Command = app
    context = click.Context(app, info_name="perdure")
    while isinstance(command, click.Group):
        name, found, arguments = command.resolve_command(context, arguments)
        assert found is not None, name
        command = found
        context = click.Context(command, info_name=name, parent=context)
    command.parse_args(context, list(arguments))


@pytest.mark.parametrize("page", PAGES)
def test_settings_named_there_exist(page):
    named = set(re.findall(r"\bPERDURE_[A-Z_]*[A-Z]\b(?!_?…)", read(page)))
    assert named - {f"PERDURE_{name.upper()}" for name in NAMES} - {SECRET_PREFIX.rstrip("_")} == set()


@pytest.mark.parametrize("page", PAGES)
def test_commands_shown_there_exist(page):
    shown = [line for language, _, text in blocks(read(page)) if language == "sh" for line in text.splitlines()]
    inline = re.findall(r"`perdure ([^`]+)`", read(page))
    for line in [*(line.removeprefix("perdure ") for line in shown if line.startswith("perdure ")), *inline]:
        name = shlex.split(line, comments=True)[0]
        assert app.get_command(click.Context(app), name) is not None, line


def test_the_units_start_commands_there_are():
    units = [text for language, _, text in blocks(read("deployment")) if language == "ini"]
    assert len(units) == 2
    for text in units:
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read_string(text)
        program, *arguments = shlex.split(unit["Service"]["ExecStart"])
        assert Path(program).name == "perdure"
        parse(arguments)


def test_the_compose_file_starts_commands_there_are_with_settings_there_are():
    [text] = [text for language, _, text in blocks(read("deployment")) if language == "yaml"]
    services = yaml.safe_load(text)["services"]
    ours = {name: service for name, service in services.items() if service.get("command", [""])[0] == "perdure"}
    assert set(ours) == {"migrate", "serve", "worker"}
    for service in ours.values():
        parse(service["command"][1:])
        assert {name.removeprefix("PERDURE_").lower() for name in service["environment"]} <= set(NAMES)
    for name in ("serve", "worker"):  # without it a worker imports whatever a task names
        assert ours[name]["environment"]["PERDURE_AUTH"] != "open"


@pytest.mark.slow
async def test_a_deployment_runs_with_the_rights_that_the_page_grants_and_no_more(
    postgres_servers: PostgresServers, redis_server: RedisServer, tmp_path: Path
):
    server = postgres_servers.get("wheel")
    name = await server.create_database()
    await migrate_postgres(server.url(name), partitions=PARTITIONS)
    [grants] = [text for language, _, text in blocks(read("deployment")) if language == "sql"]
    role = f"app_{name}"  # roles belong to the whole server
    await server.execute(re.sub(r"\b(ROLE|TO) perdure\b", rf"\1 {role}", grants), name)
    url = server.url(name, user=role)
    deployment = Deployment(url, redis_server, tmp_path / "blobs")
    try:
        await deployment.coordinator()
        await deployment.worker()
        client = await deployment.open()
        await start(client, workflow(task("a", args={"value": 7})), "r1")
        assert (await ended(client, "r1")).state.value == "completed"
        connection = await asyncpg.connect(url)
        try:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute("DROP TABLE perdure.events")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute("CREATE TABLE perdure.mine ()")
        finally:
            await connection.close()
    finally:
        for engine in reversed(list(deployment.engines)):
            await deployment.close(engine)
        await asyncio.sleep(0)
