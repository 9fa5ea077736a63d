"""The adapters the suite runs against, and how each is opened, twice if need be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from perdure.blob_stores.memory import MemoryObjects
from perdure.blob_stores.objects import ObjectBlobs
from perdure.blob_stores.store_url import open_store
from perdure.blobs import BlobStore
from perdure.clock import system
from perdure.simulation.blobs import SimBlobs
from tests.doubles.blob_faults import FaultyBlobs
from tests.doubles.calm_world import CalmWorld
from tests.servers.s3 import BUCKET, shared

Opener = Callable[[], BlobStore]


class Storage:
    """One storage: `open` gives a store over it, as another process would have."""

    def __init__(self, opener: Opener, objects: Callable[[], Any]) -> None:
        self.open = opener
        self.objects = objects
        """The bytes by name, for tests that damage them."""


def memory(folder: Path) -> Storage:
    objects = MemoryObjects()
    return Storage(lambda: ObjectBlobs(objects, system.new_id), lambda: objects)


def folder(folder: Path) -> Storage:
    url = f"file:{folder / 'blobs'}"
    return Storage(lambda: open_store(url), lambda: open_store(url)._objects)


def cloud(folder: Path) -> Storage:
    url, options = f"s3://{BUCKET}/{folder.name}", shared().options()
    return Storage(lambda: open_store(url, **options), lambda: open_store(url, **options)._objects)


def faultless(folder: Path) -> Storage:
    """The fault seams, with no fault planned, must not be noticed."""
    objects = MemoryObjects()
    return Storage(
        lambda: FaultyBlobs(ObjectBlobs(objects, system.new_id), lambda operation, number: None), lambda: objects
    )


def simulated(folder: Path) -> Storage:
    """The connection of a simulated process."""
    world: Any = CalmWorld()
    return Storage(lambda: SimBlobs(world, world.process), lambda: MemoryObjects(world.blob_objects))


ADAPTERS: dict[str, Callable[[Path], Storage]] = {
    "memory": memory,
    "folder": folder,
    "cloud": cloud,
    "faultless": faultless,
    "simulated": simulated,
}
SLOW = {"cloud"}
"""Those that need a server."""
