"""Language models: what is asked of one, the vendors' wire formats for it, and the operator's file that names them.

`names()` are the models of this process, from the file that the setting `agents_file` names. Keys are secrets, which
are looked up when a call is made and go to the origin of their provider alone. Every call goes through
`perdure.egress`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.llms.operator_file import Models

_models: Models | str | None = None
"""The models of this process, or the file that they are read from when the first is asked for."""


def configure(models: Models | str | None) -> None:
    """Set the models of this process, or the operator's file that has them; None: that of the settings. The file is read when a
    model is asked for, so that what needs none does not stumble over it."""
    global _models  # noqa: PLW0603  which models there are is a fact about the process
    _models = models


def get_models() -> Models:
    """The models of this process. Raises SettingsInvalid."""
    global _models  # noqa: PLW0603
    if _models is None or isinstance(_models, str):
        from perdure.llms.operator_file import open_models
        from perdure.settings import Settings

        _models = open_models(Settings.load().agents_file if _models is None else _models)
    return _models
