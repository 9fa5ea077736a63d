"""Python conditions: what a sandbox is given to do, and the check of the code before it is stored.

Nothing runs here. `evaluate` of `verdicts.py` raises `NeedsVerdict` with a job from this file; the process that has a
sandbox runs it (`perdure.sandbox`) and puts the answer at hand under the job's key.
"""

from __future__ import annotations

import ast
import hashlib
import warnings
from typing import Any

import msgspec

MAX_CODE = 50_000
MAX_ARGUMENTS = 8 * 1024 * 1024
TIMEOUT_MS = 1000
MAX_MEMORY_MB = 50
_HIDES = frozenset({"exec", "eval", "compile", "__import__"})
"""Names that run text as code. Refusing them is not the wall: a sandbox runs such text as it runs the rest, within the
same limits and without files. But that text would not be checked."""


class Job(msgspec.Struct, frozen=True):
    """One call of `evaluate(output, context)` of some code, within limits. The same job always has the same answer."""

    code: str
    arguments: bytes
    """JSON: [output, context]."""
    timeout_ms: int = TIMEOUT_MS
    max_memory_mb: int = MAX_MEMORY_MB

    @property
    def key(self) -> str:
        digest = hashlib.sha256(self.code.encode(errors="surrogatepass"))
        digest.update(b"\0%d\0%d\0" % (self.timeout_ms, self.max_memory_mb))
        digest.update(self.arguments)
        return f"verdict:{digest.hexdigest()}"


class TooLarge(Exception):
    """A sandbox is not given this much data."""


def make_job(spec: dict[str, Any], code: str, output: Any, context: dict[str, Any]) -> Job:
    """The job of a condition. Raises TooLarge."""
    try:
        arguments = msgspec.json.encode([output, context])
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeError) as error:
        raise TooLarge(f"what it reads is not JSON: {type(error).__name__}") from None
    if len(arguments) > MAX_ARGUMENTS:
        raise TooLarge(
            f"what it reads comes to {len(arguments):,} bytes, {MAX_ARGUMENTS:,} are allowed; let an earlier node "
            "reduce it"
        )
    return Job(code, arguments, spec.get("timeout_ms", TIMEOUT_MS), spec.get("max_memory_mb", MAX_MEMORY_MB))


def check(code: Any, name: str = "evaluate", arguments: tuple[str, ...] = ("output", "context")) -> str | None:
    """What is wrong with the code, as far as reading it tells. It defines a function of this name and these arguments."""
    if type(code) is not str:
        return "the code is not text"
    if len(code) > MAX_CODE:
        return f"the code has {len(code):,} characters, {MAX_CODE:,} are allowed"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except SyntaxError as error:
        return f"the code is not Python: {error.msg} (line {error.lineno})"
    except (ValueError, RecursionError, MemoryError, OverflowError):
        return "the code is not Python that can be read"
    for node in ast.walk(tree) if any(name in code for name in _HIDES) else ():
        if isinstance(node, ast.Name) and node.id in _HIDES:
            return f"the code uses {node.id} (line {node.lineno}), which runs text that nobody has read; write that code out"
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    wanted, count = f"{name}({', '.join(arguments)})", len(arguments)
    if not functions:
        return f"the code defines no function {wanted}"
    taken = functions[-1].args
    most = len(taken.posonlyargs) + len(taken.args)
    least = most - len(taken.defaults)
    if any(default is None for default in taken.kw_defaults) or least > count or (most < count and not taken.vararg):
        number = {1: "one argument", 2: "two arguments"}[count]
        return f"{name} must take {number}: {wanted}"
    return None
