"""Functions the workflows of these tests call, by name."""

import asyncio
import time
from pathlib import Path

import perdure


def echo(value=None):
    return value


def say(text):
    print(text)
    return text


def give_file():
    return perdure.Asset(b"some bytes", media_type="text/plain", name="some.txt")


def count_to(last):
    yield from range(1, last + 1)


def boom():
    raise ValueError("kaputt")


def note(path, text="x"):
    """Leaves a line behind, so that a test can count how often it ran."""
    with Path(path).open("a") as file:
        file.write(text + "\n")
    return text


def block_until(path, seconds=60):
    """Runs until a file is there, in a thread."""
    deadline = time.monotonic() + seconds
    while not Path(path).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(path)
        time.sleep(0.02)  # noqa: TID251  this is the work
    return "free"


async def wait_until(path, seconds=60, begun=None):
    """The same, as a coroutine that can be cancelled; it may leave a file behind when it begins."""
    if begun is not None:
        Path(begun).touch()  # noqa: ASYNC240
    async with asyncio.timeout(seconds):
        while not Path(path).exists():  # noqa: ASYNC110, ASYNC240  another process makes it
            await asyncio.sleep(0.02)
    return "free"


async def tell_until(ctx: perdure.Context, path, progress):
    """It says how far it is, too."""
    ctx.progress(progress)
    return await wait_until(path)


def pay_third_time(path):
    """Fails twice."""
    note(path)
    tries = len(Path(path).read_text().split())
    if tries < 3:
        raise ConnectionError("the bank is closed")
    return tries


def fail_until(path):
    if not Path(path).exists():
        raise RuntimeError("not yet")
    return "there"


def dig(depth=2):
    """Fails a few calls down, in its own code."""
    if depth:
        return dig(depth - 1)
    found: dict[str, str] = {}
    return found["missing"]
