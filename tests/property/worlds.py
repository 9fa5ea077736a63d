"""What walks through the life of a mailbox have in common: steps by chance, then a world in order, then a judgement."""

from __future__ import annotations

from typing import Protocol


class World(Protocol):
    steps: list[str]
    """What has been done, for people."""

    def step(self) -> None: ...

    def heal(self) -> None: ...

    def judge(self) -> None: ...


def go_through(world: World, seed: int, steps: int) -> None:
    try:
        for _ in range(steps):
            world.step()
        world.heal()
        world.judge()
    except BaseException as error:
        error.add_note("\n".join([f"repeat with: walk({seed}, …)", *world.steps]))
        raise
