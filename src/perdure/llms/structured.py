"""JSON out of what a model wrote: read strictly, or with what models put around it taken away. Nothing is invented.

Mended are a fence around the value, text around one value, and commas before a closing bracket. Whatever else is wrong is
the model's to correct: it is told the problems and asked again.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from perdure import weight
from perdure.budget import Budget
from perdure.expressions.json_schema import SchemaInvalid, check

MAX_TEXT = 2 * 1024 * 1024
_BEGIN = re.compile(r"[{\[]")
# A text without an end reaches to the end: so every character is looked at once.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\],]', re.DOTALL)
_SPACE = " \t\r\n"


class NotJson(Exception):
    """Why a text is no JSON value, in words for the model."""


def read_json(text: str) -> tuple[Any, bool]:
    """The value, and whether the text had to be mended. Raises NotJson. It takes time; beside the loop if it is long."""
    if len(text) > MAX_TEXT:
        raise NotJson(f"it has {len(text):,} characters, {MAX_TEXT:,} are allowed")
    problem = ""
    for mended, one in ((False, text), (True, _unwrap(text))):
        if one is None:
            continue
        data = one.encode("utf-8", "surrogatepass")
        if weight.is_heavy(data):
            raise NotJson("it has too many parts")
        try:
            return msgspec.json.decode(data), mended
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            problem = problem or str(error)
        except RecursionError:
            raise NotJson("it is nested too deeply") from None
    raise NotJson(f"it is not one JSON value: {problem}")


def _unwrap(text: str) -> str | None:
    """The one JSON object or list in a text, without commas that only end something; None if there is not exactly one."""
    begin = end = -1
    depth = 0
    commas: list[int] = []
    last_comma = -1
    last, at = "", 0
    # Around the value there is text, which may have quotation marks and commas in it: a fence, or words.
    while (found := (_TOKEN if depth else _BEGIN).search(text, at)) is not None:
        mark = found[0]
        is_next = not text[at : found.start()].strip(_SPACE)  # nothing stands between the two
        at = found.end()
        if mark in ("{", "["):
            if depth == 0:
                if end >= 0:
                    return None  # a second value: which one is meant is not ours to say
                begin = found.start()
            depth += 1
        elif mark in ("}", "]"):
            if last_comma >= 0 and is_next:
                commas.append(last_comma)
            depth -= 1
            if depth == 0:
                end = found.end()
        last_comma = found.start() if mark == "," and not (is_next and last in ("{", "[", ",")) else -1
        last = mark
    if depth or begin < 0:
        return None
    kept, start = [], begin
    for comma in commas:
        kept.append(text[start:comma])
        start = comma + 1
    kept.append(text[start:end])
    return "".join(kept)


def find_problems(schema: Any, value: Any) -> list[str]:
    """What is wrong with a value, in words for the model; empty if it fits."""
    try:
        return check(schema, value, Budget())
    except SchemaInvalid as error:
        return [error.message]


def ask_again(problems: list[str]) -> str:
    """What a model is told about an answer that does not fit."""
    listed = "\n".join(f"- {problem}" for problem in problems)
    return f"That answer cannot be used:\n{listed}\nAnswer again, with one JSON value that fits the schema and nothing else."


def tell_schema(system: str, schema: Any) -> str:
    """The system prompt for a model whose provider does not keep answers to a schema."""
    text = msgspec.json.encode(schema, order="sorted").decode()
    asked = f"Answer with one JSON value that fits this JSON Schema, and with nothing else:\n{text}"
    return f"{system}\n\n{asked}" if system else asked
