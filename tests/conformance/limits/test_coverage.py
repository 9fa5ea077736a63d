"""The suite watched: every adapter runs every case, every operation of the port has one."""

from perdure.limits import Limits
from tests.conformance.limits.adapters import ADAPTERS
from tests.conformance.watch import Suite, operations_of

SUITE = Suite(__file__, "pair", ADAPTERS)


def test_every_adapter_runs_every_case(request):
    SUITE.check_runs(request.config)


def test_no_case_is_skipped_for_anyone():
    SUITE.check_skips()


def test_every_operation_of_the_port_has_a_case():
    operations = operations_of(Limits)
    assert sorted(operations) == ["enter", "leave", "occupy", "on_room"]
    SUITE.check_named(operations)
