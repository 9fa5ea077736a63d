"""Language models: what is asked of one, the vendors' wire formats for it, and the operator's file that names them.

`names()` are the models of this process, from the file that the setting `agents_file` names. Keys are secrets, which
are looked up when a call is made and go to the origin of their provider alone. Every call goes through
`perdure.egress`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.llms.operator_file import Models

_models: Models | None = None


def configure(models: Models | None) -> None:
    """Set the models of this process; None reads the file of the settings when they are next asked for."""
    global _models  # noqa: PLW0603  which models there are is a fact about the process
    _models = models


def get_models() -> Models:
    """The models of this process. Raises SettingsInvalid."""
    global _models  # noqa: PLW0603
    if _models is None:
        from perdure.llms.operator_file import open_models
        from perdure.settings import Settings

        _models = open_models(Settings.load().agents_file)
    return _models
