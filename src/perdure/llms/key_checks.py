"""Whether a provider knows a key and a model, asked without spending anything: its list of models is read."""

from __future__ import annotations

import asyncio
from typing import Any

import httpcore2
import msgspec

from perdure import egress
from perdure.egress.errors import EgressError
from perdure.egress.urls import parse
from perdure.llms.operator_file import Found

SECONDS = 20.0
LARGEST = 4 * 1024 * 1024


class _Row(msgspec.Struct):
    id: str = ""


class _Page(msgspec.Struct):
    data: list[_Row] = []


class Checked(msgspec.Struct, frozen=True):
    is_good: bool
    said: str
    """For people."""


async def check(found: Found, key: str) -> Checked:
    """Ask the provider of a model for the list of its models."""
    provider = found.provider
    url = parse(provider.base_url.rstrip("/") + "/models")
    headers = {"accept": "application/json", "accept-encoding": "identity", **provider.codec.headers(key)}
    try:
        async with asyncio.timeout(SECONDS):
            response = await egress.shared(provider.also).open(url, "GET", headers, b"")
            try:
                data = bytearray()
                async for chunk in response.aiter_stream():
                    data += chunk
                    if len(data) > LARGEST:
                        break
            finally:
                await response.aclose()
    except TimeoutError:
        return Checked(False, f"{url.shown} does not answer within {SECONDS:g} s")
    except EgressError as error:
        return Checked(False, error.message)
    except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError):
        return Checked(False, f"the connection to {url.shown} broke")
    return _judge(found, response.status, bytes(data))


def _judge(found: Found, status: int, data: bytes) -> Checked:
    provider, model = found.row.provider, found.row.model
    good = f"{provider} takes the key" if found.provider.secret else f"{provider} answers"
    if status in (401, 403):
        return Checked(False, f"{provider} refuses the key ({status})")
    if status in (404, 405):
        return Checked(True, f"{provider} answers, and has no list of models: nothing more was checked")
    if status != 200:
        return Checked(False, f"{provider} answers with status {status}")
    try:
        names: set[Any] = {row.id for row in msgspec.json.decode(data, type=_Page).data}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Checked(True, f"{good}; its list of models cannot be read")
    if model in names or f"models/{model}" in names:
        return Checked(True, f"{good}, and has {model}")
    return Checked(True, f"{good}; {model} is not on the first page of its models" if model else good)
