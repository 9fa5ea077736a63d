"""The functions the benchmarked workflows call."""

from __future__ import annotations


async def nothing() -> int:
    return 1


def task(node: str, *dependencies: str) -> dict[str, object]:
    return {
        "id": node,
        "type": "task",
        "config": {"function": "bench.work:nothing"},
        "dependencies": list(dependencies),
    }
