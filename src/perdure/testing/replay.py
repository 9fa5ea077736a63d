"""An exported run, played again in virtual time: nodes return what they returned, people decide what they decided.

Everything between is decided anew: templates, conditions, joins, retries. So a changed definition can be tried on what
really happened. Nothing is executed. Actions of people other than voting and signalling (pause, retry, patch, requeue)
are not repeated, and values that were masked in the file stay masked.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from perdure.errors import PerdureError
from perdure.kernel import segments
from perdure.kernel.run_ids import is_child, place
from perdure.outcomes import Chosen, Failure
from perdure.simulation.stage.stubs import TRIVIAL, Call, ScriptedDecision, Signal, nobody
from perdure.testing.definitions import Definition, load
from perdure.testing.scripted_run import Run, run

_PLAYED = TRIVIAL - {"workflow"}
"""Types that are decided anew. A child workflow returns what it returned."""


class ReplayInvalid(PerdureError):
    """The file is not an exported run, or the run cannot be played again."""

    code = "replay_invalid"


class Replay(msgspec.Struct, frozen=True):
    run: Run
    """The run as it went this time."""
    differences: tuple[str, ...]
    """What went another way than recorded; empty when nothing did."""

    @property
    def same(self) -> bool:
        return not self.differences


def replay(file: str | Path | Mapping[str, Any], *, definition: Definition | None = None) -> Replay:
    """Play again a run that `perdure runs export` wrote, by its own definition or by another one."""
    data = _read(file)
    events: list[dict[str, Any]] = data["events"]
    if definition is None:
        if len(data["definitions"]) != 1:
            raise ReplayInvalid("the run was patched while it ran; say which `definition` to play it by")
        definition = data["definitions"][0]["definition"]
    if definition is None:
        raise ReplayInvalid("the file has no definition; give one")
    record = _Record(events, _Blobs(data.get("blobs", ())))
    nodes = {node.id: node for node in load(definition).nodes if node is not None}
    stubs: dict[str, Any] = {}
    for name, node in nodes.items():
        if node.type == "human":
            stubs[name] = record.decisions.get(name) or nobody()
        elif (node.item or node).type not in _PLAYED:
            stubs[name] = record.play
    went = run(definition, inputs=record.inputs, stubs=stubs, signals=record.signals)
    return Replay(went, tuple(_compare(data["run"], went, record)))


def _read(file: str | Path | Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        data = file if isinstance(file, Mapping) else msgspec.json.decode(Path(file).read_bytes())
    except (OSError, msgspec.MsgspecError) as error:
        raise ReplayInvalid(f"cannot read {file}: {error}") from error
    if not isinstance(data, Mapping) or data.get("format") != 1 or not {"run", "definitions", "events"} <= data.keys():
        raise ReplayInvalid("this is not a run as `perdure runs export` writes it (one object, format 1)")
    if not data["events"] or data["events"][0].get("type") != "run.created":
        raise ReplayInvalid("the events of the run do not begin with run.created")
    return data


class _Blobs:
    """The large values of the file, put back where they were."""

    def __init__(self, blobs: Any) -> None:
        self._data = {blob["ref"]: blob["data"] for blob in blobs if blob.get("data") is not None}

    def load(self, ref: str) -> Any:
        if ref not in self._data:
            raise ReplayInvalid(f"the file lacks the content of {ref}, which a node gave")
        data = base64.b64decode(self._data[ref])
        return self.fill(segments.show(segments.decode(data, ref.endswith("+refs"))))

    def fill(self, value: Any) -> Any:
        if isinstance(value, dict):
            if value.keys() == {"$ref"} and value["$ref"] in self._data:
                return self.load(value["$ref"])
            return {key: self.fill(one) for key, one in value.items()}
        return [self.fill(one) for one in value] if isinstance(value, list) else value


class _Record:
    """What the events say each attempt came to, what people decided, and which signals were sent."""

    def __init__(self, events: list[dict[str, Any]], blobs: _Blobs) -> None:
        created = events[0]
        self.blobs = blobs
        self.inputs: dict[str, Any] = blobs.fill(created["data"].get("inputs") or {})
        self.signals: list[Signal] = []
        self.decisions: dict[str, list[ScriptedDecision]] = {}
        self._outcomes: dict[tuple[str, int], Any] = {}
        for event in events:
            self._note(event, event["at"] - created["at"])

    def _note(self, event: dict[str, Any], after: float) -> None:
        data, kind = event["data"], event["type"]
        match kind:
            case "node.completed" | "item.completed" if not data.get("adopted"):
                output = self._output(data)
                choice = data.get("choice")
                self._keep(event, output if choice is None else Chosen(output, tuple(choice)))
            case "node.retrying" | "node.failed" | "item.failed" | "node.parked":
                error = data["error"]
                failure = Failure(error["code"], error.get("message", ""), retryable=kind == "node.retrying")
                self._keep(event, failure)
            case "run.signalled":
                self.signals.append(Signal(data["name"], self.blobs.fill(data.get("payload")), after))
            case "approval.voted":
                decision = ScriptedDecision(
                    decision=data["decision"],
                    by=(data["by"],),
                    comments=data.get("comments", ""),
                    data=self.blobs.fill(data.get("data")),
                )
                self.decisions.setdefault(event["node"], []).append(decision)

    def _output(self, data: dict[str, Any]) -> Any:
        ref = data.get("output_ref")
        return self.blobs.fill(data.get("output")) if ref is None else self.blobs.load(ref)

    def _keep(self, event: dict[str, Any], outcome: Any) -> None:
        where = place(event["node"], tuple(event.get("scope", ())), event.get("item"))
        self._outcomes.setdefault((where, event.get("attempt", 0)), outcome)

    def play(self, call: Call) -> Any:
        """Give the recorded outcome of an attempt, as a stub. An attempt without one is a difference that fails."""
        run_id, where = call.key.split("/")[:2]
        if is_child(run_id):  # the file lacks the events of children
            where = f"{run_id}/{where}"
        try:
            outcome = self._outcomes[where, call.attempt]
        except KeyError:
            raise Failure(
                "not_recorded", f"attempt {call.attempt} of {where} was not recorded", retryable=False
            ) from None
        if isinstance(outcome, Failure):
            raise outcome
        return outcome


def _compare(before: Mapping[str, Any], after: Run, record: _Record) -> list[str]:
    found = []
    if before["state"] != after.state:
        found.append(f"the run was {before['state']} and is {after.state}")
    for name, node in before["nodes"].items():
        now = after.nodes.get(name)
        if now is None:
            found.append(f"{name} is no longer there")
        elif node["state"] != now["state"]:
            found.append(f"{name} was {node['state']} and is {now['state']}")
        elif record.blobs.fill(node.get("output")) != now.get("output"):
            found.append(f"{name} gives another output")
    found += [f"{name} is new" for name in after.nodes if name not in before["nodes"]]
    if record.blobs.fill(before["outputs"]) != after.outputs:
        found.append("the run gives other outputs")
    return found
