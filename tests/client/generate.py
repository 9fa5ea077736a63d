"""`python -m tests.client.generate` writes `perdure/client/views.py` from the schemas of the API, so that the two cannot differ.

The server's types are structs, for its document; a client's are TypedDicts, for editors, and need nothing of the server.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).parents[2] / "src" / "perdure"
SCHEMAS = [SRC / "api" / "schemas.py", *sorted((SRC / "api").glob("*_schemas.py"))]
VIEWS = SRC / "client" / "views.py"

HEADER = '''"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

'''
LEFT_OUT = {"View", "Health", "Workers", "ProblemDetails", "UserPage"}


def generate() -> str:
    parts = []
    for node in (node for file in SCHEMAS for node in ast.parse(file.read_text()).body):
        if isinstance(node, ast.Assign) and "Literal" in ast.unparse(node.value):
            parts.append(ast.unparse(node))
        elif isinstance(node, ast.ClassDef) and node.name not in LEFT_OUT and not _is_page(node):
            text = _functional(node) or ast.unparse(_convert(node))
            parts.append("\n\n" + "\n".join(map(_quoted, text.splitlines())))
    return HEADER + "\n".join(parts) + "\n"


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
    VIEWS.write_text(generate())
    for command in (["check", "--fix", "-q"], ["format", "-q"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, str(VIEWS)], check=True)


if __name__ == "__main__":
    main()
