"""Streams as they are written: what a node says about its own, and the ports of an edge.

An edge with ports is a stream edge: its consumer begins when the producer has begun to yield, not when it has ended.
Owns the keys of `stream`. Must not know graphs: `stream_edges.py` says which edges may carry a stream.
"""

from __future__ import annotations

import re
from typing import Any

from perdure.model.fields import Fields, as_fields
from perdure.model.ir import Stream
from perdure.model.problems import Path, Problems

OUT = "out"
"""The port that a generator yields to, unless it says `perdure.On`."""
MOST_PORTS = 16
_KEYS = ("restart", "collect", "buffer", "early", "ports")
_RESTARTS = ("anew", "repeat", "checkpoint")
_COLLECTS = ("list", "text", "last", "count", "none")
_PORT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_SIZE = re.compile(r"([0-9]{1,9}) ?(B|KiB|MiB|GiB)\Z")
_UNITS = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_LEAST_BUFFER, _MOST_BUFFER = 64 * 1024, 1024**3
_DEFAULTS = Stream()


def read_stream(fields: Fields) -> dict[str, Any] | None:
    """The canonical `stream` of a node: {} where it says nothing but that there is one."""
    if not fields.has("stream"):
        return None
    what = f"stream of {fields.what}"
    inner = as_fields(fields.data["stream"], (*fields.path, "stream"), what, fields.problems, _KEYS)
    if inner is None:
        return None
    restart = inner.choice("restart", _RESTARTS)
    ports = inner.texts("ports") or []
    for port in ports:
        if not _PORT.match(port):
            inner.error(
                "no_such_port", "ports", f"port {port[:80]!r} of {what} is not a name; use letters, digits and '_'"
            )
    if len({OUT, *ports}) > MOST_PORTS:
        inner.error("wrong_value", "ports", f"{what} has {len(ports)} ports; at most {MOST_PORTS} are allowed")
    found = {
        "collect": inner.choice("collect", _COLLECTS),
        "buffer": _read_size(inner, "buffer"),
        "early": inner.flag("early"),
        "ports": [port for port in ports if port != OUT],
        "restart": restart,
    }
    defaults: dict[str, Any] = {"collect": _DEFAULTS.collect, "buffer": _DEFAULTS.buffer, "early": False, "ports": []}
    defaults["restart"] = _DEFAULTS.restart
    return {key: value for key, value in found.items() if value is not None and value != defaults[key]}


def _read_size(fields: Fields, key: str) -> int | None:
    """A number of bytes: 8388608, or "8MiB"."""
    value = fields.data.get(key)
    if isinstance(value, str):
        found = _SIZE.match(value)
        if found is None:
            fields.error("wrong_value", key, f"'{key}' of {fields.what} is a size, e.g. 8MiB, got {value[:80]!r}")
            return None
        value = int(found[1]) * _UNITS[found[2]]
        if not _LEAST_BUFFER <= value <= _MOST_BUFFER:
            message = f"expected '{key}' of {fields.what} between 64KiB and 1GiB, got {value} bytes"
            fields.error("wrong_value", key, message)
            return None
        return value
    return fields.integer(key, _LEAST_BUFFER, _MOST_BUFFER)


def read_ports(out: str, into: str, what: str, path: Path, problems: Problems) -> tuple[str, str] | None:
    """The ports of a stream edge. One end that names a port makes it one: a source without one means `out`."""
    if not into:
        message = f"{what} leaves a port and enters none; name the parameter that takes the stream, e.g. to: NODE.words"
        problems.error("no_such_port", path, message)
        return None
    for port in (out, into):
        if port and not _PORT.match(port):
            problems.error(
                "no_such_port", path, f"port {port[:80]!r} of {what} is not a name; use letters, digits and '_'"
            )
            return None
    return out or OUT, into


def make_stream(written: dict[str, Any]) -> Stream:
    return Stream(**{**written, "ports": tuple(written.get("ports", ()))})
