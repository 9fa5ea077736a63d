"""`search`: finds documents by words, the best first, with SQLite's full-text index in memory.

What is asked for are words and nothing else: no operator of the index can be written in a query. The index is made and
searched in a thread, and its size and time are bounded.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from perdure.clock import system
from perdure.nodes.registry import NodeType, Path, has_template
from perdure.outcomes import Failure

MAX_DOCUMENTS = 50_000
MAX_BYTES = 20 * 1024 * 1024
MAX_WORDS = 32
MAX_QUERY = 10_000
SECONDS = 30.0
_STEPS = 10_000
"""How many instructions of SQLite pass between two looks at the clock."""
_SNIPPET_WORDS = 24
_WORD = re.compile(r"\w+")
# Words that nearly every English text has; a query of nothing else is taken as it is.
_STOP = frozenset(
    "a an and are as at be by can do for from how i in is it me my of on or our please that the this to was we what when where which "
    "who why will with you your".split()
)


async def handle(config: Any, ctx: Any) -> Any:
    return await ctx.run_in_thread(search, config, ctx)


def search(config: dict[str, Any], ctx: Any) -> dict[str, Any]:
    """The hits. Raises Failure. To be called in a thread."""
    place = config["in"]
    documents = place["documents"]
    if not isinstance(documents, list):
        raise Failure("bad_config", f"in.documents is a list, got {type(documents).__name__}", retryable=False)
    if len(documents) > MAX_DOCUMENTS:
        message = f"there are {len(documents):,} documents, and {MAX_DOCUMENTS:,} are searched; choose before"
        raise Failure("bad_config", message, retryable=False)
    fields = place.get("text")
    rows = [(number, _text(one, fields)) for number, one in enumerate(documents)]
    if sum(len(text) for _, text in rows) > MAX_BYTES:
        message = f"the documents have more than {MAX_BYTES:,} characters; name fewer fields under in.text"
        raise Failure("bad_config", message, retryable=False)
    query = make_query(config["query"])
    if not query:
        return {"hits": [], "total": 0}
    found, total = _rank(rows, query, config.get("limit", 10), ctx)
    return {
        "hits": [_hit(documents[number], number, score, text, place) for number, score, text in found],
        "total": total,
    }


def make_query(text: str) -> str:
    """The words of a text as a query of FTS5: each quoted, any of them may stand in a document."""
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(text[:MAX_QUERY])))
    kept = [word for word in words if word not in _STOP] or words
    return " OR ".join(f'"{word}"' for word in kept[:MAX_WORDS])


def _text(document: Any, fields: list[str] | None) -> str:
    """What of a document is searched: the fields that are named, or all its texts."""
    values = [document.get(field) for field in fields] if fields and isinstance(document, dict) else [document]
    found: list[str] = []
    stack = values[::-1]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack.extend(reversed(list(value.values())))
        elif isinstance(value, list):
            stack.extend(reversed(value))
        elif isinstance(value, str):
            found.append(value.replace("\0", " ").encode("utf-8", "replace").decode())
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.append(str(value))
    return "\n".join(found)


def _rank(rows: list[tuple[int, str]], query: str, limit: int, ctx: Any) -> tuple[list[tuple[int, float, str]], int]:
    until = system.monotonic() + SECONDS
    with closing(sqlite3.connect(":memory:")) as index:
        index.set_progress_handler(lambda: ctx.cancelled or system.monotonic() > until, _STEPS)
        try:
            index.execute("CREATE VIRTUAL TABLE documents USING fts5(text, tokenize = 'porter unicode61')")
            index.executemany("INSERT INTO documents(rowid, text) VALUES (?, ?)", rows)
            total = index.execute("SELECT count(*) FROM documents WHERE documents MATCH ?", (query,)).fetchone()[0]
            hits = index.execute(
                "SELECT rowid, -bm25(documents), snippet(documents, 0, '', '', '…', ?) FROM documents WHERE documents MATCH ? "
                "ORDER BY bm25(documents), rowid LIMIT ?",
                (_SNIPPET_WORDS, query, limit),
            ).fetchall()
        except sqlite3.OperationalError as error:
            if "interrupted" not in str(error):
                raise
            raise Failure(
                "search_timeout", f"the search took longer than {SECONDS:g} s; search less", retryable=False
            ) from None
    return hits, total


def _hit(document: Any, number: int, score: float, snippet: str, place: dict[str, Any]) -> dict[str, Any]:
    key = place.get("id")
    id = document.get(key) if key is not None and isinstance(document, dict) else None
    return {"id": number if id is None else id, "score": round(score, 6), "snippet": snippet, "document": document}


def _check(config: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    place = config["in"]
    if not has_template(place) and isinstance(place, dict):
        documents = place.get("documents")
        if documents is not None and not has_template(documents) and not isinstance(documents, list):
            yield ("in", "documents"), "it is a list of documents, or a template that gives one"


TYPE = NodeType(
    name="search",
    description="Finds documents by words, the best first.",
    config_schema={
        "type": "object",
        "required": ["query", "in"],
        "properties": {
            "query": {"type": "string", "description": "words; operators mean nothing"},
            "in": {
                "type": "object",
                "required": ["documents"],
                "properties": {
                    "documents": {"type": "array", "maxItems": MAX_DOCUMENTS, "description": "texts, or objects"},
                    "text": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "the fields that are searched; all without it",
                    },
                    "id": {"type": "string", "description": "the field that names a document; its position without it"},
                },
                "additionalProperties": False,
            },
            "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10},
        },
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "required": ["hits", "total"],
        "properties": {
            "hits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["id", "score", "snippet", "document"],
                    "properties": {"score": {"type": "number"}, "snippet": {"type": "string"}},
                },
            },
            "total": {"type": "integer", "description": "how many documents have one of the words"},
        },
    },
    example={
        "type": "search",
        "config": {
            "query": "{{ inputs.q }}",
            "in": {"documents": "{{ fetch.body.items }}", "text": ["title", "body"], "id": "id"},
        },
    },
    check=_check,
    handler=handle,
)
