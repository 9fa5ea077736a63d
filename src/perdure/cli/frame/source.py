"""The sources of a command: a definition in a file, inputs as flags or JSON, modules to import."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from perdure import functions
from perdure.cli.frame.exits import say
from perdure.cli.terminal.speech import style
from perdure.cli.terminal.stdout import diverted
from perdure.plain_text import explain_json

if TYPE_CHECKING:
    from perdure.model import Compiled

MAX_BYTES = 64 * 1024 * 1024


ASKING = ("agent", "llm", "classifier")
"""Types of nodes that ask a model."""


class Source(msgspec.Struct, frozen=True):
    name: str
    text: str
    compiled: Any  # perdure.model.Compiled, loaded late
    children: tuple[Any, ...] = ()
    """The workflows that a workflow from a Python file starts, compiled."""
    kind: Any = None
    """`json` or `yaml`, where `text` is a definition."""

    @property
    def path(self) -> str | None:
        """The path of the file that the source was read from; None: it was not a file."""
        file = self.name.partition(".py:")[0] + ".py" if ".py:" in self.name else self.name
        return str(Path(file).resolve()) if Path(file).is_file() else None


def read_source(file: str) -> Source:
    """Read and compile a definition. Its problems are in the result; a file that holds no definition is refused."""
    from perdure.model import compile_text

    if ".py" in file or ":" in file:
        from perdure.sdk import loader

        if loader.is_python(file):
            return _read_python(file)
    data, name, kind = read_bytes(file)
    compiled = _check(compile_text(data, format=kind), data, kind)
    return Source(name, data.decode(errors="replace"), compiled, kind=kind or "yaml")


def read_source_or_patch(file: str) -> tuple[Source, Any]:
    """A whole definition, or the operations of a JSON Patch: a file that holds a list is a patch."""
    from perdure.model import compile_text
    from perdure.model.problems import Problems
    from perdure.model.reader import read

    data, name, kind = read_bytes(file)
    value, _, _ = read(data, kind, Problems())
    text = data.decode(errors="replace")
    if isinstance(value, list):
        return Source(name, "", None), value
    return Source(name, text, _check(compile_text(data, format=kind), data, kind), kind=kind or "yaml"), None


def _read_python(file: str) -> Source:
    from perdure.sdk import loader

    try:
        with diverted():
            loaded = loader.load(file)
    except loader.LoadError as error:
        raise click.UsageError(error.message) from error
    return Source(file, loaded.text, _check_children(_check(loaded.compiled), loaded.children), loaded.children)


def check_agents_file(source: Source) -> None:
    """Tell a user who runs or checks a workflow that asks models what is wrong with the operator's file here. Raises
    SettingsInvalid with every problem."""
    definition = source.compiled.definition
    nodes = definition.get("nodes") if isinstance(definition, dict) else None
    if any(isinstance(node, dict) and node.get("type") in ASKING for node in nodes or ()):
        from perdure.llms.operator_file import open_models
        from perdure.settings import Settings

        open_models(Settings.load().agents_file)


def _check_children(compiled: Compiled, children: Sequence[Compiled]) -> Compiled:
    """Add the problems of the child workflows that come with a definition, since they are registered with it."""
    from perdure.nodes import installed
    from perdure.nodes.config_checks import find_more_problems, joined

    problems = [
        msgspec.structs.replace(problem, message=f"child workflow '{child.ir.name}': {problem.message}")
        for child in children
        if child.ir is not None
        for problem in find_more_problems(child, installed())
    ]
    return joined(compiled, tuple(problems))


def _check(compiled: Compiled, data: bytes | None = None, kind: Any = None) -> Compiled:
    """Add problems that the compiler cannot see, with their lines: conditions, schemas, configs of node types."""
    from perdure.model.compilation import has_triggers
    from perdure.model.placement import place
    from perdure.nodes import installed
    from perdure.nodes.config_checks import find_more_problems, joined

    problems = find_more_problems(compiled, installed())
    if has_triggers(compiled):
        from perdure.clock import system
        from perdure.nodes.given_inputs import find_trigger_problems

        problems += find_trigger_problems(compiled, system.now())
    return joined(compiled, problems if data is None else place(problems, data, kind))


def read_bytes(file: str) -> tuple[bytes, str, Any]:
    """The bytes of a file, its name for messages, and its format by that name."""
    if file == "-":
        data, name, kind = sys.stdin.buffer.read(MAX_BYTES + 1), "<stdin>", None
    else:
        path = Path(file)
        data, name = _read(path), file
        kind = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}.get(path.suffix.lower())
    if len(data) > MAX_BYTES:
        raise click.UsageError(f"{name} has more than {MAX_BYTES} bytes; a definition should be much smaller")
    return data, name, kind


def _read(path: Path, said: str = "", like: str = "*.y*ml") -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        near = sorted(str(one) for one in path.parent.glob(like))[:5] if path.parent.is_dir() else []
        hint = f"; there is {', '.join(near)}" if near else ""
        raise click.UsageError(f"{said}cannot read {path}: {error.strerror}{hint}") from error


# -- inputs ------------------------------------------------------------------------------------------------------------


def read_inputs(pairs: Sequence[str], file: str | None, schema: Any = None) -> dict[str, Any] | None:
    """The inputs: those of `--inputs`, then each `-i name=value` over them, read by the schema of the inputs. None when
    neither was given."""
    inputs: dict[str, Any] = {}
    if file is not None:
        inputs.update(_read_json(file))
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"-i {pair}: expected name=value, such as -i city=Oslo or -i amount=120")
        inputs[name] = _read_as(value, name, schema)
    return inputs if pairs or file is not None else None


def _read_as(text: str, name: str, schema: Any) -> Any:
    """The value of one `-i`: `-i order=123` is text if the workflow wants text, although it could be a number."""
    value = read_value(text)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    part = properties.get(name) if isinstance(properties, dict) else None
    if part is None or value == text:
        return value
    from perdure.expressions.json_schema import SchemaInvalid, fits

    inner = {"$defs": schema["$defs"], **part} if isinstance(part, dict) and "$defs" in schema else part
    try:
        return text if not fits(inner, value) and fits(inner, text) else value
    except SchemaInvalid:  # reported where the definition is checked
        return value


def warn_unknown(schema: Any, inputs: Any) -> None:
    """Warn about unknown inputs: a typo in the name of an optional one would go unnoticed."""
    from perdure.expressions.run_inputs import find_unknown

    for said in find_unknown(schema, inputs):
        warn(said)


def warn(said: str) -> None:
    say(f"{style('warning:', fg='yellow', bold=True)} {said}")


def read_value(text: str) -> Any:
    """The value of a text that may be JSON, else the text itself: `120`, `true`, `[1, 2]`, `{"a": 1}`, `Oslo`."""
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text


def _read_json(file: str) -> dict[str, Any]:
    if file == "-":
        data, name = sys.stdin.buffer.read(MAX_BYTES + 1), "<stdin>"
    else:
        data, name = _read(Path(file), "--inputs: ", "*.json"), file
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--inputs {name}: not JSON: {explain_json(error)}") from error
    if not isinstance(value, dict):
        raise click.UsageError(f"--inputs {name}: expected a JSON object of inputs, got a {type(value).__name__}")
    return value


# -- modules -----------------------------------------------------------------------------------------------------------


def import_modules(names: Sequence[str], file: str) -> None:
    """Put the folder of the definition and the working directory on the path, then import what was asked for."""
    folders = [Path.cwd()] if file == "-" else [Path(file).resolve().parent, Path.cwd()]
    for folder in reversed(folders):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    for name in names:
        _import(name)


def _import(name: str) -> None:
    path = Path(name)
    try:
        with diverted():
            module = functions.load_file(path) if path.suffix == ".py" else functions.load_module(name)
        functions.allow(module.__name__)
    except Exception as error:
        raise click.UsageError(f"--import {name}: {type(error).__name__}: {error}") from error
