"""What the words and links of the web interface lead to: routes that there are, and commands that work."""

import re
import shlex
from pathlib import Path

from perdure.web import PAGES
from tests.cli.helpers import Shell

ROOT = Path(__file__).resolve().parent.parent.parent
UI = ROOT / "ui" / "src"
ROUTES = set(re.findall(r'^  \["(/[^"]*)", \(\) =>', (UI / "main.tsx").read_text(encoding="utf-8"), re.MULTILINE))


def fits(path: str, route: str) -> bool:
    """Whether a path leads to a route. A part of the path that is only known in a browser is `*`."""
    found, wanted = path.split("/"), route.split("/")
    return len(found) == len(wanted) and all(
        part.startswith("{") or part == given for given, part in zip(found, wanted, strict=True)
    )


def find_targets() -> dict[str, str]:
    """The paths that are written out in `href(…)`, with what is filled in as `*`, and the file that has each."""
    found = {}
    for file in sorted(UI.rglob("*.ts*")):
        text = file.read_text(encoding="utf-8")
        for _, path in re.findall(r"""\bhref\(\s*(["`])(/.*?)\1""", text):
            found[re.sub(r"\$\{[^}]*\}", "*", path)] = file.name
        if file.parent.name == "words":
            found |= dict.fromkeys(re.findall(r"""\["(/[a-z/-]+)", "[A-Z]""", text), file.name)
    text = (UI / "shell" / "Shell.tsx").read_text(encoding="utf-8")
    return found | dict.fromkeys(re.findall(r'path="(/[^"]*)"', text), "Shell.tsx")


def test_every_link_leads_to_a_screen():
    targets = find_targets()
    assert {"/runs", "/approvals", "/admin/audit", "/dead-letters/*", "/runs/*/edit"} <= set(targets)
    known = [*ROUTES, "/assets/{build}/icon.svg"]
    assert {path: file for path, file in targets.items() if not any(fits(path, route) for route in known)} == {}


def test_the_server_and_the_router_know_the_same_screens():
    assert len(ROUTES) >= 20
    assert set(PAGES) == ROUTES


def test_the_commands_that_are_shown_are_those_that_init_prints(tmp_path, monkeypatch):
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted((UI / "words").glob("*.ts")))
    shown = [
        one for line in re.findall(r'"(perdure init [^\n]*)', text) for one in re.findall(r"perdure run [^\"&]+", line)
    ]
    assert len(shown) == 2
    monkeypatch.chdir(tmp_path)
    printed = Shell(tmp_path).run("init", "hello").stderr
    wanted = {line.strip() for line in printed.splitlines()}
    for one in shown:
        file = shlex.split(one)[2]
        assert (tmp_path / file).is_file(), one
        assert one.replace("hello/", "") in wanted
