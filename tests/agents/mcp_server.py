"""An MCP server of the official SDK, for tests: over stdio as a program, or as an ASGI application."""

from __future__ import annotations

import os
from typing import Any

from mcp.server.mcpserver import MCPServer

SAYS = "Searches issues."


def make(described: str = SAYS, found: str = "") -> Any:
    server = MCPServer("issues")

    def search_issues(query: str, limit: int = 3) -> list[str]:
        return [found or f"{query} {number}" for number in range(limit)]

    def close_issue(number: int) -> str:
        """Closes an issue."""
        return f"closed {number}, as {os.environ.get('ISSUES_KEY', 'nobody')}"

    def breaks(number: int) -> str:
        """Breaks."""
        raise ValueError(f"no {number}")

    def table(rows: int) -> list[dict[str, Any]]:
        """Gives a table."""
        return [{"id": number, "text": "x" * 50} for number in range(rows)]

    server.tool(description=described)(search_issues)
    for function in (close_issue, breaks, table):
        server.tool()(function)
    return server


if __name__ == "__main__":
    make().run("stdio")
