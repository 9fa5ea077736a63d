"""Which templates and conditions a workflow has, what each may read at its place, and the report of what is wrong.

Joins `references.py` (what is read) with `upstream.py` (what comes before). Must not know how a template is rendered.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.model.definition import Definition
from perdure.model.graph import Graph
from perdure.model.ir import Reference
from perdure.model.joins import at_least
from perdure.model.loops import Loops, classify
from perdure.model.problems import Path, Problems
from perdure.model.references import BadExpression, Use, find_in_condition, find_in_template, templates
from perdure.model.stream_edges import check_reads
from perdure.model.upstream import Certainty, find_unreached

_CONFIG_ROOTS = frozenset({"node", "inputs", "run", "loop", "secrets"})
_ITEM_ROOTS = _CONFIG_ROOTS | {"item"}
# A key is written into queues and logs, and outputs into the journal: no secret may reach them.
_KEY_ROOTS = frozenset({"node", "inputs", "run", "loop"})
_OUTPUT_ROOTS = frozenset({"node", "inputs", "run"})
_COMPENSATOR_ROOTS = _CONFIG_ROOTS | {"output", "config", "error"}
_WHEN_ROOTS = frozenset({"node", "metadata", "inputs", "run", "loop"})
_ROUTING_ROOTS = _WHEN_ROOTS | {"output"}
_TEMPLATE_STEPS = 40  # of a `Budget`: to read one text with templates, besides its letters


class Usage(msgspec.Struct):
    """The references of every part that the IR keeps them for; parts without any are absent."""

    config: dict[int, tuple[Reference, ...]]
    item: dict[int, tuple[Reference, ...]]
    compensator: dict[int, tuple[Reference, ...]]
    conditions: dict[tuple[int, Path], tuple[Reference, ...]]
    outputs: tuple[Reference, ...]


def read_usage(definition: Definition, graph: Graph, loops: Loops, problems: Problems) -> Usage:
    collector = _Collector(definition, graph, loops, problems)
    for i, id in enumerate(graph.ids):
        collector.read_node(i, definition.nodes[id])
    outputs = definition.workflow.get("outputs")
    found = collector.read_templates([(("outputs",), outputs)], None, _OUTPUT_ROOTS, "outputs") if outputs else ()
    collector.usage.outputs = found
    _check_order(collector.uses, definition, graph, loops, problems)
    check_reads(collector.uses, definition, graph, problems)
    return collector.usage


class _Collector:
    def __init__(self, definition: Definition, graph: Graph, loops: Loops, problems: Problems) -> None:
        self._definition = definition
        self._graph = graph
        self._loops = loops
        self._problems = problems
        self.uses: list[Use] = []
        self.usage = Usage({}, {}, {}, {}, ())

    def read_node(self, i: int, node: dict[str, Any]) -> None:
        path = self._definition.path(node["id"])
        what = f"node '{node['id']}'"
        config = node.get("config")
        own: list[tuple[Path, Any]] = []
        if config is not None:
            if node["type"] == "map":
                items = {k: config[k] for k in ("node", "inputs") if k in config}
                self._read_item(i, items, path, what)
                config = {k: v for k, v in config.items() if k not in items}
            own.append(((*path, "config"), config))
        found = self.read_templates(own, i, _CONFIG_ROOTS, what) if own else ()
        keys = [((*path, gate, "key"), node[gate].get("key")) for gate in ("concurrency", "rate") if gate in node]
        if keys:
            found = unique([*found, *self.read_templates(keys, i, _KEY_ROOTS, what)])
        if found:
            self.usage.config[i] = found
        compensator = node.get("compensator")
        if compensator is not None and "config" in compensator:
            place = (*path, "compensator", "config")
            undo = self.read_templates(
                [(place, compensator["config"])], i, _COMPENSATOR_ROOTS, f"compensator of {what}", may_read_self=True
            )
            if undo:
                self.usage.compensator[i] = undo
        if "when" in node:
            self._read_condition(i, node["when"], ("when",), _WHEN_ROOTS, what)
        if "loop" in node:
            self._read_condition(i, node["loop"].get("condition"), ("loop", "condition"), _ROUTING_ROOTS, what)
        for position, rule in enumerate(node.get("branch", {}).get("rules", ())):
            place = ("branch", "rules", position, "condition")
            self._read_condition(i, rule.get("condition"), place, _ROUTING_ROOTS, what)

    def _read_item(self, i: int, items: dict[str, Any], path: Path, what: str) -> None:
        # The item's own compensator also sees the output of the item.
        parts = dict(items)
        inner = parts.get("node")
        if isinstance(inner, dict) and "compensator" in inner:
            parts["node"] = {k: v for k, v in inner.items() if k != "compensator"}
            undo = inner["compensator"].get("config")
            if undo is not None:
                place = (*path, "config", "node", "compensator", "config")
                roots = _COMPENSATOR_ROOTS | {"item"}
                self.usage.compensator[i] = self.read_templates(
                    [(place, undo)], i, roots, f"the item of {what}", may_read_self=True
                )
        found = self.read_templates([((*path, "config"), parts)], i, _ITEM_ROOTS, f"the item of {what}")
        if found:
            self.usage.item[i] = found

    def read_templates(
        self,
        parts: list[tuple[Path, Any]],
        reader: int | None,
        roots: frozenset[str],
        what: str,
        *,
        may_read_self: bool = False,
    ) -> tuple[Reference, ...]:
        every: list[Reference] = []
        for place, value in parts:
            for path, text in templates(value, place):
                self._problems.budget.spend(_TEMPLATE_STEPS + len(text))
                try:
                    found = find_in_template(text, self._graph.index, roots)
                except BadExpression as error:
                    self._problems.error("bad_template", path, f"template in {what}: {error}")
                    continue
                every += [r for r in found if self._accept(r, path, reader, roots, what, may_read_self)]
        return unique(every)

    def _read_condition(
        self, i: int, condition: dict[str, Any] | None, place: Path, roots: frozenset[str], what: str
    ) -> None:
        if condition is None:
            return
        path = (*self._definition.path(self._graph.ids[i]), *place)
        every: list[Reference] = []
        try:
            for where, found, bare in find_in_condition(condition, path, self._graph.index):
                for name in bare:
                    own = name == self._graph.ids[i] and roots is _ROUTING_ROOTS
                    way = "its own output is written output" if own else f"a node is written ctx.{name}.output"
                    self._problems.error(
                        "bad_reference", where, f"condition of {what} reads '{name}', which means nothing there; {way}"
                    )
                after = roots is _ROUTING_ROOTS  # routing comes after the node's own output
                every += [r for r in found if self._accept(r, where, i, roots, what, may_read_self=after)]
        except BadExpression as error:
            self._problems.error("bad_expression", path, f"condition of {what}: {error}")
        if every:
            self.usage.conditions[i, place] = unique(every)

    def _accept(
        self,
        reference: Reference,
        path: Path,
        reader: int | None,
        roots: frozenset[str],
        what: str,
        may_read_self: bool,
    ) -> bool:
        root = reference.root
        if root not in roots:
            self._problems.error("bad_reference", path, _explain_root(root, what))
            return False
        if root == "loop" and reader is not None and not self._loops.enclosing[reader]:
            if reader not in self._graph.tangled and reader not in self._loops.heads:
                self._problems.error(
                    "bad_reference", path, f"{what} reads 'loop' but is in no loop; remove it or add the node to one"
                )
            return False
        if reference.node is not None:
            if reference.node not in self._graph.index:
                hint = (
                    self._problems.suggest(reference.node, self._graph.index)
                    or self._problems.suggest(reference.node, roots - {"node"})
                    or "; expected a node, inputs, run, loop, item or secrets"
                )
                self._problems.error(
                    "unknown_node", path, f"{what} reads '{reference.node[:128]}', which does not exist{hint}"
                )
                return False
            self.uses.append(Use(reference, path, reader, may_read_self))
        return True


def _explain_root(root: str, what: str) -> str:
    reasons = {
        "item": "it exists only inside the item of a map",
        "secrets": "secrets never reach keys, outputs or conditions; use them in a config",
        "output": "a node has no output before it runs; name the node that has it",
        "ctx": "ctx belongs to conditions; in a template write the node alone",
        "current": "current belongs to conditions; in a template write the node alone",
        "loop": "outputs are made after every loop has ended; name a node",
    }
    return f"{what} reads '{root}', which does not exist here: {reasons.get(root, 'name a node, inputs or run')}"


def _check_order(uses: list[Use], definition: Definition, graph: Graph, loops: Loops, problems: Problems) -> None:
    questions: set[tuple[int, int]] = set()
    for use in uses:
        if use.reader is None or use.reference.node is None:
            continue
        node = graph.index[use.reference.node]
        if node != use.reader or not use.may_read_self:
            questions.add((node, use.reader))
    wrong = find_unreached(graph, questions)
    certainty = _find_certainty(definition, graph, loops)
    for use in uses:
        if use.reader is None or use.reference.node is None:
            continue
        id, node = use.reference.node, graph.index[use.reference.node]
        reader = graph.ids[use.reader]
        if (node, use.reader) in wrong:
            # Where a cycle was cut open, the order is arbitrary, and the cycle is the problem to report.
            if not (graph.tangled and (node in graph.tangled or use.reader in graph.tangled)):
                problems.error("not_upstream", use.path, _explain_order(node, use.reader, graph, loops))
        elif certainty is not None and not use.reference.optional and node != use.reader:
            if not certainty.surely_ran(node, use.reader):
                problems.warning(
                    "may_be_skipped",
                    use.path,
                    f"node '{reader}' reads '{id}', which may be skipped; give a default "
                    f"({{{{ {id}.… | default(…) }}}}, in a condition has(ctx.{id}.…)) or make the dependency required",
                )


def _explain_order(node: int, reader: int, graph: Graph, loops: Loops) -> str:
    id, reading = graph.ids[node], graph.ids[reader]
    if node == reader:
        return f"node '{reading}' reads its own output, which does not exist before it runs; use loop.previous inside a loop"
    message = f"node '{reading}' reads '{id}', which does not come before it; add '{id}' to its dependencies"
    shared = set(loops.enclosing[node]) & set(loops.enclosing[reader])
    return message + (", or use loop.previous for the iteration before" if shared else "")


def _find_certainty(definition: Definition, graph: Graph, loops: Loops) -> Certainty | None:
    """The certainty of every node; None when nothing can be skipped at all, as in most large workflows."""
    nodes = [definition.nodes[id] for id in graph.ids]
    # A loop that is left in several places leaves through one of them.
    doors: dict[int, set[int]] = {}
    exits: list[tuple[int, int, tuple[int, ...]]] = []
    for source, target in graph.pairs:
        around = loops.enclosing[source]
        if not around:
            continue
        kind, common = classify(around, loops.enclosing[target])
        if kind == "exit":
            left = around[common:]
            exits.append((source, target, left))
            for loop in left:
                doors.setdefault(loop, set()).add(source)
    leaky = {(source, target) for source, target, left in exits if any(len(doors[loop]) > 1 for loop in left)}
    conditional = ["when" in node for node in nodes]
    if not leaky and not any(conditional) and not any(pair.named for pair in graph.pairs.values()):
        return None
    return Certainty(graph, conditional, [at_least(node) for node in nodes], leaky)


def _key(reference: Reference) -> tuple[Any, ...]:
    return (reference.root, reference.node or "", tuple(map(str, reference.path)), reference.optional)


def unique(references: list[Reference]) -> tuple[Reference, ...]:
    """Each reference once, in an order that does not depend on how the definition was written."""
    if len(references) < 2:
        return tuple(references)
    return tuple(sorted(set(references), key=_key))
