"""What can go wrong while a template is rendered, a condition evaluated or a secret filled in.

PerdureError
├── TemplateError       the template is wrong, or reads what does not exist; rendering again will not help
│   ├── ConfigTorn      the config and the content of its config_ref do not go together
│   └── ContentLost     the template reads what is stored elsewhere, and that cannot be had
└── NotAtHand           something slow must happen first: do what `key` names, and ask again with it at hand
    ├── NeedsBlob       an output that is stored as a blob is looked into
    ├── NeedsStore      a value is so large that it must be stored as a blob first
    └── NeedsVerdict    a Python condition must run in its sandbox
"""

from __future__ import annotations

from typing import Any

from perdure.errors import PerdureError

_SHOWN = 200


class TemplateError(PerdureError):
    """A template failed. Names the template and, where something was missing, the path and its first missing part."""

    code = "template_error"

    def __init__(self, problem: str, *, template: str = "", path: str = "", missing: str = "") -> None:
        shown = template if len(template) <= _SHOWN else f"{template[:_SHOWN]}…"
        super().__init__(f"template {shown!r}: {problem}" if template else problem)
        self.problem = problem
        self.template = template
        self.path = path
        self.missing = missing


class ConfigTorn(TemplateError):
    code = "bad_config"


class ContentLost(TemplateError):
    """Content that cannot be had, with the code of what is wrong: `blob_missing`, `blob_damaged`, …"""

    def __init__(self, path: str, code: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message, path=path)
        self.code = code


class NotAtHand(PerdureError):
    """Rendering or evaluating lacks something: they never wait, but say what they need. See `at_hand.py`."""

    code = "not_at_hand"

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key
        self.tenant = "default"
        """The tenant whose content is needed; set by the caller that knows it."""


class NeedsBlob(NotAtHand):
    code = "needs_blob"

    def __init__(self, ref: str, path: str) -> None:
        super().__init__(ref, f"{path!r} is stored as {ref} and must be fetched first")
        self.ref = ref
        self.path = path


class NeedsStore(NotAtHand):
    code = "needs_store"

    def __init__(self, ref: str, data: bytes) -> None:
        super().__init__(stored_key(ref), f"{len(data)} bytes must be stored as {ref} first")
        self.ref = ref
        self.data = data


class NeedsSize(NotAtHand):
    code = "needs_size"

    def __init__(self, ref: str) -> None:
        super().__init__(size_key(ref), f"how large {ref} is must be asked of the store first")
        self.ref = ref


def size_key(ref: str) -> str:
    """The key under which the size of content is at hand, as its store says it."""
    return f"size:{ref}"


def stored_key(ref: str) -> str:
    """The key under which it is at hand that a blob was stored."""
    return f"stored:{ref}"


class NeedsVerdict(NotAtHand):
    code = "needs_verdict"

    def __init__(self, key: str, job: Any) -> None:
        super().__init__(key, "a Python condition must be run first")
        self.job = job
