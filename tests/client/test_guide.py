"""The guide to clients is executed against a server: what it shows is what comes out."""

import ast

from click.testing import CliRunner

from perdure.cli.app import app
from tests.cli.helpers import ROOT
from tests.client.helpers import Background
from tests.documents import blocks

GUIDE = ROOT / "docs" / "guides" / "client.md"
ADDRESS = "http://127.0.0.1:8700"
ARROW = "# → "


def execute(code, names):
    """Statements are executed; an expression with an arrow behind it must give what stands there."""
    lines, checked = code.splitlines(), 0
    for statement in ast.parse(code).body:
        _, arrow, expected = lines[statement.end_lineno - 1].partition(ARROW)
        if arrow:
            assert isinstance(statement, ast.Expr), statement
            assert repr(eval(ast.unparse(statement), names)) == expected
            checked += 1
        else:
            exec(compile(ast.Module([statement], []), str(GUIDE), "exec"), names)
    return checked


def test_the_guide_is_true(tmp_path, monkeypatch):
    names: dict[str, object] = {}
    checked = commands = 0
    monkeypatch.chdir(tmp_path)
    with Background(tmp_path) as server:
        for language, name, text in blocks(GUIDE.read_text(encoding="utf-8")):
            text = text.replace(ADDRESS, server.url)
            if name:
                (tmp_path / name).write_text(text)
            elif language == "python":
                checked += execute(text, names)
            else:
                commands += run(text, monkeypatch)
    assert (checked >= 10, commands) == (True, 4)


def run(text, monkeypatch):
    lines = text.splitlines()
    name, _, value = lines[0].removeprefix("export ").partition("=")
    monkeypatch.setenv(name, value)
    for line in lines[1:]:
        result = CliRunner().invoke(app, line.split()[1:], catch_exceptions=False)
        assert result.exit_code == 0, (line, result.output)
    return len(lines) - 1
