"""What can go wrong while a template is rendered or a secret is filled in.

WeftError
├── TemplateError       the template is wrong, or reads what is not there; rendering again will not help
└── NeedsBlob           the template looks into an output that is stored as a blob; whoever catches it may load it
"""

from __future__ import annotations

from weft.errors import WeftError

_SHOWN = 200


class TemplateError(WeftError):
    """Names the template and, where something was missing, the path and its first part that was not there."""

    code = "template_error"

    def __init__(self, problem: str, *, template: str = "", path: str = "", missing: str = "") -> None:
        shown = template if len(template) <= _SHOWN else f"{template[:_SHOWN]}…"
        super().__init__(f"template {shown!r}: {problem}" if template else problem)
        self.problem = problem
        self.template = template
        self.path = path
        self.missing = missing


class NeedsBlob(WeftError):
    code = "needs_blob"

    def __init__(self, ref: str, path: str) -> None:
        super().__init__(
            f"{path!r} is stored as {ref}; only the whole output can be passed on, as {{{{ {path} }}}} and nothing else"
        )
        self.ref = ref
        self.path = path
