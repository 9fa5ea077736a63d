"""The two ways to runs, which must give the same: the command line on a database, and the command line on a server.

What only reads is compared to the letter. What changes something is done once on each side, to runs of the same kind; ids, times and
people are then left out, and where a worker goes on meanwhile, what it does.
"""

import asyncio
import functools
import getpass
import json
import logging
import os
import re
import shutil
import threading
from collections import Counter
from contextlib import contextmanager
from typing import Any

from click.testing import CliRunner

from perdure import Client, llms
from perdure.cli.app import app
from perdure.llms.scripted.scripted_server import serving
from tests.cli.helpers import human, task, wait_until, workflow
from tests.client.helpers import DEADLINE, Background

FORM = {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number"}}}
WAIT = {"id": "wait", "type": "wait", "config": {"signal": "go"}}
FLAG = "{{ inputs.flag }}"
AGENT = {"id": "agent", "type": "agent"}
UNDO = {"type": "task", "config": {"function": "tests.cli.work:block_until", "args": {"path": FLAG}}}
KINDS = {
    "done": [task("a", "echo", args={"value": "{{ inputs.n }}"}), task("b", "echo", "a")],
    "failed": [task("a", "echo"), task("bad", "boom", "a", retry={"max_attempts": 1})],
    "parked": [task("bad", "boom", retry={"max_attempts": 1}, on_failure="park")],
    "asks": [human("ask", approvers=["anna", "bert"], form=FORM)],
    "waits": [WAIT],
    "paused": [WAIT],
    # fails unless there is a flag, and then waits for a signal
    "flaky": [
        task("bad", "fail_until", args={"path": FLAG}, retry={"max_attempts": 1}),
        WAIT | {"dependencies": ["bad"]},
    ],
    # its undoing goes on until there is a flag
    "undoable": [task("a", "echo", compensator=UNDO)],
    # has said something, and its session knows it
    "agent": [AGENT | {"config": {"model": "fast", "prompt": "Say it.", "session": "{{ inputs.who }}"}}],
    # is at work until a person has answered it
    "busy": [AGENT | {"config": {"model": "fast", "prompt": "Ask first.", "tools": ["ask_human"]}}],
    "file": [task("a", "give_file")],
    "yields": [task("a", "count_to", args={"last": 3}, stream={"collect": "list"})],
}
ENDS = {"done": "completed", "failed": "failed", "flaky": "failed", "undoable": "completed"}
ENDS |= dict.fromkeys(("agent", "file", "yields"), "completed")
SAID = [
    {
        "when": {"contains": "Ask first", "turn": 1},
        "calls": [{"name": "ask_human", "arguments": {"question": "May I?"}}],
    },
    {"say": "Said."},
]
MODELS = """
[providers.scripted]
kind = "openai_chat"
base_url = "http://127.0.0.1:{port}/v1"

[models.fast]
provider = "scripted"
model = "scripted-1"
"""
MOVING = ("nodes", "counter", "waiting")
"""What of a run changes as soon as a worker goes on with it."""


class World:
    """One database, which a server holds, and the two ways to it: each asks the process that holds it."""

    apart = False
    """Whether what is done on one side is unknown to the other."""

    def __init__(self, server, client, folder):
        self.folder = folder
        self.flag = folder / "flag"
        self.client = client
        self.sides = (["--db", str(server.folder / "perdure.db")], ["--server", server.url])
        self.side = 0
        self.read = {}
        """Runs that nothing changes any more, by kind."""
        self.who = 0
        """How many sessions there are."""

    def fill(self):
        for kind, nodes in KINDS.items():
            self.client.workflows.register({"name": f"kept-{kind}", "nodes": nodes}, reason="first")
            self.read[kind] = self.make(kind)

    def make(self, kind):
        """A new run of this kind, as far as it goes."""
        self.flag.unlink(missing_ok=True)
        inputs = {"n": 1, "flag": str(self.flag)}
        if kind == "agent":  # a session of its own
            self.who += 1
            inputs["who"] = f"ann-{self.who}"
        run_id = self.client.runs.start(definition={"name": kind, "nodes": KINDS[kind]}, inputs=inputs)["run_id"]
        if kind in ENDS:
            ended = self.client.runs.wait(run_id)
            assert ended["state"] == ENDS[kind], f"{kind} is {ended['state']}: {ended['error']}"
        elif kind == "parked":
            wait_until(lambda: self.client.dead_letters.list(run_id=run_id).first()["items"], "the dead letter")
        elif kind in {"asks", "busy"}:
            wait_until(lambda: self.client.approvals.list(run_id=run_id).first()["items"], "the question")
        else:
            wait_until(lambda: self.client.runs.get(run_id)["waiting"], "the wait")
        if kind == "paused":
            self.client.runs.pause(run_id)
        return run_id

    def ask(self, side, args):
        """(exit code, what is printed, the error)"""
        result = CliRunner().invoke(app, [*map(str, args), *self.sides[side], "--json"], catch_exceptions=False)
        errors = [json.loads(line) for line in result.stderr.splitlines() if line.startswith('{"error"')]
        return result.exit_code, read(result.stdout), errors

    def compare(self, *args, code=0, made=False):
        """The same to the letter, on both sides. `made`: by earlier commands, which each side may have been given by itself."""
        here, there = (self.ask(side, args) for side in (0, 1))
        if made and self.apart:
            here, there = without(here, ()), without(there, ())
        assert here == there, (args, here, there)
        assert here[0] == code, here
        return here[1]

    def change(self, make, code=0, moving=()):
        """The same done on each side. `make` gives the arguments, and what is different about them by itself; `moving` is
        what a worker may have changed of the answer before it was given."""
        told = []
        for self.side in (0, 1):
            args, own = make()
            answer = self.ask(self.side, args)
            if moving and isinstance(answer[1], dict):
                answer = (answer[0], {key: one for key, one in answer[1].items() if key not in moving}, answer[2])
            told.append(without(answer, [one for one in own if one]))
        assert told[0] == told[1], told
        assert told[0][0] == code, told[0]
        return told[0][1]

    def go_on(self, kind, *args, until):
        """Do something to a run of this kind with which a worker then goes on, and let it, until it is in this state."""
        made = []

        def make():
            made.append(self.make(kind))
            if kind == "flaky":
                self.flag.touch()
            return [str(one).replace("{}", made[-1]) for one in args], [made[-1]]

        def settled(run_id):
            run = self.client.runs.get(run_id)
            return until in (run["state"], run["waiting"] and "waiting")

        self.change(make, moving=MOVING)
        self.flag.touch()
        for run_id in made:
            wait_until(functools.partial(settled, run_id), f"{run_id} to be {until}")
        here, there = (without(self.client.runs.get(run_id), [run_id]) for run_id in made)
        assert here == there


class Unheld(World):
    """Two copies of one database: no process holds the first, and a server holds the second. Runs have the same ids."""

    apart = True

    def __init__(self, server, client, folder, database, stock):
        super().__init__(server, client, folder)
        self.sides = (["--db", str(database)], self.sides[1])
        self.read, self.who = stock.read, stock.who
        self._stock = stock.runs
        self._taken: Counter[tuple[str, int]] = Counter()

    def make(self, kind):
        self.flag.unlink(missing_ok=True)
        self._taken[kind, self.side] += 1
        return self._stock[kind][self._taken[kind, self.side] - 1]


@contextmanager
def held(factory):
    """The world in which the server holds the database of the command line."""
    with _folder(factory) as folder, Background(factory.mktemp("server")) as server, Client(server.url) as client:
        made = World(server, client, folder)
        made.fill()
        yield made


class Stock:
    """A database with so many runs of each kind, to be copied."""

    def __init__(self, factory, each):
        self.database = factory.mktemp("stock")
        with _folder(factory) as self.folder, Background(self.database) as server, Client(server.url) as client:
            filling = World(server, client, self.folder)
            filling.fill()
            self.read = filling.read
            self.runs = {kind: [filling.make(kind) for _ in range(each)] for kind in KINDS}
            self.who = filling.who


@contextmanager
def unheld(factory, stock):
    """The world in which no process holds it. Each case has its own: what was done on one side is unknown to the other."""
    ours, theirs = (factory.mktemp(name) / "copy" for name in ("ours", "theirs"))
    for copy in (ours, theirs):
        shutil.copytree(stock.database, copy)
    with _folder(factory, stock.folder) as folder, Background(theirs) as server, Client(server.url) as client:
        yield Unheld(server, client, folder, ours / "perdure.db", stock)


@contextmanager
def _folder(factory, folder=None):
    """A working directory whose only settings are those of its scripted model."""
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("PERDURE_")}
    before = os.getcwd()
    folder = folder or factory.mktemp("world")
    os.chdir(folder)
    (folder / "perdure.toml").write_text('agents_file = "agents.toml"\n')
    try:
        with _model() as port:
            (folder / "agents.toml").write_text(MODELS.format(port=port))
            llms.configure(None)  # another test of this process may have read its own
            yield folder
    finally:
        llms.configure(None)
        os.chdir(before)
        os.environ |= kept
        logger = logging.getLogger("perdure")  # the command line shows its logs itself
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.NOTSET)


@contextmanager
def _model():
    """The scripted model answers in a thread of its own; the port it listens on."""
    ready, over = threading.Event(), asyncio.Event()
    told: dict[str, Any] = {}

    async def answer():
        told["loop"] = asyncio.get_running_loop()
        async with serving(SAID) as server:
            told["port"] = server.port
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(answer()), name="scripted model")
    thread.start()
    try:
        assert ready.wait(DEADLINE)
        yield told["port"]
    finally:
        told["loop"].call_soon_threadsafe(over.set)
        thread.join(DEADLINE)


def read(text):
    try:
        return json.loads(text) if text else None
    except json.JSONDecodeError:
        return text


_PEOPLE = ("by", "submitted_by", "decided_by", "principal", "created_by")
_CHANCE = ("hash", "key_id", "key", "prefix", "head", "worker", "seq", "request_id", "data_base64")


def without(value, own):
    if isinstance(value, dict):
        return {without(key, own): _blank(key, one, own) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [without(one, own) for one in value]
    if isinstance(value, str):
        for one in own:
            value = value.replace(one, "<own>")
        return re.sub(r"\b[0-9a-f]{32}\b|\b0[0-9a-hjkmnp-tv-z]{25}\b", "<id>", value)
    return value


def _blank(key, value, own):
    if value is not None and (key == "at" or key.endswith("_at") or key in _CHANCE or key == "last_event_at"):
        return "<some>"
    if key in _PEOPLE and value in (getpass.getuser(), "local"):
        return "<me>"
    return without(value, own)


def on(world, kind, *args):
    """Arguments in which `{}` is a new run of this kind."""

    def make():
        run_id = world.make(kind)
        return [str(one).replace("{}", run_id) for one in args], [run_id]

    return make


def given(*args):
    return lambda: (list(args), [])


def file_of(world, kind, *more, name=None):
    return workflow(world.folder, name or kind, *KINDS[kind], *more)
