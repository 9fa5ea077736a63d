"""Executes a document: writes the files it shows, runs the commands it shows, compares what they print.

A fenced block whose first line names a file (```yaml hello.yaml) is written. In a ```console block, a line that begins
with `$ ` is a command, and what follows until the next one must be what it prints. `…` stands for anything in a line, a line
of `…` alone for any lines. Ports that commands name (`--port 8700`) are others each time. Times of day, durations, run ids and temporary folders may differ. A command may end in
`# exit 3`; otherwise it must succeed.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.examples.helpers import copy
from tests.forking import commands
from tests.ports import free_port

BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PORT = re.compile(r"(?<=--port )\d{4}\b")
VARYING = [
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "HH:MM:SS"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "YYYY-MM-DD"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "RUN-ID"),
    (re.compile(r"\b[0-9a-f]{8,31}\b"), "RUN-ID"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|min)\b"), "DURATION"),
]


def blocks(text):
    """(language, name or None, content), in order."""
    return [(found[1], found[2], found[3]) for found in BLOCK.finditer(text)]


def steps(content):
    """(command, expected exit code, expected lines) of a console block."""
    found: list = []
    for line in content.splitlines():
        if line.startswith("$ "):
            command, _, code = line[2:].partition("  # exit ")
            found.append((command.rstrip(), int(code or 0), []))
        elif found and line.startswith("> "):
            command, code, lines = found[-1]
            found[-1] = (f"{command}\n{line[2:]}", code, lines)
        elif found:
            found[-1][2].append(line)
    return found


def normal(line):
    for pattern, name in VARYING:
        line = pattern.sub(name, line)
    return re.sub(r" {2,}", "  ", line.rstrip())


def matches(expected, printed):
    """The expected lines against the printed ones, with `…` in either of its two meanings."""
    if not expected:
        return not printed
    if expected[0].strip() == "…":
        return any(matches(expected[1:], printed[at:]) for at in range(len(printed) + 1))
    if not printed:
        return False
    pattern = ".*".join(map(re.escape, normal(expected[0]).split("…")))
    return re.fullmatch(pattern, normal(printed[0])) is not None and matches(expected[1:], printed[1:])


def with_own_ports(text: str, folder: Path) -> str:
    """The document with other ports than it names: what stands there may be in use. So it is with the files in its folder."""
    for port in set(PORT.findall(text)):
        named, own = re.compile(rf"(?<=[ :]){port}\b"), str(free_port())
        text = named.sub(own, text)
        for file in [one for one in folder.rglob("*") if one.suffix in {".toml", ".yaml", ".py", ".sh"}]:
            file.write_text(named.sub(own, file.read_text(encoding="utf-8")), encoding="utf-8")
    return text


def execute(document: Path, folder: Path) -> int:
    """How many commands were run. The document of an example is executed in a copy of its folder."""
    if document.parent.parent.name == "examples":
        folder = copy(document.parent.name, folder)
    ours = ("PERDURE_", "PYTHONUNBUFFERED")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "110", "TERM": "dumb"}
    quick = {**environment, "PATH": f"{commands()}:{environment['PATH']}"}
    count = 0
    for language, name, content in blocks(with_own_ports(document.read_text(encoding="utf-8"), folder)):
        if name:
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
        elif language == "console":
            for command, code, expected in steps(content):
                done = subprocess.run(
                    ["bash", "-c", command],
                    cwd=folder,
                    env=environment if " & " in command else quick,  # what is killed is started as it is
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=120,
                    check=False,
                )
                printed = done.stdout.strip("\n").splitlines()
                while expected and not expected[-1].strip():
                    expected.pop()
                shown = f"{document.name}: $ {command}\n{done.stdout}"
                assert done.returncode == code, f"exit {done.returncode}, not {code}\n{shown}"
                assert matches(expected, printed), f"printed something else than the document says\n{shown}"
                count += 1
    return count


ARROW = "# → "


def execute_python(code: str, names: dict, document: Path) -> int:
    """Statements are executed; an expression with an arrow behind it must give what stands there. How many there were."""
    lines, checked = code.splitlines(), 0
    for statement in ast.parse(code).body:
        _, arrow, expected = lines[(statement.end_lineno or 1) - 1].partition(ARROW)
        if arrow:
            assert isinstance(statement, ast.Expr), statement
            assert repr(eval(ast.unparse(statement), names)) == expected
            checked += 1
        else:
            exec(compile(ast.Module([statement], []), str(document), "exec"), names)
    return checked
