"""docs/operations/peers.md, written whole from what a run found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.peers.measures import FULL, MEASURES, QUICK
from bench.peers.pictures import PICTURES, draw_all
from bench.peers.subjects import SUBJECTS
from bench.peers.table import NOTHING, as_markdown, settle_all, table_of_figures, table_of_ratios

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operations" / "peers.md"
TEXT = """# Beside the peers

See how fast Perdure is beside other engines that survive a crash, and measure it on your own machine. `make peers` writes this page and its
pictures, so it is not edited by hand; `make peers QUICK=1` takes minutes instead of an hour, with fewer repetitions.

Every subject does the same work on the same machine in the same run, {rounds}, each on a fresh database, while the others are stopped.
Nodes do nothing, so the engines are what is measured. What a step did is on disk before the next begins, except where [Subjects](#subjects) says
otherwise. A figure is the median of the turns. Each subject has one process of each kind. How many runs of A→(B,C)→D are under way at once is said by its
program (`at_once`), by how that engine is built: from 1 for LangGraph, whose one connection writes, to 500 for Perdure embedded, which writes many
runs in one commit. A chain, a fan and the light load have one run at a time, for all. What a peer does on ten machines is not the question here.

{quick}## Conditions

{conditions}

## Figures

{figures}

Times as good as the best peer in each row; below 1 is worse:

{ratios}

`> n s` was given up after that time. After `kill -9` (everything at once except PostgreSQL and Valkey, in the middle of {kill_runs} diamonds whose steps take
20 ms, at most 20 under way), times count from the launch of the first process to the first step, and to the end of the last interrupted run. A step is done twice when it was under way or not
yet written down: no engine can avoid that for the step at work. A run that has not ended {patience:.0f} s after the restart
counts as lost.

{pictures}

## Subjects

{subjects}

Each program follows its project's own documentation, and names the page: [bench/peers](../../bench/peers). A mistake in one of them is a mistake in
these figures; mend it and run the command again. Perdure distributed is used over HTTP, as its guide says: a start over HTTP takes the server about as
long as a diamond takes the coordinator. `make bench ARGS=distributed` measures it [without](speed.md#several-processes).

{missing}"""


def write(found: dict[str, Any]) -> None:
    figures = settle_all(found["taken"])
    folder = ROOT / "docs" / "pictures"
    folder.mkdir(exist_ok=True)
    draw_all(folder, figures)
    PAGE.write_text(render(found), encoding="utf-8")


def find_missing(figures: dict[str, dict[str, float | str]], reasons: dict[str, str]) -> list[str]:
    """Every figure that is not there, and why."""
    lines = []
    for subject in SUBJECTS:
        if subject.name in reasons:
            lines.append(f"- {subject.title}: {reasons[subject.name]}")
        for measure in MEASURES:
            value = figures[subject.name][measure.name]
            if value == NOTHING and subject.name not in reasons:
                lines.append(f"- {subject.title}, {measure.title}: not tried, because an earlier measure was given up")
            elif isinstance(value, str) and value != NOTHING:
                lines.append(f"- {subject.title}, {measure.title}: given up after {value.removeprefix('> ')}")
    return lines


def render(found: dict[str, Any]) -> str:
    figures = settle_all(found["taken"])
    scale = QUICK if found["quick"] else FULL
    rounds = "in one turn each" if scale.rounds == 1 else f"by turns, in {scale.rounds} rounds"
    quick = "**These figures are of the quick form: one turn each. Read orders of magnitude, not percents.**\n\n"
    pictures = [f"![{title}](../pictures/peers-{name}.svg)" for name, title in PICTURES.items()]
    missing = find_missing(figures, found["missing"])
    rows = [["", "version", "what runs", "after a crash, runs are resumed by", "ended at load"]]
    for subject in SUBJECTS:
        loads = found["loads"].get(subject.name, [])
        shown = " ".join(f"{load:.1f}" for load in loads) or "–"
        version = found["versions"].get(subject.name, "–")
        rows.append([subject.title, version, subject.made_of, subject.after_a_crash, shown])
    return TEXT.format(
        rounds=rounds,
        quick=quick if scale.rounds == 1 else "",
        conditions="\n".join(f"- {line}" for line in found["conditions"]),
        figures=as_markdown(table_of_figures(figures)),
        ratios=as_markdown(table_of_ratios(figures)),
        kill_runs=scale.kill_runs,
        patience=scale.patience_seconds,
        pictures="\n\n".join(pictures),
        subjects=as_markdown(rows),
        missing=f"## What could not be had\n\n{chr(10).join(missing) or 'Nothing: every subject gave every figure it was asked for.'}\n",
    )
