"""Triggers as they are written, read and checked where they are to be registered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from perdure.archive.aliases import LATEST
from perdure.blobs import BlobDamaged, BlobMissing
from perdure.model.problems import DefinitionError, Problem
from perdure.model.reader import Format
from perdure.model.trigger_sources import Webhook
from perdure.model.triggers import Trigger
from perdure.nodes.given_inputs import check_trigger_inputs
from perdure.runtime.coordinator.triggers.schedules import spec_of
from perdure.runtime.filled_inputs import is_costly
from perdure.runtime.signing_secrets import reveal_unless_a_key
from perdure.secrets.signatures import WeakSecret
from perdure.service.tenancy import Tenancy
from perdure.threads import aside
from perdure.triggers.declarations import Read, read_data, read_text
from perdure.triggers.deliveries import QUEUE, read_secrets

Definition = Mapping[str, Any] | str | bytes
MOST_SPEC_BYTES = 32 * 1024


class TriggerReader:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy
        self._engine = tenancy.engine
        self._triggers = tenancy.engine.triggers

    async def find_problems(self, definition: Mapping[str, Any], own: str) -> list[Problem]:
        """Everything that is wrong with a trigger, here where it would be registered with `own`, its workflow: the version that is
        stored now is not the one that it will start."""
        try:
            return (await self.read(definition, "yaml", None, own))[1]
        except DefinitionError as error:
            return [*error.problems]

    async def read(
        self, definition: Definition, format: Format, name: str | None, own: str = ""
    ) -> tuple[Trigger, list[Problem]]:
        """The trigger and its warnings. Raises DefinitionError with everything that is wrong."""
        text = msgspec.json.encode(definition) if isinstance(definition, Mapping) else definition
        text = text.encode() if isinstance(text, str) else text
        kind: Format = "json" if isinstance(definition, Mapping) else format
        now, budget = self._engine.clock.now(), self._tenancy.budget

        def work() -> Read:
            if isinstance(definition, Mapping):
                return read_data(msgspec.json.decode(text), now, budget=budget)
            return read_text(text, now, format=kind, budget=budget)

        found = await aside(self._tenancy.tenant, work)  # a short schedule may take long to look at
        problems = [*found.problems]
        if not found.triggers:
            raise DefinitionError(problems)
        if len(found.triggers) > 1:
            raise DefinitionError([_wrong("", "wrong_value", "these are several triggers; register them one by one")])
        (trigger,) = found.triggers
        problems += await self._check_here(trigger, name)
        if trigger.workflow not in (own, f"{own}@{LATEST}"):
            problems += await self._check_target(trigger)
        if any(one.severity == "error" for one in problems):
            raise DefinitionError(problems)
        return trigger, problems

    async def _check_here(self, trigger: Trigger, name: str | None) -> list[Problem]:
        """What is wrong here, where it is registered."""
        found = []
        if name is not None and trigger.name != name:
            found.append(_wrong("name", "wrong_value", f"this is the place of trigger '{name[:128]}'; name it that"))
        source = trigger.source
        if isinstance(source, Webhook) and source.verify.scheme == "none" and not self._triggers.allow_unsigned:
            said = "a webhook must prove where it comes from; the setting allow_unsigned_hooks lets it prove nothing"
            found.append(_wrong("webhook.verify.scheme", "wrong_value", said))
        if isinstance(source, Webhook) and (weak := self._find_weakness(source)) is not None:
            found.append(_wrong("webhook.verify.secret", "wrong_value", weak, "warning"))
        if len(msgspec.json.encode(spec_of(trigger))) > MOST_SPEC_BYTES:
            found.append(_wrong("", "too_large", f"the trigger has more than {MOST_SPEC_BYTES:,} bytes"))
        return found

    async def _check_target(self, trigger: Trigger) -> list[Problem]:
        """What is wrong about the workflow that it starts, as far as that is known today."""
        tenant, workflow = self._tenancy.tenant, trigger.workflow
        try:
            found = await self._engine.library.find_target(tenant, workflow)
        except (BlobMissing, BlobDamaged):  # registered, but not readable: what comes is parked, and says so
            return []
        if found is None:
            said = f"there is no workflow {workflow} yet: until there is, what comes in is parked"
            return [_wrong("workflow", "workflow_not_found", said, "warning")]
        which = workflow.partition("@")[2]
        movable = bool(which) and which != LATEST and not which.isdecimal()
        schema = found[1].inputs_schema

        def check() -> list[Problem]:
            return check_trigger_inputs(trigger.name, workflow, trigger.inputs, schema, movable=movable)

        return await aside(tenant, check) if is_costly(schema, trigger.inputs) else check()

    def _find_weakness(self, source: Webhook) -> str | None:
        """Why no delivery will be taken with the secret that is known here; a secret may be known to other processes alone."""
        how, vault = source.verify, self._engine.vault
        if how.scheme == "none" or vault is None:
            return None
        try:
            read_secrets(how.scheme, reveal_unless_a_key(vault, how.secret, self._tenancy.tenant, QUEUE))
        except LookupError:
            return None
        except WeakSecret as error:
            return f"deliveries are refused while secret {how.secret} is as it is: {error}"
        return None


def _wrong(path: str, code: str, message: str, severity: Literal["error", "warning"] = "error") -> Problem:
    return Problem(path, None, None, code, message, severity)
