"""Conditions in canonical form: one mapping with a `type`, whichever way they were written.

Owns the shapes of the six kinds. Evaluates nothing and compiles no expression; `references.py` finds what they read.
"""

from __future__ import annotations

from typing import Any

from perdure.model.fields import Fields, as_fields
from perdure.model.problems import Path, Problems

MAX_EXPRESSION = 100_000
MAX_CONDITIONS = 100
"""The most conditions in one composite, nested ones included."""
MAX_NESTING = 10

_COMPARISONS = ("==", "!=", ">", ">=", "<", "<=", "in", "not_in", "contains", "matches")
_JSONPATH_OPERATORS = (*_COMPARISONS, "exists", "count_gt", "count_lt", "sum_gt", "sum_lt", "any", "all")
_WITHOUT_VALUE = ("exists", "any", "all")

_KEYS: dict[str, frozenset[str]] = {
    "cel": frozenset({"type", "expression"}),
    "jsonpath": frozenset({"type", "query", "operator", "value"}),
    "schema_validation": frozenset({"type", "schema", "schema_ref", "invert"}),
    "cross_node_comparison": frozenset({"type", "left", "operator", "right", "expression"}),
    "composite": frozenset({"type", "operator", "conditions"}),
    "python_sandbox": frozenset({"type", "code", "code_ref", "timeout_ms", "max_memory_mb"}),
}
_OPERAND_KEYS = ("source", "node", "path", "value")
_EVERY_KEY = frozenset().union(*_KEYS.values())


def read_condition(value: Any, path: Path, what: str, problems: Problems) -> dict[str, Any] | None:
    """The canonical condition, or None when it is wrong (and reported)."""
    depth, count = _measure(value)
    if depth > MAX_NESTING or count > MAX_CONDITIONS:
        problems.error(
            "too_large",
            path,
            f"{what} combines {count} conditions, {depth} deep; {MAX_CONDITIONS} and {MAX_NESTING} are allowed",
        )
        return None
    return _read(value, path, what, problems)


def _measure(value: Any) -> tuple[int, int]:
    """How deep conditions are nested, and how many there are."""
    depth = count = 0
    level = [value]
    while level and depth <= MAX_NESTING:
        depth += 1
        count += len(level)
        inner = [
            one["conditions"]
            for one in level
            if isinstance(one, dict) and one.get("type") == "composite" and "conditions" in one
        ]
        level = [one for conditions in inner if isinstance(conditions, list) for one in conditions]
    return depth, count


def _read(value: Any, path: Path, what: str, problems: Problems) -> dict[str, Any] | None:
    if isinstance(value, str):
        value = {"type": "cel", "expression": value}
        if not value["expression"].strip():
            problems.error("wrong_value", path, f"{what} is empty; write a CEL expression such as output.ok == true")
            return None
    kind = value.get("type") if isinstance(value, dict) else None
    known = _KEYS.get(kind, _EVERY_KEY) if isinstance(kind, str) else _EVERY_KEY
    fields = as_fields(value, path, what, problems, known)
    if fields is None:
        return None
    if not fields.has("type"):
        problems.error("missing_key", path, f"{what} has no 'type'; expected one of {', '.join(sorted(_KEYS))}")
        return None
    kind = fields.choice("type", _KEYS)
    if kind is None:
        return None
    before = problems.errors
    canonical = _READERS[kind](fields)
    canonical["type"] = kind
    return canonical if problems.errors == before else None


def _require(fields: Fields, key: str) -> bool:
    if fields.has(key):
        return True
    fields.error("missing_key", "", f"{fields.what} has no '{key}'; a condition of type {fields.data['type']} needs it")
    return False


def _expression(fields: Fields) -> dict[str, Any]:
    text = fields.text("expression")
    if text is not None and len(text) > MAX_EXPRESSION:
        fields.error(
            "too_large", "expression", f"'expression' of {fields.what} has more than {MAX_EXPRESSION} characters"
        )
    if text is not None and not text.strip():
        fields.error("wrong_value", "expression", f"'expression' of {fields.what} is empty")
    return {} if text is None else {"expression": text.strip()}


def _read_cel(fields: Fields) -> dict[str, Any]:
    _require(fields, "expression")
    return _expression(fields)


def _read_jsonpath(fields: Fields) -> dict[str, Any]:
    canonical: dict[str, Any] = {}
    if _require(fields, "query"):
        query = fields.text("query")
        if query is not None and not query.startswith("$"):
            fields.error("wrong_value", "query", f"'query' of {fields.what} must begin with '$', got {query[:60]!r}")
        canonical["query"] = query
    if _require(fields, "operator"):
        operator = fields.choice("operator", _JSONPATH_OPERATORS)
        canonical["operator"] = operator
        # The key may be there with null: comparing with null is a comparison.
        if "value" in fields.data:
            canonical["value"] = fields.data["value"]
        elif operator is not None and operator not in _WITHOUT_VALUE:
            fields.error("missing_key", "", f"{fields.what} has no 'value'; operator {operator} compares with one")
    return canonical


def _read_schema(fields: Fields) -> dict[str, Any]:
    canonical: dict[str, Any] = {}
    if fields.has("schema") == fields.has("schema_ref"):
        fields.error("conflicting_keys", "", f"{fields.what} needs exactly one of 'schema' and 'schema_ref'")
    if fields.has("schema"):
        schema = fields.data["schema"]
        if not isinstance(schema, dict | bool):
            fields.wrong_type("schema", "a JSON Schema")
        canonical["schema"] = schema
    if fields.has("schema_ref"):
        canonical["schema_ref"] = fields.address("schema_ref")
    if fields.flag("invert"):
        canonical["invert"] = True
    return canonical


def _read_operand(fields: Fields, key: str) -> dict[str, Any] | None:
    what = f"'{key}' of {fields.what}"
    operand = as_fields(fields.data[key], (*fields.path, key), what, fields.problems, _OPERAND_KEYS)
    if operand is None:
        return None
    if "value" in operand.data:
        if operand.has("source") or operand.has("node") or operand.has("path"):
            operand.error("conflicting_keys", "", f"{what} has 'value' and also names a place; keep one of them")
        return {"value": operand.data["value"]}
    source = operand.choice("source", ("current", "context")) or ("context" if operand.has("node") else "current")
    canonical: dict[str, Any] = {"source": source}
    node = operand.text("node")
    if source == "context":
        if node is None:
            operand.error("missing_key", "", f"{what} reads the context but has no 'node'")
        canonical["node"] = node
    elif node is not None:
        operand.error(
            "conflicting_keys", "node", f"{what} reads the current node and also names '{node}'; use source: context"
        )
    path = operand.text("path")
    if path is not None:
        canonical["path"] = path
    return canonical


def _read_cross_node(fields: Fields) -> dict[str, Any]:
    if fields.has("expression"):
        for key in ("left", "operator", "right"):
            if fields.has(key):
                fields.conflict("expression", key)
        return _expression(fields)
    canonical: dict[str, Any] = {}
    for key in ("left", "right"):
        if _require(fields, key):
            canonical[key] = _read_operand(fields, key)
    if _require(fields, "operator"):
        canonical["operator"] = fields.choice("operator", _COMPARISONS)
    return canonical


def _read_composite(fields: Fields) -> dict[str, Any]:
    canonical: dict[str, Any] = {}
    operator = fields.text("operator") if _require(fields, "operator") else None
    if operator is not None:
        if operator.upper() not in ("AND", "OR", "NOT"):
            fields.error(
                "wrong_value", "operator", f"'operator' of {fields.what} must be AND, OR or NOT, got {operator[:60]!r}"
            )
        canonical["operator"] = operator.upper()
    conditions = fields.items("conditions") if _require(fields, "conditions") else None
    if conditions is not None:
        if not conditions:
            fields.error("wrong_value", "conditions", f"'conditions' of {fields.what} is empty; combine at least one")
        elif canonical.get("operator") == "NOT" and len(conditions) != 1:
            fields.error(
                "wrong_value", "conditions", f"NOT in {fields.what} takes exactly one condition, got {len(conditions)}"
            )
        canonical["conditions"] = [
            _read(item, (*fields.path, "conditions", index), f"condition {index + 1} of {fields.what}", fields.problems)
            for index, item in enumerate(conditions)
        ]
    return canonical


def _read_python(fields: Fields) -> dict[str, Any]:
    canonical: dict[str, Any] = {}
    if fields.has("code") == fields.has("code_ref"):
        fields.error("conflicting_keys", "", f"{fields.what} needs exactly one of 'code' and 'code_ref'")
    if fields.has("code"):
        canonical["code"] = fields.text("code")
    if fields.has("code_ref"):
        canonical["code_ref"] = fields.address("code_ref")
    for key, high in (("timeout_ms", 60_000), ("max_memory_mb", 4096)):
        value = fields.integer(key, 1, high)
        if value is not None:
            canonical[key] = value
    return canonical


_READERS = {
    "cel": _read_cel,
    "jsonpath": _read_jsonpath,
    "schema_validation": _read_schema,
    "cross_node_comparison": _read_cross_node,
    "composite": _read_composite,
    "python_sandbox": _read_python,
}
