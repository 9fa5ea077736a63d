"""What a command is given: a definition in a file, inputs as flags or JSON, modules to import."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

if TYPE_CHECKING:
    from weft.model import Compiled

MAX_BYTES = 64 * 1024 * 1024


class Source(msgspec.Struct, frozen=True):
    name: str
    text: str
    compiled: Any  # weft.model.Compiled, loaded late


def read_source(file: str) -> Source:
    """Read and compile a definition. Problems of the definition are in the result; a file that is none is refused."""
    from weft.model import compile_text

    if file == "-":
        data, name, kind = sys.stdin.buffer.read(MAX_BYTES + 1), "<stdin>", None
    else:
        path = Path(file)
        if path.suffix == ".py" or ".py:" in path.name:
            raise click.UsageError(f"{file}: workflows in Python are not there yet; write it as YAML or JSON")
        data, name = _read(path), file
        kind = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}.get(path.suffix.lower())
    if len(data) > MAX_BYTES:
        raise click.UsageError(f"{name} has more than {MAX_BYTES} bytes; a definition should be much smaller")
    compiled: Compiled = compile_text(data, format=kind)  # type: ignore[arg-type]
    return Source(name, data.decode(errors="replace"), compiled)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        near = sorted(str(one) for one in path.parent.glob("*.y*ml"))[:5] if path.parent.is_dir() else []
        hint = f"; there is {', '.join(near)}" if near else ""
        raise click.UsageError(f"cannot read {path}: {error.strerror}{hint}") from error


# -- inputs ------------------------------------------------------------------------------------------------------------


def read_inputs(pairs: Sequence[str], file: str | None) -> dict[str, Any] | None:
    """`--inputs` first, then each `-i name=value` on top. None when neither was given."""
    inputs: dict[str, Any] = {}
    if file is not None:
        inputs.update(_read_json(file))
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"-i {pair}: expected name=value, such as -i city=Oslo or -i amount=120")
        inputs[name] = read_value(value)
    return inputs if pairs or file is not None else None


def read_value(text: str) -> Any:
    """JSON if it is JSON, else the text itself: `120`, `true`, `[1, 2]`, `{"a": 1}`, `Oslo`."""
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text


def _read_json(file: str) -> dict[str, Any]:
    if file == "-":
        data, name = sys.stdin.buffer.read(MAX_BYTES + 1), "<stdin>"
    else:
        data, name = _read(Path(file)), file
    try:
        value = msgspec.json.decode(data)
    except msgspec.MsgspecError as error:
        raise click.UsageError(f"--inputs {name}: not JSON: {error}") from error
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
        if path.suffix == ".py":
            _import_file(path)
        else:
            importlib.import_module(name)
    except Exception as error:
        raise click.UsageError(f"--import {name}: {type(error).__name__}: {error}") from error


def _import_file(path: Path) -> None:
    """A file is imported under its own name, so that `function: "tasks:charge"` finds it again."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.stem in sys.modules:
        known = getattr(sys.modules[path.stem], "__file__", None)
        if known is None or Path(known).resolve() != path.resolve():
            raise ImportError(f"a module named {path.stem} is loaded already; rename the file")
        return
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
