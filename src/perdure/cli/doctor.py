"""`perdure doctor`: check every invariant of a database, and name what is wrong."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.exits import ExitCode, say
from perdure.cli.frame.group import db_option, json_option, leave
from perdure.cli.frame.where import check_here, here_only
from perdure.cli.terminal.output import print_json
from perdure.cli.terminal.speech import echo, redraw, style
from perdure.clock import system

if TYPE_CHECKING:
    from perdure.doctor import Report
    from perdure.doctor.repair import Repaired


@click.command()
@click.option("--repair", is_flag=True, help="Derive anew what differs from the journals; they stay as they are.")
@db_option
@here_only("it reads every journal of the database; run it where the database is")
@json_option
def doctor(repair: bool, db: str | None, as_json: bool) -> None:
    """Check that everything the database says is true.

    Every journal is folded and compared with what was derived from it: rows, snapshots, approvals, dead letters and
    timers. It may run while runs go on, and changes nothing unless --repair is given: then what was derived is derived anew, and
    runs that were quarantined and can be understood again are let go. Journals are never changed. Exit code 0 when all is well, 1
    when something is wrong.
    """
    check_here(db)
    report, repaired = asyncio.run(_examine(db, repair=repair, show=not as_json and sys.stderr.isatty()))
    sound = report.sound or (repaired is not None and not repaired.left)
    if as_json:
        print_json(_as_data(report) | ({} if repaired is None else {"ok": sound, "repaired": repaired}))
    else:
        _print(report)
        if repaired is not None:
            _print_repaired(repaired)
    leave(ExitCode.OK if sound else ExitCode.FAILED)


def _print_repaired(repaired: Repaired) -> None:
    for run_id in repaired.runs:
        echo(f"run {run_id} was derived anew")
    for run_id in repaired.released:
        echo(f"run {run_id} is no longer quarantined")
    for run_id, why in repaired.left.items():
        echo(f"run {run_id} was left as it is: {why}")


async def _examine(db: str | None, *, repair: bool, show: bool) -> tuple[Report, Repaired | None]:
    from perdure.cli.frame.database import opened
    from perdure.service import Service

    last = 0.0

    def progress(report: Report) -> None:
        nonlocal last
        if show and system.monotonic() - last > 0.1:
            last = system.monotonic()
            redraw(f"checked {report.runs} runs, {report.events} events")

    async with opened(db) as engine:
        report, repaired = await Service.of_owner(engine).upkeep.examine(progress, repair=repair)
    if show:
        redraw()
    return report, repaired


def _print(report: Report) -> None:
    run_id = None
    for finding in report.findings:
        if finding.run_id != run_id:
            run_id = finding.run_id
            echo(style(f"run {run_id}", bold=True))
        echo(f"  {style(finding.invariant.ljust(3), fg='red')} {finding.message}")
    for run_id, reason in report.quarantined.items():
        echo(f"{style(f'run {run_id}', bold=True)} is quarantined: {reason}")
    for run_id in report.moving:
        say(f"run {run_id} changed all the time and was left out; check again")
    checked = f"Checked {_count(report.runs, 'run')} and {_count(report.events, 'event')}"
    if report.sound:
        echo(f"{checked}: {style('all is well', fg='green')}.")
        return
    wrong = len({finding.run_id for finding in report.findings} | set(report.quarantined))
    echo(f"{checked}: {style(_count(wrong, 'run') + (' is' if wrong == 1 else ' are') + ' not well', fg='red')}.")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _as_data(report: Report) -> dict[str, Any]:
    return {
        "ok": report.sound,
        "runs": report.runs,
        "events": report.events,
        "findings": report.findings,
        "quarantined": [{"run_id": run_id, "reason": reason} for run_id, reason in report.quarantined.items()],
        "skipped": report.moving,
    }
