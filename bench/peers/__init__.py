"""`make peers`: the same work on Perdure and on its peers, by turns, on this machine. `bench.peers.__main__` drives it."""
