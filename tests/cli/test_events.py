"""`perdure events send`: it says who listens, and takes no JSON that is none."""

import pytest

from tests.cli.helpers import human, workflow


@pytest.mark.parametrize("payload", ["{order: 7}", "{'order': 7}", '{"order": 7', "[1, 2"])
def test_what_begins_as_json_and_is_none_is_refused(shell, payload):
    shell.run("workflows", "push", workflow(shell.folder, "any", human("a")))
    said = shell.run("events", "send", "order.paid", payload, code=2).stderr
    assert "begins as JSON and is none" in said
    assert "double quotes" in said
    assert shell.json("events", "send", "order.paid", "a text")["position"] == 1  # nothing was sent before


@pytest.mark.slow
def test_sending_says_who_listens(shell):
    shell.run("workflows", "push", workflow(shell.folder, "any", human("a")))
    said = shell.run("events", "send", "order.paid", "{}", "--id", "a").stdout
    assert said.startswith("sent order.paid a; no trigger and no run listens to it; it is kept until 20")
    wait = {"id": "w", "type": "wait", "config": {"event": "order.paid", "key": "{{ inputs.key }}"}}
    file = workflow(shell.folder, "waiting", wait)
    shell.run("run", file, "-i", "key=k1", "--no-wait", code=3)
    assert "name a key (--key)" in shell.run("events", "send", "order.paid", "--id", "b").stdout
    assert "name another key (--key)" in shell.run("events", "send", "order.paid", "--key", "k2").stdout
    assert (
        shell.run("events", "send", "order.paid", "--key", "k1", "--id", "c").stdout
        == "sent order.paid c; 1 listens to it\n"
    )
    assert "was sent before" in shell.run("events", "send", "order.paid", "--key", "k1", "--id", "c").stdout
