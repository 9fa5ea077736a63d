"""What is secret stays so: in every form, and in files of the machine (S21, S26)."""

import stat
from pathlib import Path
from urllib.parse import quote

import pytest

from perdure.egress import urls
from perdure.secrets.scrubber import URL_SAFE, encodings
from perdure.settings import Settings
from tests.attack.marks import attack
from tests.cli.helpers import Shell

SECRET = 'kanarien&vogel<9f3a7c"2e'


@attack("S21", "a secret in a URL, quoted in a way of its own")
@pytest.mark.parametrize("safe", ["", "/", *URL_SAFE])
def test_a_secret_is_known_in_every_way_a_url_is_quoted(safe):
    assert (urls._PATH_SAFE, urls._QUERY_SAFE) == URL_SAFE
    assert quote(SECRET, safe=safe) in encodings(SECRET)
    assert urls._quote_path(SECRET) in encodings(SECRET)
    assert urls._quote_query(SECRET) in encodings(SECRET)


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@attack("S26", "another user of the machine reads the database")
@pytest.mark.slow
def test_what_is_written_beside_the_database_is_its_owners_alone(tmp_path):
    shell = Shell(tmp_path)
    try:
        flow = tmp_path / "flow.yaml"
        flow.write_text("{name: w, nodes: [{id: a, type: wait, config: {signal: go}}]}")
        process = shell.start("dev", "--port", "0")
        process.wait_for("Ctrl-C ends all of this")
        folder = tmp_path / ".perdure"
        assert rights(folder) == 0o700
        found = {path.name: rights(path) for path in folder.rglob("*") if path.is_file()}
        assert {"perdure.db", "perdure.db-wal", "perdure.db-shm"} <= found.keys()
        assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}
    finally:
        shell.close()


def test_a_database_that_is_there_keeps_its_rights(tmp_path):
    assert Settings.load(environ={}).database_url.endswith(".perdure/perdure.db")
    file = tmp_path / "shared.db"
    file.touch(mode=0o640)
    file.chmod(0o640)
    from perdure.journals.sqlite.connection import _make_file

    _make_file(file)
    assert rights(file) == 0o640
