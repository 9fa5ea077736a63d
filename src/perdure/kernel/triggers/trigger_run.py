"""The workflow of a trigger: one node that receives, for ever. What the trigger does is in its events, so one IR serves all."""

from __future__ import annotations

import hashlib

import msgspec

from perdure.model import ir as irs
from perdure.model.ir import IR, IR_VERSION, Node, Retry

NODE = "receive"


def _make() -> IR:
    node = Node(id=NODE, type="trigger", retry=Retry(max_attempts=1), terminal=True)
    ir = IR(
        version=IR_VERSION,
        name="perdure:trigger",
        hash="",
        nodes=(node,),
        edges=(),
        entries=(0,),
        terminals=(0,),
        endless=True,
        description="What starts runs by itself: a schedule, or what is pushed",
    )
    return msgspec.structs.replace(ir, hash=f"sha256:{hashlib.sha256(irs.encode(ir)).hexdigest()}")


TRIGGER = _make()
