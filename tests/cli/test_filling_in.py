"""A form on the terminal: a line for each field, and whether it fits is said by whoever decides."""

import msgspec
import pytest

from perdure.cli.terminal import prompt
from perdure.sdk.asks import Ask

ASK = Ask("approval", "r1:ask:1", "r1", "ask", "perdure approvals approve r1:ask:1")
FORM = {
    "type": "object",
    "required": ["amount"],
    "properties": {"amount": {"type": "number"}, "note": {"type": "string"}, "when": {}},
}


@pytest.mark.parametrize(
    ("answers", "decision", "data"),
    [
        (["a", "12.5", "7", "", ""], "approve", {"amount": 12.5, "note": "7"}),
        (["a", "lots", "", "soon", ""], "approve", {"amount": "lots", "when": "soon"}),
        (["r", "too much"], "reject", None),
    ],
)
async def test_each_field_of_a_form_is_asked_for(monkeypatch, answers, decision, data):
    prompts = []

    async def read_line(prompt):
        prompts.append(prompt)
        return answers.pop(0)

    monkeypatch.setattr(prompt, "read_line", read_line)
    request = await prompt.ask_person(ASK, FORM)
    assert request is not None
    assert (request.decision, request.data, answers) == (decision, data, [])
    if decision == "approve":
        assert prompts[1:3] == ["  amount (number): ", "  note (string, enter for none): "]


async def test_who_votes_is_asked_until_a_name_is_typed(monkeypatch):
    answers = ["a", "", "bob", ""]

    async def read_line(prompt):
        return answers.pop(0)

    monkeypatch.setattr(prompt, "read_line", read_line)
    request = await prompt.ask_person(msgspec.structs.replace(ASK, approvers=("ann", "bob")))
    assert request is not None
    assert (request.by, answers) == ("bob", [])


async def test_nobody_votes_where_no_name_can_be_typed(monkeypatch):
    answers = ["a", None]

    async def read_line(prompt):
        return answers.pop(0)

    monkeypatch.setattr(prompt, "read_line", read_line)
    assert await prompt.ask_person(msgspec.structs.replace(ASK, approvers=("ann", "bob"))) is None
