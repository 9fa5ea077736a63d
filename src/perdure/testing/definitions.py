"""The workflow a test gives, as a file, text, data or compiled, and its inputs, checked against the schema."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from perdure.errors import PerdureError
from perdure.expressions.checks import check_parts
from perdure.expressions.json_schema import check
from perdure.expressions.run_inputs import apply_defaults
from perdure.model import Compiled, DefinitionError, compile_definition, compile_text
from perdure.model.ir import IR
from perdure.model.reader import Format
from perdure.plain import NotData, to_data
from perdure.simulation.stage.stubs import Signal, check_names
from perdure.simulation.stage.user_stage import Setting


class Built(Protocol):
    """A workflow written in Python."""

    @property
    def compiled(self) -> Compiled: ...
    def children(self) -> Sequence[Any]: ...


Definition = str | Path | Mapping[str, Any] | Compiled | Built
"""A path, YAML or JSON text (more than one line of it), data, a workflow written in Python, or a compiled one."""

FORMATS: dict[str, Format] = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}


class InputsInvalid(PerdureError):
    """The inputs do not fit the workflow's schema."""

    code = "invalid_inputs"


def make_setting(
    definition: Definition,
    *,
    inputs: Mapping[str, Any] | None,
    stubs: Mapping[str, Any] | None,
    workflows: Sequence[Definition] = (),
    signals: Sequence[Signal] = (),
    real: bool | Collection[str] = False,
    lenient: bool = False,
) -> Setting:
    children: Sequence[Any] = getattr(definition, "children", tuple)()
    compiled = tuple(load(one) for one in (definition, *children, *workflows))
    check_names(stubs or {}, compiled)
    try:
        given = to_data(dict(inputs or {}))
    except NotData as error:
        raise InputsInvalid(f"inputs of {compiled[0].name} are not JSON: {error}") from error
    schema = compiled[0].inputs_schema
    given = apply_defaults(schema, given)
    if schema is not None and (problems := check(schema, given)):
        raise InputsInvalid(f"inputs of {compiled[0].name}: {'; '.join(problems)}")
    return Setting(
        workflows=compiled,
        inputs=given,
        stubs=dict(stubs or {}),
        signals=tuple(signals),
        real=real if isinstance(real, bool) else frozenset(real),
        lenient=lenient,
    )


def load(definition: Definition) -> IR:
    """The workflow, or DefinitionError with every problem."""
    ir = _compile(definition).get_ir()
    problems = check_parts(ir)
    if problems:
        raise DefinitionError(problems)
    return ir


def _compile(definition: Definition) -> Compiled:
    if isinstance(definition, Compiled):
        return definition
    if hasattr(definition, "compiled"):
        return definition.compiled
    if isinstance(definition, str) and "\n" in definition:
        return compile_text(definition)
    if isinstance(definition, str | Path):
        path = Path(definition)
        return compile_text(path.read_bytes(), format=FORMATS.get(path.suffix.lower()))
    return compile_definition(dict(definition))


@contextmanager
def importing(*definitions: Definition) -> Iterator[None]:
    """Make functions beside the definitions importable, as `perdure run` does."""
    before = list(sys.path)
    for definition in definitions:
        if isinstance(definition, Path) or (isinstance(definition, str) and "\n" not in definition):
            sys.path.insert(0, str(Path(definition).resolve().parent))
    try:
        yield
    finally:
        sys.path[:] = before
