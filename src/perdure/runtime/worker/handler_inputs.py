"""How values reach a handler: its config, inputs and checkpoint, with every segment in them filled in.

This file owns the one place where blobs (and secrets) become values. That happens in the worker, at the last moment:
a coordinator only passes references on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any

import msgspec

from perdure import llms
from perdure.blobs import BlobDamaged, BlobMissing, BlobStore, BlobStoreUnavailable, parse_ref
from perdure.clock import Clock
from perdure.errors import PerdureError, SettingsInvalid
from perdure.expressions.errors import TemplateError
from perdure.expressions.rendered_config import fill
from perdure.kernel import segments
from perdure.kernel.segments import HasSegments, has_sealed
from perdure.outcomes import Failure
from perdure.runtime.worker.encoder import LIGHT_BYTES
from perdure.secrets.keyring import UnknownKey
from perdure.secrets.seals import CannotOpen, Sealer
from perdure.secrets.vault import Signer, Vault
from perdure.threads import aside
from perdure.transport import Task
from perdure.weight import WHY, is_heavy

FETCH_SECONDS = 60.0
"""How long the blob store may be away before the attempt counts as failed, to be tried again."""

_ANSWER = "answer"
_log = logging.getLogger(__name__)


def copy_plain(value: Any) -> Any:
    """A copy for the handler alone, which may change what it is given. Raises HasSegments."""
    return msgspec.to_builtins(value, enc_hook=segments.refuse)


def loading(
    value: Any, secret: Callable[[str], Any], open_sealed: Callable[[str], str] | None = None, *, alone: bool = False
) -> Generator[str, bytes | bytearray, Any]:
    """Fill in every segment: ask for the content of one blob after the other, each once, and return the value.

    `alone`: the process does nothing else, so that no other work waits while much is read.
    """
    loaded: dict[str, Any] = {}
    missing = segments.find_refs(value)
    while missing:
        ref = min(missing)  # the same order in every process, so that histories repeat
        missing.remove(ref)
        _, refs = parse_ref(ref)
        data = yield ref
        if not alone and is_heavy(data):
            raise Failure("blob_too_large", f"{ref}: {WHY}", retryable=False, not_done=True)
        content = loaded[ref] = segments.decode(data, refs)
        if refs:
            missing |= segments.find_refs(content) - loaded.keys()
    try:
        return fill(value, secret, loaded.__getitem__, open_sealed)
    except TemplateError as error:
        raise Failure(error.code, error.message, retryable=False, not_done=True) from None


def load(value: Any, get: Callable[[str], bytes]) -> Any:
    """The value with every blob in it, by a `get` that blocks."""
    steps = loading(value, _refuse_secret, alone=True)
    try:
        ref = next(steps)
        while True:
            ref = steps.send(get(ref))
    except StopIteration as done:
        return done.value


class Shelf:
    """What is kept under names for one tenant. A store that is away has nothing: a handler can do without.

    Nothing else says what belongs under a name. So where processes have keys, it is signed, with its name and time: who can write to
    the store can take it away, and put nothing in its place.
    """

    def __init__(self, blobs: BlobStore, tenant: str, clock: Clock, signer: Signer | None = None) -> None:
        self._blobs = blobs
        self._tenant = tenant
        self._clock = clock
        self._signer = signer

    async def recall(self, name: str) -> tuple[bytes, float] | None:
        try:
            found = await self._blobs.recall(self._tenant, name)
        except BlobStoreUnavailable as error:
            _log.warning("an answer cannot be looked for: %s", error)
            return None
        return found if found is None or self._signer is None else self._believe(name, found[0], self._signer)

    async def remember(self, name: str, data: bytes) -> None:
        if self._signer is not None:
            at = f"{self._clock.now():.3f}".encode()
            signature = self._signer.sign(_ANSWER, self._tenant, _said(name, at, data))
            data = b"%b %b\n%b" % (signature.encode(), at, data)
        try:
            await self._blobs.remember(self._tenant, name, data)
        except BlobStoreUnavailable as error:
            _log.warning("an answer cannot be kept: %s", error)

    def _believe(self, name: str, stored: bytes, signer: Signer) -> tuple[bytes, float] | None:
        head, _, data = bytes(stored).partition(b"\n")
        signature, _, at = head.rpartition(b" ")
        try:
            if signer.verify(_ANSWER, _said(name, at, data), signature) == self._tenant:
                return data, float(at)
        except PerdureError as error:
            _log.warning("an answer that is kept is not used again: %s", error)
        return None


def _said(name: str, at: bytes, data: bytes) -> bytes:
    return b"%b\n%b\n%b" % (name.encode(), at, data)


class Filling:
    def __init__(self, blobs: BlobStore | None, clock: Clock, vault: Vault | None = None) -> None:
        self._blobs = blobs
        self._clock = clock
        self._vault = vault

    async def fill(self, task: Task, value: Any, opened: list[str] | None = None) -> Any:
        """The value as the handler gets it; `opened` is given a word for whatever had been sealed. Raises Failure, which
        says that nothing was done."""
        opened = [] if opened is None else opened
        try:
            return self._open(task, copy_plain(value), opened)
        except HasSegments:
            steps = loading(value, self._secret(task), partial(self._open_text, task, opened=opened))
        wanted, whole = self._advance(task, steps, None, opened)
        large = False
        while wanted is not None:
            data = await self.get(task, wanted)
            large = large or len(data) > LIGHT_BYTES
            advance = partial(self._advance, task, steps, data, opened)
            wanted, whole = await aside(task.tenant, advance) if large else advance()
        return whole

    def _advance(
        self,
        task: Task,
        steps: Generator[str, bytes | bytearray, Any],
        data: bytes | bytearray | None,
        opened: list[str],
    ) -> tuple[str | None, Any]:
        """The blob that is wanted next; when there is none, the whole value."""
        try:
            return (next(steps) if data is None else steps.send(data)), None
        except StopIteration as done:
            return None, self._open(task, done.value, opened)

    def reveal(self, task: Task, value: Any) -> Any:
        """The value with its secrets only, for an isolated process, which asks for blobs by itself. Raises Failure."""
        try:
            return fill(value, self._secret(task), open_sealed=partial(self._open_text, task))
        except TemplateError as error:
            raise Failure(error.code, error.message, retryable=False, not_done=True) from None

    def reveal_secret(self, task: Task, name: str) -> str:
        """The value of one secret, for this task. Raises LookupError."""
        if self._vault is None:
            raise LookupError(name)
        return self._vault.reveal(name, task.tenant, task.queue)

    def _secret(self, task: Task) -> Callable[[str], Any]:
        if self._vault is None:
            return _refuse_secret
        return partial(_reveal_unless_a_key, self._vault, task)

    def _open(self, task: Task, value: Any, opened: list[str]) -> Any:
        """The value with its sealed fields opened, for a handler that may read them."""
        if not task.sealed or not has_sealed(value):
            return value
        opened.append("fields")
        try:
            return self._sealer(task).open(value)
        except (CannotOpen, UnknownKey) as error:
            raise Failure(error.code, error.message, retryable=isinstance(error, UnknownKey), not_done=True) from None

    def _open_text(self, task: Task, sealed: str, opened: list[str] | None = None) -> str:
        if opened is not None:
            opened.append("text")
        try:
            return self._sealer(task).open_text(sealed)
        except (CannotOpen, UnknownKey) as error:
            raise Failure(error.code, error.message, retryable=isinstance(error, UnknownKey), not_done=True) from None

    def _sealer(self, task: Task) -> Sealer:
        if self._vault is None:
            raise UnknownKey(f"{task.task_id} reads sealed fields, and this worker has no keys")
        return self._vault.sealer(task.tenant, task.sealed_for or task.run_id)

    def shelf_of(self, tenant: str) -> Shelf | None:
        """Where a tenant's answers of models are found again; None without a blob store."""
        signer = None if self._vault is None else self._vault.signer
        return None if self._blobs is None else Shelf(self._blobs, tenant, self._clock, signer)

    async def get(self, task: Task, ref: str) -> bytes | bytearray:
        return await self._insist(task, ref, lambda blobs: blobs.get(task.tenant, ref))

    async def part(self, task: Task, ref: str, first: int, count: int) -> bytes | bytearray:
        """Read `count` bytes of a blob from `first` on, not checked against its hash. Raises Failure."""
        return await self._insist(task, ref, lambda blobs: blobs.part(task.tenant, ref, first, count))

    async def _insist(
        self, task: Task, ref: str, ask: Callable[[BlobStore], Awaitable[bytes | bytearray]]
    ) -> bytes | bytearray:
        if self._blobs is None:
            message = f"{task.task_id} needs blob {ref}, and this worker has no blob store; set PERDURE_BLOB_URL"
            raise Failure("no_blob_store", message, not_done=True)
        pause, until = 0.1, self._clock.monotonic() + FETCH_SECONDS
        while True:
            try:
                return await ask(self._blobs)
            except (BlobMissing, BlobDamaged) as error:
                raise Failure(error.code, error.message, retryable=False, not_done=True) from error
            except BlobStoreUnavailable as error:
                if self._clock.monotonic() >= until:
                    raise Failure(error.code, error.message, not_done=True) from error
                _log.warning("%s: blob %s: %s; trying again", task.task_id, ref, error)
            await self._clock.sleep(pause * (0.5 + self._clock.random() / 2))
            pause = min(pause * 2, 5.0)


def _reveal_unless_a_key(vault: Vault, task: Task, name: str) -> str:
    """A secret for what a workflow writes. The key of a model is none: with it, any node could ask the provider past every budget, or
    send the key elsewhere (X08). Where the operator's file cannot be read, nobody knows which secrets are keys."""
    try:
        owner = llms.get_models().find_owner_of(name)
    except SettingsInvalid as error:
        raise TemplateError(f"secret {name!r} is not given out: {error.message}") from None
    if owner is not None:
        raise TemplateError(
            f"secret {name!r} is the key of {owner}, and goes to them alone; an llm node names a model, an agent names a profile"
        )
    return vault.reveal(name, task.tenant, task.queue)


def _refuse_secret(name: str) -> Any:
    raise LookupError(name)
