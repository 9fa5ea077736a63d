"""The suite watched: every adapter runs every case, every operation that is added to a transport has one."""

import perdure.transports
from perdure.transport import SharedTransport
from tests.conformance.shared_transport.adapters import ADAPTERS
from tests.conformance.watch import Suite, operations_of, packages_of

SUITE = Suite(__file__, "opened", ADAPTERS)


def test_every_adapter_runs_every_case(request):
    SUITE.check_runs(request.config)


def test_no_case_is_skipped_for_anyone():
    SUITE.check_skips()


def test_every_adapter_that_connects_processes_is_in_the_suite():
    assert packages_of(perdure.transports) <= set(ADAPTERS)


def test_every_operation_of_the_port_has_a_case():
    operations = operations_of(SharedTransport)
    assert operations == ["streams", "take_over", "hand_back", "wake", "on_wake"]
    SUITE.check_named(operations[1:])  # streams are a port of their own, with a suite of its own
