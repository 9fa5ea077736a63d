"""Every error code that the source names: what `docs/reference/errors.md` must explain, and nothing else.

A code is a class attribute `code`, the argument of a call that takes one, a keyword or a key `code`, the default of a
parameter `code`, or what the kernel assigns to a variable of that name. Codes made of parts (`http:503`) are not found.
"""

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "perdure"
WORD = re.compile(r"[a-z]+(?:_[a-z]+)*")

TAKES_A_CODE = {
    "Error": 0,
    "Failed": 0,
    "Failure": 0,
    "JqError": 0,
    "LlmError": 0,
    "Lost": 0,
    "Refusal": 0,
    "Refused": 0,
    "_Turned": 0,
    "__init__": 0,
    "ContentLost": 1,
    "Mistake": 1,
    "PipelineError": 1,
    "Undecided": 1,
    "_problem": 1,
    "Problem": 3,
}
"""Which argument of these is a code."""


def find_codes():
    # these stand in tuples: expressions/checks.py, triggers/declarations.py, agents/label_flow.py
    found = {"bad_condition", "no_more_moments", "lethal_trifecta", "no_node_budget"}
    for file in sorted(SOURCE.rglob("*.py")):
        part = file.relative_to(SOURCE).parts[0]
        if file.name == "reasons.py" and part == "kernel":
            continue  # why a node has not run is no error; docs/reference/http.md has these words
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if part == "simulation" and not isinstance(node, ast.ClassDef):
                continue  # it has words of its own for how histories end
            for value in _values(node, kernel=part == "kernel"):
                found |= {one for one in _strings(value) if WORD.fullmatch(one)}
    return found


def _values(node, *, kernel):
    match node:
        case ast.ClassDef():
            yield from (_assigned(one) for one in node.body)
        case ast.Call():
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            place = TAKES_A_CODE.get(name)
            if place is not None and len(node.args) > place:
                yield node.args[place]
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "code")
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            names = [*node.args.posonlyargs, *node.args.args]
            defaults = node.args.defaults
            pairs = zip(names[len(names) - len(defaults) :], defaults, strict=True)
            yield from (value for one, value in pairs if one.arg == "code")
        case ast.Dict():
            yield from (value for key, value in zip(node.keys, node.values, strict=True) if _strings(key) == {"code"})
        case ast.Assign() if kernel:
            yield _assigned(node)


def _assigned(node):
    """What is assigned to a name `code`."""
    match node:
        case ast.Assign(targets=[ast.Name(id="code")], value=value):
            return value
        case ast.AnnAssign(target=ast.Name(id="code"), value=value):
            return value
    return None


def _strings(value):
    """A text as it stands, or both sides of a choice."""
    match value:
        case ast.Constant(value=str()):
            return {value.value}
        case ast.IfExp():
            return _strings(value.body) | _strings(value.orelse)
    return set()
