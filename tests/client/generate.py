"""`python -m tests.client.generate` writes `perdure/client/views/` from the schemas of the API, so that the two cannot differ:
a file for each file of schemas, and one that has all their names.

The server's types are structs, for its document; a client's are TypedDicts, for editors, and need nothing of the server.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).parents[2] / "src" / "perdure"
_ROOM = SRC / "api" / "schemas"
SCHEMAS = sorted(_ROOM.glob("*_schemas.py"), key=lambda path: (path.stem != "general_schemas", path.stem))
VIEWS = SRC / "client" / "views"

HEADER = '''"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations
'''
TYPING = "from typing import Any, Literal, NotRequired, TypedDict"
LEFT_OUT = {"View", "Health", "Workers", "ProblemDetails", "UserPage", "EventPage"}


def generate() -> dict[str, str]:
    """The name of each file to its text."""
    found = {_module(file): _nodes(file) for file in SCHEMAS}
    where = {name: module for module, nodes in found.items() for name in nodes}
    files = {f"{module}.py": _file(module, nodes, where) for module, nodes in found.items()}
    lines = [
        f"from perdure.client.views.{module} import {', '.join(nodes)}" for module, nodes in found.items() if nodes
    ]
    files["__init__.py"] = "\n".join([HEADER, *lines, f"__all__ = {sorted(where)!r}", ""])
    return files


def _module(file: Path) -> str:
    return file.stem.replace("_schemas", "_views")


def _nodes(file: Path) -> dict[str, str]:
    """The name of each type of a file of schemas, with how a client writes it."""
    parts = {}
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and "Literal" in ast.unparse(node.value):
            parts[ast.unparse(node.targets[0])] = ast.unparse(node)
        elif isinstance(node, ast.ClassDef) and node.name not in LEFT_OUT and not _is_page(node):
            text = _functional(node) or ast.unparse(_convert(node))
            parts[node.name] = "\n\n" + "\n".join(map(_quoted, text.splitlines()))
    return parts


def _file(module: str, nodes: dict[str, str], where: dict[str, str]) -> str:
    text = "\n".join(nodes.values())
    used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    elsewhere = sorted(name for name in used if where.get(name, module) != module)
    imports = [f"from perdure.client.views.{where[name]} import {name}" for name in elsewhere]
    return "\n".join([HEADER, TYPING, *imports, "", text, ""])


def _functional(node: ast.ClassDef) -> str:
    """The other way to write a type, where a key is a word of the language (`for`)."""
    names = [ast.literal_eval(one.value) for one in node.keywords if one.arg == "rename"]
    if not names:
        return ""
    fields = [_field(one) for one in node.body if isinstance(one, ast.AnnAssign)]
    called = [(names[0].get(name, name), kind) for name, kind in map(_pair, fields)]
    return f"{node.name} = TypedDict({node.name!r}, {{{', '.join(f'{name!r}: {kind}' for name, kind in called)}}})"


def _pair(field: ast.AnnAssign) -> tuple[str, str]:
    return ast.unparse(field.target), ast.unparse(field.annotation)


def _is_page(node: ast.ClassDef) -> bool:
    """`{items, next_cursor}` is `perdure.client.operations.Page`."""
    names = [ast.unparse(field.target) for field in node.body if isinstance(field, ast.AnnAssign)]
    return names == ["items", "next_cursor"]


def _convert(node: ast.ClassDef) -> ast.ClassDef:
    bases = [ast.Name("TypedDict") if ast.unparse(base) == "View" else base for base in node.bases]
    body = [_field(one) if isinstance(one, ast.AnnAssign) else one for one in node.body]
    node.bases, node.keywords, node.body = bases, [], body
    return node


def _field(field: ast.AnnAssign) -> ast.AnnAssign:
    kind, value = ast.unparse(field.annotation), None if field.value is None else ast.unparse(field.value)
    if value == "UNSET":
        inner = kind[len("Maybe[") : -1] if kind.startswith("Maybe[") else kind
        kind = f"NotRequired[{inner}]"
    else:
        assert value is None, (ast.unparse(field), "a schema has no other defaults")
    return ast.AnnAssign(field.target, ast.parse(kind, mode="eval").body, None, 1)


def _quoted(line: str) -> str:
    """What is said about a field, in the quotes of a docstring."""
    text = line.strip()
    return f'    """{ast.literal_eval(text)}"""' if text[:1] in "'\"" and text[:3] != '"""' else line


def main() -> None:
    VIEWS.mkdir(exist_ok=True)
    for old in VIEWS.glob("*.py"):
        old.unlink()
    for name, text in generate().items():
        (VIEWS / name).write_text(text)
    for command in (["check", "--fix", "-q"], ["format", "-q"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, str(VIEWS)], check=True)


if __name__ == "__main__":
    main()
