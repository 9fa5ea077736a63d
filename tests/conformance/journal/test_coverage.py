"""The suite watched: every adapter runs every case, every operation of the port has one."""

import perdure.journals
from perdure.journal import Journal
from perdure.topic_log import TopicLog
from tests.conformance.journal.adapters import ADAPTERS
from tests.conformance.watch import Suite, operations_of, packages_of

SUITE = Suite(__file__, "handles", ADAPTERS)


def test_every_adapter_runs_every_case(request):
    SUITE.check_runs(request.config)


def test_no_case_is_skipped_for_anyone():
    SUITE.check_skips()


def test_every_adapter_of_the_source_is_in_the_suite():
    assert packages_of(perdure.journals) <= set(ADAPTERS)


def test_every_operation_of_the_port_has_a_case():
    operations = [*operations_of(Journal), *operations_of(TopicLog)]
    assert len(operations) == 56
    SUITE.check_named(operations)
