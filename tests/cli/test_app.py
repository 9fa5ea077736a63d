"""The command line as a whole: help is quick, typos are met, errors have no traceback, the reference is complete."""

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from perdure.cli.app import HELPS, SECTIONS, app
from perdure.cli.frame.exits import ExitCode
from tests.cli.helpers import ROOT, task, workflow

REFERENCE = ROOT / "docs" / "reference" / "cli.md"


def commands(group, path=()):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def groups(group, path=()):
    yield path, group
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from groups(command, (*path, name))


COMMANDS = dict(commands(app))


@pytest.mark.parametrize(
    ("path", "group"), list(groups(app)), ids=lambda one: " ".join(one) if isinstance(one, tuple) else ""
)
def test_help_lists_every_command_there_is(path, group):
    context = click.Context(group, info_name="perdure")
    told = group.get_help(context)
    for name in (*group.list_commands(context), *group.aliases):
        assert re.search(rf"^  {name} ", told, re.MULTILINE), f"perdure {' '.join(path)} --help says nothing of {name}"
    assert max(map(len, told.splitlines())) <= 80


HEAVY = {
    "asyncio", "concurrent.futures", "jinja2", "msgspec", "rich", "sqlite3", "ssl", "tomllib", "yaml",
    "perdure.cli.run", "perdure.cli.runs", "perdure.drawing", "perdure.engine", "perdure.kernel", "perdure.model", "perdure.nodes", "perdure.runtime", "perdure.sdk", "perdure.settings",
}  # fmt: skip
"""What takes time to import, and what `perdure --help` has no use for."""


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["-h"]], ids=" ".join)
def test_help_and_version_import_nothing_heavy(args):
    code = (
        f"import sys; from perdure.cli.app import app\n"
        f"try: app({args})\n"
        f"except SystemExit: pass\n"
        f"sys.exit(', '.join(sorted({HEAVY} & set(sys.modules))) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run", "runs list", "graph", "init"])
def test_help_of_a_command_does_not_import_the_engine(name):
    code = (
        f"import sys; from perdure.cli.app import app\n"
        f"try: app([*{name.split()}, '--help'])\n"
        f"except SystemExit: pass\n"
        f"sys.exit(', '.join(sorted({{'asyncio.base_events', 'rich', 'perdure.engine', 'perdure.drawing'}} & set(sys.modules) - {{'asyncio.base_events'}})) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_what_reads_tokens_is_imported_where_tokens_are_accepted():
    """It is a quarter of what a command on a database imports."""
    code = "import sys, perdure.service; sys.exit(', '.join({'jwt', 'cryptography.x509'} & set(sys.modules)) or 0)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_list_of_commands_says_what_they_say_themselves():
    context = click.Context(app)
    found = {name: app.get_command(context, name) for name in app.list_commands(context)}
    said = {name: command.get_short_help_str(80) for name, command in found.items() if command is not None}
    assert said == HELPS


def test_python_dash_m_works():
    result = subprocess.run([sys.executable, "-m", "perdure", "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"perdure \d+\.\d+\.\d+\n", result.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(shell, name):
    text = shell.run(*name.split(), "--help").stdout
    assert COMMANDS[name].help
    for parameter in COMMANDS[name].params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, f"{name} {parameter.name}"
            assert parameter.opts[-1] in text


@pytest.mark.parametrize("name", sorted({name.split()[0] for name in COMMANDS if " " in name}))
def test_no_summary_is_cut_off_on_a_terminal_of_80_columns(shell, name):
    lines = shell.run(name, "--help").stdout.partition("Commands:")[2].splitlines()
    room = 78  # of 80 click leaves two free, but in tests
    assert [line for line in lines if line.endswith("...") or len(line) > room] == []


@pytest.mark.parametrize(
    ("args", "code", "exit_code"),
    [
        (["runs", "show", "nothing", "--json"], "not_found", 1),
        (["runs", "list", "--json", "--limit", "0"], "usage", 2),
        (["runs", "list", "--limit", "0", "--json"], "usage", 2),
    ],
)
def test_an_error_is_json_where_the_answer_would_be(shell, tmp_path, args, code, exit_code):
    shell.run("run", workflow(tmp_path, "w", task("a", "echo")))
    result = shell.run(*args, code=exit_code)
    assert (result.stdout, json.loads(result.stderr)["error"]["code"]) == ("", code)
    assert json.loads(result.stderr)["error"]["message"]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["vlaidate"], "did you mean 'validate'?"),
        (["runs", "lsit"], "did you mean 'list'?"),
        (["explain", "r1"], "did you mean 'runs explain'?"),
        (["retry", "r1"], "did you mean 'runs retry' or 'dlq retry'?"),
        (["show", "r1"], "say of what, as in 'runs show' and 'approvals show'"),
        (["runs", "list", "--stat", "x"], "Did you mean"),
        (["runs", "list", "--state", "complete"], "completed"),
        (["zzz"], "there are init, run, dev"),
        (["dlq", "reproces"], "did you mean 'reprocess'?"),
        (["run", "--no-wiat", "x"], "Did you mean"),
        (["runs", "list", "--limt", "3"], "Did you mean"),
    ],
)
def test_a_typo_gets_a_suggestion_and_2(shell, args, expected):
    assert expected in shell.error(*args, code=2)


def test_a_bug_is_one_line_and_a_traceback_only_with_debug(shell, tmp_path, monkeypatch):
    def broken(*args, **kwargs):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("perdure.cli.frame.database.load_settings", broken)
    text = shell.error("runs", "list")
    assert "Error: ZeroDivisionError: oops\nThis is a bug in Perdure." in text
    with pytest.raises(ZeroDivisionError):
        shell.run("runs", "list", "--debug")


def test_bad_settings_exit_with_2(shell, tmp_path, monkeypatch):
    (tmp_path / "perdure.toml").write_text("retention_day = 3\n")
    assert "did you mean 'retention_days'?" in shell.error("runs", "list", code=2)
    monkeypatch.setenv("PERDURE_RETENTION_DAYS", "many")
    (tmp_path / "perdure.toml").unlink()
    assert "PERDURE_RETENTION_DAYS" in shell.error("config", "show", code=2)


def test_config_show_says_where_each_value_came_from(shell, tmp_path):
    (tmp_path / "perdure.toml").write_text("retention_days = 3\n")
    items = {item["name"]: item for item in shell.json("config", "show", "--db", "x.db")["items"]}
    assert (items["retention_days"]["value"], items["retention_days"]["source"]) == (3, "perdure.toml")
    assert items["database_url"]["source"] == "--db"
    assert items["partitions"]["source"] == "default"
    assert re.search(r"^retention_days +3 +perdure.toml$", shell.run("config", "show").stdout, re.MULTILINE)


def test_a_journal_that_cannot_be_opened_is_an_error_without_traceback(shell, tmp_path):
    file = workflow(tmp_path, "one", {"id": "a", "type": "input"})
    (tmp_path / "folder.db").mkdir()
    assert "folder.db is a folder" in shell.error("run", file, "--db", "folder.db")


def test_every_command_stands_below_one_heading_and_there_is_no_other():
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(HELPS)


# -- the reference -----------------------------------------------------------------------------------------------------


def sections():
    """Heading to text: `### perdure runs list` and what follows it."""
    text = REFERENCE.read_text(encoding="utf-8")
    parts = re.split(r"^### `perdure ([a-z -]+?)(?: [A-Z\[][^`]*)?`$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def documented_as(name):
    """The command that a section is about: those of `perdure schedules` are those of `perdure triggers`."""
    return re.sub("^schedules ", "triggers ", name)


def test_the_reference_has_exactly_the_commands_there_are():
    assert set(sections()) == set(map(documented_as, COMMANDS))


def test_schedules_has_the_commands_of_triggers():
    own = {name.partition(" ")[2]: command for name, command in COMMANDS.items() if name.startswith("schedules ")}
    others = {name.partition(" ")[2]: command for name, command in COMMANDS.items() if name.startswith("triggers ")}
    assert others.keys() - own.keys() == {"rewind"}
    assert {name for name, command in own.items() if others[name] is not command} == {"list"}


UNTIL_STOPPED = {"chat", "dev", "serve", "worker", "llm-server", "mcp"}
"""They print no result."""
WITH_SERVER = {
    "validate",
    "audit",
    "budgets",
    "cost",
    "keys",
    "graph",
    "run",
    "runs",
    "approvals",
    "dlq",
    "workflows",
    "events",
    "triggers",
    "schedules",
    "assets",
    "blobs",
    "node-types",
    "mcp",
    "tools",
    "sessions",
    "chat",
}
"""They work through a server too; the rest is for whoever has the database, or needs neither."""
WITHOUT_DATABASE = {
    "models list",
    "models test",
    "mcp",
    "llm-server",
    "schema",
    "simulate",
    "init",
    "completion",
    "secrets list",
    "node-types",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_reference_has_exactly_the_flags_of_each_command(name):
    documented = set(re.findall(r"(?<![\w`])`(--?[a-z][a-z-]*)", sections()[documented_as(name)]))
    common = {"--json", "--debug", "--db", "--server", "--api-key"}
    options = [option for option in COMMANDS[name].params if isinstance(option, click.Option) and not option.hidden]
    real = {spelling for option in options for spelling in (*option.opts, *option.secondary_opts)}
    if name == "schedules list":
        documented -= {"--kind"}
    assert documented - common == real - common
    assert ("--json" in real) == (name not in UNTIL_STOPPED)
    assert ("--db" in real) == (name not in WITHOUT_DATABASE)
    assert ("--server" in real) == ("--api-key" in real) == (name.split()[0] in WITH_SERVER)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_reference_names_the_arguments_as_the_usage_does(name):
    heading = re.search(
        rf"^### `perdure ({documented_as(name)}(?: [A-Z\[].*)?)`$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert heading is not None
    usage = [
        parameter.make_metavar(click.Context(COMMANDS[name]))
        for parameter in COMMANDS[name].params
        if isinstance(parameter, click.Argument)
    ]
    assert heading.group(1).split()[len(name.split()) :] == [re.sub(r"\{.*\}", "SHELL", word) for word in usage]


def test_other_names_of_commands_are_in_the_reference():
    text = REFERENCE.read_text(encoding="utf-8")
    found = [(path, alias) for path, group in groups(app) for alias in group.aliases]
    assert found
    assert [alias for path, alias in found if f"`perdure {' '.join((*path, alias))}`" not in text] == []


def test_the_reference_has_every_exit_code():
    text = REFERENCE.read_text(encoding="utf-8")
    assert {int(number) for number in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)} == {
        int(code) for code in ExitCode
    }


def test_examples_in_the_reference_are_commands_there_are():
    lines = re.findall(r"^perdure (.+)$", Path(REFERENCE).read_text(encoding="utf-8"), re.MULTILINE)
    assert lines
    known = {name.split()[0] for name in COMMANDS}
    assert [line for line in lines if line.split()[0] not in known] == []


def test_no_page_and_no_demo_spells_who_decides_in_the_other_way():
    """`--as NAME` of a decision is understood, and hidden: pages, hints and demo say `--by`."""
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*")]:
        if page.suffix in (".md", ".py", ".yaml", ".sh"):
            for line in page.read_text(encoding="utf-8").splitlines():
                assert not ("approvals" in line and " --as " in line), f"{page}: {line}"


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_every_setting_that_a_process_of_several_lacks_is_named_at_once(shell, command):
    text = shell.error(command, code=2)
    for name in ("PERDURE_DATABASE_URL", "PERDURE_REDIS_URL", "PERDURE_SIGNING_KEYS"):
        assert name in text
