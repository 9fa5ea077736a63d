"""Logs of processes that serve: lines for people, or one JSON object a line for machines."""

from __future__ import annotations

import logging
import sys
import traceback

import msgspec

from perdure.plain_text import clean_json
from perdure.settings import Settings

FIELDS = ("run_id", "node", "attempt", "tenant", "worker", "request_id")
"""Fields that say what a record is about."""


class JsonFormatter(logging.Formatter):
    """A record as JSON: `{"at", "level", "logger", "message", "run_id"?, …, "error"?}`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name in FIELDS if (value := record.__dict__.get(name)) is not None}
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = "".join(traceback.format_exception(record.exc_info[1]))
        return clean_json(msgspec.json.encode(line, enc_hook=str).decode())


def configure(settings: Settings) -> None:
    """Set the format of logs from the settings; lines for people are the default."""
    logger = logging.getLogger("perdure")
    if settings.log_format == "json":
        lines = logging.StreamHandler(sys.stderr)
        lines.setFormatter(JsonFormatter())
        logger.handlers = [lines]
    for handler in logger.handlers:
        handler.setLevel(settings.log_level.upper())
    logger.setLevel(settings.log_level.upper())
