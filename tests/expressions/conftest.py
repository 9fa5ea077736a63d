"""What takes too long is measured again, as in `tests/attack`."""

from tests.attack.conftest import pytest_runtest_makereport, pytest_runtest_protocol

__all__ = ["pytest_runtest_makereport", "pytest_runtest_protocol"]
