"""A window into the streams of one process: others that read the same database file follow its chunks as they come (rule 74).

The process that works listens at a socket beside the file from its first stream on; who looks in asks for the chunks behind a number and
is answered when there are some. Nobody who looks in has a place among the readers. What cannot be looked into costs time: chunks are
read when they are stored. Only who owns the file may look in.

Bounds: MOST_LOOKING connections; an answer is one portion of chunks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from perdure.clock import Clock, system
from perdure.streams import Chunks, Kept, Name, Over, Superseded, portions
from perdure.transports.local_streams import MOST_CHUNKS, LocalStreams

MOST_LOOKING = 64
MOST_BYTES = 256 * 1024
_LARGEST_QUESTION = 4096
_LONGEST_PATH = 100
logger = logging.getLogger("perdure.streams")


class _Question(msgspec.Struct, frozen=True):
    run_id: str
    place: str
    tenant: str
    edition: int
    after: int


class _Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    chunks: Chunks | None = None
    kept: Kept | None = None
    over: Over | None = None
    superseded: Literal[True] | None = None


_question = msgspec.json.Decoder(_Question).decode
_answer = msgspec.msgpack.Decoder(_Answer).decode


def window_path(claims: Path | None) -> Path | None:
    """Where the window of a database is, by the file of its claims."""
    return None if claims is None else claims.with_suffix(".chunks")


@contextlib.contextmanager
def _address(path: Path) -> Iterator[str]:
    """A name that is short enough for a socket: the system takes some hundred bytes, and folders are longer."""
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"  # elsewhere than on Linux: not found, and nobody can look in
    finally:
        os.close(folder)


class ShownStreams(LocalStreams):
    """The store of one process, with a window for others."""

    def __init__(self, clock: Clock = system, path: Path | None = None) -> None:
        super().__init__(clock)
        self._path = path
        self._begun = asyncio.Event()
        self._looking = 0

    async def append(
        self,
        stream: Name,
        edition: int,
        first: int,
        bodies: Sequence[bytes],
        *,
        attempt: int = 0,
        chain: int | None = None,
    ) -> int:
        self._begun.set()
        return await super().append(stream, edition, first, bodies, attempt=attempt, chain=chain)

    async def show(self) -> None:
        """Let others look in, from the first chunk on, for as long as this is not cancelled."""
        await self._begun.wait()
        if self._path is not None:
            try:
                await self._serve(self._path)
            except OSError as error:
                logger.info("other processes cannot look into streams: %s", error)
        await asyncio.Event().wait()

    async def _serve(self, path: Path) -> None:
        with _address(path) as address:
            listening = _bind(path, address)
        try:
            server = await asyncio.start_unix_server(self._attend, sock=listening, limit=_LARGEST_QUESTION)
            async with server:
                await server.serve_forever()
        finally:
            listening.close()
            _remove(path)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._looking += 1
        try:
            if self._looking <= MOST_LOOKING:
                await self._reply(reader, writer)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            logger.debug("who looked into a stream is gone: %s", error)
        finally:
            self._looking -= 1
            writer.close()

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop, asked = asyncio.get_running_loop(), _question(await reader.readline())
        finding = loop.create_task(self._get_answer(asked))
        leaving = loop.create_task(reader.read(1))  # nothing more is said: it ends when nobody waits any longer
        try:
            await asyncio.wait([finding, leaving], return_when=asyncio.FIRST_COMPLETED)
            if finding.done():
                writer.write(msgspec.msgpack.encode(finding.result()))
                await writer.drain()
        finally:
            finding.cancel()
            leaving.cancel()
            await asyncio.gather(finding, leaving, return_exceptions=True)

    async def _get_answer(self, asked: _Question) -> _Answer:
        stream = Name(asked.run_id, asked.place, asked.tenant)
        try:
            found = await self.read(stream, asked.edition, "", asked.after)
        except Superseded:
            return _Answer(superseded=True)
        if isinstance(found, Chunks):
            return _Answer(Chunks(found.first, list(next(portions(found.bodies, MOST_CHUNKS, MOST_BYTES)))))
        return _Answer(kept=found) if isinstance(found, Kept) else _Answer(over=found)


def _remove(path: Path) -> None:
    """Take a socket away; what else has this name is not ours."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()


def _bind(path: Path, address: str) -> socket.socket:
    """A socket that only its owner may connect to. What a process that died has left there is taken away."""
    _remove(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(address)
        os.chmod(path, 0o600)  # nobody can connect before it listens
    except BaseException:
        listening.close()
        raise
    return listening


class Window:
    """The streams of the process that works, as one sees them that only looks in."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self, stream: Name, edition: int, reader: str, after: int) -> Chunks | Kept | Over:
        """As `Streams.read`, for one without a name. Where nobody answers it waits, as for chunks that do not come."""
        try:
            found = _answer(await self._ask(_Question(stream.run_id, stream.place, stream.tenant, edition, after)))
        except (OSError, msgspec.MsgspecError) as error:
            logger.debug("%s: nothing can be read: %s", self._path, error)
            found = _Answer()
        if found.superseded:
            raise Superseded
        if (said := found.chunks or found.kept or found.over) is not None:
            return said
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async def _ask(self, question: _Question) -> bytes:
        with _address(self._path) as address:
            answers, questions = await asyncio.open_unix_connection(address)
        try:
            questions.write(msgspec.json.encode(question) + b"\n")
            return await answers.read()
        finally:
            questions.close()
