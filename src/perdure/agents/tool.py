"""A tool of an agent, as it is pinned with the first attempt."""

from __future__ import annotations

import typing
from typing import Any, Literal

import msgspec

from perdure.agents.openapi_document import Api
from perdure.agents.run_patches import Palette
from perdure.model.labels import USER, Label

Effect = Literal["read", "write", "send"]
EFFECTS = typing.get_args(Effect)
Kind = Literal[
    "function",
    "workflow",
    "ask_human",
    "delegate",
    "code",
    "pipeline",
    "patch",
    "read_handle",
    "search_tools",
    "use_tool",
    "openapi",
    "mcp",
    "promoted",
    "remember",
    "recall",
    "route",
]
_ASKED = ("workflow", "ask_human", "patch")


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    kind: Kind
    target: str = ""
    """The function, the workflow or the MCP server."""
    description: str = ""
    schema: dict[str, Any] = {}
    """The JSON Schema of the arguments; empty: any arguments."""
    effect: Effect = "read"
    returns: Label = USER
    """The label of what it gives."""
    idempotent: bool = False
    """Whether a second call with the same key changes nothing."""
    fatal: bool = False
    """Whether its failure is the failure of the agent."""
    approve: Literal["always", "tainted"] = "tainted"
    control: tuple[str, ...] = ()
    budget: dict[str, Any] | None = None
    approvers: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    agents: tuple[str, ...] = ()
    """Whom it may delegate to."""
    origins: tuple[str, ...] = ()
    """Where its requests may go."""
    hidden: bool = False
    """Whether the model is not told of it until it searches."""
    apis: tuple[Api, ...] = ()
    """The APIs whose operations the tool may call."""
    profiles: tuple[str, ...] = ()
    remote: tuple[str, ...] = ()
    """What its MCP server calls it; before that is asked, which of its tools are meant."""
    widens: bool = False
    """Whether a call may do more than the agent itself."""
    palette: Palette | None = None
    """What it may add to the run."""
    steps: tuple[dict[str, Any], ...] = ()
    """The steps, if the tool is a pipeline of the registry, with `{$param: name}` where arguments go."""
    allow: tuple[str, ...] = ()
    """Which tools of the registry are found besides those of the agent."""

    @property
    def is_once(self) -> bool:
        """Whether a call may happen at most once, so that it is never repeated by itself (rule 81)."""
        return self.effect != "read" and not self.idempotent

    @property
    def is_asked(self) -> bool:
        """Whether a call is asked of the journal: a child run, or people. Any other is made by the worker, as a step."""
        return self.kind in _ASKED
