"""Functions that say odd things besides their output, by name: each is one of `SAY`, called by `say`."""

from __future__ import annotations

from typing import Any

import perdure
from perdure import Chosen, Failure

HALF = "\ud800"


class Text(str):
    """As libraries for markup have it."""

    __slots__ = ()


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit(1)


class Unreadable(Failure):
    @property
    def code(self) -> Any:
        raise SystemExit(1)

    @code.setter
    def code(self, value: Any) -> None:
        pass


class Neither:
    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")


def _raise(error: BaseException) -> Any:
    raise error


def _by_itself() -> Any:
    error = ValueError("m")
    error.__cause__ = error
    raise error


def _odd(**given: Any) -> Any:
    """A failure that is given what its annotations do not allow."""
    raise Failure(**({"code": "x", "message": "m"} | given))


ODD: Any = {"next_nodes": (1, 2)}

FAILURES: dict[str, tuple[Any, str]] = {
    "code_half": (lambda: _odd(code=f"a{HALF}"), "a\\ud800"),
    "code_text": (lambda: _odd(code=Text("abc")), "abc"),
    "code_nul": (lambda: _odd(code="a\0b"), "a\ufffdb"),
    "code_number": (lambda: _odd(code=404), "bad_output"),
    "code_none": (lambda: _odd(code=None), "bad_output"),
    "code_raises": (lambda: _raise(Unreadable("x")), "bad_output"),
    "message_number": (lambda: _odd(message=123), "x"),
    "message_error": (lambda: _odd(message=ValueError("why")), "x"),
    "retryable_text": (lambda: _odd(retryable="no"), "x"),
    "not_done_object": (lambda: _odd(not_done=object()), "x"),
    "retryable_neither": (lambda: _odd(retryable=Neither()), "bad_output"),
    "retry_after_big": (lambda: _odd(retry_after=10**400), "x"),
    "retry_after_huge": (lambda: _odd(retry_after=1e308), "x"),
    "retry_after_text": (lambda: _odd(retry_after="5"), "x"),
    "retry_later_big": (lambda: _raise(perdure.RetryLater("m", after=10**400)), "retry_later"),
    "text_exits": (lambda: _raise(Exits()), "error"),
    "its_own_cause": (_by_itself, "error"),
    "next_numbers": (lambda: Chosen(1, **ODD), "bad_output"),
    "next_number": (lambda: Chosen(1, next_nodes=Any), "bad_output"),  # type: ignore[arg-type]
    "next_half": (lambda: Chosen(1, next_nodes=(HALF,)), "bad_output"),
    "next_nul": (lambda: Chosen(1, next_nodes=("a\0",)), "bad_output"),
    "next_long": (lambda: Chosen(1, next_nodes=("a" * 1_000_000,)), "bad_output"),
    "next_many": (lambda: Chosen(1, next_nodes=("a",) * 1_000_000), "bad_output"),
    "reasoning_number": (lambda: Chosen(1, ("a",), reasoning=5), "bad_output"),  # type: ignore[arg-type]
}
"""What is said, and the code that the attempt fails with."""

COMPLETED: dict[str, Any] = {
    "next_text": lambda: Chosen(1, next_nodes=(Text("a"),), reasoning=Text("b")),
    "next_list": lambda: Chosen(1, next_nodes=["a"], reasoning=None),  # type: ignore[arg-type]
    "reasoning_half": lambda: Chosen(1, next_nodes=("a",), reasoning=HALF + "\0" + "x" * 100_000),
}

STEPS: dict[str, Any] = {"half": HALF, "nul": "a\0b", "long": "a" * 300_000}


def say(what: str) -> Any:
    return FAILURES[what][0]() if what in FAILURES else COMPLETED[what]()


def step(ctx: perdure.Context, what: str) -> Any:
    return ctx.step(STEPS[what], lambda: 1)


async def step_async(ctx: perdure.Context, what: str) -> Any:
    return await ctx.step(STEPS[what], lambda: 1)


def step_text(ctx: perdure.Context) -> Any:
    return ctx.step(Text("abc"), lambda: 1)


def log_half(ctx: perdure.Context) -> Any:
    ctx.log(f"line {HALF}\0")
    return 1


def fail_with_many_parts() -> Any:
    """As a library may: an error whose details are short, and a thousand lists."""
    raise Failure("no", "it failed", details=[[]] * 1_000, retryable=False)
