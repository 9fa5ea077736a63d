"""The lines about other work in a database, when `perdure run` becomes the process that runs it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perdure.kernel.run_ids import root_of
from perdure.service.upkeep import NAMED, OtherWork

if TYPE_CHECKING:
    from perdure.cli.frame.source import Source


def tell(others: OtherWork, run_id: str, *, only: bool) -> list[str]:
    """The lines about other work for a person, once this process works."""
    lines = []
    if others.going:
        many = len(others.going) > 1
        count = f"{len(others.going):,} other run{'s' if many else ''} here: {_some(others.going)}"
        if only:
            lines.append(f"Leaving alone {count}.")
        else:
            lines.append(f"Also going on with {count} (--only leaves {'them' if many else 'it'} alone).")
    if others.timed:
        names = ", ".join(others.timed[:NAMED]) + (" and more" if len(others.timed) > NAMED else "")
        if only:
            lines.append(f"Leaving alone what waits for a time here: {names}.")
        else:
            lines.append(
                f"Also going on here, when the time that it waits for comes: {names} (--only leaves it alone)."
            )
    for crash in others.crashes:
        own = root_of(crash.run_id) == run_id
        if own and crash.times == 1:
            continue  # one kill is no pattern, and the line of its node says that its worker died
        times = "" if crash.times == 1 else f", {crash.times} times now"
        lines.append(f"Run {crash.run_id} was being executed (node {crash.node}) when its process died{times}.")
        if own:
            lines.append(
                f"  After {crash.most} times it is parked. Does {crash.node} kill it? `isolation: process` contains that."
            )
        else:
            again = f"perdure run FILE --run-id {root_of(crash.run_id)}"
            lines.append(f"  It is left alone here; `perdure dev`, or `{again}`, goes on with it.")
            lines.append(f"  If {crash.node} kills its process, give it `isolation: process`.")
    return lines


def tell_newer(source: Source, db: str | None) -> list[str]:
    """Lines about files of this workflow that changed after the process that runs the database took it."""
    from perdure.cli.frame.database import load_settings
    from perdure.deployment import database_file

    file = database_file(load_settings(db).database_url)
    try:
        since = file.with_name(f"{file.name}.lock").stat().st_mtime
    except OSError:
        return []
    newer = sorted({path.name for path in _files(source) if path.stat().st_mtime > since})
    if not newer:
        return []
    return [
        f"  {_some(tuple(newer))} {'are' if len(newer) > 1 else 'is'} newer than that process. If it is `perdure dev`, that has",
        "  the new code; any other has what it loaded before: stop it to run what you see.",
    ]


def _files(source: Source) -> set[Path]:
    """The files with the functions of a definition, as far as they are in its folder or in the working directory."""
    folder = Path(source.name.partition(".py:")[0]).parent if source.name != "<stdin>" else Path()
    own = Path(source.name.rpartition(":")[0] if ".py:" in source.name else source.name)
    found = {own} if own.suffix == ".py" else set()
    for node in source.compiled.ir.nodes:
        config = node.config if node is not None and isinstance(node.config, dict) else {}
        name = str(config.get("function", "")).partition(":")[0]
        if name:
            found |= {root / f"{name.replace('.', '/')}.py" for root in (folder, Path())}
    return {path for path in found if path.is_file()}


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
