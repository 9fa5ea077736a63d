"""What a workflow is: definition, compiler, IR, validation. Knows nothing of runs.

`compile_text` and `compile_definition`, with `rebase` beside them, are the whole of it; the stages behind them are private.
They are loaded on first use, so that `weft.model.ir` costs nothing to those who only run workflows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.model.compilation import Compiled, compile_definition, compile_text
    from weft.model.problems import DefinitionError, Problem

__all__ = ["Compiled", "DefinitionError", "Problem", "compile_definition", "compile_text"]

_HOMES = {
    "Compiled": "weft.model.compilation",
    "compile_definition": "weft.model.compilation",
    "compile_text": "weft.model.compilation",
    "DefinitionError": "weft.model.problems",
    "Problem": "weft.model.problems",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'weft.model' has no attribute '{name}'")
