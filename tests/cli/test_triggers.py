"""`perdure triggers`: what a trigger would do, shown without a database."""

import json

import msgspec
import pytest

from perdure.clock import system
from perdure.model.trigger_schema import describe_triggers
from tests.attack.test_terminal import HOSTILE, assert_clean

NIGHTLY = """
name: nightly
workflow: report
schedule: {cron: "30 2 * * *", timezone: Europe/Oslo}
inputs: {day: "{{ trigger.at }}", since: "{{ trigger.previous }}"}
"""
HOOK = """
name: orders
workflow: take-order
webhook: {verify: {scheme: github, secret: HUB}}
filter: "item.body.type == 'order'"
key: "{{ item.body.customer }}"
inputs: {order: "{{ item.body }}"}
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="triggers.yaml"):
        file = tmp_path / name
        file.write_text(text)
        return str(file)

    return write


def test_next_shows_moments_by_the_clock_of_their_zone_and_what_a_change_does(shell, write):
    printed = shell.run("triggers", "next", write(NIGHTLY), "--since", "2026-03-28", "--count", "3").stdout
    assert printed.splitlines() == [
        "MOMENT                      DAY  JITTER  NOTE",
        "2026-03-28 02:30:00 +01:00  Sat",
        "2026-03-29 03:00:00 +02:00  Sun          02:30 does not exist, 03:00",
        "2026-03-30 02:30:00 +02:00  Mon",
    ]
    assert max(map(len, printed.splitlines())) <= 80


def test_next_as_json_has_the_moment_when_it_is_due_and_local_time(shell, write):
    file = write(NIGHTLY.replace("Oslo}", "Oslo, jitter: 5m}"))
    found = shell.json("triggers", "next", file, "--since", "2026-03-28", "--count", "2", "--json")
    assert [sorted(one) for one in found["items"]] == [["due", "local", "moment", "note"]] * 2
    assert found["items"][0]["local"] == "2026-03-28T02:30:00+01:00"
    assert all(0 <= one["due"] - one["moment"] < 300 for one in found["items"])
    again = shell.json("triggers", "next", file, "--since", "2026-03-28", "--count", "2", "--json")
    assert again == found
    assert "+" in shell.run("triggers", "next", file, "--count", "1").stdout


def test_next_is_later_than_now_without_a_time(shell, write):
    found = shell.json("triggers", "next", write(NIGHTLY), "--json")["items"]
    assert len(found) == 10
    assert all(one["moment"] > system.now() - 3600 for one in found)


def test_next_says_when_there_are_no_more(shell, write):
    limited = write("{name: t, workflow: w, schedule: {every: 1h, max_firings: 2}}")
    result = shell.run("triggers", "next", limited)
    assert len(result.stdout.splitlines()) == 3
    assert "no more moments" in result.stderr
    over = write("{name: t, workflow: w, schedule: {at: 2020-01-01T12:00}}")
    result = shell.run("triggers", "next", over)
    assert "no_more_moments" in result.stderr
    assert "There is no moment." in result.stderr


def test_of_several_triggers_one_is_chosen(shell, write):
    file = write("[{name: a, workflow: w, schedule: {every: 1h}}, {name: bee, workflow: w, event: {name: x}}]")
    assert "choose one with --trigger: a, bee" in shell.run("triggers", "next", file, code=2).stderr
    assert len(shell.json("triggers", "next", file, "--trigger", "a", "--json")["items"]) == 10
    assert "is no schedule" in shell.run("triggers", "next", file, "--trigger", "bee", code=2).stderr
    assert "did you mean 'bee'" in shell.run("triggers", "test", file, "--trigger", "be", code=2).stderr


def test_a_wrong_file_is_refused_with_every_problem_and_its_line(shell, write):
    file = write(NIGHTLY.replace("Oslo", "Olso").replace("trigger.at", "trigger.att"))
    for command in ("next", "test"):
        said = shell.run("triggers", command, file, code=2).stderr
        assert "did you mean 'Europe/Oslo'?" in said
        assert "trigger.att" in said
        assert "triggers.yaml: 2 errors" in said
    said = shell.run("triggers", "next", file, "--json", code=2)
    assert json.loads(said.stderr)["error"]["code"] == "usage"


def test_a_moment_is_shown_with_the_inputs_it_would_give(shell, write):
    found = shell.json("triggers", "test", write(NIGHTLY), "--at", "2026-03-28", "--count", "2", "--json")["items"]
    assert found[1]["inputs"] == {"day": "2026-03-29T03:00:00+02:00", "since": "2026-03-28T02:30:00+01:00"}
    printed = shell.run("triggers", "test", write(NIGHTLY), "--at", "2026-03-28").stdout
    assert '"day": "2026-03-28T02:30:00+01:00"' in printed
    broken = write(NIGHTLY.replace("trigger.previous", "trigger.previous.x"))
    assert "has no 'x'" in shell.run("triggers", "test", broken, code=1).stderr


@pytest.mark.parametrize(
    ("item", "code", "expected"),
    [
        (
            {"body": {"type": "order", "customer": 5}},
            0,
            {"result": "mapped", "id": "d1", "key": "5", "inputs": {"order": {"type": "order", "customer": 5}}},
        ),
        ({"body": {"type": "other"}}, 0, {"result": "filtered"}),
        ({"body": {"type": "order"}}, 1, {"result": "poison", "part": "key"}),
    ],
)
def test_an_item_is_mapped_filtered_or_poison(shell, write, item, code, expected):
    args = ("triggers", "test", write(HOOK), "--item", write(json.dumps(item), "item.json"), "--id", "d1")
    found = shell.json(*args, "--json", code=code)
    assert {key: found[key] for key in expected} == expected
    assert found["name"] == "orders"
    said = shell.run(*args, code=code)
    assert {"mapped": "take-order", "filtered": "does not let it pass", "poison": "Error"}[expected["result"]] in (
        said.stdout + said.stderr
    )


def test_without_an_item_it_is_only_checked(shell, write):
    assert "is valid: orders, webhook" in shell.run("triggers", "test", write(HOOK)).stdout
    assert shell.json("triggers", "test", write(HOOK), "--json") == {"name": "orders", "kind": "webhook", "valid": True}


def test_an_item_of_a_window_waits(shell, write):
    file = write(HOOK + "batch: {items: 5, within: 1s}\n")
    item = write('{"body": {"type": "order", "customer": "a"}}', "item.json")
    assert "waits in a window" in shell.run("triggers", "test", file, "--item", item).stdout


def test_what_does_not_go_together_is_refused(shell, write):
    item = write("{}", "item.json")
    assert "use --at" in shell.run("triggers", "test", write(NIGHTLY), "--item", item, code=2).stderr
    assert "no schedule" in shell.run("triggers", "test", write(HOOK), "--at", "2026-01-01", code=2).stderr
    bad = write("{", "item.json")
    assert "not JSON" in shell.run("triggers", "test", write(HOOK), "--item", bad, code=2).stderr
    assert "cannot read" in shell.run("triggers", "next", "nothing.yaml", code=2).stderr


def test_an_item_reaches_no_terminal_as_anything_but_text(shell, write):
    item = write(json.dumps({"body": {"type": "order", "customer": HOSTILE}}), "item.json")
    for args in ((), ("--json",)):
        result = shell.run("triggers", "test", write(HOOK), "--item", item, "--id", HOSTILE, *args)
        assert_clean(result.stdout + result.stderr, "triggers test")


def test_nothing_is_written(shell, write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write(NIGHTLY)
    shell.run("triggers", "next", file)
    shell.run("triggers", "test", file)
    assert [path.name for path in tmp_path.iterdir()] == ["triggers.yaml"]


FOLDER = """
name: inbox
workflow: read
folder: {url: inbox, settle: 0s}
filter: "item.size > 1"
inputs: {file: "{{ item.path }}"}
"""


def test_a_source_is_read_from_here_and_nothing_is_written(shell, write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERDURE_FOLDER_ROOTS", str(tmp_path / "inbox"))
    folder = tmp_path / "inbox"
    folder.mkdir()
    file = write(FOLDER)
    assert "Nothing comes" in shell.run("triggers", "test", file, "--poll").stdout
    for name in ("a.txt", "b.txt", "c.txt"):
        (folder / name).write_text("" if name == "b.txt" else "some")
    (tried,) = json.loads(shell.run("triggers", "test", file, "--poll", "--json").stdout)["items"]
    assert (tried["name"], tried["result"], tried["inputs"]) == ("inbox", "mapped", {"file": str(folder / "a.txt")})
    shown = shell.run("triggers", "test", file, "--poll", "--count", "3").stdout
    assert ["a.txt" in shown, "filtered" in shown, "c.txt" in shown] == [True] * 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inbox", "triggers.yaml"]


def test_a_source_of_ones_own_is_read_with_its_module(shell, write):
    source = """
import perdure

class Odd(perdure.Source, name="odd"):
    def poll(self, cursor):
        if cursor == "broken":
            raise ValueError("no")
        if not cursor:
            return perdure.Polled((perdure.Item("1", {"n": 1}), perdure.Item("2", None, error="too large")), "2", more=True)
        return perdure.Polled((perdure.Item("3", {}),), "broken", more=True)
"""
    module = write(source, "odd_source.py")
    file = write("{name: odd, workflow: w, poll: {type: odd}, inputs: {n: '{{ item.data.n }}', id: '{{ item.id }}'}}")
    assert "--import" in shell.run("triggers", "test", file, "--poll", code=1).stderr
    result = shell.run("triggers", "test", file, "--poll", "--import", module, "--count", "3", code=1)
    assert '"id": "1"' in result.stdout
    assert "too large" in result.stderr
    assert "has no 'n'" in result.stderr
    assert (
        "ValueError" in shell.run("triggers", "test", file, "--poll", "--import", module, "--count", "4", code=1).stderr
    )


def test_only_what_is_polled_is_read_and_only_the_source_gives_items(shell, write):
    assert "not polled" in shell.run("triggers", "test", write(HOOK), "--poll", code=2).stderr
    more = ("--poll", "--item", "x")
    assert "leave out --item" in shell.run("triggers", "test", write(HOOK), *more, code=2).stderr
    secret = "{name: t, workflow: w, table: {database: '{{ secrets.NOT_THERE }}', table: t, cursor: [id]}}"
    assert "NOT_THERE" in shell.run("triggers", "test", write(secret), "--poll", code=1).stderr


def test_the_schema_of_triggers_is_printed_and_written(shell, tmp_path):
    expected = msgspec.json.decode(msgspec.json.encode(describe_triggers()))
    assert json.loads(shell.run("schema", "--triggers").stdout) == expected
    said = shell.run("schema", "--triggers", "-o", str(tmp_path / "t.json")).stderr
    assert "file of triggers" in said
    assert json.loads((tmp_path / "t.json").read_text()) == expected


def test_a_python_file_and_a_workflow_with_triggers_are_read_too(shell, write):
    python = "import perdure\nperdure.schedule(\n    'report', cron='30 2 * * *', name='nightly'\n)\n"
    file = write(python, "declares_nightly.py")
    shown = shell.run("triggers", "next", file, "--since", "2026-03-28", "--count", "1").stdout
    assert "2026-03-28 02:30:00" in shown
    wrong = shell.run("triggers", "next", write(python.replace("30 2", "99 2"), "declares_wrong.py"), code=2).stderr
    assert "declares_wrong.py:2:" in wrong
    assert "cron line" in wrong
    none = shell.run("triggers", "next", write("x = 1\n", "declares_nothing.py"), code=2).stderr
    assert "perdure.schedule" in none
    body = "name: report\nnodes: [{id: a, type: transform}]\n"
    listed = body + "triggers: [{name: nightly, schedule: {cron: '30 2 * * *'}}]\n"
    shown = shell.run("triggers", "next", write(listed, "w.yaml"), "--since", "2026-03-28", "--count", "1").stdout
    assert "2026-03-28 02:30:00" in shown
    assert "without triggers" in shell.run("triggers", "test", write(body, "n.yaml"), code=2).stderr
    bad = shell.run("validate", write(listed.replace("30 2", "99 2"), "v.yaml"), code=2).stderr
    assert "v.yaml:3:" in bad
    assert "cron line" in bad
