"""jq in its own processes: what it can do, and what it cannot reach."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from perdure.sandbox.jq import Call, Jq, JqError

pytestmark = pytest.mark.slow

SECONDS = 0.4


@pytest.fixture(scope="module")
def jq():
    jq = Jq()
    yield jq
    jq.close()


@pytest.mark.parametrize(
    ("program", "value", "expected"),
    [
        (".", {"a": [1, None, "é"]}, {"a": [1, None, "é"]}),
        (".a", {"a": 1}, 1),
        ("[.[] | select(.price < 100) | .name]", [{"name": "x", "price": 5}, {"name": "y", "price": 500}], ["x"]),
        ("group_by(.c) | map({c: .[0].c, n: length})", [{"c": 1}, {"c": 2}, {"c": 1}], [{"c": 1, "n": 2}, {"c": 2, "n": 1}]),
        ("to_entries | map(.key)", {"b": 1, "a": 2}, ["b", "a"]),
        ("[limit(3; range(10))]", None, [0, 1, 2]),
        ("def f(x): x * 2; f(.)", 21, 42),
        ("reduce .[] as $x (0; . + $x)", [1, 2, 3], 6),
        ('"\\(.n) pieces"', {"n": 3}, "3 pieces"),
        ('test("^a.c$")', "abc", True),
        ("nan", None, None),
        ("infinite", None, 1.7976931348623157e308),
        ("@base64", "x", "eA=="),
        ("[splits(\", *\")]", "a, b,c", ["a", "b", "c"]),
        ("now | type", None, "number"),
        ("empty, 1", None, 1),
        ("# a comment\n.", 1, 1),
        (".import", {"import": 3}, 3),
        ("\"include import\"", None, "include import"),
    ],
)  # fmt: skip
def test_a_program_gives_its_one_value(jq, program, value, expected):
    assert jq.call(program, value) == expected


@pytest.mark.parametrize(
    ("program", "code", "why"),
    [
        (".[", "bad_program", "syntax error"),
        ("nope", "bad_program", "nope/0 is not defined"),
        ("x" * 30_000, "bad_program", "20,000 are allowed"),
        ("range(3)", "jq_many_values", "put it in [ … ]"),
        ("empty", "jq_no_value", "no value"),
        (".a.b", "jq_error", "Cannot index"),
        ('error("out of stock")', "jq_error", "out of stock"),
        ("input", "jq_error", ""),
        ("halt", "jq_no_value", "no value"),
        ('"bye" | halt_error', "jq_no_value", "no value"),
        ('{} | halt_error(3)', "jq_no_value", "no value"),
    ],
)  # fmt: skip
def test_a_program_that_gives_nothing_of_use_says_why(jq, program, code, why):
    with pytest.raises(JqError) as caught:
        jq.call(program, {"a": 1})
    assert caught.value.code == code
    assert why in caught.value.message
    assert not caught.value.retryable
    assert jq.call(".", 1) == 1


def test_messages_do_not_quote_the_data(jq):
    for program in ("@sh", ".x | keys", 'splits("a")', "ltrimstr(1) | .b", ".x.y"):
        with pytest.raises(JqError) as caught:
            jq.call(program, {"x": "t0ps3cret"})
        assert "t0ps3cret" not in caught.value.message


@pytest.mark.parametrize("program", ["env", "$ENV", "[env | keys[]]", "env.PATH", "$ENV.HOME", '$ENV | has("PATH")'])
def test_it_sees_no_environment(jq, program, monkeypatch):
    monkeypatch.setenv("PERDURE_SECRET_CANARY", "t0ps3cret")
    fresh = Jq(processes=1)
    try:
        assert fresh.call(program, None) in ({"LC_CTYPE": "C.UTF-8"}, ["LC_CTYPE"], {}, [], None, False)
    finally:
        fresh.close()


@pytest.mark.parametrize(
    "program",
    [
        'import "canary" as $c {search: "FOLDER"}; $c',
        'import "FOLDER/canary" as $c; $c',
        'include "canary" {search: "FOLDER"}; secret',
        'import "canary" as c {search: "FOLDER"}; c::secret',
        '# hidden\n include "canary" {search: "FOLDER"}; secret',
        'module {}; include "canary" {search: "FOLDER"}; secret',
        '"FOLDER/canary" | modulemeta',
        '{} | modulemeta',
    ],
)  # fmt: skip
def test_it_reads_no_files_and_does_not_tell_whether_they_exist(jq, tmp_path, program):
    (tmp_path / "canary.json").write_text('{"secret": "t0ps3cret"}')
    (tmp_path / "canary.jq").write_text('def secret: "t0ps3cret";')
    with pytest.raises(JqError) as caught:
        jq.call(program.replace("FOLDER", str(tmp_path)), None)
    assert "t0ps3cret" not in caught.value.message
    assert caught.value.message == "modules (import, include, modulemeta) are not available"


def test_where_the_check_would_not_see_an_import_the_kernel_still_refuses_the_file(jq, tmp_path, monkeypatch):
    (tmp_path / "canary.json").write_text('{"secret": "t0ps3cret"}')
    monkeypatch.setattr("perdure.sandbox.jq.check_program", lambda program: None)
    with pytest.raises(JqError, match="Too many open files"):
        jq.call(f'import "canary" as $c {{search: "{tmp_path}"}}; $c', None)


@pytest.mark.parametrize("program", ["input_filename", "$__loc__.file", "get_search_list"])
def test_it_knows_nothing_of_where_it_is(jq, program):
    assert jq.call(program, None) in (None, "<top-level>", [])


@pytest.mark.parametrize(
    "program",
    [
        "def f: f; f",
        "until(false; .)",
        "last(repeat(1))",
        "[recurse(.)]",
        "[while(true; .)]",
        "[range(1e12)]",
        "def f: 1 + f; f",
        "def f: [f]; f",
        'reduce range(1e9) as $i (""; . + "xxxxxxxxxxxxxxxxxxxxxxxxx")',
        '"x" * 1e9',
        '[limit(1e8; repeat("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"))]',
        "reduce range(1e5) as $i (null; [.])",
        "[range(4e6)] | sort_by(-.)",
        '("a" * 60 + "!") | test("(a+)+$")',
        '("a" * 30000 + "!") | test("(a|aa)+$")',
        "[limit(20; repeat(1))] | combinations(20) | select(false)",
        "[range(30)] | [combinations(9)]",
        "1e1000000 | tostring | length | range(1e12) | empty",
        "[.[]?] | until(false; . + .)",
        '"x" | until(length > 1e12; . + .)',
        "debug(range(1e9)) | empty",
        "range(1e9) | stderr | empty",
    ],
)
def test_a_bomb_costs_its_own_call_and_nothing_else(jq, program):
    begin = time.monotonic()
    with pytest.raises(JqError) as caught:
        jq.call(program, [1, 2], SECONDS)
    assert caught.value.code in ("jq_timeout", "jq_memory", "jq_error", "jq_no_value", "jq_output")
    assert time.monotonic() - begin < SECONDS + 30
    assert jq.call(".", 1) == 1


def test_what_is_too_large_going_in_or_coming_out_is_refused(jq):
    with pytest.raises(JqError, match="33,554,432 are allowed") as caught:
        jq.call(".", "x" * 40_000_000)
    assert caught.value.code == "bad_input"
    with pytest.raises(JqError) as caught:
        jq.call("[limit(15; repeat(.))]", "x" * 4_000_000)
    assert caught.value.code in ("jq_output", "jq_memory")
    assert jq.call("length", "x" * 10_000_000) == 10_000_000


def test_what_is_no_json_is_refused(jq):
    with pytest.raises(JqError, match="not JSON"):
        jq.call(".", {1, object()})


def test_a_call_can_be_ended_from_another_thread(jq):
    call, caught = Call(), []

    def run():
        try:
            jq.call("def f: f; f", None, 60, call)
        except JqError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while call._process is None:
        pass
    call.end()
    thread.join(10)
    assert [error.code for error in caught] == ["jq_stopped"]
    assert caught[0].retryable
    ended = Call()
    ended.end()
    with pytest.raises(JqError, match="stopped"):
        jq.call(".", 1, 1, ended)


def test_no_more_processes_than_it_may_have():
    jq = Jq(processes=2)
    try:
        results: list = []
        threads = [threading.Thread(target=lambda i=i: results.append(jq.call(". * 2", i))) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results) == [i * 2 for i in range(12)]
        assert len(jq._idle) <= 2
    finally:
        jq.close()
    assert jq._idle == []


def test_closing_kills_and_the_next_call_starts_anew():
    jq = Jq()
    assert jq.call(".", 1) == 1
    pid = jq._idle[0]._popen.pid
    jq.close()
    assert not Path(f"/proc/{pid}").exists()
    assert jq.call(".", 2) == 2
    jq.close()


def test_a_process_that_died_while_idle_is_replaced():
    jq = Jq()
    jq.call(".", 1)
    process = jq._idle[0]._popen
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert jq.call(".", 2) == 2
    jq.close()


def test_the_kernel_limits_the_process(jq):
    jq.call(".", 1)
    pid = jq._idle[0]._popen.pid
    text = Path(f"/proc/{pid}/limits").read_text()
    limits = {line[:25].strip(): line[26:46].strip() for line in text.splitlines()[1:]}
    assert limits["Max open files"] == "3"
    assert limits["Max processes"] == "0"
    assert limits["Max file size"] == "0"
    assert int(limits["Max address space"]) == 256 * 1024 * 1024
    assert sorted(os.listdir(f"/proc/{pid}/fd")) == ["0", "1", "2"]
