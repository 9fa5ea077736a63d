"""Templates in configs: `{{ node.field }}` in any string, rendered exactly once.

A string is split into text and expressions. A plain path (`a.b[0]["c"]`) is followed here; `{{ secrets.name }}` becomes
a segment; anything more goes to `expressions.py`. What is put in is data and never looked at again, so an output that
contains braces arrives as it is. Each text is parsed once (PROTOCOL 29). Where an expression ends is decided by the
same tokenizer the compiler uses.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any
from urllib.parse import quote

from perdure.budget import Budget, OverBudget
from perdure.expressions import expressions
from perdure.expressions.arithmetic import Trouble, concat, measure, to_text
from perdure.expressions.at_hand import resolve
from perdure.expressions.compiled_texts import kept
from perdure.expressions.errors import NeedsBlob, TemplateError
from perdure.expressions.namespace import Missing, Namespace, Parts, describe_path
from perdure.kernel.segments import SEALED, Sealed, Secret, Segments, is_sealed
from perdure.model.references import BadExpression, tokenize

MAX_NESTING = 200

_CHARACTERS = 2_000_000
"""What the templates that are kept were parsed from."""
_COMPILING, _COMPILING_EACH = 250, 12  # steps of a `Budget`: for an expression, and for a character of it
_PLAIN = re.compile(r"\s*+([A-Za-z_]\w*+)((?:\.[A-Za-z_]\w*+)*+)\s*+\}\}", re.ASCII)
_HYPHENATED = re.compile(r"\b[A-Za-z_]\w*+(?:-\w++)++", re.ASCII)  # \b: or every letter of a long word is a beginning
_MARKS = re.compile(r"\{[{%#]")
_LITERAL_HOST = re.compile(
    r"(?:https?://)?+(?:\[[0-9a-f:.]++\]|[^/?#{}\s:@\\\[\]]++)(?::[0-9]++)?+[/?#]", re.IGNORECASE
)
_HALF_SCHEME = re.compile(r"https?:(?!//)", re.IGNORECASE)
_NO_HOST = re.compile(r"[^A-Za-z0-9.:\[\]-]")
_NO_BASE = re.compile(r"[?#@\\\s]|(?:^|/)\.\.?(?:/|$)")
_SLASHES = re.compile(r"\|\s*slashes\s*\Z")
_KEYWORDS = frozenset("and or not in is if else true false none True False None".split())
_NOTHING: frozenset[str] = frozenset()


class Path:
    """A plain path, or a secret."""

    __slots__ = ("parts", "root")

    def __init__(self, root: str, parts: Parts) -> None:
        self.root = root
        self.parts = parts

    def read(self, namespace: Namespace, template: str) -> Any:
        value = namespace.read(self.root, self.parts)
        if type(value) is Missing:
            raise TemplateError(value.explain(), template=template, path=value.path, missing=value.part)
        kind = type(value)
        if kind is str:
            namespace.budget.make(len(value))
        elif kind is list or kind is dict:
            _pay_for(value, namespace)
        return value


def _pay_for(value: Any, namespace: Namespace) -> None:
    """Pay for a value that is put in whole: measured once, paid for each time, since each time it is stored or sent."""
    known = namespace.sizes.get(id(value))
    if known is not None:
        namespace.budget.make(known[1])
    else:
        namespace.sizes[id(value)] = (value, measure(value, namespace.budget, passed_on=True))


class Expression:
    """An expression, compiled when it is first read."""

    __slots__ = ("_code", "aliases", "source")

    def __init__(self, source: str, aliases: dict[str, str]) -> None:
        self.source = source
        self.aliases = aliases
        self._code: expressions.Code | None = None

    def read(self, namespace: Namespace, template: str) -> Any:
        # Paid for whether it is compiled already or not: what a config may hold must not depend on what others
        # rendered.
        namespace.budget.spend(_COMPILING + _COMPILING_EACH * len(self.source))
        try:
            return expressions.evaluate(self.compiled(), namespace)
        except Trouble as trouble:
            path, part = ("", "") if trouble.missing is None else (trouble.missing.path, trouble.missing.part)
            raise TemplateError(str(trouble), template=template, path=path, missing=part) from None

    def compiled(self) -> expressions.Code:
        """The compiled expression. Raises Trouble: an unknown filter, a wrong number of arguments."""
        if self._code is None:
            self._code = expressions.compile_expression(self.source, self.aliases)
        return self._code


class Template:
    __slots__ = ("parts", "text", "whole")

    def __init__(self, text: str, parts: list[str | Path | Expression | Secret]) -> None:
        self.text = text
        self.parts = parts
        self.whole = len(parts) == 1 and type(parts[0]) is not str

    def render(self, namespace: Namespace) -> Any:
        """The rendered value. Raises TemplateError or NotAtHand."""
        try:
            namespace.budget.spend(1 + len(self.parts))
            return self._render(namespace)
        except OverBudget as error:
            raise TemplateError(str(error), template=self.text) from None

    def _render(self, namespace: Namespace) -> Any:
        if self.whole:
            part: Any = self.parts[0]
            return part if type(part) is Secret else part.read(namespace, self.text)
        texts = [
            part if type(part) is str or type(part) is Secret else self._read_text(part, namespace)
            for part in self.parts
        ]
        return _join(texts, namespace.budget)

    def render_url(self, namespace: Namespace) -> Any:
        """Like `render`, but what is put in stays within the part of the URL it stands in. A URL that is data as a
        whole is left as it is. Raises TemplateError or NotAtHand."""
        if self.whole:
            return self.render(namespace)
        try:
            namespace.budget.spend(1 + len(self.parts))
            texts: list[Any] = []
            before = ""
            for part in self.parts:
                if type(part) is str or type(part) is Secret:
                    texts.append(part)
                else:
                    text = self._read_text(part, namespace)
                    texts.append(text if type(text) is Sealed else _quoted(text, before, part, self.text))
                before += texts[-1] if type(texts[-1]) is str else "x"
            return _join(texts, namespace.budget)
        except OverBudget as error:
            raise TemplateError(str(error), template=self.text) from None

    def _read_text(self, part: Any, namespace: Namespace) -> str | Sealed:
        value = part.read(namespace, self.text)
        if is_sealed(value):
            return Sealed(value[SEALED])
        try:
            try:
                return to_text(value, namespace.budget)
            except NeedsBlob:
                path = describe_path(part.root, part.parts) if type(part) is Path else part.source
                return to_text(resolve(value, path, namespace.at_hand, namespace.budget), namespace.budget)
        except Trouble as trouble:
            raise TemplateError(str(trouble), template=self.text) from None


def _quoted(value: Any, before: str, part: Any, template: str) -> str:
    """Data in a URL, quoted as the part it stands in needs it; `before` is the URL up to there."""
    text = str(value)
    if _HALF_SCHEME.match(before):
        raise TemplateError(
            "the URL must begin with http:// or https://, written out before what is put in", template=template
        )
    _, scheme, rest = before.partition("://")
    rest = rest if scheme else before  # a pipeline may leave the scheme out
    if "?" in rest or "#" in rest:
        return quote(text, safe="", errors="replace")
    keeps_slashes = type(part) is Expression and _SLASHES.search(part.source) is not None
    begins_path = keeps_slashes and rest and text.startswith("/")
    if "/" not in rest and not begins_path:  # the host, or all of the beginning
        if (_NO_BASE if not before else _NO_HOST).search(text):
            raise TemplateError(
                "what is put into the host of a URL may hold letters, digits, '.', '-' and ':'; at its beginning, a scheme and a path",
                template=template,
            )
        return text
    segments = text.split("/") if keeps_slashes else [text]
    if any(segment in (".", "..") for segment in segments):
        raise TemplateError("'.' and '..' cannot be put into the path of a URL: they lead elsewhere", template=template)
    return "/".join(quote(segment, safe="", errors="replace") for segment in segments)


def _join(texts: list[Any], budget: Budget) -> str | Segments:
    if all(type(text) is str for text in texts):
        return concat(texts, budget)
    merged: list[Any] = []
    plain: list[str] = []
    for text in [*texts, None]:
        if type(text) is str:
            plain.append(text)
            continue
        if joined := concat(plain, budget):
            merged.append(joined)
        plain = []
        if text is not None:
            merged.append(text)
    return Segments(tuple(merged))


_SHALLOW = 8
"""Levels of a config that are looked at for templates before it is rendered."""

Urls = tuple[tuple[str, ...], ...]
"""Where URLs stand in a config: keys from the top; `*` is any item of a list."""


def render(value: Any, namespace: Namespace, urls: Urls = ()) -> Any:
    """The config with every template in it replaced. Keys are not templates. Raises TemplateError or NeedsBlob.

    A value put in whole stays a reference if it is stored as a blob; only what a template looks into must be at hand.
    Parts without templates, and outputs put in whole, are shared with the definition and the state: never change them.
    Data put into a URL (`urls`) stays in the part it stands in, and changes no other.
    """
    return _render(value, namespace, 0, urls)


def _render(value: Any, namespace: Namespace, depth: int, urls: Urls = ()) -> Any:
    kind = type(value)
    if kind is str:
        if _is_template(value):
            if () in urls:
                return get_template(value, namespace.known).render_url(namespace)
            return get_template(value, namespace.known).render(namespace)
        return value
    if depth > MAX_NESTING:
        raise TemplateError(f"a config is nested more than {MAX_NESTING} deep")
    if kind is dict:
        if urls:
            return {key: _render(item, namespace, depth + 1, _below(urls, key)) for key, item in value.items()}
        return {key: _render(item, namespace, depth + 1) for key, item in value.items()}
    if kind is list or kind is tuple:
        inner = _below(urls, "*")
        return [_render(item, namespace, depth + 1, inner) for item in value]
    return value


def _is_template(text: str) -> bool:
    return "{{" in text or "{%" in text or "{#" in text


def has_templates(value: Any) -> bool:
    """Whether `render` may give anything but the value itself. One that is nested deeply is left to it."""
    level = [value]
    for _ in range(_SHALLOW):
        below: list[Any] = []
        for one in level:
            kind = type(one)
            if kind is str:
                if _is_template(one):
                    return True
            elif kind is dict:
                below += one.values()
            elif kind is list:
                below += one
            elif kind is tuple:
                return True
        if not below:
            return False
        level = below
    return True


def _below(urls: Urls, key: str) -> Urls:
    return tuple(url[1:] for url in urls if url and url[0] == key)


def find_urls(config: Any, urls: Urls) -> list[str]:
    """The texts at these places in a config."""
    found: list[str] = []
    for url in urls:
        here = [config]
        for key in url:
            below = []
            for one in here:
                if key == "*":
                    below += one if type(one) is list else []
                elif type(one) is dict and key in one:
                    below.append(one[key])
            here = below
        found += [one for one in here if type(one) is str]
    return found


def has_literal_host(url: str) -> bool:
    """Whether the definition says where a URL goes, not the data."""
    return "{{" not in url or _LITERAL_HOST.match(url) is not None


def get_template(text: str, known: Collection[str] = ()) -> Template:
    """The parsed template. `known` are node ids, to tell the node `a-b` from `a` minus `b`."""
    if "-" not in text:
        return _parse(text, _NOTHING)
    candidates = _find_hyphenated(text)
    return _parse(text, frozenset(name for name in candidates if name in known) if candidates else _NOTHING)


def find_mistake(text: str, known: Collection[str] = ()) -> str | None:
    """What is wrong with a template, as far as it can be known without a run."""
    try:
        for part in get_template(text, known).parts:
            if type(part) is Expression:
                part.compiled()
    except TemplateError as error:
        return error.problem
    except Trouble as trouble:
        return str(trouble)
    return None


@kept(characters=_CHARACTERS // 10)
def _find_hyphenated(text: str) -> tuple[str, ...]:
    names: set[str] = set()
    for match in _HYPHENATED.finditer(text):
        name = match[0]
        while "-" in name and len(name) <= 200:
            names.add(name)
            name = name.rpartition("-")[0]
    return tuple(sorted(names))


@kept(characters=_CHARACTERS)
def _parse(text: str, known: frozenset[str]) -> Template:
    parts: list[str | Path | Expression | Secret] = []
    position = 0
    strip = False
    while True:
        mark = _MARKS.search(text, position)
        literal = text[position:] if mark is None else text[position : mark.start()]
        if strip:
            literal = literal.lstrip()
        if mark is None:
            if literal:
                parts.append(literal)
            return Template(text, parts or [""])
        if mark[0] != "{{":
            problem = f"'{mark[0]}' is not accepted; templates have expressions '{{{{ … }}}}' only"
            raise TemplateError(problem, template=text)
        start = mark.end()
        if text.startswith("-", start):
            literal = literal.rstrip()
            start += 1
        if literal:
            parts.append(literal)
        plain = _PLAIN.match(text, start)
        if plain is not None and plain[1] not in _KEYWORDS:
            parts.append(_make_path(plain[1], tuple(plain[2].split(".")[1:]), text))
            position, strip = plain.end(), False
            continue
        try:
            tokens, position = tokenize(text, start, template=True, known=known)
        except BadExpression as error:
            raise TemplateError(str(error), template=text) from None
        strip = text.startswith("-}}", position - 3)
        parts.append(_make_expression(tokens, text))


def _make_path(root: str, path: Parts, text: str) -> Path | Secret:
    if root != "secrets":
        return Path(root, path)
    if len(path) != 1 or type(path[0]) is not str:
        raise TemplateError("a secret is written {{ secrets.name }}", template=text)
    return Secret(path[0])


def _make_expression(tokens: list[Any], text: str) -> Path | Expression | Secret:
    if not tokens:
        raise TemplateError("'{{ }}' is empty; write what to insert", template=text)
    if len(tokens) > expressions.MAX_TOKENS:
        raise TemplateError(f"an expression has more than {expressions.MAX_TOKENS} words", template=text)
    path = _read_path(tokens)
    if path is not None:
        return _make_path(tokens[0].text, path, text)
    # Ids with hyphens are no names for the parser: each gets an alias that does not occur in the text.
    aliases: dict[str, str] = {}
    source: list[str] = []
    position = tokens[0].start
    for token in tokens:
        source.append(text[position : token.start])
        word = token.text
        if token.kind == "name" and "-" in word:
            alias = f"_h{len(aliases)}_"
            while alias in text:
                alias += "_"
            aliases[alias] = word
            word = alias
        source.append(word)
        position = token.end
    return Expression("".join(source), aliases)


def _is_index(token: Any) -> bool:
    return token.kind == "number" and token.text.isdecimal() and len(token.text) <= 18


def _read_path(tokens: list[Any]) -> Parts | None:
    """The parts below the root if the tokens are a plain path and nothing else; otherwise None."""
    if tokens[0].kind != "name" or tokens[0].text in _KEYWORDS:
        return None
    parts: list[str | int] = []
    index = 1
    while index < len(tokens):
        word, rest = tokens[index].text, tokens[index + 1 : index + 3]
        if word == "." and rest and (rest[0].kind == "name" or _is_index(rest[0])):
            parts.append(rest[0].text if rest[0].kind == "name" else int(rest[0].text))
            index += 2
        elif word == "[" and len(rest) == 2 and rest[1].text == "]":
            inner = rest[0]
            if inner.kind == "string" and inner.text[0] in "'\"" and "\\" not in inner.text:
                parts.append(inner.text[1:-1])
            elif _is_index(inner):
                parts.append(int(inner.text))
            else:
                return None
            index += 3
        else:
            return None
    return tuple(parts)
