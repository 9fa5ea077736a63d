"""An MCP server that is a program of this machine: JSON in lines over its standard streams. What it says is measured before it is read.

The SDK has such a transport too, which takes a line of any length, a piece at a time and all before it again, on the event loop that all
tenants share: a program that passes on a large file of a stranger held it for minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import anyio
import mcp_types as types
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from perdure.outcomes import Failure

GRACE_SECONDS = 2.0
"""How long a program may take to end by itself, and again once it was asked to."""


@contextlib.asynccontextmanager
async def talk_to(
    command: Sequence[str], env: Mapping[str, str], most: int, check: Callable[[bytes], None]
) -> AsyncIterator[Any]:
    """The streams of a conversation with a program, which ends with it. A line has at most so many bytes; `check` raises where it is
    too much for another reason."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=get_default_environment() | dict(env),
        limit=most,
        start_new_session=True,
    )
    heard, listening = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    saying, said = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read, process.stdout, heard, check)
            group.start_soon(_write, process.stdin, said)
            yield listening, saying
            group.cancel_scope.cancel()
    finally:
        for stream in (heard, listening, saying, said):
            stream.close()
        with anyio.CancelScope(shield=True):
            await _end(process)


async def _read(stdout: Any, heard: Any, check: Callable[[bytes], None]) -> None:
    async with heard:
        while line := await _read_line(stdout):
            check(line)
            try:
                message: Any = SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValueError as error:
                message = error
            await heard.send(message)


async def _read_line(stdout: Any) -> bytes:
    try:
        line: bytes = await stdout.readline()
    except ValueError:
        text = "the MCP server answers with too many bytes; let it give less"
        raise Failure("mcp_answer_too_large", text, retryable=False) from None
    return line


async def _write(stdin: Any, said: Any) -> None:
    async for one in said:
        stdin.write(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        await stdin.drain()


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a program and what it started. A program that ends by itself when its input is closed has the time for it."""
    assert process.stdin is not None
    process.stdin.close()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(_is_over(process), GRACE_SECONDS)
            return


async def _is_over(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    while await process.stdout.read(1 << 16):  # to its end: what is not read keeps the pipe open
        pass
    await process.wait()
