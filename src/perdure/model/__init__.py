"""What a workflow is: definition, compiler, IR, validation. Knows nothing of runs.

`compile_text` and `compile_definition`, with `rebase` beside them, are the whole of it; the stages behind them are
private. They are loaded on first use, so that `perdure.model.ir` costs nothing to code that only runs workflows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.model.compilation import Compiled, compile_definition, compile_text
    from perdure.model.problems import DefinitionError, Problem

__all__ = ["Compiled", "DefinitionError", "Problem", "compile_definition", "compile_text"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from perdure.model import compilation, problems

        return getattr(problems if name in ("DefinitionError", "Problem") else compilation, name)
    raise AttributeError(f"module 'perdure.model' has no attribute '{name}'")
