"""Handles: stand-ins for values while a workflow is built, and how they are written in templates and conditions.

A handle is a root (a node, an input, the loop, …) and a path below it. `h["x"]` and `h.x` go deeper, comparisons make
conditions, f-strings make templates; everything else Python could do with a value raises, and says what to write
instead. A handle has no public names of its own, so that every attribute is a field of the value. Must not know how
nodes are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, Protocol

from perdure.model.definition import RESERVED_IDS
from perdure.sdk.errors import BuildError
from perdure.sdk.graph import Node
from perdure.sdk.value_paths import Parts, as_operand, cel_literal, cel_path, template_literal, template_path

MARK = re.compile(r"⟪pErdure(=?) (\d+) [^⟫]*⟫")
"""The text that an f-string holds in place of a handle. Its odd case makes `.lower()` and its kind noticeable."""
DAMAGED = re.compile(r"⟪perdure|dure=? \d+ [^⟪⟫]*⟫|<perdure handle ", re.IGNORECASE)

_TEMPLATE_WORDS = frozenset("and or not in is if else true false none null True False None".split())
_QUOTED = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")

UNUSABLE_IDS = RESERVED_IDS | {word.lower() for word in _TEMPLATE_WORDS}
"""Ids that a node cannot have: templates read them as something else."""


# -- roots -------------------------------------------------------------------------------------------------------------


class Root(Protocol):
    """The beginning of a path. `template` and `cel` give the text of an expression."""

    def template(self, parts: Parts) -> str: ...
    def cel(self, parts: Parts, own: Node | None) -> str: ...
    def reads(self) -> Iterable[tuple[Node, bool]]:
        """The nodes that must have ended first, each with whether it must have a value (or may have been skipped)."""
        ...

    def name(self) -> str:
        """The name of the root in messages and ids."""
        ...


class NodeRoot:
    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def template(self, parts: Parts) -> str:
        # `{{ node.output }}` is the whole output, so a field of that name needs the word twice.
        return template_path(f"{self.node.id}.output" if parts[:1] == ("output",) else self.node.id, parts)

    def cel(self, parts: Parts, own: Node | None) -> str:
        if self.node is own:
            return cel_path("output", parts)
        return cel_path("ctx", (self.node.id, "output", *parts))

    def reads(self) -> Iterable[tuple[Node, bool]]:
        return ((self.node, True),)

    def name(self) -> str:
        return self.node.id


class InputRoot:
    """A parameter of the workflow. `nullable`: null is a value of its own, not "use the default"."""

    __slots__ = ("_default", "_has_default", "_nullable", "parameter")

    def __init__(self, parameter: str, *, has_default: bool, default: Any, nullable: bool) -> None:
        self.parameter = parameter
        self._has_default = has_default
        self._default = default
        self._nullable = nullable

    def template(self, parts: Parts) -> str:
        path = template_path("inputs", (self.parameter,))
        if not self._has_default:
            return template_path("inputs", (self.parameter, *parts))
        default = template_literal(self._default)
        if self._nullable and self._default is not None:
            path = f"{path} if {path} is defined else {default}"
        else:
            path = f"{path} | default({default})"
        return template_path(f"({path})", parts) if parts else path

    def cel(self, parts: Parts, own: Node | None) -> str:
        path = cel_path("inputs", (self.parameter,))
        if not self._has_default:
            return cel_path(path, parts)
        known = f"has({path})" if "[" not in path else f"{cel_literal(self.parameter)} in inputs"
        return cel_path(f"({known} ? {path} : {cel_literal(self._default)})", parts)

    def reads(self) -> Iterable[tuple[Node, bool]]:
        return ()

    def name(self) -> str:
        return self.parameter


class NamedRoot:
    """`item`, `loop`, `output` of a compensator; the scope says how they are written, and raises elsewhere."""

    __slots__ = ("_known_as", "_reads", "_scope")

    def __init__(self, known_as: str, scope: VisibleNames, reads: Sequence[Node] = ()) -> None:
        self._known_as = known_as
        self._scope = scope
        self._reads = reads

    def template(self, parts: Parts) -> str:
        return template_path(self._scope.path(self._known_as), parts)

    def cel(self, parts: Parts, own: Node | None) -> str:
        if self._known_as not in ("loop", "run"):
            raise BuildError(f"a condition cannot read {self.name()}; decide in a task, and return what it decided")
        return cel_path(self._scope.path(self._known_as), parts)

    def reads(self) -> Iterable[tuple[Node, bool]]:
        return ((node, True) for node in self._reads)

    def name(self) -> str:
        return self._known_as


class VisibleNames(Protocol):
    def path(self, name: str) -> str:
        """How the name is written at the place that is being built; BuildError where it means nothing."""
        ...


class EitherRoot:
    """The first of several values that exists: the result of a branch."""

    __slots__ = ("_choices", "_decided_by", "_ends")

    def __init__(self, choices: Sequence[Handle], decided_by: Node | None = None, ends: Sequence[Node] = ()) -> None:
        self._choices = choices
        self._decided_by = decided_by
        """The node that may have chosen none of them: then the value is null, and nodes that read it still run."""
        self._ends = ends
        """Last nodes of paths without a value; readers wait for them too."""

    def template(self, parts: Parts) -> str:
        text = "none"
        for choice in reversed(self._choices):
            text = f"{as_operand(expression(choice, parts))} | default({text})"
        return text

    def cel(self, parts: Parts, own: Node | None) -> str:
        raise BuildError(
            "a condition cannot read what a branch comes to; make it a node first: value = perdure.transform(value)"
        )

    def reads(self) -> Iterable[tuple[Node, bool]]:
        for choice in self._choices:
            for node, _ in root_of(choice).reads():
                yield node, False
        for node in self._ends:
            yield node, False
        if self._decided_by is not None:
            yield self._decided_by, True

    def name(self) -> str:
        return "the value of a branch"


class TextRoot:
    """An expression given as text: `perdure.expr`, `perdure.secret`."""

    __slots__ = ("_handles", "_text")

    def __init__(self, text: str, handles: Sequence[Handle] = ()) -> None:
        self._text = text
        self._handles = handles

    def template(self, parts: Parts) -> str:
        return template_path(as_operand(self._text), parts) if parts else self._text

    def cel(self, parts: Parts, own: Node | None) -> str:
        raise BuildError("perdure.expr and perdure.secret are for templates; write a condition with perdure.cel")

    def reads(self) -> Iterable[tuple[Node, bool]]:
        for handle in self._handles:
            yield from root_of(handle).reads()

    def name(self) -> str:
        return f"the expression {self._text!r}"


# -- handles -----------------------------------------------------------------------------------------------------------


class Marks(Protocol):
    """The builder, as handles know it: it gives each a mark that a text can hold, and finds it by that."""

    def mark(self, handle: Handle) -> str: ...
    def marked(self, text: str) -> Handle: ...


class Handle:
    """A stand-in for a value that exists only when a run reaches it."""

    __slots__ = ("_builder", "_parts", "_root")

    def __init__(self, builder: Marks, root: Root, parts: Parts = ()) -> None:
        self._builder = builder
        self._root = root
        self._parts = parts

    # going deeper

    def __getitem__(self, key: Any) -> Handle:
        if isinstance(key, str) or (isinstance(key, int) and not isinstance(key, bool)):
            return Handle(self._builder, self._root, (*self._parts, key))
        if isinstance(key, slice):
            text = ":".join("" if end is None else str(end) for end in (key.start, key.stop))
            hint = f'perdure.expr(f"{{{_variable(self)}}}[{text}]")'
        else:
            hint = f'perdure.expr(f"{{{_variable(self)}}}[{{key}}]")'
        raise BuildError(f"{describe(self)}[…] takes a name or a whole number here; for more, write {hint}")

    def __getattr__(self, name: str) -> Handle:
        if name.startswith("_"):
            raise AttributeError(f"this is a handle; a field called {name!r} is written handle[{name!r}]")
        return Handle(self._builder, self._root, (*self._parts, name))

    def __copy__(self) -> Handle:
        return self

    def __deepcopy__(self, memo: object) -> Handle:
        return self

    # comparing

    def __eq__(self, other: object) -> Any:
        return _compare(self, "==", other)

    def __ne__(self, other: object) -> Any:
        return _compare(self, "!=", other)

    def __lt__(self, other: object) -> Any:
        return _compare(self, "<", other)

    def __le__(self, other: object) -> Any:
        return _compare(self, "<=", other)

    def __gt__(self, other: object) -> Any:
        return _compare(self, ">", other)

    def __ge__(self, other: object) -> Any:
        return _compare(self, ">=", other)

    __hash__ = object.__hash__

    def __and__(self, other: object) -> Condition:
        return as_condition(self) & other

    def __or__(self, other: object) -> Condition:
        return as_condition(self) | other

    def __invert__(self) -> Condition:
        return ~as_condition(self)

    # text

    def __format__(self, spec: str) -> str:
        if spec:
            raise BuildError(
                f"{describe(self)} cannot be formatted with {spec!r} before the run gets there; format it in a task"
            )
        return self._builder.mark(self)

    def __str__(self) -> str:
        return self._builder.mark(self)

    def __repr__(self) -> str:
        return f"<perdure handle {describe(self)}>"

    # what cannot be done

    def __bool__(self) -> NoReturn:
        name = _variable(self)
        raise _no_value(
            self,
            "`if`, `and`, `or` and `not` cannot look at it",
            f"perdure.branch({name}, {{{name} == …: …}}), the option when=, and & | ~ in place of and, or, not",
        )

    def __iter__(self) -> NoReturn:
        raise _no_value(self, "it cannot be looped over or unpacked", f"perdure.map(task, {_variable(self)})")

    def __len__(self) -> NoReturn:
        raise _no_value(self, "it has no length", f'perdure.expr(f"{{{_variable(self)}}} | length")')

    def __contains__(self, item: object) -> NoReturn:
        raise _no_value(self, "`in` cannot look into it", f'perdure.cel(f"… in {{{_variable(self)}}}")')

    def __await__(self) -> NoReturn:
        raise _no_value(self, "it cannot be awaited", "it as it is: pass it on without await")

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise _no_value(self, "it cannot be called", "a task that calls it")

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise _no_value(self, "it cannot be changed", "a task that returns the changed value")

    def __delitem__(self, key: object) -> NoReturn:
        raise _no_value(self, "it cannot be changed", "a task that returns the changed value")


def _calculate(self: Handle, *others: object) -> NoReturn:
    raise _no_value(self, "nothing can be calculated with it", f'a task, or perdure.expr(f"{{{_variable(self)}}} + 1")')


for _operator in (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul neg pos abs round int float "
    "index complex xor lshift rshift reversed next enter aenter aiter anext trunc floor ceil divmod"
).split():
    setattr(Handle, f"__{_operator}__", _calculate)


def root_of(handle: Handle) -> Root:
    return handle._root


def parts_of(handle: Handle) -> Parts:
    return handle._parts


def builder_of(handle: Handle) -> Marks:
    return handle._builder


def expression(handle: Handle, more: Parts = ()) -> str:
    """The handle as the inside of `{{ … }}`."""
    return handle._root.template((*handle._parts, *more))


def describe(handle: Handle) -> str:
    return template_path(handle._root.name(), handle._parts)


def _variable(handle: Handle) -> str:
    name = describe(handle)
    return name if name.isidentifier() else "handle"


def _no_value(handle: Handle, problem: str, fix: str) -> BuildError:
    return BuildError(
        f"{describe(handle)} has no value while the workflow is being built, so {problem}; use {fix} (or do it in a task)"
    )


# -- conditions --------------------------------------------------------------------------------------------------------


class Condition:
    """A CEL expression with handles in it. `&`, `|` and `~` combine."""

    __slots__ = ("pieces", "single")

    def __init__(self, pieces: Sequence[str | Handle], *, single: bool = False) -> None:
        self.pieces = tuple(pieces)
        self.single = single
        """The condition needs no brackets when it is combined."""

    def handles(self) -> list[Handle]:
        return [piece for piece in self.pieces if isinstance(piece, Handle)]

    def text(self, own: Node | None) -> str:
        """The condition as it is written at the node `own`, whose output is called `output` there."""
        return "".join(p if isinstance(p, str) else root_of(p).cel(parts_of(p), own) for p in self.pieces)

    def __and__(self, other: object) -> Condition:
        return self._combined("&&", other)

    def __or__(self, other: object) -> Condition:
        return self._combined("||", other)

    def __rand__(self, other: object) -> Condition:
        return as_condition(other) & self

    def __ror__(self, other: object) -> Condition:
        return as_condition(other) | self

    def __invert__(self) -> Condition:
        return Condition(("!", *_bracketed(self)), single=True)

    def __bool__(self) -> NoReturn:
        raise BuildError(
            "a condition has no value while the workflow is being built: use perdure.branch or when= in place of `if`, "
            "& | ~ in place of and, or, not, and (a < b) & (b < c) in place of a < b < c"
        )

    def __repr__(self) -> str:
        return f"<perdure condition {''.join(p if isinstance(p, str) else describe(p) for p in self.pieces)}>"

    def _combined(self, operator: str, other: object) -> Condition:
        return Condition((*_bracketed(self), f" {operator} ", *_bracketed(as_condition(other))))


def _bracketed(condition: Condition) -> tuple[str | Handle, ...]:
    return condition.pieces if condition.single else ("(", *condition.pieces, ")")


def _compare(handle: Handle, operator: str, other: object) -> Condition:
    right: str | Handle = other if isinstance(other, Handle) else cel_literal(other)
    return Condition((handle, f" {operator} ", right))


def as_condition(value: object) -> Condition:
    """A condition, a handle that is true or false, or CEL (an f-string with handles in it)."""
    if isinstance(value, Condition):
        return value
    if isinstance(value, Handle):
        return Condition((value,), single=True)
    if isinstance(value, str):
        return Condition(split_text(value, "a condition"))
    raise BuildError(
        f"expected a condition, got {type(value).__name__}: compare a handle (score > 3), or write CEL as text; what is "
        "known while the workflow is built is for an ordinary `if`"
    )


def split_text(text: str, what: str) -> list[str | Handle]:
    """The pieces of a text with handles in it, as f-strings leave it. For code (CEL, expressions): handles stand
    outside quotes."""
    from perdure.sdk.builder import current

    if "⟪" not in text and "⟫" not in text and "<perdure" not in text:
        return [text]
    for quoted in _QUOTED.findall(text):
        if "⟪" in quoted:
            raise BuildError(f"{what} has a handle inside quotes; leave the quotes out: f\"{{handle}} == 'x'\"")
    pieces: list[str | Handle] = []
    position = 0
    for found in MARK.finditer(text):
        pieces += [text[position : found.start()], current(what).marked(found[0])]
        position = found.end()
    pieces.append(text[position:])
    for piece in pieces:
        if isinstance(piece, str):
            check_undamaged(piece)
    return [piece for piece in pieces if isinstance(piece, Handle) or piece]


def check_undamaged(text: str) -> None:
    if DAMAGED.search(text):
        raise BuildError(
            "a text holds a handle that was changed afterwards or written with !r; an f-string with a handle is filled in "
            "when the run gets there, so whatever else is to be done with it (upper, split, repr) belongs in a task"
        )
