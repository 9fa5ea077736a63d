"""`make check` runs what needs no server, whatever it is called and wherever it is."""

from tests.fast import is_slow


class Item:
    def __init__(self, *fixturenames, marked=False, **params):
        self.fixturenames = fixturenames
        self._marked = marked
        if params:
            self.callspec = type("Spec", (), {"params": params})

    def get_closest_marker(self, name):
        return self._marked or None


def test_what_says_so_or_takes_a_server_is_slow_and_nothing_else():
    assert is_slow(Item(marked=True))
    assert is_slow(Item("tmp_path", "redis_servers"))
    assert is_slow(Item("postgres_servers", journal="postgres"))
    assert is_slow(Item("programs"))
    assert not is_slow(Item())
    assert not is_slow(Item("tmp_path", number=3))
    assert not is_slow(Item("postgres_servers", journal="sqlite"))


def test_this_one_is_run_by_make_check(request):
    assert not request.node.get_closest_marker("slow")


def test_one_with_a_server_is_not(request, redis_servers):
    assert request.node.get_closest_marker("slow")
