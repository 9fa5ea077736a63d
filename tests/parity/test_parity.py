"""Every command that can be given a server says the same on a database: what it prints, how it refuses, and its exit code.

Both when a process holds the database, so that the command asks that process, and when none does, so that it decides itself.
"""

import click
import pytest

from perdure.cli.app import app
from tests.parity import cases
from tests.parity.cases import CASES
from tests.parity.world import Stock, held, unheld

SERVER_ONLY = {
    *(cases.blobs_get, cases.blobs_stat, cases.keys_revoke, cases.audit_list, cases.workflows_push, cases.graph),
    *cases.TRIGGERS,
    *(cases.tools_list, cases.tools_show, cases.tools_promote, cases.tools_retire, cases.tools_pin),
}
"""They begin with something that is made through the server, which the database that nobody holds does not have."""
MOST = 4


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with held(tmp_path_factory) as made:
        yield made


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    return Stock(tmp_path_factory, MOST)


@pytest.fixture
def unheld_world(tmp_path_factory, stock):
    with unheld(tmp_path_factory, stock) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_database_and_a_server_answer_the_same(world, case):
    case(world)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case not in SERVER_ONLY], ids=lambda case: case.__name__)
def test_a_database_that_no_process_holds_and_a_server_answer_the_same(unheld_world, case):
    case(unheld_world)


def test_every_command_that_can_be_given_a_server_has_a_case():
    found = set(_commands(app, (), set()))
    assert found - {"mcp"} == {case.__name__ for case in CASES}  # it speaks for a server, and has no database


def _commands(group, names, seen):
    """`perdure schedules` has commands of `perdure triggers`, which are asked once."""
    ctx = click.Context(group)
    for name in sorted(group.list_commands(ctx), key=lambda name: (name == "schedules", name)):
        command = group.get_command(ctx, name)
        path = (*names, name.replace("-", "_"))
        if isinstance(command, click.Group):
            yield from _commands(command, path, seen)
        elif id(command) not in seen and any(one.name == "server" and one.expose_value for one in command.params):
            seen.add(id(command))
            yield "_".join(path)
