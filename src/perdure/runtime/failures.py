"""An exception of a handler, as the fields of a result. Bounded, and without payloads beyond what the message says."""

from __future__ import annotations

import math
import traceback
from pathlib import Path
from typing import Any

from perdure.outcomes import Failure
from perdure.runtime.outputs import check_output

MAX_MESSAGE = 1_000
MAX_TRACEBACK = 4_000
MAX_FRAMES = 12
MAX_DETAILS = 16 * 1024
"""JSON in bytes: they stand in the event of the failure."""

_OWN = str(Path(__file__).parents[1])
_STDLIB = str(Path(traceback.__file__).parent)


def describe(error: BaseException) -> dict[str, Any]:
    """The fields of `Result` that tell of this error."""
    if isinstance(error, Failure):
        return {
            "code": error.code[:100],
            "message": _cut(error.message or type(error).__name__, MAX_MESSAGE),
            "details": _json_or_none(error.details) or _user_frames(error) or None,
            "retryable": error.retryable,
            "retry_after": error.retry_after if _is_seconds(error.retry_after) else None,
            "not_done": error.not_done,
        }
    return {"code": "error", "message": _message(error), "details": _user_frames(error) or None}


def _json_or_none(details: Any) -> Any:
    try:
        checked = check_output(details, "details")
    except Failure:
        return None
    if checked.size > MAX_DETAILS:
        return {"left_out": f"{checked.size} bytes of details; {MAX_DETAILS} are kept"}
    return checked.value


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value < math.inf


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  a user's __str__ may do anything
        text = "(its text cannot be shown)"
    return _cut(f"{type(error).__name__}: {text}" if text else type(error).__name__, MAX_MESSAGE)


def _user_frames(error: BaseException) -> str:
    """The innermost frames that are neither Perdure's nor the standard library's, without their variables."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<frozen", _OWN))
        and (not frame.filename.startswith(_STDLIB) or "site-packages" in frame.filename)
    ]
    return _cut("".join(traceback.format_list(frames[-MAX_FRAMES:])), MAX_TRACEBACK)


def _cut(text: str, length: int) -> str:
    text = text.encode("utf-8", "backslashreplace").decode()  # lone surrogates cannot be stored
    return text if len(text) <= length else f"{text[: length - 1]}…"
