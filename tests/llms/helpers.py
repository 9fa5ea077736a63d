"""Models of a scripted server, under the names `chat`, `responses` and `anthropic`."""

from __future__ import annotations

from typing import Any

from perdure.llms.calls import ask
from perdure.llms.operator_file import Found, Models, read_models
from perdure.llms.port import Delta, Message, Request, Text
from perdure.llms.wire import exchange

KINDS = {"chat": "openai_chat", "responses": "openai_responses", "anthropic": "anthropic"}


def models_at(port: int, prices: dict[str, Any] | None = None, **more: Any) -> Models:
    """`more` is of every provider, or of every model where its name begins with `model_`."""
    row = {key.removeprefix("model_"): more.pop(key) for key in list(more) if key.startswith("model_")}
    problems: list[str] = []
    base = f"http://127.0.0.1:{port}/v1"
    found = read_models(
        {
            "providers": {name: {"kind": kind, "base_url": base, **more} for name, kind in KINDS.items()},
            "models": {name: {"provider": name, "model": "m-1", **row} for name in KINDS},
            "prices": {f"{name}/m-1": prices for name in KINDS} if prices else {},
        },
        problems,
    )
    assert problems == []
    return found


def asking(text: str = "hello", **more: Any) -> Request:
    return Request(model="m-1", messages=(Message("user", (Text(text),)),), **more)


async def call(server: Any, name: str, request: Request | None = None, **more: Any) -> Any:
    found = models_at(server.port, **more).get(name, "default")
    return await exchange(found, request or asking(), "key-1", tenant="default")


async def answer(models: list[Found], request: Request | None = None, **more: Any) -> Any:
    options = {"reveal": lambda name: "key-1", "tenant": "default", "begin": _plainly, **more}
    return await ask(models, request or asking(), **options)


async def _plainly(found: Found, guess: Any, make: Any) -> Any:
    return await make()


class Heard:
    """Collects what comes in pieces."""

    def __init__(self) -> None:
        self.pieces: list[Delta] = []

    def __call__(self, delta: Delta) -> None:
        self.pieces.append(delta)

    def text(self, kind: str = "text") -> str:
        return "".join(one.text for one in self.pieces if one.kind == kind)
