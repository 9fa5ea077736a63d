"""What triggers and their runs ask of each other by commands: a run is to stop (rule 48), an end is to be heard (rule 49)."""

from __future__ import annotations

import logging

from perdure.errors import StoreUnavailable
from perdure.journal import Journal
from perdure.kernel import effects as fx
from perdure.kernel.continuations import next_id
from perdure.runtime.coordinator.requests import Request, encode_request
from perdure.runtime.coordinator.triggers.firings import Ends, read_firing

_LONGEST_CHAIN = 100
logger = logging.getLogger("perdure.stops")


async def put_stop(journal: Journal, effect: fx.StopRun) -> bool:
    """Ask for the end of a run whose place another item takes. False: not now. The name of the command contains the firing and
    the kind, so asking again changes nothing, and force is asked for beside a cancel."""
    request = Request(kind="cancel", run_id=effect.run_id, by="trigger", reason="overlap", force=effect.force)
    command_id = f"overlap:{effect.run_id}:{effect.number}:{'force' if effect.force else 'cancel'}"
    try:
        await journal.put_command(effect.run_id, encode_request(request), command_id=command_id)
    except StoreUnavailable as error:
        logger.warning("run %s cannot be stopped: %s; trying again", effect.run_id, error)
        return False
    return True


async def pass_end_on(journal: Journal, trigger: str, body: bytes) -> None:
    """Tell the end of a run to the first run of its trigger that is left, where older ones of the chain were pruned; if there is none,
    to the one that was to hear of it, once it begins."""
    ends = read_firing(body)
    if not isinstance(ends, Ends):
        return
    to = trigger
    for _ in range(_LONGEST_CHAIN):
        to = next_id(to)
        if await journal.find_run(to) is not None:
            break
    else:
        to = trigger  # it may be about to begin
    data = {"ends": [{"run_id": ends.run_id, "number": ends.number, "state": ends.state}]}
    request = Request(kind="mailbox", name="end_firing", run_id=to, data=data)
    command_id = f"start:end:{ends.run_id}:{ends.number}"
    await journal.put_command(to, encode_request(request), command_id=command_id)
