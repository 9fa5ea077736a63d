"""Child processes of tests: none outlives the test run, however that ends."""

import ctypes
import os
import signal
import sys


def die_with_parent(how: signal.Signals = signal.SIGKILL) -> None:
    """To be called first thing in a child. On Linux the kernel then kills it when its parent is gone."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(1, how)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it died before the call
            os._exit(1)
