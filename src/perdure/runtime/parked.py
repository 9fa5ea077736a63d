"""What a parked node was given when it failed: its config as it was rendered, and its inputs, for whoever has to mend it.

Derived from the state of then, as its task was; nothing of it is stored a second time. Secrets and sealed fields are masked.
"""

from __future__ import annotations

from typing import Any

from perdure.blobs import BlobStore
from perdure.errors import PerdureError
from perdure.kernel.segments import MASKED, BlobRef, Secret, Segment, Segments, is_sealed
from perdure.kernel.state import Activation, State
from perdure.nodes.registry import Registry
from perdure.routing.errors import NotAtHand
from perdure.runtime.cache import Cache
from perdure.runtime.fetcher import blob_sources
from perdure.runtime.loaded import Loaded
from perdure.runtime.rendering import Renderer

_MOST_BLOBS = 1000
"""That a config may look into."""


async def describe(
    registry: Registry, blobs: BlobStore | None, state: State, activation: Activation, *, undo: bool
) -> dict[str, Any]:
    """`{config, inputs, problem}`: as they were given, or why that can no longer be said."""
    cache = Cache()
    renderer, loaded = Renderer(registry, cache), Loaded(state, 1)
    sources = {} if blobs is None else blob_sources(blobs)
    problem = ""
    for _ in range(_MOST_BLOBS):
        try:
            config, inputs = renderer.given(loaded, activation, undo)
            return {"config": _masked(config), "inputs": _masked(inputs), "problem": None}
        except NotAtHand as need:
            problem = need.message
            if type(need) not in sources:
                break
            try:
                fetched = await sources[type(need)](state.tenant, need)
            except PerdureError as error:
                problem = error.message
                break
            cache.add((state.tenant, need.key), fetched.content, fetched.size)
        except PerdureError as error:
            problem = error.message
            break
    return {"config": None, "inputs": None, "problem": problem}


def _masked(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return MASKED if is_sealed(value) else {key: _masked(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [_masked(item) for item in value]
    if kind is BlobRef:
        return {"$ref": value.ref}
    if kind is Segments:
        return "".join(part if isinstance(part, str) else MASKED for part in value.parts)
    return MASKED if kind is Secret or isinstance(value, Segment) else value
