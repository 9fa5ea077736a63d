"""What is secret stays so: in every form, and in files of the machine (S21, S26)."""

import ast
import json
import os
import random
import re
import stat
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

import perdure
from perdure import private_servers
from perdure.blob_stores.store_url import open_store
from perdure.cli import dev
from perdure.egress import urls
from perdure.egress.client import Answer
from perdure.nodes.http import _failure
from perdure.outcomes import Failure
from perdure.plain_text import cut
from perdure.runtime.failures import describe
from perdure.runtime.worker.capture import Speaker
from perdure.runtime.worker.isolation import _failure as _failed_there
from perdure.runtime.worker.outputs import check_output
from perdure.secrets.alternatives import any_of
from perdure.secrets.keyring import open_file
from perdure.secrets.scrubber import URL_SAFE, Scrubber, encodings, install
from perdure.settings import Settings
from tests import forking
from tests.attack.marks import attack
from tests.attack.watchdog import LONGEST_SECONDS, watching_calls
from tests.cli.helpers import Shell
from tests.processes import python_path

SECRET = 'kanarien&vogel<9f3a7c"2e'


@attack("S21", "a secret in a URL, quoted in a way of its own")
@pytest.mark.parametrize("safe", ["", "/", *URL_SAFE])
def test_a_secret_is_known_in_every_way_a_url_is_quoted(safe):
    assert (urls._PATH_SAFE, urls._QUERY_SAFE) == URL_SAFE
    assert quote(SECRET, safe=safe) in encodings(SECRET)
    assert urls._quote_path(SECRET) in encodings(SECRET)
    assert urls._quote_query(SECRET) in encodings(SECRET)


CUTS = [1, 30, 41, 58, 80, 100, 200, 300, 500, 1_000, 4_000, 10_000]
"""Where something cuts a text."""


@contextmanager
def revealing(secret=SECRET):
    scrubber = Scrubber()
    scrubber.add(secret)
    remove = install(scrubber)
    try:
        yield
    finally:
        remove()


@pytest.fixture
def revealed():
    with revealing():
        yield


def holds_half(text, length=5):
    return any(form[:length] in text for form in encodings(SECRET))


def around(position):
    """A text in which the secret lies over this position."""
    return "p" * max(position - 12, 0) + SECRET


@attack("S21", "a secret that Perdure itself cuts, so that its half is not known")
@pytest.mark.parametrize("position", CUTS)
def test_no_half_of_a_secret_is_said(revealed, position):
    text = around(position)
    path, query = quote(text, safe=URL_SAFE[0]), quote(text, safe=URL_SAFE[1])
    body = json.dumps({"error": text}).encode()
    url = urls.parse("http://host/")
    answer = Answer(status=500, headers=(("content-type", "application/json"),), body=body, url=url)
    said = [cut(text, most) for most in CUTS if most > 1]
    if position < 4_000:
        said += [urls.parse(f"http://host/{path}").shown, urls.parse(f"http://host/?{query}=1").shown]
        said += [urls.parse(f"http://host/?a={query}&{query}").shown]
    said += [
        str(describe(error))
        for error in (ValueError(text), Failure("code", text), Failure(text), _failure(answer, "GET"))
    ]
    with pytest.raises(Failure) as refused:
        check_output({text: float("nan")})
    said.append(refused.value.message)
    assert [one for one in said if holds_half(one)] == []


WHERE = [
    "egress",
    "nodes",
    "pipeline",
    "sandbox",
    "functions.py",
    "runtime/failures.py",
    "runtime/notifier.py",
    "runtime/worker/outputs.py",
]
"""What speaks of values that secrets were filled into."""


@attack("S21", "a message that cuts by itself what it says")
@pytest.mark.parametrize("where", WHERE)
def test_only_one_function_cuts_what_is_said(where):
    root = Path(perdure.__file__).parent / where
    found = []
    for file in [root] if root.is_file() else sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Subscript):
                if isinstance(node.value.slice, ast.Slice) and node.value.slice.upper is not None:
                    found.append(f"{file.name}:{node.lineno} {ast.unparse(node.value)}")
    assert found == [], "write cut(text, most) of perdure.plain_text"


@attack("S21", "an isolated process cuts a secret that only its parent knows")
def test_who_does_not_know_secrets_cuts_none():
    for position in CUTS:
        fields = describe(ValueError(around(position)), knows_secrets=False)
        with revealing():
            assert not holds_half(str(describe(_failed_there(fields))))


@attack("S21", "a text that is too long to be looked through, and secret for the most part")
def test_the_end_of_what_was_looked_at_is_no_secret_either(revealed):
    for shift in range(len(SECRET)):
        assert not holds_half(cut("x" * shift + SECRET * 4_000, 1_000))
    assert cut("a" * 200_000, 10) == "aaaaaaaaa…"


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@attack("S26", "another user of the machine reads the database")
@pytest.mark.slow
def test_what_is_written_beside_the_database_is_its_owners_alone(tmp_path):
    shell = Shell(tmp_path)
    try:
        flow = tmp_path / "flow.yaml"
        flow.write_text("{name: w, nodes: [{id: a, type: wait, config: {signal: go}}]}")
        process = shell.start("dev", "--no-sample", "--port", "0")
        process.wait_for("Ctrl-C ends all of this")
        folder = tmp_path / ".perdure"
        assert rights(folder) == 0o700
        found = {path.name: rights(path) for path in folder.rglob("*") if path.is_file()}
        assert {"perdure.db", "perdure.db-wal", "perdure.db-shm"} <= found.keys()
        assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}
    finally:
        shell.close()


FLOW = "{name: w, nodes: [{id: a, type: transform, config: {value: 1}}]}"


@pytest.mark.slow
@attack("S26", "a file of .perdure that is a link to another file")
@pytest.mark.parametrize(
    ("name", "link"),
    [
        *((name, os.symlink) for name in ("lock", "handled", "claims", "keys", "keys.new")),
        *((name, os.link) for name in ("lock", "handled", "claims")),
    ],
)
def test_nothing_is_written_through_a_link(tmp_path, name, link):
    precious, folder = tmp_path / "precious", tmp_path / ".perdure"
    precious.write_text("precious\n")
    precious.chmod(0o600)
    folder.mkdir(mode=0o700)
    link(precious, folder / f"perdure.db.{name}")
    (tmp_path / "flow.yaml").write_text(FLOW)
    done = forking.run(["run", "flow.yaml"], cwd=tmp_path, env=os.environ)
    assert "Traceback" not in done.stderr
    if name == "lock":
        assert (done.returncode, "move it away" in done.stderr) == (1, True), done.stderr
    assert precious.read_text() == "precious\n"


@attack("S26", "folders that others look into")
async def test_folders_of_blobs_and_of_private_servers_are_their_owners_alone(tmp_path, monkeypatch):
    store = open_store(f"file:{tmp_path}/blobs")
    await store.put("default", b"x" * 100)
    await store.close()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(private_servers, "start_pair", stopped)
    with pytest.raises(Stopped):
        dev._run_distributed(Settings.load(environ={}), 0, browser=False, reload=False)
    open_file(tmp_path / "other" / "keys")
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert {".perdure", "blobs", "other"} <= {path.name for path in folders}
    # Of the folder around servers that root has started, their user needs the way through, and nothing more.
    open_to_others = {path.name: rights(path) for path in folders if rights(path) & 0o077}
    assert open_to_others == ({".perdure": 0o711} if os.geteuid() == 0 else {})


class Stopped(Exception):
    pass


def stopped(folder, say):
    raise Stopped


def test_a_database_that_is_there_keeps_its_rights(tmp_path):
    assert Settings.load(environ={}).database_url.endswith(".perdure/perdure.db")
    file = tmp_path / "shared.db"
    file.touch(mode=0o640)
    file.chmod(0o640)
    from perdure.journals.sqlite.connection import _make_file

    _make_file(file)
    assert rights(file) == 0o640


CHILD = """
import logging, os, sys, threading, traceback
import perdure

@perdure.task
def leak(token, ctx: perdure.Context):
    print("printed", token)
    print("to standard error", token, file=sys.stderr)
    os.write(2, f"written {token}\\n".encode())
    logging.getLogger("mine").error("logged %s", token)
    ctx.log.error("told %s", token)
    try:
        raise ValueError(f"raised {token}")
    except ValueError:
        logging.getLogger("mine").exception("with its traceback")
    raise ValueError(f"failed {token}")

@perdure.task
def chatter(token, ctx: perdure.Context):
    print("printed", token)
    print("to standard error", token, file=sys.stderr)
    thread = threading.Thread(target=lambda: print("in a thread", token))
    thread.start()
    thread.join()
    try:
        raise ValueError(f"raised {token}")
    except ValueError:
        traceback.print_exc()
        logging.getLogger("mine").exception("with its traceback")
    logging.getLogger("mine").error("logged %s", token)
    ctx.log.error("told %s", token)

@perdure.task
def code(token):
    raise perdure.Failure(token, retryable=False)
"""


def run_perdure(folder, nodes):
    (folder / "child.py").write_text(CHILD)
    (folder / "flow.json").write_text(json.dumps({"name": "leaky", "nodes": nodes}))
    environment = {**os.environ, "PYTHONPATH": python_path(folder), "PERDURE_SECRET_CANARY": SECRET}
    done = forking.run(["run", "flow.json", "--debug"], cwd=folder, env=environment)
    return done.stdout + done.stderr


def calls(function, module="child", **more):
    config = {"function": f"{module}:{function}", "args": {"token": "{{ secrets.CANARY }}"}}
    return {"id": function, "type": "task", "retry": {"max_attempts": 1}, "config": config, **more}


@pytest.mark.slow
@attack("S21", "a secret that a task prints, logs or raises in a thread of the worker")
def test_a_worker_says_no_secret_on_its_own_output(tmp_path):
    said = run_perdure(tmp_path, [calls("chatter")])
    for word in ("printed", "to standard error", "in a thread", "raised", "logged", "told"):
        assert f"{word} ***" in said, said
    assert not [form for form in encodings(SECRET) if form in said], said


@pytest.mark.slow
@attack("S21", "a secret as the code of an error, and nothing else")
@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_secret_is_no_code_of_an_error(tmp_path, isolation):
    said = run_perdure(tmp_path, [calls("code", isolation=isolation)])
    assert "***" in said
    assert not [form for form in encodings(SECRET) if form in said], said
    stored = b"".join(path.read_bytes() for path in (tmp_path / ".perdure").iterdir() if path.is_file())
    assert not [form for form in encodings(SECRET) if form.encode() in stored]


@pytest.mark.slow
@attack("S21", "a secret that an isolated process prints, logs or raises")
def test_an_isolated_process_says_no_secret(tmp_path):
    said = run_perdure(tmp_path, [calls("leak", isolation="process")])
    for word in ("printed", "to standard error", "written", "logged", "told", "raised", "failed"):
        assert f"{word} ***" in said, said
    assert not [form for form in encodings(SECRET) if form in said], said


KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END KEY-----\n"
NAMED = """
import sys
import perdure

@perdure.task
def step(token, ctx: perdure.Context):
    return ctx.step(f"charge {token}", lambda: print("it was " + "called"))

@perdure.task
def chosen(token):
    return perdure.Chosen(1, next_nodes=(token,))

@perdure.task
def printed(token):
    print(token)
    print("key is", token)
    sys.stdout.write(token[:30])
    sys.stdout.flush()
    sys.stdout.write(token[30:])

@perdure.task
def stripped(token):
    return {"stripped": token.strip(), "lines": token.splitlines()}
"""


@pytest.mark.slow
@attack("X23", "a secret as the name of a step or the choice of an agent; one of several lines, printed or stripped")
@pytest.mark.parametrize("secret", [SECRET, KEY], ids=["one line", "several lines"])
@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_no_part_of_a_secret_is_kept_with_the_run(tmp_path, secret, isolation):
    (tmp_path / "named.py").write_text(NAMED)
    nodes = [
        calls(name, module="named", isolation=isolation, on_failure="continue")
        for name in ("step", "chosen", "printed", "stripped")
    ]
    (tmp_path / "flow.json").write_text(json.dumps({"name": "leaky", "nodes": nodes}))
    environment = {**os.environ, "PYTHONPATH": python_path(tmp_path), "PERDURE_SECRET_CANARY": secret}
    done = forking.run(["run", "flow.json", "--run-id", "r"], cwd=tmp_path, env=environment)
    told = forking.run(["runs", "events", "r"], cwd=tmp_path, env=os.environ).stdout
    stored = b"".join(path.read_bytes() for path in (tmp_path / ".perdure").rglob("*") if path.is_file()).decode(
        errors="replace"
    )
    looked_for = [secret] if secret == SECRET else secret.splitlines()[1:-1]
    parts = [form for part in looked_for for form in {part, json.dumps(part)[1:-1]}]
    assert [part for part in parts if part in stored + told + done.stdout] == []
    assert "the name of a step contains a secret" in stored
    if isolation == "thread":
        assert "it was called" not in stored, "the step had its effect before its name was refused"


@attack("X23", "a secret of several lines, some of them short, that is printed and kept line by line")
def test_a_secret_of_several_lines_is_masked_before_it_is_cut_into_lines():
    secret, kept = "user\npass\nport", []
    speaker = Speaker(lambda level, line: kept.append(line))
    with revealing(secret):
        speaker.print(f"it is {secret}\nand no other\n")
    assert kept == ["it is ***", "and no other"]


# -- how long it takes to look for them --------------------------------------------------------------------------------


def known_keys(count: int) -> Scrubber:
    chance, known = random.Random(1), Scrubber()
    for _ in range(count):
        known.add("sk-" + chance.randbytes(24).hex())
    return known


@pytest.mark.slow
@attack("S05", "a page of the letter that keys begin with, where a hundred keys are known")
@pytest.mark.parametrize("page", ["s", "sk-", "c2st"], ids=["a letter", "a beginning", "as base64"])
def test_no_text_takes_long_to_be_searched_for_secrets(page):
    """Every key was tried at every letter: of eight megabytes, 20 s in which no other thread had a turn."""
    known = known_keys(100)
    text = page * (8 * 1024 * 1024 // len(page))
    with watching_calls(LONGEST_SECONDS / 4):
        assert known.text(text) == text
        assert known.json(b'"%b"' % text.encode()) == b'"%b"' % text.encode()


def test_of_several_secrets_the_longest_is_masked():
    known = Scrubber()
    for value in ("house", "houseboat", "house-keeper", "horse", "h" * 40, "h" * 60):
        known.add(value)
    said = f"a houseboat, a house-keeper, a house, {'h' * 61}, {'h' * 45} and a horse"
    assert known.text(said) == f"a ***, a ***, a ***, ***h, ***{'h' * 5} and a ***"
    assert known.json(f'"{said}"'.encode()) == f'"{known.text(said)}"'.encode()


@pytest.mark.parametrize("seed", range(20))
def test_a_pattern_of_many_texts_finds_what_they_would_find_one_by_one(seed):
    chance = random.Random(seed)
    texts = {"".join(chance.choice("ab.(") for _ in range(chance.randrange(1, 40))) for _ in range(60)}
    ordered = "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))
    where = "".join(chance.choice("ab.(") for _ in range(3_000))
    found = [one.span() for one in re.finditer(any_of(texts), where)]
    assert found == [one.span() for one in re.finditer(ordered, where)]
    deep = {"a" * n for n in range(1, 400)}
    assert re.fullmatch(any_of(deep), "a" * 399)
