"""The server: HTTP/1.1 written by hand, because it has to break it in every way that networks and vendors do."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator
from email.utils import formatdate
from typing import Any

import msgspec

from perdure.clock import system
from perdure.llms.scripted.script import Rule, Script
from perdure.llms.scripted.shapes import FORMATS, Answer, make_answer

MAX_HEAD = 64 * 1024
MAX_BODY = 64 * 1024 * 1024
KEPT = 10_000
_KEYS = ("authorization", "x-api-key", "api-key")


class Seen(msgspec.Struct, frozen=True):
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: Any
    raw: bytes
    usage: dict[str, int] | None
    """What the answer said it used."""


class ScriptedServer:
    def __init__(self, script: Script | None = None) -> None:
        self._script = script or Script()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.seen: list[Seen] = []
        self.port = 0

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, host, port, limit=MAX_HEAD)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._answer(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, asyncio.CancelledError):
            pass  # the other side went away, or does not speak HTTP, or the server ends
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            self._tasks.discard(task)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request. False if the connection ends with it."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ", 2)
        pairs = (line.partition(":") for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        length = int(headers.get("content-length", "0"))
        if not 0 <= length <= MAX_BODY:
            return False
        raw = await reader.readexactly(length)
        path = target.partition("?")[0]
        if method == "GET":
            await self._send(writer, *self._look(path))
            return True
        if path not in FORMATS or method != "POST":
            await self._send(writer, 404, _error("not_found_error", f"no {method} {path} here"))
            return True
        try:
            body = msgspec.json.decode(raw, type=dict[str, Any])
        except msgspec.DecodeError as error:
            await self._send(writer, 400, _error("invalid_request_error", f"the body is no JSON object: {error}"))
            return True
        return await self._play(writer, path, headers, body, raw)

    def _look(self, path: str) -> tuple[int, Any]:
        if path == "/v1/models":
            return 200, {"object": "list", "data": [{"id": "scripted", "object": "model", "owned_by": "perdure"}]}
        if path == "/requests":
            return 200, [
                {
                    "path": one.path,
                    "headers": {name: "***" if name in _KEYS else value for name, value in one.headers.items()},
                    "body": one.body,
                    "usage": one.usage,
                }
                for one in self.seen[-100:]
            ]
        return 404, _error("not_found_error", f"no GET {path} here; /v1/models and /requests")

    async def _play(
        self, writer: asyncio.StreamWriter, path: str, headers: dict[str, str], body: dict[str, Any], raw: bytes
    ) -> bool:
        read, make_body, make_events = FORMATS[path]
        asked = read(body, raw.decode("utf-8", "replace"))
        rule = self._script.answer(asked)
        answer = make_answer(rule, asked)
        said = msgspec.to_builtins(answer.usage) if answer.usage is not None and rule.status == 200 else None
        self.seen.append(Seen(path, headers, body, raw, said))
        del self.seen[:-KEPT]
        if rule.delay_ms:
            await system.sleep(rule.delay_ms / 1000)
        if "silence_before" in rule.faults:
            await asyncio.Event().wait()
        if rule.status != 200 or "redirect" in rule.faults:
            await self._refuse(writer, rule)
            return True
        if not asked.stream:
            content = make_body(answer)
            if "empty_choices" in rule.faults:
                content |= {"choices": [], "output": [], "content": []}
            await self._send(writer, 200, content, packed="packed" in rule.faults)
            return True
        await self._stream(writer, rule, make_events(answer), answer)
        return "cut" not in rule.faults

    async def _refuse(self, writer: asyncio.StreamWriter, rule: Rule) -> None:
        more = dict(rule.headers)
        status = rule.status
        if "redirect" in rule.faults:
            status, more = 307, {**more, "Location": "http://127.0.0.1:1/elsewhere"}
        if rule.retry_after == "date":
            more["Retry-After"] = formatdate(system.now() + 2, usegmt=True)
            more["Date"] = formatdate(system.now(), usegmt=True)
        elif rule.retry_after is not None:
            more["Retry-After"] = f"{rule.retry_after:g}"
        await self._send(writer, status, _error(rule.error, rule.say or f"scripted {status}"), more=more)

    async def _send(
        self,
        writer: asyncio.StreamWriter,
        status: int,
        content: Any,
        *,
        more: dict[str, str] | None = None,
        packed: bool = False,
    ) -> None:
        data = msgspec.json.encode(content)
        if packed:
            data = gzip.compress(data)
            more = {**(more or {}), "Content-Encoding": "gzip"}
        lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json", f"Content-Length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in (more or {}).items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
        await writer.drain()

    async def _stream(
        self, writer: asyncio.StreamWriter, rule: Rule, events: list[tuple[str, Any]], answer: Answer
    ) -> None:
        faults = rule.faults
        packed = "Content-Encoding: gzip\r\n" if "packed" in faults else ""
        writer.write(
            f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{packed}Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        if "pings" in faults:
            while True:
                await _chunk(writer, b": ping\n\n")
                await system.sleep(0.02)
        if "empty_choices" in faults:
            events = events[:1]
        end = b"\r\n" if "crlf" in faults else b"\n"
        for number, (kind, data) in enumerate(events):
            text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
            raw = text.encode()
            if "bad_utf8" in faults and number == 1:
                raw = raw[:-2] + b"\xff\xfe" + raw[-2:]
            lines = ([f"event: {kind}".encode()] if kind else []) + [b"data: " + raw]
            if "comments" in faults:
                lines = [b": a comment", b"", *lines, b"id: 7", b"retry: 10"]
            block = end.join(lines) + end * 2
            if "cut" in faults and number == len(events) // 2:
                await _chunk(writer, block[: len(block) // 2])
                writer.transport.abort()
                return
            if "error_between" in faults and number == len(events) // 2:
                report = msgspec.json.encode(_error("server_error", "scripted, after tokens"))
                await _chunk(writer, end.join([b"event: error", b"data: " + report]) + end * 2)
                break
            if "split" in faults:
                for at in range(len(block)):
                    await _chunk(writer, block[at : at + 1])
            else:
                await _chunk(writer, block)
            if "silence_between" in faults and number == 1:
                await asyncio.Event().wait()
            while "endless" in faults and number == len(events) // 2:
                await _chunk(writer, block)
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    await writer.drain()


def _error(kind: str, message: str) -> dict[str, Any]:
    """An error that both vendors' clients can read."""
    return {"type": "error", "error": {"type": kind, "message": message, "code": kind, "param": None}}


@contextlib.asynccontextmanager
async def serving(rules: Any = None, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[ScriptedServer]:
    """A server for a test or a program; `rules` as in a script."""
    from perdure.llms.scripted.script import read_script

    server = ScriptedServer(read_script({"rules": rules or []}))
    await server.start(host, port)
    try:
        yield server
    finally:
        await server.close()
