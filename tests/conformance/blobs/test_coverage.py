"""The suite watched: every adapter runs every case, every operation of the port has one."""

import perdure.blob_stores
from perdure.blobs import BlobStore
from tests.conformance.blobs.adapters import ADAPTERS
from tests.conformance.watch import Suite, modules_of, operations_of

SUITE = Suite(__file__, "storage", ADAPTERS)
PARTS = {"objects", "store_url", "threads"}  # modules of blob_stores/ that are no adapters but parts of all


def test_every_adapter_runs_every_case(request):
    SUITE.check_runs(request.config)


def test_no_case_is_skipped_for_anyone():
    SUITE.check_skips()


def test_every_adapter_of_the_source_is_in_the_suite():
    assert modules_of(perdure.blob_stores) - PARTS <= set(ADAPTERS)


def test_every_operation_of_the_port_has_a_case():
    operations = operations_of(BlobStore)
    assert len(operations) >= 11
    SUITE.check_named(operations)
