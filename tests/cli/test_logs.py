"""Logs for machines: one object a line, with what it is about."""

from __future__ import annotations

import json
import logging

from perdure.cli.frame.log_lines import JsonFormatter, configure
from perdure.settings import Settings


def test_a_record_is_one_json_object_with_the_run_it_is_about(capsys):
    logger = logging.getLogger("perdure")
    before = list(logger.handlers), logger.level
    try:
        configure(Settings(log_format="json", log_level="info"))
        logging.getLogger("perdure.coordinator").info(
            "run %s\nmoves", "r1", extra={"run_id": "r1", "unknown": object()}
        )
        logging.getLogger("perdure.coordinator").debug("not this")
        try:
            raise ValueError("why")
        except ValueError:
            logging.getLogger("perdure.worker").exception("it broke")
    finally:
        logger.handlers, logger.level = before
        logger.setLevel(before[1])
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert first.pop("at") > 0
    assert first == {"level": "info", "logger": "perdure.coordinator", "message": "run r1\nmoves", "run_id": "r1"}
    assert second["level"] == "error"
    assert "ValueError: why" in second["error"]


def test_what_cannot_be_json_becomes_text():
    record = logging.makeLogRecord({"name": "perdure", "msg": "x", "run_id": Exception("odd"), "levelname": "INFO"})
    assert json.loads(JsonFormatter().format(record))["run_id"] == "odd"
