"""`ctx.log`: a logger whose lines are kept with the run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from perdure.runtime.worker.capture import describe


class Log(logging.LoggerAdapter[logging.Logger]):
    """A logger whose records carry `run_id`, `node`, `attempt` and `tenant` besides what the caller adds."""

    def __init__(self, logger: logging.Logger, extra: dict[str, Any], keep: Callable[[int, str], None]) -> None:
        super().__init__(logger, extra)
        self._keep = keep

    def __call__(self, msg: object, *args: object, **kwargs: Any) -> None:
        """`ctx.log("…")` is `ctx.log.info("…")`."""
        self.log(logging.INFO, msg, *args, **kwargs)

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if level >= logging.INFO:
            if len(args) == 1 and isinstance(args[0], Mapping) and args[0]:
                self._keep(level, describe(msg, args[0], kwargs.get("exc_info")))  # "%(name)s", as in logging
            else:
                self._keep(level, describe(msg, args, kwargs.get("exc_info")))
        super().log(level, msg, *args, **kwargs)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs
