"""`decide(state, command)`: all the rules about runs, asked once per command.

    decide(state, command, verdicts)   what would happen; the state is left as it was
    advance(state, command, verdicts)  the same, and the state goes along (what a coordinator calls)

Both give a `Ruling`, `Needs` (conditions to evaluate first, then ask again), or `Refused`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perdure.kernel import attempts, runs, waits
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.decider import Decider, Refusal, Unknown
from perdure.kernel.settle import settle
from perdure.kernel.state import State
from perdure.kernel.steps import asked_patches
from perdure.kernel.steps.money import let_go
from perdure.kernel.streams import stream_commands
from perdure.kernel.triggers import polls, topics, trigger_commands, trigger_nodes
from perdure.kernel.triggers.hand_out import hand_out

_NOTHING_KNOWN: dict[c.Need, c.Verdict] = {}

_MOVING = frozenset((c.Complete, c.Begin, c.Suspend, c.AskFor, c.Fail, c.Lapse))
"""Commands after which the map of an item may go on."""

_HANDLERS: dict[type[c.Command], Callable[[Decider, Any], None]] = {
    c.Start: runs.start,
    c.Begin: attempts.begin,
    c.Checkpoint: attempts.checkpoint,
    c.BeginStep: attempts.begin_step,
    c.OpenStream: stream_commands.open_stream,
    c.TellStreams: stream_commands.tell_again,
    c.KeepStream: stream_commands.keep_stream,
    c.Complete: attempts.complete,
    c.Fail: attempts.fail,
    c.Lapse: attempts.lapse,
    c.Withdraw: attempts.withdraw,
    c.Suspend: waits.suspend,
    c.AskFor: waits.ask_for,
    c.ApplyPatch: asked_patches.apply_patch,
    c.HearEvent: waits.hear_event,
    c.NextItems: waits.start_more,
    c.HoldBack: attempts.hold_back_one,
    c.Release: attempts.release,
    c.FireTimer: runs.fire_timer,
    c.Vote: waits.vote,
    c.Delegate: waits.delegate,
    c.Signal: waits.signal,
    c.EndChild: waits.end_child,
    c.Pause: runs.pause,
    c.Resume: runs.resume,
    c.Cancel: runs.cancel,
    c.Undeliver: runs.undeliver,
    c.Retry: runs.retry,
    c.Rollback: runs.rollback,
    c.Patch: runs.patch,
    c.Requeue: runs.requeue,
    c.Discard: runs.discard,
    c.Register: trigger_commands.register,
    c.Await: trigger_nodes.wait_for_item,
    c.Deliver: trigger_commands.deliver,
    c.Hear: topics.hear,
    c.Fire: trigger_commands.fire,
    c.Receive: polls.receive,
    c.Backfill: trigger_commands.backfill,
    c.Rewind: polls.rewind,
    c.EndFiring: trigger_commands.end_firing,
    c.Settle: trigger_commands.settle_item,
}

_FOLLOWED = (c.Signal, c.Vote, c.Delegate, c.Pause, c.Resume, c.Cancel, c.Patch, c.MailboxCommand)
"""Commands for whichever run goes on, not for one that has gone on as another (rule 52)."""


def decide(
    state: State, command: c.Command, verdicts: Mapping[c.Need, c.Verdict] = _NOTHING_KNOWN
) -> c.Ruling | c.Needs | c.Refused:
    return _decide(state, command, verdicts, keep=False)


def advance(
    state: State, command: c.Command, verdicts: Mapping[c.Need, c.Verdict] = _NOTHING_KNOWN
) -> c.Ruling | c.Needs | c.Refused:
    return _decide(state, command, verdicts, keep=True)


def _decide(
    state: State, command: c.Command, verdicts: Mapping[c.Need, c.Verdict], *, keep: bool
) -> c.Ruling | c.Needs | c.Refused:
    if not state.seq and not isinstance(command, c.Start):
        return c.Refused("unknown_run", "there is no such run")
    if state.imported:
        return c.Refused("imported", f"run {state.run_id} was imported from {state.imported}: to look at, not to run")
    if state.continued_as is not None and isinstance(command, _FOLLOWED):
        to = state.continued_as
        return c.Refused("continued", f"run {state.run_id} has gone on as {to}; ask that one", to)
    before = state.begin()
    kept = False
    try:
        decider = Decider(state, command, verdicts)
        _HANDLERS[type(command)](decider, command)
        if isinstance(command, c.NodeCommand) and type(command) in _MOVING:
            waits.item_moved(decider, command)
        if state.short:
            let_go(decider)
        if state.triggers:
            hand_out(decider)
            trigger_commands.go_on_if_long(decider)
            polls.poll(decider)
            trigger_nodes.serve(decider)
        settle(decider)
        kept = keep
    except Unknown as unknown:
        return c.Needs(tuple(unknown.questions))
    except Refusal as refusal:
        return c.Refused(refusal.code, refusal.message)
    finally:
        timers = state.timer_changes or {}
        state.touched = state.timer_changes = None
        if kept:
            state.commit()
        else:
            state.rollback(before)
    effects = decider.effects
    for name, due_at in sorted(timers.items()) if timers else ():
        effects.append(fx.ClearTimer(timer=name) if due_at is None else fx.SetTimer(timer=name, due_at=due_at))
    return c.Ruling(tuple(decider.events), tuple(effects))
