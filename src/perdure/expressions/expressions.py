"""Expressions beyond a plain path: Jinja's syntax, none of its engine.

Jinja's parser gives the tree; every node of it that is on the list below becomes a closure over plain data, everything
else (calls, methods, statements, assignments) is refused when the expression is compiled. No Python code is generated,
so there is nothing to escape from; no construct repeats, and every operation pays for the data it looks at
(`budget.py`). Only this file imports Jinja, and only when the first expression is compiled.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from perdure.budget import Budget, OverBudget
from perdure.expressions import arithmetic as v
from perdure.expressions.at_hand import pick, resolve
from perdure.expressions.errors import NeedsBlob
from perdure.expressions.filters import FILTERS, TAKE_MISSING, TEST_MISSING, TESTS
from perdure.expressions.namespace import Missing, Namespace, Parts, describe_path, get_item
from perdure.kernel.segments import BlobRef, is_sealed
from perdure.model.reader import ODD_TEXT

if TYPE_CHECKING:
    from jinja2 import nodes

Code = Callable[[Namespace], Any]

MAX_LENGTH = 4_000
MAX_TOKENS = 600
MAX_DEPTH = 40

# Python warns about other escapes, and may refuse some of them one day.
_BAD_ESCAPE = re.compile(r"\\(?![\\'\"nrtbfux])")
_OPERATORS = {"eq": "==", "ne": "!=", "gt": ">", "gteq": ">=", "lt": "<", "lteq": "<=", "in": "in", "notin": "not in"}
_CALCULATIONS = {"Sub": "-", "Mul": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**"}


def compile_expression(source: str, aliases: Mapping[str, str]) -> Code:
    """A function from namespace to value. `aliases` are names in the source that stand for others. Raises `Trouble`."""
    from jinja2 import TemplateSyntaxError
    from jinja2.parser import Parser

    if len(source) > MAX_LENGTH:
        raise v.Trouble(f"the expression is longer than {MAX_LENGTH:,} characters")
    if _BAD_ESCAPE.search(source):
        raise v.Trouble("a backslash is followed by something that is no escape")
    try:
        parser = Parser(_environment(), source, state="variable")
        tree = parser.parse_expression()
        if not parser.stream.eos:
            raise v.Trouble(f"{str(parser.stream.current.value)[:40]!r} is not expected")
    except TemplateSyntaxError as error:
        raise v.Trouble(f"{str(error.message)[:200]}") from None
    except RecursionError:
        raise v.Trouble("the expression is nested too deep") from None
    except (ValueError, OverflowError):  # digits without end
        raise v.Trouble("a literal of the expression cannot be read") from None
    code = _Compiler(aliases).compile(tree, 0)
    return lambda namespace: _finish(code(namespace), namespace)


def _finish(value: Any, namespace: Namespace) -> Any:
    v.measure(v.need(value), namespace.budget)
    return value


@functools.cache
def _environment() -> Any:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment()


class _Compiler:
    def __init__(self, aliases: Mapping[str, str]) -> None:
        self._aliases = aliases

    def compile(self, node: nodes.Node, depth: int) -> Code:
        kind = type(node).__name__
        if depth > MAX_DEPTH:
            raise v.Trouble(f"the expression is nested more than {MAX_DEPTH} deep")
        path = self._find_path(node)
        if path is not None:
            return _read(*path)
        if kind in _CALCULATIONS:
            return self._calculate(_CALCULATIONS[kind], node, depth + 1)
        build = getattr(self, f"_build_{kind.lower()}", None)  # named by the tree's class, never by the template
        if build is None:
            raise v.Trouble(_REFUSED.get(kind, f"{kind} is not part of expressions"))
        code: Code = build(node, depth + 1)

        def paid(namespace: Namespace) -> Any:
            namespace.budget.spend(2)
            return code(namespace)

        return paid

    def _find_path(self, node: Any) -> tuple[str, Parts] | None:
        """The path `a.b[0]["c"]`, if nothing in it is computed; otherwise None."""
        from jinja2 import nodes

        parts: list[str | int] = []
        while not isinstance(node, nodes.Name):
            if isinstance(node, nodes.Getattr):
                parts.append(node.attr)
            elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
                if type(node.arg.value) not in (str, int):
                    return None
                parts.append(node.arg.value)
            else:
                return None
            node = node.node
        root = self._aliases.get(node.name, node.name)
        if root == "secrets":
            raise v.Trouble("a secret can only stand alone, as {{ secrets.name }}, beside other text or by itself")
        return root, tuple(reversed(parts))

    def _build_const(self, node: Any, depth: int) -> Code:
        value = node.value
        if type(value) in (int, float):
            v.check_number(value)
        if type(value) is str and ODD_TEXT.search(value):
            raise v.Trouble("a text holds NUL or half a surrogate pair; remove it")
        return lambda namespace: value

    def _build_list(self, node: Any, depth: int) -> Code:
        items = [self.compile(item, depth) for item in node.items]
        return lambda namespace: [v.need(item(namespace)) for item in items]

    _build_tuple = _build_list

    def _build_dict(self, node: Any, depth: int) -> Code:
        pairs = [(self.compile(pair.key, depth), self.compile(pair.value, depth)) for pair in node.items]

        def make(namespace: Namespace) -> dict[str, Any]:
            made = {v.need(key(namespace)): v.need(value(namespace)) for key, value in pairs}
            if not all(type(key) is str for key in made):
                raise v.Trouble("the keys of an object must be text")
            return made

        return lambda namespace: _hashable(make, namespace)

    def _build_getattr(self, node: Any, depth: int) -> Code:
        return self._step(self.compile(node.node, depth), lambda namespace: node.attr)

    def _build_getitem(self, node: Any, depth: int) -> Code:
        from jinja2 import nodes

        value = self.compile(node.node, depth)
        if isinstance(node.arg, nodes.Slice):
            bounds = [
                None if bound is None else self.compile(bound, depth)
                for bound in (node.arg.start, node.arg.stop, node.arg.step)
            ]
            return lambda namespace: v.slice_of(
                namespace.budget,
                v.need(value(namespace)),
                *(None if bound is None else v.need(bound(namespace)) for bound in bounds),
            )
        return self._step(value, self.compile(node.arg, depth))

    def _step(self, value: Code, part: Code) -> Code:
        def step(namespace: Namespace) -> Any:
            key = v.need(part(namespace))
            if type(key) not in (str, int):
                raise v.Trouble("[…] needs a name or an integer")
            found = value(namespace)
            return found if type(found) is Missing else get_item(found, key, "…", (key,))

        return step

    def _build_add(self, node: Any, depth: int) -> Code:
        left, right = self.compile(node.left, depth), self.compile(node.right, depth)
        return lambda namespace: v.add(v.need(left(namespace)), v.need(right(namespace)), namespace.budget)

    def _calculate(self, operator: str, node: Any, depth: int) -> Code:
        left, right = self.compile(node.left, depth), self.compile(node.right, depth)
        return lambda namespace: v.calculate(operator, v.need(left(namespace)), v.need(right(namespace)))

    def _build_neg(self, node: Any, depth: int) -> Code:
        value = self.compile(node.node, depth)
        return lambda namespace: v.negate(v.need(value(namespace)))

    def _build_pos(self, node: Any, depth: int) -> Code:
        value = self.compile(node.node, depth)
        return lambda namespace: v.negate(v.negate(v.need(value(namespace))))

    def _build_not(self, node: Any, depth: int) -> Code:
        value = self.compile(node.node, depth)
        return lambda namespace: not v.need(value(namespace))

    def _build_and(self, node: Any, depth: int) -> Code:
        left, right = self.compile(node.left, depth), self.compile(node.right, depth)
        return lambda namespace: v.need(left(namespace)) and v.need(right(namespace))

    def _build_or(self, node: Any, depth: int) -> Code:
        left, right = self.compile(node.left, depth), self.compile(node.right, depth)
        return lambda namespace: v.need(left(namespace)) or v.need(right(namespace))

    def _build_condexpr(self, node: Any, depth: int) -> Code:
        test, then = self.compile(node.test, depth), self.compile(node.expr1, depth)
        other: Code = (lambda namespace: None) if node.expr2 is None else self.compile(node.expr2, depth)
        return lambda namespace: then(namespace) if v.need(test(namespace)) else other(namespace)

    def _build_concat(self, node: Any, depth: int) -> Code:
        parts = [self.compile(part, depth) for part in node.nodes]
        return lambda namespace: v.concat(
            [v.to_text(v.need(part(namespace)), namespace.budget) for part in parts], namespace.budget
        )

    def _build_compare(self, node: Any, depth: int) -> Code:
        first = self.compile(node.expr, depth)
        rest = [(_OPERATORS[operand.op], self.compile(operand.expr, depth)) for operand in node.ops]

        def compare(namespace: Namespace) -> bool:
            left = v.need(first(namespace))
            for operator, code in rest:
                right = v.need(code(namespace))
                if not _compare(operator, left, right, namespace.budget):
                    return False
                left = right
            return True

        return compare

    def _build_filter(self, node: Any, depth: int) -> Code:
        function = FILTERS.get(node.name)
        if function is None or node.node is None:
            raise v.Trouble(f"there is no filter {node.name[:60]!r}; there are {', '.join(sorted(FILTERS))}")
        return self._call(function, node, depth, node.name in TAKE_MISSING)

    def _build_test(self, node: Any, depth: int) -> Code:
        name = {"equalto": "eq", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}.get(
            node.name, node.name
        )
        function = TESTS.get(name)
        if function is None:
            raise v.Trouble(f"there is no test {node.name[:60]!r}; there are {', '.join(sorted(TESTS))}")
        return self._call(function, node, depth, name in TEST_MISSING)

    def _call(self, function: Callable[..., Any], node: Any, depth: int, takes_missing: bool) -> Code:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise v.Trouble("'*' and '**' are not part of expressions")
        value = self.compile(node.node, depth)
        arguments = [self.compile(argument, depth) for argument in node.args]
        named = {pair.key: self.compile(pair.value, depth) for pair in node.kwargs}
        try:
            inspect.signature(function).bind(None, None, *arguments, **named)
        except TypeError as error:
            raise v.Trouble(f"{node.name!r} cannot be used like this: {error}") from None

        def call(namespace: Namespace) -> Any:
            subject = value(namespace)
            if not takes_missing:
                subject = v.need(subject)
            return function(
                namespace.budget,
                subject,
                *(v.need(argument(namespace)) for argument in arguments),
                **{name: v.need(argument(namespace)) for name, argument in named.items()},
            )

        return call


_REFUSED = {
    "Call": "nothing can be called; filters are written 'value | filter'",
    "NSRef": "nothing can be assigned",
}


def _read(root: str, parts: Parts) -> Code:
    def read(namespace: Namespace) -> Any:
        value = namespace.read(root, parts)
        if type(value) is BlobRef:
            value = pick(value.ref, describe_path(root, parts), namespace.at_hand)
        if is_sealed(value):
            raise v.Trouble(v.SEALED_TROUBLE)
        return (
            resolve(value, describe_path(root, parts), namespace.at_hand, namespace.budget)
            if namespace.whole
            else value
        )

    return read


def _hashable(make: Callable[[Namespace], Any], namespace: Namespace) -> Any:
    try:
        return make(namespace)
    except TypeError:
        raise v.Trouble("the keys of an object must be text") from None


def _compare(operator: str, left: Any, right: Any, budget: Budget) -> bool:
    match operator:
        case "==":
            return v.is_equal(left, right, budget)
        case "!=":
            return not v.is_equal(left, right, budget)
        case "in":
            return v.is_in(left, right, budget)
        case "not in":
            return not v.is_in(left, right, budget)
        case _:
            return v.is_order(operator, left, right)


def evaluate(code: Code, namespace: Namespace) -> Any:
    """Evaluate an expression. Raises `Trouble`, NeedsBlob or ContentLost, and nothing else."""
    try:
        try:
            return code(namespace)
        except NeedsBlob as need:
            if need.ref not in namespace.at_hand:
                raise
            return code(_reading_whole(namespace))  # the blob is inside a value that was read: read such values whole
    except (v.Trouble, NeedsBlob):
        raise
    except OverBudget as error:
        raise v.Trouble(str(error)) from None
    except (RecursionError, MemoryError) as error:
        raise v.Trouble(f"the values are too deep or too large: {type(error).__name__}") from None


def _reading_whole(namespace: Namespace) -> Namespace:
    whole = copy.copy(namespace)
    whole.whole = True
    return whole
