"""An MCP server by hand, which answers with more than anybody wants: over stdio as a program, or message by message."""

from __future__ import annotations

import json
import sys
from typing import Any


def result_of(kind: str, size: int) -> dict[str, Any]:
    match kind:
        case "text":
            return {"content": [{"type": "text", "text": "a,[{" * (size // 4)}]}
        case "lists":
            return {"content": [], "structuredContent": {"result": [[]] * size}}
        case _:
            return {"content": [{"type": "text", "text": ""}] * size}


def answer(message: dict[str, Any], kind: str, size: int) -> dict[str, Any] | None:
    """The answer to a message; None: it wants none."""
    if "id" not in message:
        return None
    said: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"]:
        case "initialize":
            info = {"name": "raw", "version": "1"}
            version = message["params"]["protocolVersion"]
            said["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            row: dict[str, Any] = {"name": "t", "inputSchema": {"type": "object"}}
            rows = [row]
            if kind == "schemas":
                schema = {"type": "object", "properties": {f"a{n}": {"type": "string"} for n in range(size)}}
                rows = [{"name": f"t{n}", "inputSchema": schema} for n in range(20)]
            said["result"] = {"tools": rows}
        case "tools/call":
            said["result"] = result_of(kind, size)
        case _:
            said["error"] = {"code": -32601, "message": "no such method"}
    return said


if __name__ == "__main__":
    for line in sys.stdin:
        if (found := answer(json.loads(line), sys.argv[1], int(sys.argv[2]))) is not None:
            print(json.dumps(found, separators=(",", ":")), flush=True)
