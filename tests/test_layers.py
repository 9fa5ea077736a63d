"""Import directions, kept: who may import whom inside `perdure`, and what the pure layers may import from outside.

The table is the architecture. Whoever needs a new arrow changes it here, in the same commit, with the reason.
"""

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "perdure"
LONGEST_FILE = 600

PORTS = {
    "records",
    "purses",
    "journal",
    "topic_log",
    "archive",
    "leases",
    "limits",
    "transport",
    "blobs",
    "streams",
}
ADAPTERS = {"journals", "transports", "blob_stores"}
BASE = {"errors", "clock", "budget", "model", "plain", "plain_text", "tempo", "capacity", "spelling"}
MIDDLE = {
    "expressions",
    "nodes",
    "functions",
    "outcomes",
    "asks",
    "assets",
    "chunks",
    "spending",
    "secrets",
    "egress",
    "llms",
    "agents",
    "sandbox",
    "pipeline",
    "triggers",
    "sources",
}

# A part of `perdure` (a module or a folder) -> the parts it may import. Itself is always allowed.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "clock": set(),
    "plain": set(),
    "plain_text": set(),  # what may be seen of a text, and how it is cut
    "spelling": set(),  # what somebody may have meant
    "budget": set(),  # what work may cost
    "turns": set(),  # who is next
    "places": {"turns"},  # and for what
    "threads": {"places"},  # what is done beside the loop
    "pieces": set(),  # how much is searched in one go
    "weight": {"pieces"},  # how long JSON takes to be read
    "tempo": set(),  # how often, and how long
    "capacity": set(),  # how much
    "settings": {"errors", "tempo", "capacity", "spelling"},
    "model": {"errors", "spelling", "budget", "weight"},
    "kernel": {"model", "spelling", "budget"},
    "invariants": {"model", "kernel"},
    "drawing": {"model", "kernel"},  # pictures of workflows and of runs
    "outcomes": {"errors"},
    "asks": {"outcomes", "plain_text", "spending"},  # what a handler may ask for
    "assets": {"blobs", "errors", "outcomes", "plain_text"},  # files that functions give and take
    "chunks": {"outcomes"},  # what a function writes that yields, or reads what others yield
    "spending": {"model", "plain_text"},  # what a handler says that it uses
    "secrets": {"errors", "clock", "kernel", "plain_text", "pieces", "weight"},
    "functions": {"errors", "plain_text"},
    "private_servers": {"errors", "clock"},  # programs, folders and signals
    "egress": {"errors", "settings", "plain_text"},  # what may be called is a setting of the process
    "records": BASE,  # runs and pages, of which journal and archive speak
    "purses": BASE,
    "archive": BASE | {"records", "purses"},
    "leases": BASE,
    "topic_log": BASE | {"records"},
    "journal": BASE | {"kernel", "records", "purses", "archive", "leases", "topic_log"},  # what a journal comes with
    "limits": BASE,
    "streams": BASE | {"kernel"},  # chunks on their way between attempts
    "transport": BASE
    | {"kernel", "limits", "streams"},  # and a transport with its limits, and what tasks say of streams
    "blobs": BASE | {"kernel"},
    "journals": BASE | PORTS,
    "blob_stores": BASE | PORTS,
    # envelopes: what arrives is verified and weighed before it is read; Redis gives tasks out by turns
    "transports": BASE | PORTS | {"weight", "turns"},
    "expressions": BASE | {"kernel"} | PORTS,
    "sandbox": {
        "errors",
        "capacity",
        "expressions",
        "places",
        "plain_text",
        "weight",
    },  # runs the jobs that conditions raise
    "pipeline": {
        "budget",
        "expressions",
        "plain_text",
        "spelling",
    },  # operators and patterns are the same as in conditions
    # models: wire formats over `egress`, answers that are read beside the loop and compared with schemas
    "llms": BASE | {"settings", "egress", "outcomes", "expressions", "threads", "weight", "spending"},
    # `trigger` describes its source as triggers do, and is checked as they are
    "nodes": BASE
    | {
        "kernel",
        "triggers",
        "expressions",
        "functions",
        "outcomes",
        "assets",
        "egress",
        "llms",
        "sandbox",
        "pipeline",
        "weight",
        "threads",
    }
    | PORTS,
    # a node type of several files: its turns, its tools, and what they may do
    "agents": BASE
    | {"expressions", "functions", "outcomes", "asks", "spending", "egress", "llms", "nodes", "threads", "weight"},
    # a calendar, signatures and templates; the loops and the commands ask it
    "triggers": {"errors", "budget", "model", "spelling", "kernel", "expressions", "secrets"},
    "sources": {
        "errors",
        "clock",
        "model",
        "plain",
        "weight",
        "pieces",
        "threads",
    },  # what a trigger reads, from a cursor on
    "access": {"errors", "clock", "settings", "archive", "plain_text", "spelling"},  # it knows credentials and no route
    "contents": BASE | {"kernel", "blobs", "weight", "threads"},  # values with their blobs, for whoever may wait
    "runtime": BASE | {"kernel", "settings", "turns", "threads", "contents", "weight", "pieces"} | PORTS | MIDDLE,
    "deployment": BASE | {"settings", "runtime"} | PORTS | ADAPTERS | MIDDLE,  # from URLs to adapters
    "engine": BASE | {"deployment", "kernel", "settings", "contents", "runtime"} | PORTS | ADAPTERS | MIDDLE,
    "opener": {
        "errors",
        "settings",
        "deployment",
        "engine",
        "egress",
        "llms",
        "sandbox",
    },  # for programs and commands alike
    "sdk": BASE
    | {"opener", "kernel", "settings", "runtime", "engine", "service"}
    | PORTS
    | MIDDLE,  # it also runs what it builds, and asks for that what everybody asks: the service
    "ext": {"asks", "outcomes", "spending"},  # handlers of users import it, with libraries of their own
    "doctor": BASE | {"kernel", "settings", "runtime", "engine", "invariants"} | PORTS,
    "simulation": BASE
    | {"kernel", "settings", "contents", "runtime", "engine", "invariants"}
    | PORTS
    | {"transports", "blob_stores"}
    | MIDDLE,
    "testing": BASE | {"kernel", "expressions", "outcomes", "llms", "simulation", "sources", "triggers"},
    # every operation, whoever asks: the API and the command line call it
    "service": BASE
    | {"kernel", "contents", "threads", "weight", "runtime", "engine", "archive", "access", "drawing", "doctor"}
    | PORTS
    | MIDDLE,
    "sample": {"clock", "runtime"},  # a workflow to look at, with its functions
    "web": set(),  # built files, and the headers under which browsers run them
    "api": BASE
    | {"web", "sample", "kernel", "threads", "settings", "runtime", "sdk", "engine", "archive", "access", "service"}
    | PORTS
    | MIDDLE,
    # programs that use a server: they need neither engine nor database
    "client": {"errors", "clock", "plain", "settings"},
    "cli": BASE
    | {
        "deployment",
        "opener",
        "kernel",
        "settings",
        "runtime",
        "sdk",
        "engine",
        "doctor",
        "invariants",
        "api",
        "simulation",
        "testing",
    }
    | {"drawing", "private_servers", "service", "client", "access"}
    | PORTS
    | MIDDLE,
    "__init__": BASE | {"kernel", "settings", "runtime", "sdk", "engine", "client"} | PORTS | MIDDLE,
    "__main__": {"cli"},
}

# Standard library without input, output, clocks or chance.
PURE = {
    "__future__",
    "abc",
    "array",
    "base64",
    "bisect",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "decimal",
    "difflib",
    "enum",
    "functools",
    "gc",
    "hashlib",
    "heapq",
    "itertools",
    "json",
    "math",
    "operator",
    "re",
    "string",
    "textwrap",
    "types",
    "typing",
    "unicodedata",
}

# What the pure layers may import from outside `perdure`; the others are free.
OUTSIDE: dict[str, set[str]] = {
    "model": PURE | {"msgspec", "yaml", "threading"},  # a lock: the collector is one for all threads
    "kernel": PURE | {"msgspec"},
    "errors": PURE,
}


def part_of(path: Path, root: Path) -> str:
    return path.relative_to(root).parts[0].removesuffix(".py")


def imports_of(path: Path, root: Path) -> Iterator[tuple[int, str]]:
    """Every module a file imports, wherever in the file, with its line. Relative imports come out absolute."""
    package = ["perdure", *path.relative_to(root).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, name.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from perdure import kernel` names the part only in what is imported.
            yield from (
                ((node.lineno, f"perdure.{name.name}") for name in node.names)
                if module == "perdure"
                else [(node.lineno, module)]
            )


def violations(root: Path) -> list[str]:
    found = []
    for path in sorted(root.rglob("*.py")):
        part = part_of(path, root)
        where = path.relative_to(root)
        if part not in ALLOWED:
            found.append(f"{where}: '{part}' has no place in the table of layers")
            continue
        for line, module in imports_of(path, root):
            top, _, rest = module.partition(".")
            if top == "perdure":
                target = rest.partition(".")[0] or "__init__"
                if target not in ALLOWED[part] | {part}:
                    found.append(f"{where}:{line}: '{part}' may not import 'perdure.{target}'")
            elif part in OUTSIDE and top not in OUTSIDE[part]:
                found.append(f"{where}:{line}: '{part}' may not import '{top}'")
    return found


@pytest.mark.slow
def test_imports_point_in_one_direction():
    assert violations(SRC) == []


WORLD = {
    f"perdure.simulation.{name}"
    for name in (
        *("blobs", "handlers", "hands", "history_checks", "journal", "limits"),
        *("process", "promises", "transport", "troubles", "users", "world"),
    )
}
"""The simulated world and its parts, which name each other's types. No other modules do."""


def imported_at_the_top(module: ast.Module, names: set[str]) -> set[str]:
    """The modules that are imported outside of functions, for types alone too."""
    found: set[str] = set()
    pending: list[ast.AST] = [module]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & names
        elif isinstance(node, ast.ImportFrom) and node.module in names:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inside & names
            if inside - names:
                found.add(node.module)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            pending += ast.iter_child_nodes(node)
    return found


@pytest.mark.slow
def test_no_modules_import_each_other_not_even_for_types():
    texts = {}
    for path in SRC.rglob("*.py"):
        dotted = ".".join(path.relative_to(SRC.parent).with_suffix("").parts).removesuffix(".__init__")
        texts[dotted] = path.read_text(encoding="utf-8")
    imports = {name: imported_at_the_top(ast.parse(text), set(texts)) - {name} for name, text in texts.items()}
    assert imports.keys() >= WORLD
    graph: dict[str, set[str]] = {}
    for name, needs in imports.items():
        one = "the world" if name in WORLD else name
        graph.setdefault(one, set()).update({"the world" if need in WORLD else need for need in needs} - {one})
    TopologicalSorter(graph).prepare()  # raises CycleError, and names the cycle


def parts() -> set[str]:
    """What `ls src/perdure` shows."""
    return {part_of(path, SRC) for path in SRC.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}


def test_the_table_holds_what_stands_and_nothing_else():
    assert sorted(ALLOWED) == sorted(parts())


def test_the_drawing_holds_what_stands_and_arrows_point_up():
    """Each part once, as a folder or a file; those that only begin the program aside."""
    page = (SRC.parent.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [a-z]+ \| ([^|]+) \|", page.partition("## Layers")[2].partition("\n## ")[0], re.MULTILINE)
    drawn = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    standing = {f"{part}.py" if (SRC / f"{part}.py").exists() else f"{part}/" for part in parts()}
    assert sorted(drawn) == sorted(standing - {"__init__.py", "__main__.py"})
    row_of = {
        name.removesuffix("/").removesuffix(".py"): number
        for number, row in enumerate(rows)
        for name in re.findall(r"`([^`]+)`", row)
    }
    assert [f"{part} -> {used}" for part in row_of for used in ALLOWED[part] if row_of[used] > row_of[part]] == []


def test_the_table_has_no_cycle():
    done: set[str] = set()
    rest = dict(ALLOWED)
    while rest:
        free = {part for part, needs in rest.items() if needs <= done}
        assert free, f"these import each other: {sorted(rest)}"
        done |= free
        rest = {part: needs for part, needs in rest.items() if part not in free}


def test_only_the_engine_imports_adapters_and_adapters_never_the_kernel():
    # The simulator puts an engine together too, around the in-process transport and blobs in memory.
    assert {part for part, needs in ALLOWED.items() if needs & ADAPTERS} == {"deployment", "engine", "simulation"}
    assert not any("kernel" in ALLOWED[adapter] for adapter in ADAPTERS)
    assert ALLOWED["kernel"] == {"model", "spelling", "budget"}


def test_pure_modules_are_of_the_standard_library():
    assert sys.stdlib_module_names >= PURE


@pytest.mark.parametrize(
    ("file", "code", "expected"),
    [
        ("kernel/x.py", "import asyncio", "kernel/x.py:1: 'kernel' may not import 'asyncio'"),
        ("kernel/x.py", "import os.path", "kernel/x.py:1: 'kernel' may not import 'os'"),
        ("kernel/x.py", "from time import time", "kernel/x.py:1: 'kernel' may not import 'time'"),
        ("kernel/x.py", "def f():\n    import socket", "kernel/x.py:2: 'kernel' may not import 'socket'"),
        ("kernel/x.py", "import perdure.clock", "kernel/x.py:1: 'kernel' may not import 'perdure.clock'"),
        ("kernel/x.py", "from perdure import errors", "kernel/x.py:1: 'kernel' may not import 'perdure.errors'"),
        (
            "kernel/a/x.py",
            "from ...journal import Journal",
            "kernel/a/x.py:1: 'kernel' may not import 'perdure.journal'",
        ),
        (
            "model/x.py",
            "from perdure.kernel.state import State",
            "model/x.py:1: 'model' may not import 'perdure.kernel'",
        ),
        ("model/x.py", "import perdure", "model/x.py:1: 'model' may not import 'perdure.__init__'"),
        (
            "journals/sqlite/x.py",
            "import perdure.kernel",
            "journals/sqlite/x.py:1: 'journals' may not import 'perdure.kernel'",
        ),
        ("journal.py", "from perdure import journals", "journal.py:1: 'journal' may not import 'perdure.journals'"),
        (
            "runtime/x.py",
            "import perdure.journals.sqlite",
            "runtime/x.py:1: 'runtime' may not import 'perdure.journals'",
        ),
        ("api/x.py", "from perdure.transports import local", "api/x.py:1: 'api' may not import 'perdure.transports'"),
        ("clock.py", "from perdure import settings", "clock.py:1: 'clock' may not import 'perdure.settings'"),
        ("helpers.py", "", "helpers.py: 'helpers' has no place in the table of layers"),
    ],
)
def test_a_forbidden_import_is_caught(tmp_path, file, code, expected):
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code + "\n")
    assert violations(tmp_path) == [expected]


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("kernel/x.py", "import msgspec\nfrom collections.abc import Mapping\nfrom perdure.model.ir import IR"),
        ("kernel/x.py", "from perdure.kernel.state import State\nfrom .events import Event\nfrom . import commands"),
        (
            "journals/sqlite.py",
            "import sqlite3\nfrom perdure.journal import Journal\nfrom perdure.errors import Conflict",
        ),
        ("engine.py", "from perdure.journals.sqlite import SqliteJournal\nfrom perdure.runtime import coordinator"),
    ],
)
def test_an_allowed_import_is_not(tmp_path, file, code):
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code + "\n")
    assert violations(tmp_path) == []


def test_no_file_is_too_long():
    lengths = {str(path.relative_to(SRC)): path.read_text(encoding="utf-8").count("\n") for path in SRC.rglob("*.py")}
    too_long = {name: length for name, length in lengths.items() if length > LONGEST_FILE}
    assert too_long == {}, f"over {LONGEST_FILE} lines: look for the second noun hiding in it"


def test_what_assembles_and_hands_over_knows_the_types_of_what_it_calls():
    """Ports say all that is used of them, so these need no `Any`."""
    for name in ("engine.py", "runtime/coordinator/ownership/handover.py", "service/tenancy.py"):
        assert not re.search(r"\bAny\b", (SRC / name).read_text(encoding="utf-8")), name


LONGEST_FUNCTION = 70


@pytest.mark.slow
def test_no_function_is_too_long():
    too_long = [
        f"{path.relative_to(SRC)}:{node.lineno} {node.name}"
        for path in sorted(SRC.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION
    ]
    assert too_long == [], f"over {LONGEST_FUNCTION} lines"
