"""Words: `find_` may find nothing, `get_` never gives nothing, `list_` pages, and a word or a file name means one thing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SOURCE = Path(__file__).parent.parent / "src" / "perdure"
"""The only code that is looked at; no module is imported."""
Function = ast.FunctionDef | ast.AsyncFunctionDef

MANY = set(
    "list set frozenset dict Mapping MutableMapping Sequence Collection Iterator Iterable AsyncIterator Generator".split()
)
"""Types that are empty when nothing was found."""
PORTS = ["archive", "blobs.py", "engine.py", "journal.py", "leases.py", "limits.py", "transport.py"]
ADAPTERS = ["blob_stores", "client", "journals", "service", "simulation", "transports"]
WORD = re.compile(r"def _?(find|get|list)")
BOUNDS = {"limit", "most"}
WHOLE = {
    "list_workers": "a deployment has few, and a reader wants to see all of them",
    "_list_workers": "as `list_workers`",
    "list_queues": "as workers: each has one at least",
    "list_claims": "a worker's, and its script gives MOST_CLAIMS at most",
    "budgets.list": "a tenant may have MOST_BUDGETS of them",
    "tools.list": "a tenant has MOST of them at most, and a reader wants the best of all",
    "saved_views.list": "an owner may have MOST of them, and a tenant as many",
}
"""Lists that are given whole, with the reason."""
HOLDERS = ["engine.py", "journal.py", "journals", "runtime/coordinator", "cli/run.py", "cli/frame/database.py"]
HELD_BACK = ["kernel", "invariants", "runtime/coordinator"]
ONE_MEANING = {
    "Scope": ["kernel", "runtime/worker/context.py"],
    "Decision": [
        "sdk",
        "simulation",
        "service/decisions.py",
        "api/routes/hooks.py",
        "cli/approvals.py",
        "cli/terminal",
        "nodes",
    ],
    "Context": ["runtime/worker", "simulation/hands.py", "nodes/task.py", "cli/frame/function_checks.py"],
    "hold": [*HOLDERS, *HELD_BACK, "simulation", "transports/redis"],
    "take": [
        "journals/postgres/connections.py",
        "journals/postgres/writer.py",
        "journals/sqlite/writer.py",
        "runtime/coordinator/batch.py",
        "runtime/coordinator/tasks/dispatcher.py",
        "kernel/signal_lines.py",
        "cli/terminal/painter.py",
        "sandbox/jq.py",
        "simulation/transport.py",
        "transports/local.py",
        "transports/queue.py",
        "transports/redis/claims.py",
    ],
    "take_over": ["engine.py", "sdk/follower.py", "transport.py", "transports", "simulation", "runtime/coordinator"],
}
"""Where a word may be in a name that is defined. A scope is the loop iterations around an activation; a decision is a
person's, given, kept or scripted; a context is what a handler gets; to hold is to own the journal or a part of it, and a node
that is held back is `held`; to take is to remove from a queue or a pool for oneself, and to take over is to go on for a
process that is gone."""
FORMS = {"holds": "hold", "held": "hold", "holder": "hold", "takes": "take", "taken": "take", "took": "take"}
DEFINED = re.compile(
    r"(def|class) \w*(scope|decision|context|hold|held|take|took)|^(Scope|Decision|Context)",
    re.MULTILINE | re.IGNORECASE,
)
FOREIGN = {
    "tls_context": "the context of TLS, in the words of `ssl`",
    "AddressTaken": "the address of a socket that another process listens on",
    "_count_taken": "bytes that the client has taken",
    "taken": "tokens of a bucket, in the words of rate limits",
    "took": "how long it took",
}


@cache
def modules() -> list[tuple[str, ast.Module]]:
    """All that have one of the words."""
    texts = [(path.relative_to(SOURCE).as_posix(), path.read_text()) for path in sorted(SOURCE.rglob("*.py"))]
    return [(where, ast.parse(text)) for where, text in texts if WORD.search(text)]


def functions(word: str) -> Iterator[tuple[str, Function, dict[str, ast.expr]]]:
    """Functions and methods called `word` or `word_…`, private ones too, with the type aliases of their module."""
    for where, module in modules():
        aliases = {
            node.targets[0].id: node.value
            for node in module.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(module):
            if not isinstance(node, Function) or node.name.startswith("__"):
                continue
            if f"{node.name.strip('_')}_".startswith(f"{word}_"):
                yield f"{where}:{node.lineno} {node.name}", node, aliases


def may_be_nothing(type: ast.expr | None, aliases: dict[str, ast.expr]) -> bool:
    match type:
        case ast.Constant(value=str(text)):
            return may_be_nothing(ast.parse(text, mode="eval").body, aliases)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return any(isinstance(one, ast.Constant) and one.value is None for one in (left, right)) or may_be_nothing(
                left, aliases
            )
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[ast.Name(id="str"), ast.Name(id="Any")])):
            return False  # a record, which is one value
        case ast.Name(id=name):
            return name in MANY or (name in aliases and may_be_nothing(aliases[name], {}))
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=parts)):
            is_long = isinstance(parts[-1], ast.Constant) and parts[-1].value is Ellipsis
            return is_long or all(may_be_nothing(part, aliases) for part in parts)
        case ast.Subscript(value=value):
            return may_be_nothing(value, {})
    return False


def is_command(function: Function) -> bool:
    """Whether it is a command of the CLI, whose name the user types."""
    return any("command(" in ast.unparse(one) for one in function.decorator_list)


def own_returns(function: Function) -> Iterator[ast.Return]:
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return):
            yield node
        if not isinstance(node, Function | ast.Lambda):
            pending += ast.iter_child_nodes(node)


def test_what_is_called_find_may_find_nothing():
    found = list(functions("find"))
    assert len(found) > 100
    assert [where for where, one, aliases in found if not may_be_nothing(one.returns, aliases)] == []


def test_what_is_called_get_never_gives_none():
    wrong = []
    for where, one, _ in functions("get"):
        if is_command(one) or where.endswith(" get_command"):  # which click calls
            continue
        says_none = one.returns is None or "None" in ast.unparse(one.returns).replace("[None]", "").split(" | ")
        gives_none = any(isinstance(r.value, ast.Constant) and r.value.value is None for r in own_returns(one))
        if says_none or gives_none:
            wrong.append(where)
    assert wrong == []


def test_what_is_called_list_pages_or_is_bounded():
    wrong, whole = [], set()
    for where, one, _ in functions("list"):
        if not (where.split(":")[0] in PORTS or where.split("/")[0] in ADAPTERS):
            continue
        arguments = {argument.arg for argument in (*one.args.args, *one.args.kwonlyargs)}
        is_paged = one.returns is not None and "Page[" in ast.unparse(one.returns)
        file = where.split(":")[0].rpartition("/")[2].removesuffix(".py")
        if named := {one.name, f"{file}.{one.name}"} & WHOLE.keys():
            whole |= named
        elif not is_paged and not arguments & BOUNDS:
            wrong.append(where)
    assert wrong == []
    assert whole == set(WHOLE)


def words(name: str) -> list[str]:
    """The words of a name: the capital ones of a class, the others with their forms taken for one."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    if parts[:2] == ["take", "over"]:
        return ["take_over"]
    return [FORMS.get(part.lower(), part.lower()) for part in parts]


def test_a_word_means_one_thing():
    wrong, foreign = [], set()
    homes_of = {word.lower(): homes for word, homes in ONE_MEANING.items()}
    for path in sorted(SOURCE.rglob("*.py")):
        where, text = path.relative_to(SOURCE).as_posix(), path.read_text()
        for node in ast.walk(ast.parse(text)) if DEFINED.search(text) else ():
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    pass
                case ast.Assign(targets=[ast.Name(id=name)]) if name[:1].isupper() and not name.isupper():
                    pass
                case _:
                    continue
            for word in words(name):
                homes = homes_of.get(word)
                if homes is None or any(where == home or where.startswith(f"{home}/") for home in homes):
                    continue
                if name in FOREIGN:
                    foreign.add(name)
                else:
                    wrong.append(f"{where}:{node.lineno} {name}")
    assert wrong == []
    assert foreign == set(FOREIGN)


NOUNS_IN_ING = {"keyring", "mapping", "outstanding", "spelling", "spending"}
"""File names that end like a verb and are none."""


def test_a_file_is_named_by_a_noun():
    names = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*ing.py")}
    assert {Path(name).stem for name in names} == NOUNS_IN_ING, names


OPERATIONS = "the same nouns at every edge: what is asked of runs, keys or blobs is found under their name"
ADAPTER = "a port, its adapters and what the simulator puts in their place"
CHECKER = "a checker is named like the rules it checks, and written without looking at them"
EQUAL_NAMES = {
    "__init__": "a package",
    "__main__": "what `python -m` starts",
    "app": "an edge put together: all routes, all commands",
    "appender": ADAPTER,
    "approvals": OPERATIONS,
    "archive": ADAPTER,
    "asks": "what handlers and runs ask people and others for: written, decided, listed",
    "attempts": CHECKER,
    "audit": OPERATIONS,
    "blobs": OPERATIONS,
    "budgets": OPERATIONS,
    "calls": ADAPTER,
    "clock": ADAPTER,
    "connection": "one connection to a server or a file",
    "continuations": "rule 15: the decision, and the loop that carries it out",
    "dead_letters": OPERATIONS,
    "errors": "the errors of a room, all in the one tree of `perdure.errors`",
    "events": "events: of a run, what they are and the command that lists them; by name, what is sent to triggers",
    "explain": "why a node has not run: found, and printed",
    "generations": CHECKER,
    "graph": "nodes and edges of a workflow: read, built, checked, drawn",
    "guards": CHECKER,
    "handlers": "what executes a node, real or scripted",
    "journal": ADAPTER,
    "keeper": "what keeps another thing: a process its child, a coordinator the values of its runs",
    "keys": OPERATIONS,
    "leases": ADAPTER,
    "limits": ADAPTER,
    "links": OPERATIONS,
    "logs": "what handlers said: kept, and read over HTTP",
    "loops": "the loops of a workflow: as they are written, and as they run",
    "messages": "what workers and coordinators tell each other: in memory, and in Redis",
    "money": "what is used and may be: counted, decided, and checked",
    "outcomes": "how work ends: as a handler says it, and as the kernel decides it",
    "output": "in `nodes` a file is named like its node type",
    "notifications": "other systems that are told of approvals: what is stored of them, and what is asked",
    "pages": "lists in pages",
    "parameters": "what a caller gave, read as values",
    "patches": OPERATIONS,
    "people": "the people of a run: at the terminal, and in the simulator",
    "pictures": OPERATIONS,
    "problems": "what is wrong with a definition: found, and shown",
    "reader": "what arrived as text or bytes, read as values",
    "report": "the report on histories",
    "run_events": "events of a whole run: what they are, and how they are read",
    "run_readings": OPERATIONS,
    "run_lists": OPERATIONS,
    "runs": OPERATIONS,
    "search": "looking things up: those of the system, and the node type",
    "schema": "the shape of what is stored; in `cli` a file is named like its command",
    "sessions": OPERATIONS,
    "tools": OPERATIONS,
    "statements": ADAPTER,
    "system": OPERATIONS,
    "threads": "a pool of threads",
    "transfer": OPERATIONS,
    "transport": ADAPTER + "; in `egress` it is httpx2's word",
    "assets": OPERATIONS + "; and what a function returns",
    "purses": "rule 85: what a store offers, and what a coordinator makes of it",
    "saved_views": OPERATIONS,
    "triggers": "what starts runs: as it is written, and the command",
    "waits": CHECKER,
    "what_ifs": OPERATIONS,
    "worker": "the worker, and the command that starts one",
    "workflows": OPERATIONS,
    "writer": ADAPTER,
}
"""Names that several files share, and what they have in common."""


def test_files_of_one_name_hold_one_thing():
    stems = [path.stem for path in SOURCE.rglob("*.py")]
    shared = {stem for stem in stems if stems.count(stem) > 1}
    assert shared - set(EQUAL_NAMES) == set(), "name a file after what sets it apart, or say here what they share"
    assert set(EQUAL_NAMES) - shared == set()


UNNAMED = re.compile(r"\b(somebody|someone|whoever|anybody)\b", re.IGNORECASE)
LEANS = re.compile(
    r"(It|Its|They|Their|Them|Or|And|But|This one|These|Those)\b(?! (that|who|of|which)\b)|The same[,.;:]"
)
"""How a docstring begins that continues the name of what it describes, or of what stands before it."""


DANGLES = re.compile(r"(\.\.\.|(Of|Those|Theirs|That|It|Its|Whose|So many|So much|So long)\b)|.*\.\.\.\s*$", re.DOTALL)
"""How a docstring begins or ends that is half a sentence."""
READ_BY_USERS = ("api/", "client/", "settings.py")
"""Where docstrings of fields are shown: in the OpenAPI document, in editors, and on the page of settings."""


def prose() -> Iterator[tuple[str, str, str]]:
    """(where, text, kind): a `comment`, the docstring of a function or a class (`own`), or that of a field or a module (`other`)."""
    for path in sorted(SOURCE.rglob("*.py")):
        where, text = path.relative_to(SOURCE).as_posix(), path.read_text()
        for number, line in enumerate(text.splitlines(), 1):
            _, mark, comment = line.partition("# ")
            if mark:
                yield f"{where}:{number}", comment, "comment"
        for node in ast.walk(ast.parse(text)):
            for child in () if isinstance(node, ast.Lambda | ast.IfExp) else getattr(node, "body", ()):
                match child:
                    case ast.Expr(value=ast.Constant(value=str(said))):
                        is_first = isinstance(node, Function | ast.ClassDef) and node.body[0] is child
                        yield f"{where}:{child.lineno}", said, "own" if is_first else "other"


def messages() -> Iterator[tuple[str, str]]:
    """Every other text of the source, which may be said to a user; and the comments of scripts."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if UNNAMED.search(text):  # looking through every tree takes a second
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield f"{path.relative_to(SOURCE).as_posix()}:{node.lineno}", node.value
    for path in sorted(SOURCE.rglob("*.lua")):
        yield path.relative_to(SOURCE).as_posix(), path.read_text()


def test_prose_names_the_role():
    assert [where for where, text, _ in prose() if UNNAMED.search(text)] == []


def test_a_message_names_the_role():
    assert [where for where, text in messages() if UNNAMED.search(text)] == []


def test_a_docstring_stands_without_its_identifier():
    assert [f"{where} {text[:60]}" for where, text, kind in prose() if kind == "own" and LEANS.match(text)] == []


def test_no_docstring_that_users_read_is_half_a_sentence():
    found = [(where, text) for where, text, kind in prose() if kind != "comment" and where.startswith(READ_BY_USERS)]
    assert len(found) > 1_000
    assert [f"{where} {text[:60]}" for where, text in found if DANGLES.match(text)] == []
