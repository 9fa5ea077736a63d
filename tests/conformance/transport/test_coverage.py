"""The suite watched: every adapter runs every case, every operation of the port has one."""

import perdure.transports
from perdure.transport import Transport
from tests.conformance.transport.adapters import ADAPTERS
from tests.conformance.watch import Suite, modules_of, operations_of, packages_of

SUITE = Suite(__file__, "adapter", ADAPTERS)
# Modules of transports/ that are parts of an adapter, or of another port.
PARTS = {"queue", "local_limits", "local_streams", "chunk_window", "envelopes", "measured_results"}


def test_every_adapter_runs_every_case(request):
    SUITE.check_runs(request.config)


def test_no_case_is_skipped_for_anyone():
    SUITE.check_skips()


def test_every_adapter_of_the_source_is_in_the_suite():
    assert packages_of(perdure.transports) | (modules_of(perdure.transports) - PARTS) <= set(ADAPTERS)


def test_every_operation_of_the_port_has_a_case():
    operations = operations_of(Transport)
    assert len(operations) == 21
    SUITE.check_named(operations)
