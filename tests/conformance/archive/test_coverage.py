"""The suite watched: every adapter runs every case, every operation of the port has one."""

from perdure.archive import Archive
from perdure.archive.agent_entries import AgentEntries
from perdure.purses import BudgetKeeper, PurseReader
from tests.conformance.archive.adapters import ADAPTERS
from tests.conformance.watch import Suite, operations_of

SUITE = Suite(__file__, "office", ADAPTERS)


def test_every_adapter_runs_every_case(request):
    SUITE.check_runs(request.config)


def test_no_case_is_skipped_for_anyone():
    SUITE.check_skips()


def test_both_databases_have_an_archive():
    assert {"sqlite", "postgres"} <= set(ADAPTERS)


def test_every_operation_of_the_port_has_a_case():
    archive = [*operations_of(Archive), *operations_of(BudgetKeeper), *operations_of(PurseReader)]
    operations = [*archive, *operations_of(AgentEntries)]
    assert len(operations) == 59
    SUITE.check_named(operations)
