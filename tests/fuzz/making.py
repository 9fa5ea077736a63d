"""Input by chance: half of it nearly right, half of it torn apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

WORDS = "output ctx inputs loop run current a b item items x y null true false NaN Infinity é ü \u202e".split()
NASTY = [
    "\0", "\ud800", "\udfff", "\ufeff", "\u2028", "\x1b[31m", "\x7f", "'", '"', "`", "\\", "\\u0000", "\\ud83d", "{{", "}}",
    "{%", "{#", "${", "$ref", "__class__", "__proto__", "$perdure:secret", "..", "*", "&a", "*a", "<<", "!!python/object:x",
    "---", "\t", "\r\n", "1e999", "-0", "0x10", "9" * 40, "1" * 4400, "[" * 40, "(" * 60, "{" * 40, "((((a+)+)+)+)$", "a" * 300,
    "//", "/*", "#", "%s%n", "../../etc/passwd", "file:///etc/passwd", "http://127.0.0.1/", "é" * 50,
]  # fmt: skip


def tear(random: Random, text: str) -> str:
    """The text with a few accidents."""
    for _ in range(random.choice((0, 1, 1, 2, 5))):
        at = random.randrange(len(text) + 1)
        kind = random.random()
        if kind < 0.3:
            text = text[:at] + random.choice(NASTY) + text[at:]
        elif kind < 0.5:
            text = text[:at] + text[at + random.randrange(1, 6) :]
        elif kind < 0.65:
            text = text[:at] + chr(random.choice((random.randrange(128), random.randrange(0x2FFF)))) + text[at:]
        elif kind < 0.8:
            end = min(len(text), at + random.randrange(1, 20))
            text = text[:at] + text[at:end] * random.choice((2, 3, 40)) + text[end:]
        elif kind < 0.9:
            text = text[:at]
        else:
            text = text[at:] + text[:at]
    return text[:5000]


def value(random: Random, depth: int = 3) -> Any:
    """JSON data; now and then large, deep or strange."""
    kind = random.random()
    if depth and kind < 0.3:
        return {word(random): value(random, depth - 1) for _ in range(random.randrange(5))}
    if depth and kind < 0.55:
        return [value(random, depth - 1) for _ in range(random.choice((0, 1, 3, 6)))]
    if kind < 0.57:
        return [random.randrange(5)] * random.choice((100, 2000))
    if kind < 0.58:
        deep: Any = 1
        for _ in range(random.choice((20, 90, 150))):
            deep = [deep] if random.random() < 0.5 else {"a": deep}
        return deep
    return random.choice(
        (
            None,
            True,
            False,
            random.randrange(-3, 4),
            random.random() * 10,
            2**53 + 1,
            -(2**63),
            2**64 - 1,
            1e308,
            word(random),
            random.choice(NASTY).replace("\ud800", "").replace("\udfff", ""),
            "a" * random.choice((10, 40, 3000)),
        )
    )


def word(random: Random) -> str:
    return random.choice(WORDS)


def soup(random: Random, words: list[str], most: int, between: str = "") -> str:
    return between.join(random.choice(words) for _ in range(random.randrange(1, most)))


# -- texts -------------------------------------------------------------------------------------------------------------

NODE_KEYS: dict[str, Any] = {
    "id": "a",
    "node_id": "b",
    "type": "task",
    "handler": "http",
    "config": {"x": "{{ a.b }}"},
    "dependencies": ["a"],
    "depends_on": [{"node": "a", "required": True}],
    "when": "inputs.x > 1",
    "branch": {"rules": [{"condition": "output.x == 1", "next_nodes": ["b"]}], "default": ["a"]},
    "loop": {"condition": "!output.ok", "max_iterations": 3},
    "retry": {"max_attempts": 2, "backoff_ms": 1},
    "join": {"at_least": 1},
    "on_failure": {"path": ["b"]},
    "output_schema": {"type": "object"},
    "sensitive": ["a.b"],
    "compensator": {"type": "task", "config": {}},
    "timeout_seconds": 3,
}


def definition(random: Random) -> Any:
    nodes = []
    for number in range(random.randrange(4)):
        keys = random.sample(list(NODE_KEYS), random.randrange(1, 8))
        node = {key: NODE_KEYS[key] if random.random() < 0.7 else value(random, 2) for key in keys}
        node.setdefault("id", "abcd"[number])
        nodes.append(node)
    made: dict[str, Any] = {"name": "w", "nodes": nodes if random.random() < 0.9 else value(random)}
    if random.random() < 0.3:
        made[word(random)] = value(random, 2)
    return made


def json_text(random: Random) -> str:
    data = definition(random) if random.random() < 0.6 else value(random, 4)
    return tear(random, json.dumps(data, ensure_ascii=random.random() < 0.5))


YAML = [
    "name: w\n", "nodes:\n", "  - id: a\n", "    type: task\n", "    when: output.x > 1\n", "&a ", "*a", "<<: *a\n", "!!binary ",
    "? x\n: y\n", "- - - - 1\n", "{a: [1, {b: 2}]}\n", "|\n  text\n", ">-\n  text\n", "'it''s'\n", '"\\x41\\U0001F600"\n',
    "2024-01-01\n", "0o17\n", "1_000\n", ".inf\n", "yes\n", "~\n", "---\n", "...\n", "%YAML 1.2\n", "# note\n", "a: &b [*b]\n",
]  # fmt: skip


def yaml_text(random: Random) -> str:
    return tear(random, soup(random, YAML, 12))


TEMPLATE = [
    "{{ a.x }}", "{{ inputs.list[0] }}", "{{ a.text | upper }}", "{{ inputs.none | default('x') }}", "{{ 1 + 2 * a.x }}",
    "{{ a.rows | length }}", "{{ 'x' * 3 }}", "{{ [1, 2] + inputs.list }}", "{{ {'a': 1} }}", "{{ a.x if a.x > 0 else 'n' }}",
    "{{ loop.iteration ** 9 }}", "{{ a.text[::-1] }}", "{{ a.text ~ a.x ~ inputs }}", "{{ inputs.list | join(', ') }}",
    "{{ secrets.key }}", "{{ not a.x }}", "{{ a.__class__ }}", "{{ a | tojson }}", "text", "{{", "}}", "{{ }}", "{{ a.x",
    "{{ (((((a.x))))) }}", "{{ a['odd key'] }}", "{{ stored.x }}", "{{ a.rows[0]['n'] // 0 }}", "{{ 9 ** 99 }}", "{{ -a.x }}",
]  # fmt: skip


def template(random: Random) -> str:
    return tear(random, soup(random, TEMPLATE, 5))


CEL = [
    "output", ".a", ".b", "[0]", "['x']", "ctx.a.output.x", "inputs.city", "loop.iteration", "1", "2.5", "'t'", "true", "null",
    " + ", " - ", " * ", " / ", " % ", " == ", " != ", " < ", " >= ", " && ", " || ", " ? ", " : ", " in ", "!", "-", "(", ")",
    "[", "]", "{", "}", ",", ".all(x, x > 1)", ".exists(y, y)", ".map(x, x + x)", ".filter(x, x)", "size(", "has(output.a)",
    ".matches('(a+)+$')", ".contains('a')", "string(", "int(", "timestamp(", "b'x'", "r'\\d'", "'''a'''", "1u", "0xff", "// c\n",
]  # fmt: skip


def cel(random: Random) -> str:
    if random.random() < 0.5:
        return tear(random, soup(random, CEL, 14))
    terms = [
        f"output.{word(random)} {random.choice(['==', '<', '>='])} {random.choice(['1', '2.5', 'null', 'ctx.a.output.x'])}"
        for _ in range(random.randrange(1, 5))
    ]
    return tear(random, random.choice((" && ", " || ")).join(terms))


PATH = [
    "$", ".a", ".b", "['x']", '["y"]', "[0]", "[-1]", "[1:3]", "[::2]", "[*]", ".*", "..", "..a", "[?@.a]", "[?@.a > 1]",
    "[?(@.a == 'x' && !@.b)]", "[?count(@.*) > 1]", "[?length(@.a) < 3]", "[?search(@.a, '(a+)+$')]", "[?match(@, 'a.*')]",
    "[?$.a == @.b]", "[?@[?@ > 0]]", "[0,1,'a']", ".length()", "[?value(@..a) == 1]", "[?@.a == 1e999]", " ", "[99999999999999999999]",
]  # fmt: skip


def jsonpath(random: Random) -> str:
    return tear(random, "$" + soup(random, PATH, 6))


PATTERN = [
    "a", "b", ".", "\\d", "\\w", "\\s", "[a-z]", "[^x]", "(", ")", "(?:", "(?P<n>", "(?i)", "*", "+", "?", "{2}", "{1,30}", "{100}",
    "|", "^", "$", "\\b", "\\p{L}", "[[:alpha:]]", "(?=a)", "\\1", "(a+)+", "(a|a)*", ".*", "é", "\\x{10FFFF}", "\\Q..\\E", "]", "[",
]  # fmt: skip


def pattern(random: Random) -> str:
    return tear(random, soup(random, PATTERN, 10))


def schema(random: Random, depth: int = 3) -> Any:
    if not depth or random.random() < 0.15:
        return random.choice((True, False, {}, {"type": "integer"}, value(random, 1)))
    inner = depth - 1
    keys: dict[str, Callable[[], Any]] = {
        "type": lambda: random.choice(("object", "array", "string", "number", "null", ["string", "null"], "nonsense")),
        "properties": lambda: {word(random): schema(random, inner) for _ in range(2)},
        "items": lambda: schema(random, inner),
        "allOf": lambda: [schema(random, inner) for _ in range(2)],
        "oneOf": lambda: [schema(random, inner) for _ in range(2)],
        "not": lambda: schema(random, inner),
        "if": lambda: schema(random, inner),
        "$ref": lambda: random.choice(("#", "#/$defs/a", "#/nope", "http://127.0.0.1/x", "file:///etc/passwd", "a")),
        "$defs": lambda: {"a": schema(random, inner)},
        "pattern": lambda: pattern(random),
        "patternProperties": lambda: {pattern(random): True},
        "enum": lambda: [value(random, 1), value(random, 1)],
        "const": lambda: value(random, 1),
        "minItems": lambda: value(random, 0),
        "multipleOf": lambda: random.choice((0, 1e-300, 3, "x")),
        "format": lambda: random.choice(("date", "regex", "uri", "email", "nonsense")),
        "uniqueItems": lambda: True,
        "contains": lambda: schema(random, inner),
        "required": lambda: [word(random)],
        "additionalProperties": lambda: schema(random, inner),
        "$schema": lambda: random.choice(("http://json-schema.org/draft-07/schema#", "http://nowhere/", 3)),
    }
    return {key: keys[key]() for key in random.sample(list(keys), random.randrange(1, 5))}


CODE = [
    "def evaluate(output, context):\n", "    return True\n", "    return output['a'] > 1\n", "    while True: pass\n", "import os\n",
    "    x = [1] * 10**9\n", "class A: pass\n", "    yield 1\n", "    return output.a.b.c\n", "lambda: 0\n", "    try:\n        1/0\n",
    "    except* ValueError: pass\n", "@x\n", "    return evaluate(output, context)\n", "    for i in range(10**9): pass\n", "async ",
    "    return '{0.__class__}'.format(1)\n", "    del output\n", "    global x\n", "f'{1:{2}}'\n", "    match output:\n        case 1: pass\n",
    "    return sum(x for x in range(9)) == 36\n", "    return context.get('a', {}) == {}\n", "    raise SystemExit\n", "    print('x')\n",
]  # fmt: skip


def code(random: Random) -> str:
    begin = CODE[0] if random.random() < 0.7 else ""
    return tear(random, begin + soup(random, CODE, 5))


JQ = [
    ".", ".a", ".[]", ".[0]", " | ", ",", "[", "]", "{", "}", "(", ")", "select(.a)", "map(.)", "range(5)", "empty", "error", "input",
    "env", "halt", "def f: f; ", "f", "reduce .[] as $x (0; . + $x)", "limit(3; repeat(1))", "..", "?", "//", " + ", " * ", '"\\(.)"',
    "test(\"(a+)+$\")", "@json", "tojson", "paths", "walk(.)", "1e9", "\"x\"", "as $x", "if . then 1 else 2 end", "try error catch .",
    "label $l | break $l", "input_filename", "$__loc__", "getpath([\"a\"])", "splits(\"a\")", "ltrimstr(\"x\")", "nan", "infinite",
]  # fmt: skip


def jq(random: Random) -> str:
    return tear(random, soup(random, JQ, 8))


def condition(random: Random, depth: int = 2) -> Any:
    if random.random() < 0.1:
        return value(random, 2)
    kind = random.choice(
        ("cel", "jsonpath", "schema_validation", "cross_node_comparison", "composite", "python_sandbox")
    )
    made: dict[str, Any] = {"type": kind}
    match kind:
        case "cel":
            made["expression"] = cel(random)
        case "jsonpath":
            operators = (
                "== != > >= < <= in not_in contains exists matches count_gt count_lt sum_gt sum_lt any all".split()
            )
            made |= {"query": jsonpath(random), "operator": random.choice(operators), "value": value(random, 1)}
        case "schema_validation":
            made |= {"schema": schema(random), "invert": random.random() < 0.5}
        case "cross_node_comparison" if random.random() < 0.5:
            made["expression"] = cel(random).replace("output", "current.output")
        case "cross_node_comparison":
            operators = ["==", "!=", ">", "<=", "in", "not_in", "contains", "matches"]
            made |= {"left": operand(random), "operator": random.choice(operators), "right": operand(random)}
        case "composite" if depth:
            made |= {
                "operator": random.choice(("AND", "OR", "NOT", "xor")),
                "conditions": [condition(random, depth - 1) for _ in range(random.randrange(4))],
            }
        case _:
            made["code"] = code(random)
    if random.random() < 0.1:
        made[word(random)] = value(random, 1)
    return made


def operand(random: Random) -> Any:
    path = tear(random, random.choice(("output.a", "a.b[0]", "x", "output")))
    return random.choice(
        (
            {"value": value(random, 1)},
            {"source": "current", "path": path},
            {"source": "context", "node": "a", "path": path},
            value(random, 1),
        )
    )


def step(random: Random) -> Any:
    names = "table_sort table_filter table_select top_k groupby join regex_extract parse_date jq_transform http_request".split()
    keys: dict[str, Any] = {
        "field": random.choice(("a", "b", "a.b", ["a", {"field": "b", "order": "desc"}])),
        "order": random.choice(("asc", "desc")),
        "condition": {"field": "a", "operator": random.choice(("==", "<", "in", "matches")), "value": value(random, 1)},
        "fields": random.choice((["a", "b"], {"x": "a"})),
        "k": random.randrange(4),
        "by": "a",
        "aggregates": {"n": {"function": random.choice(("sum", "count", "min", "avg")), "field": "b"}},
        "with": [{"a": value(random, 1)} for _ in range(3)],
        "on": random.choice(("a", {"a": "b"})),
        "how": random.choice(("inner", "outer")),
        "pattern": pattern(random),
        "all": True,
        "into": "x",
        "format": "%Y",
        "timezone": "UTC",
        "on_error": "null",
    }
    needed = {
        "table_sort": ["field", "order"],
        "table_filter": ["condition"],
        "table_select": ["fields"],
        "top_k": ["k", "field"],
        "groupby": ["by", "aggregates"],
        "join": ["with", "on", "how"],
        "regex_extract": ["pattern", "field", "all"],
        "parse_date": ["field", "on_error"],
    }
    name = random.choice(names)
    made = {"step": name} | {key: keys[key] for key in needed.get(name, ())}
    if random.random() < 0.2:
        made[random.choice((*keys, *WORDS))] = value(random, 1)
    return made if random.random() < 0.95 else value(random, 2)


def table(random: Random) -> Any:
    if random.random() < 0.1:
        return value(random)
    return [
        {key: value(random, 1) for key in random.sample("abx", random.randrange(4))} for _ in range(random.randrange(8))
    ]
