"""A log of any size, read line by line by three functions at once: what one yields, the next reads meanwhile."""

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import perdure


@perdure.task
def lines(path: str) -> Iterator[list[str]]:
    """Yield the lines, 500 at a time: a chunk is JSON of at most 256 KiB."""
    with Path(path).open(encoding="utf-8") as file:
        while some := list(itertools.islice(file, 500)):
            yield some


@perdure.task
def parse(batches: perdure.Stream[list[str]]) -> Iterator[Any]:
    """Yield how many bytes each page sent, a batch at a time; what is no line of a log goes to the port `bad`."""
    for batch in batches:
        sent: Counter[str] = Counter()
        for line in batch:
            page, _, size = line.strip().partition(" ")
            if size.isdecimal():
                sent[page] += int(size)
            else:
                yield perdure.On("bad", line.strip())
        yield dict(sent)


@perdure.task
async def total(counts: perdure.Stream[dict[str, int]], ctx: perdure.Context) -> dict[str, int]:
    """Add up. If this process dies, the next attempt goes on behind the last checkpoint."""
    sent = Counter(ctx.last_checkpoint or {})
    async for count in counts:
        sent.update(count)
        if counts.position % 100 == 0:
            await ctx.checkpoint(dict(sent))
    return dict(sorted(sent.items()))


@perdure.task
def rejected(found: perdure.Stream[str]) -> int:
    return sum(1 for _ in found)
