"""What a parked node was given when it failed (its rendered config and its inputs), for the operator who has to mend
it; and whether a config that a requeue gives it instead can be used.

Both are derived from the state at that time, as the task was; nothing is stored a second time. Secrets and sealed
fields are masked.
"""

from __future__ import annotations

from typing import Any

from perdure.blobs import BlobStore
from perdure.errors import PerdureError
from perdure.expressions.errors import NotAtHand
from perdure.kernel.segments import MASKED, BlobRef, Secret, Segment, Segments, is_sealed
from perdure.kernel.state import Activation, State
from perdure.nodes.config_checks import find_mistakes
from perdure.nodes.registry import Registry, has_template
from perdure.nodes.task import NO_FUNCTION
from perdure.runtime.coordinator.loaded import Loaded
from perdure.runtime.coordinator.requests import Request
from perdure.runtime.coordinator.tasks.cache import Cache
from perdure.runtime.coordinator.tasks.fetcher import blob_sources
from perdure.runtime.coordinator.tasks.renderer import Renderer

_SAID = 5
_MOST_BLOBS = 1000
"""How many blobs a config may look into."""


async def describe(
    registry: Registry, blobs: BlobStore | None, state: State, activation: Activation, *, undo: bool
) -> dict[str, Any]:
    """`{config, inputs, problem}`: what the attempt was given, or why that can no longer be derived."""
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


def find_mistakes_of(registry: Registry, state: State, request: Request) -> list[str]:
    """What is wrong with the config that a requeue brings: it is data that is used as it stands, so it must fit its
    node type now. Whether the node is parked at all is for the kernel to say."""
    activation = state.find(request.node, request.scope, request.item)
    if activation is None:
        return []
    node = state.pinned(activation)
    if request.undo:
        return ["a compensation has no config of its own here; leave --config away"]
    if activation.accepted:
        return ["it is done and only its routing failed, so nothing would be executed with it; leave --config away"]
    kind = registry.find(node.type)
    raw = () if kind is None else kind.raw_keys
    config = request.config
    rendered = {key: config[key] for key in config if key not in raw} if isinstance(config, dict) else config
    if (template := _find_template(rendered)) is not None:
        short = template if len(template) <= 60 else f"{template[:59]}…"
        way = "write the value (`perdure dlq show` has what the node was given), or change the definition with `perdure runs patch`"
        return [f"it is used as it stands, and {short!r} is a template: {way}"]
    if kind is None:
        return []
    if node.type == "task" and not config:
        return [NO_FUNCTION]
    return [mistake.message for mistake in find_mistakes(kind, config)][:_SAID]


def _find_template(value: Any) -> str | None:
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            stack.extend(one)
            stack.extend(one.values())
        elif isinstance(one, list | tuple):
            stack.extend(one)
        elif has_template(one):
            return str(one)
    return None


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
