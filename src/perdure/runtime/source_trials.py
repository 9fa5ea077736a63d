"""What a source has, read without a trigger: for a person who wants to see what it would give. Nothing is written, here or there."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from perdure.clock import Clock
from perdure.errors import PerdureError
from perdure.expressions.errors import TemplateError
from perdure.expressions.rendered_config import fill
from perdure.model.triggers import Trigger
from perdure.outcomes import Failure
from perdure.runtime.coordinator.triggers.poll_tasks import QUEUE, render_source
from perdure.runtime.poll_handler import call, check, close
from perdure.runtime.signing_secrets import reveal_unless_a_key
from perdure.runtime.source_kinds import SourceKinds
from perdure.secrets.vault import Vault
from perdure.sources import Item, Polled, SourceFailed, SourceRefused

MORE_SECONDS = 3.0
"""How much longer than it takes to settle a source is looked at that has nothing."""
PAUSE_SECONDS = 0.25


async def read_some(
    trigger: Trigger, cursor: str | None, most: int, kinds: SourceKinds, vault: Vault, tenant: str, clock: Clock
) -> tuple[Item, ...]:
    """What comes after the cursor, without one from the start of the source on: as soon as there is something, at most so many.
    Raises SourceFailed, SourceRefused."""
    said = msgspec.to_builtins(trigger.source)
    patience = MORE_SECONDS + float(said.get("settle") or 0)
    reveal = partial(reveal_unless_a_key, vault, tenant=tenant, queue=QUEUE)
    try:
        config = fill(render_source(said), reveal)
    except TemplateError as error:
        raise SourceRefused(f"{error.message} (for the queue {QUEUE})") from None
    source = await kinds.open({**config, "from": "start"})
    found: list[Item] = []
    until = clock.monotonic() + patience
    try:
        while len(found) < most:
            polled = await _poll(source, cursor)
            found += polled.items
            cursor = polled.cursor
            if polled.end or (found and not polled.more) or clock.monotonic() >= until:
                break
            if not polled.more:
                await clock.sleep(PAUSE_SECONDS)
    finally:
        await close(source)
    return tuple(found[:most])


async def _poll(source: Any, cursor: str | None) -> Polled:
    try:
        return check(await call(source.poll, cursor), cursor)
    except Failure as failure:
        raise SourceFailed(failure.message) from None
    except PerdureError:
        raise
    except Exception as error:  # a source of one's own does what it likes
        raise SourceFailed(f"the source raised {type(error).__name__}: {error}") from error
