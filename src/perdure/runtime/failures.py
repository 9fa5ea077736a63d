"""Exceptions of handlers as the fields of a result, and what people are shown of them. The fields are bounded and hold
no payloads beyond what the message says."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import msgspec

from perdure.outcomes import Failure, is_out_of_memory
from perdure.plain import type_name
from perdure.plain_text import LOOKED_AT, cut
from perdure.runtime.worker.encoder import is_light
from perdure.runtime.worker.outputs import check_output
from perdure.runtime.worker.sayings import plain, seconds_of

MAX_CODE = 100
MAX_MESSAGE = 1_000
MAX_TRACEBACK = 4_000
MAX_FRAMES = 8
MAX_DETAILS = 16 * 1024
"""The most bytes of details, as JSON: they are part of the event of the failure."""

_OWN = str(Path(__file__).parents[1])
_STDLIB = str(Path(traceback.__file__).parent)
_FRAME = re.compile(r'^  File "(.+)", line (\d+)', re.MULTILINE)
_MOST_SHOWN = 1_000
_MOST_CAUSES = 50
"""How far back the cause of an error is looked for; an error may be its own cause."""


def describe(error: BaseException, *, knows_secrets: bool = True) -> dict[str, Any]:
    """The fields of `Result` that describe an error, whatever it is; they can always be written. A process that does not
    know the secrets, such as an isolated one, leaves the shortening to the worker, which removes secrets first."""
    code, message = (MAX_CODE, MAX_MESSAGE) if knows_secrets else (LOOKED_AT, LOOKED_AT)
    try:
        if isinstance(error, Failure):
            return _describe_failure(error, code, message)
        return {
            "code": "out_of_memory" if is_out_of_memory(error) else "error",
            "message": _message(error, message),
            "details": _frames(error) or None,
        }
    except BaseException as problem:  # noqa: BLE001  a class of the user's may do anything when it is asked, even exit
        text = f"an error was raised that cannot be read: asking it raised {type(problem).__name__}"
        return {"code": "bad_output", "message": _cut(text, message), "retryable": False}


def _describe_failure(error: Failure, most_code: int, most_message: int) -> dict[str, Any]:
    code: Any = error.code
    message = _text(error.message or type(error).__name__)
    if not isinstance(code, str):
        message = f"the code of a {type(error).__name__} is text, got {type_name(code)}; it said: {message}"
        code = "bad_output"
    return {
        "code": _cut(code, most_code),
        "message": _cut(message, most_message),
        "details": _json_or_none(error.details) or _frames(error) or None,
        "retryable": bool(error.retryable),
        "retry_after": seconds_of(error.retry_after),
        "not_done": bool(error.not_done),
    }


def _json_or_none(details: Any) -> Any:
    if not is_light(details):  # as JSON it would have more bytes than are kept
        return {"left_out": f"more details than the {MAX_DETAILS} bytes that are kept"}
    try:
        checked = check_output(details, "details")
    except Failure:
        return None
    if checked.size > MAX_DETAILS:
        return {"left_out": f"{checked.size} bytes of details; {MAX_DETAILS} are kept"}
    return checked.value


def _text(value: Any) -> str:
    try:
        return value if isinstance(value, str) else str(value)
    except BaseException:  # noqa: BLE001  a user's __str__ may do anything, even exit
        return "(its text cannot be shown)"


def _message(error: BaseException, most: int) -> str:
    text = _text(error)
    return _cut(f"{type(error).__name__}: {text}" if text else type(error).__name__, most)


def _frames(error: BaseException) -> str:
    """Where the error was raised; for an error of Perdure's own, where the user's error that caused it was raised."""
    frames, cause = _user_frames(error), error.__cause__
    for _ in range(_MOST_CAUSES):
        if cause is None or not all(map(_is_installed, frames)):
            break
        found = _user_frames(cause)
        if any(not _is_installed(frame) for frame in found):
            frames = found
        cause = cause.__cause__
    return _cut("".join(map(_show, frames)), MAX_TRACEBACK)


def _show(frame: traceback.FrameSummary) -> str:
    """A frame as Python shows it, but without the marks below the line, which differ between versions."""
    code = f"    {frame.line}\n" if frame.line else ""
    return f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}\n{code}'


def _user_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The innermost frames of the user's own code, without their variables, and the last one if an installed library
    raised the error. Frames of Perdure and of the standard library are left out."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<frozen", _OWN))
        and (not frame.filename.startswith(_STDLIB) or _is_installed(frame))
    ]
    shown = [frame for frame in frames if not _is_installed(frame)][-MAX_FRAMES:]
    if frames and frames[-1] not in shown[-1:]:
        shown.append(frames[-1])
    return shown


def _is_installed(frame: traceback.FrameSummary) -> bool:
    return "site-packages" in frame.filename or "dist-packages" in frame.filename


def show_details(details: Any) -> list[str]:
    """The lines shown below an error: where it was raised, or what its node type says about it."""
    if isinstance(details, str):
        return details.rstrip("\n").split("\n") if details.strip() else []
    return [] if details is None else [f"  {_cut(msgspec.json.encode(details).decode(), _MOST_SHOWN)}"]


def show_place(details: Any) -> str:
    """The place of an error in short, such as `tasks.py:6`: the last frame of the traceback that `describe` wrote."""
    found = _FRAME.findall(details) if isinstance(details, str) else ()
    return f"{Path(found[-1][0]).name}:{found[-1][1]}" if found else ""


def _cut(text: str, length: int) -> str:
    return cut(plain(text), length)
