"""The guide to clients is executed against a server: what it shows is what comes out."""

import pytest
from click.testing import CliRunner

from perdure.cli.app import app
from tests.cli.helpers import ROOT
from tests.client.helpers import Background
from tests.documents import blocks, execute_python

GUIDE = ROOT / "docs" / "guides" / "client.md"
ADDRESS = "http://127.0.0.1:8700"


@pytest.mark.slow
def test_the_guide_is_true(tmp_path, monkeypatch, capsys):
    names: dict[str, object] = {}
    checked = commands = 0
    monkeypatch.chdir(tmp_path)
    with Background(tmp_path) as server:
        for language, name, text in blocks(GUIDE.read_text(encoding="utf-8")):
            text = text.replace(ADDRESS, server.url)
            if name:
                (tmp_path / name).write_text(text)
            elif language == "python":
                checked += execute_python(text, names, GUIDE)
            else:
                commands += run(text, monkeypatch)
    assert (checked >= 8, commands) == (True, 4)
    assert capsys.readouterr().out.split()[:2] == ["invalid_inputs", "409"]


def run(text, monkeypatch):
    lines = text.splitlines()
    name, _, value = lines[0].removeprefix("export ").partition("=")
    monkeypatch.setenv(name, value)
    for line in lines[1:]:
        result = CliRunner().invoke(app, line.split()[1:], catch_exceptions=False)
        assert result.exit_code == 0, (line, result.output)
    return len(lines) - 1
