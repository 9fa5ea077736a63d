"""What is kept of texts and definitions has a budget: a server may see any number of them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from perdure.expressions import cel, cross_node, json_schema, jsonpath, sight, templates, verdicts
from perdure.expressions.compiled_texts import LENGTHS, kept
from perdure.model import compile_definition
from perdure.nodes.config_checks import explain_rendered
from perdure.nodes.registry import NodeType
from perdure.runtime.coordinator import library as libraries
from perdure.runtime.coordinator.library import Library

CACHES: dict[str, Any] = {
    "cel": cel._compile_cached,
    "numbers": cross_node.with_doubles,
    "schema": json_schema._compile,
    "jsonpath": jsonpath._compile,
    "plan": sight.plan_expression,
    "operand": verdicts._plan_operand,
    "template": templates._parse,
    "hyphens": templates._find_hyphenated,
}


@pytest.mark.parametrize("name", CACHES)
def test_what_is_compiled_is_kept_within_a_budget_of_characters(name: str) -> None:
    held = sum(most * length for (_, most), length in zip(CACHES[name].sizes(), LENGTHS, strict=True))
    assert 0 < held <= 6_000_000


def test_texts_are_kept_by_their_length() -> None:
    made: list[int] = []

    @kept(characters=64_000)
    def compiled(text: str, other: str = "") -> int:
        made.append(len(text) + len(other))
        return len(made)

    first = compiled("a" * 1000)
    assert compiled("a" * 1000) == first
    for number in range(1000):
        compiled(f"{number}" + "b" * 20_000)
    assert compiled("a" * 1000) == first, "long texts do not push short ones out"
    assert compiled.sizes() == [(1, 64), (2, 2), (0, 0)]
    assert compiled("c" * 2_000_000) != compiled("c" * 2_000_000), "what is too long is not kept at all"
    compiled.clear()
    assert compiled("a" * 1000) != first


def test_sensitive_paths_of_many_workflows_are_kept_within_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sight, "_KEPT", 5_000)
    monkeypatch.setattr(sight, "_by_hash", {})
    for number in range(100):
        node = {"id": "a", "type": "input", "sensitive": ["card.number" * 40]}
        ir = compile_definition({"name": f"w{number}", "nodes": [node]}).get_ir()
        assert sight.sensitive_paths(ir)["a"]
        assert len(sight._by_hash) <= 10


def test_a_node_type_that_nobody_has_any_more_is_not_kept() -> None:
    class Service:
        async def handle(self, ctx: Any) -> None: ...

    service: Any = Service()
    gone = weakref.ref(service)
    node_type = NodeType(name="n", description="d", config_schema={"type": "object"}, handler=service.handle)
    assert explain_rendered(node_type, {}) == ""
    assert node_type.validator is node_type.validator
    del node_type, service
    gc.collect()
    assert gone() is None


def test_a_library_keeps_definitions_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "MOST_BYTES", 1_000)
    nothing: Any = None
    library = Library(nothing)
    irs = [compile_definition({"name": f"w{n}", "nodes": [{"id": "a", "type": "input"}]}).get_ir() for n in range(20)]
    for ir in irs:
        library.add(ir, 300)
        library.add(ir, 300)
    assert list(library._irs) == [ir.hash for ir in irs[-3:]]
    library.add(irs[0], 5_000)
    assert list(library._irs) == [irs[0].hash], "the one that is needed now is kept, however large"
