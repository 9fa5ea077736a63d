"""The adapters the suite runs against, and how each is opened."""

from __future__ import annotations

from collections.abc import Callable

from tests.doubles.transport_faults import with_transport_faults
from weft.transport import Transport
from weft.transports.local import LocalTransport


class Adapter:
    """A transport, and what a coordinator that takes over would do: receive again what nobody acknowledged."""

    def __init__(self, transport: Transport, redeliver: Callable[[], None]) -> None:
        self.transport = transport
        self.redeliver = redeliver


def local() -> Adapter:
    transport = LocalTransport()
    return Adapter(transport, transport.redeliver)


def faultless() -> Adapter:
    """The fault seams, with no fault planned, must not be noticed."""
    transport = LocalTransport()
    return Adapter(with_transport_faults(transport, lambda _operation, _number: None), transport.redeliver)


ADAPTERS: dict[str, Callable[[], Adapter]] = {"local": local, "faultless": faultless}
