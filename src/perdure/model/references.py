"""What templates and conditions read, found without evaluating anything.

A template is text with `{{ expression }}` in it. An expression is split into words just far enough to see which names are
read and how deep; what it computes is for the renderer. Must not know the graph: whether a node exists or comes before is
checked in `upstream.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from perdure.model.ir import Reference
from perdure.model.problems import Path

MAX_EXPRESSION = 20_000
_LONGEST_ID = 128
MAX_INDEX = 2**53

_TOKEN = re.compile(
    r"""\s*+(?:
    (?P<string>[rRbB]?(?:'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+"))
  | (?P<number>\d+(?:\.\d+)?(?:[eE][-+]?\d+)?[uU]?)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<op>==|!=|<=|>=|&&|\|\||//|\*\*|[-+*/%~|.,:?()\[\]{}<>=!])
    )""",
    re.VERBOSE | re.DOTALL,
)
# The common case, `{{ node.field }}`, needs no tokens.
_PLAIN = re.compile(r"\{\{\s*+([A-Za-z_]\w*+)((?:\.[A-Za-z_]\w*+)*+)\s*+\}\}", re.ASCII)
_HYPHENATED = re.compile(r"[A-Za-z_]\w*+(?:-\w++)++", re.ASCII)
_MARKS = re.compile(r"\{[{%#]")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

_KEYWORDS = frozenset("and or not in is if else true false none True False None null".split())
_MACROS = frozenset({"all", "exists", "exists_one", "map", "filter"})
TEMPLATE_ROOTS = frozenset({"inputs", "run", "loop", "item", "secrets"})
CONDITION_ROOTS = frozenset({"inputs", "run", "loop"})
_OPENING = {"(": ")", "[": "]", "{": "}"}


class BadExpression(ValueError):
    pass


class Use(msgspec.Struct, gc=False):
    """One reference at one place. `reader` is None for the outputs of the workflow."""

    reference: Reference
    path: Path
    reader: int | None
    may_read_self: bool


class _Token:
    __slots__ = ("end", "kind", "start", "text")

    def __init__(self, kind: str, text: str, start: int, end: int) -> None:
        self.kind = kind
        self.text = text
        self.start = start
        self.end = end


class _Chain:
    """A name and the path that is read below it: `a.b[0]`."""

    __slots__ = ("optional", "parts", "root", "tested")

    def __init__(self, root: str) -> None:
        self.root = root
        self.parts: list[str | int] = []
        self.optional = False
        self.tested = False


def tokenize(
    text: str, start: int = 0, *, template: bool = False, known: Collection[str] = ()
) -> tuple[list[_Token], int]:
    """The tokens from `start`; in a template up to the closing braces, whose end is returned too."""
    tokens: list[_Token] = []
    brackets: list[str] = []
    position = start
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            rest = text[position:].strip()
            if not rest:
                if template:
                    raise BadExpression("'{{' is not closed; add '}}'")
                break
            quote = "a quote is not closed" if rest[0] in "'\"" else f"{rest[0]!r} is not expected"
            raise BadExpression(f"{quote} at {rest[:20]!r}")
        kind, word = match.lastgroup or "", match[match.lastgroup or 0]
        begin, position = match.start(kind), match.end()
        if kind == "op":
            if template and not brackets and text.startswith("}}", begin):
                return tokens, begin + 2
            if template and not brackets and text.startswith("-}}", begin):
                return tokens, begin + 3
            if word in _OPENING:
                brackets.append(_OPENING[word])
                if len(brackets) > 100:
                    raise BadExpression("brackets are nested more than 100 deep")
            elif word in ")]}" and (not brackets or brackets.pop() != word):
                raise BadExpression(f"'{word}' closes nothing")
        elif kind == "name" and known and text.startswith("-", position) and not (tokens and tokens[-1].text == "."):
            # Ids may hold hyphens: the longest known one wins over a subtraction.
            hyphenated = _HYPHENATED.match(text, begin, begin + _LONGEST_ID + 1)
            candidate = hyphenated[0] if hyphenated is not None else ""
            while "-" in candidate:
                if candidate in known and len(candidate) <= _LONGEST_ID:
                    word, position = candidate, begin + len(candidate)
                    break
                candidate = candidate.rpartition("-")[0]
        tokens.append(_Token(kind, word, begin, position))
        if position - start > MAX_EXPRESSION and template:
            raise BadExpression(f"an expression is longer than {MAX_EXPRESSION} characters")
    if brackets:
        raise BadExpression(f"a bracket is not closed; add '{brackets[-1]}'")
    return tokens, position


def _unquote(text: str) -> str:
    return _ESCAPE.sub(r"\1", text.lstrip("rRbB")[1:-1])


def _read_index(text: str) -> int:
    number = float(text.rstrip("uU"))
    if not number < MAX_INDEX:
        raise BadExpression(f"{text[:20]!r} is no index")
    return int(number)


def _read_path(tokens: list[_Token], index: int, chain: _Chain) -> int:
    """Read what follows a root name. Returns the index of the first token that does not belong to the path."""
    while index < len(tokens):
        word = tokens[index].text
        if word == "." and index + 1 < len(tokens) and tokens[index + 1].kind in ("name", "number"):
            following = tokens[index + 1]
            if index + 2 < len(tokens) and tokens[index + 2].text == "(":
                return index + 2  # a method: it belongs to the value, not to the path
            chain.parts.append(following.text if following.kind == "name" else _read_index(following.text))
            index += 2
        elif word == "[" and index + 2 < len(tokens) and tokens[index + 2].text == "]":
            inner = tokens[index + 1]
            if inner.kind == "string":
                chain.parts.append(_unquote(inner.text))
            elif inner.kind == "number" and inner.text.isdigit():
                chain.parts.append(_read_index(inner.text))
            else:
                return index
            index += 3
        else:
            return index
    return index


def _chains(tokens: list[_Token], *, filters: bool) -> Iterator[_Chain]:
    """Every name that is read. `filters`: a single `|` is a Jinja filter (CEL has none)."""
    bound: set[str] = set()
    for index in range(len(tokens) - 2):
        # A comprehension binds a name: list.all(x, x > 1).
        if tokens[index].text in _MACROS and tokens[index + 1].text == "(" and tokens[index + 2].kind == "name":
            if index + 3 < len(tokens) and tokens[index + 3].text == ",":
                bound.add(tokens[index + 2].text)
    fallbacks = _find_fallbacks(tokens) if filters else []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        before = tokens[index - 1].text if index else ""
        caller = tokens[index - 2].text if index > 1 else ""
        index += 1
        if token.kind != "name" or token.text in _KEYWORDS or token.text in bound or before == ".":
            continue
        if filters and (before in ("|", "is") or (before == "not" and index > 2 and tokens[index - 3].text == "is")):
            continue  # the name of a filter or a test
        following = tokens[index].text if index < len(tokens) else ""
        if filters and following == "=" and before in ("(", ","):
            continue  # a keyword argument
        if not filters and following in ("(", "{"):
            continue  # a function or a message of CEL
        if not filters and following == ":" and before in ("{", ","):
            continue  # a key of a message
        chain = _Chain(token.text)
        index = _read_path(tokens, index, chain)
        if filters:
            _read_filters(tokens, index, chain)
            chain.optional = chain.optional or any(start < index <= end for start, end in fallbacks)
        else:
            chain.tested = before == "(" and caller == "has"
        yield chain


def _find_fallbacks(tokens: list[_Token]) -> list[tuple[int, int]]:
    """The spans inside `default(…)`: they are read where another value is absent, and may be absent too."""
    found: list[tuple[int, int]] = []
    for index in range(len(tokens) - 2):
        if tokens[index].text == "|" and tokens[index + 1].text in ("default", "d") and tokens[index + 2].text == "(":
            depth, end = 0, index + 2
            while end < len(tokens):
                depth += {"(": 1, ")": -1}.get(tokens[end].text, 0)
                if depth == 0:
                    break
                end += 1
            found.append((index + 2, end))
    return found


def _read_filters(tokens: list[_Token], index: int, chain: _Chain) -> None:
    if index + 1 < len(tokens) and tokens[index].text == "is":
        names = [t.text for t in tokens[index + 1 : index + 3]]
        chain.tested = names[:1] == ["defined"] or names == ["not", "defined"] or names[:1] == ["none"]
    while index + 1 < len(tokens) and tokens[index].text == "|":
        if tokens[index + 1].text in ("default", "d"):
            chain.optional = True
            return
        index += 2
        if index < len(tokens) and tokens[index].text == "(":
            depth = 0
            while index < len(tokens):
                depth += {"(": 1, ")": -1}.get(tokens[index].text, 0)
                index += 1
                if depth == 0:
                    break


def find_in_template(text: str, known: Collection[str], roots: Collection[str] = ()) -> list[Reference]:
    """The references a template reads; `roots` are further names that are no nodes here. Raises BadExpression."""
    if "{%" in text or "{#" in text:
        _check_statements(text)
    found: list[Reference] = []
    position = text.find("{{")
    while position >= 0:
        plain = _PLAIN.match(text, position)
        if plain is not None and plain[1] not in _KEYWORDS:
            chain = _Chain(plain[1])
            chain.parts = list(plain[2].split(".")[1:])
            found.append(_template_reference(chain, False, roots))
            position = text.find("{{", plain.end())
            continue
        start = position + 3 if text.startswith("{{-", position) else position + 2
        tokens, position = tokenize(text, start, template=True, known=known)
        if not tokens:
            raise BadExpression("'{{ }}' is empty; write what to insert")
        chains = list(_chains(tokens, filters=True))
        tested = {chain.root for chain in chains if chain.tested}
        for chain in chains:
            optional = chain.optional or chain.root in tested
            found.append(_template_reference(chain, optional, roots))
        position = text.find("{{", position)
    return found


def _check_statements(text: str) -> None:
    """Refuse `{%` and `{#` outside an expression: loops and comments are not part of templates."""
    position = 0
    while (mark := _MARKS.search(text, position)) is not None:
        if mark[0] != "{{":
            raise BadExpression(f"'{mark[0]}' is not accepted; templates have expressions '{{{{ … }}}}' only")
        _, position = tokenize(text, mark.end() + text.startswith("-", mark.end()), template=True)


def _template_reference(chain: _Chain, optional: bool, roots: Collection[str]) -> Reference:
    extra = chain.root in ("config", "error") and chain.root in roots  # elsewhere a node may have this name
    if extra or chain.root in TEMPLATE_ROOTS or chain.root in ("output", "ctx", "current"):
        return Reference(chain.root, None, tuple(chain.parts), optional)
    parts = chain.parts[1:] if chain.parts[:1] == ["output"] else chain.parts
    return Reference("node", chain.root, tuple(parts), optional)


def find_in_expression(text: str, node_ids: Collection[str]) -> tuple[list[Reference], list[str]]:
    """The references a CEL or cross-node expression reads, and bare names that are nodes (and need `ctx.`)."""
    tokens, _ = tokenize(text)
    found: list[Reference] = []
    bare: list[str] = []
    chains = list(_chains(tokens, filters=False))
    # has(ctx.a.output.x) tests before it reads, so the expression expects that `a` may have been skipped.
    tested = {chain.parts[0] for chain in chains if chain.tested and chain.root == "ctx" and chain.parts}
    for chain in chains:
        parts = chain.parts
        if chain.root == "ctx":
            if parts and isinstance(parts[0], str):
                found.append(outcome_reference(parts[0], parts[1:], optional=parts[0] in tested))
        elif chain.root in ("output", "current"):
            below = parts[1:] if chain.root == "current" and parts[:1] == ["output"] else parts
            found.append(Reference("output", None, tuple(below)))
        elif chain.root in CONDITION_ROOTS:
            found.append(Reference(chain.root, None, tuple(parts)))
        elif chain.root in node_ids:
            bare.append(chain.root)
    return found, bare


def outcome_reference(node: str, parts: list[str | int], *, optional: bool = False) -> Reference:
    if parts[:1] == ["metadata"]:
        return Reference("metadata", node, tuple(parts[1:]), optional)
    return Reference("node", node, tuple(parts[1:] if parts[:1] == ["output"] else parts), optional)


def find_in_condition(
    condition: dict[str, Any], path: Path, node_ids: Collection[str]
) -> Iterator[tuple[Path, list[Reference], list[str]]]:
    """For each part of a condition: its place, the references it reads, and bare names. Raises BadExpression."""
    kind = condition["type"]
    if kind == "composite":
        for index, inner in enumerate(condition["conditions"]):
            yield from find_in_condition(inner, (*path, "conditions", index), node_ids)
    elif "expression" in condition:
        yield (path, *find_in_expression(condition["expression"], node_ids))
    elif kind == "cross_node_comparison":
        for key in ("left", "right"):
            operand = condition[key]
            if "value" not in operand:
                reference = operand_reference(operand["source"], operand.get("node"), operand.get("path", ""))
                yield (*path, key), [reference], []
    elif kind in ("jsonpath", "schema_validation"):
        yield path, [Reference("output")], []


def operand_reference(source: str, node: str | None, path: str) -> Reference:
    """The reference that one side of a cross-node comparison reads. Raises BadExpression."""
    chain = _Chain("")
    tokens, _ = tokenize(f".{path}" if path and path[0] != "[" else path)
    if _read_path(tokens, 0, chain) != len(tokens):
        raise BadExpression(f"path {path[:60]!r} must be names and indexes, such as output.items[0].price")
    if source == "context" and node is not None:
        return outcome_reference(node, chain.parts)
    return Reference("output", None, tuple(chain.parts[1:] if chain.parts[:1] == ["output"] else chain.parts))


def templates(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every string of a config that holds a template, with its path."""
    if isinstance(value, str):
        if "{{" in value or "{%" in value or "{#" in value:
            yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from templates(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from templates(item, (*path, index))
