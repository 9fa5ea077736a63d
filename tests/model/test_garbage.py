"""The collector of garbage is one for the process, and threads come and go."""

import gc

from perdure.model.garbage import MANY, collect_later, no_collection


def test_the_collector_rests_until_the_last_thread_has_left_and_works_again_then():
    first, second = no_collection(), no_collection()
    assert gc.isenabled()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled(), "one is still inside"
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_garbage_is_collected_after_the_decision_on_many_messages():
    with collect_later(MANY - 1):
        assert gc.isenabled()
    with collect_later(MANY):
        assert not gc.isenabled()
    assert gc.isenabled()
