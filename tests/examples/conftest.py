import pytest

from tests.examples import helpers


@pytest.fixture
def programs():
    """Starts programs, and sees to it that none is left."""
    started = []

    class Programs:
        @staticmethod
        def start(*arguments, **more):
            started.append(helpers.start(*arguments, **more))
            return started[-1]

        @staticmethod
        def start_on_terminal(*arguments, **more):
            started.append(helpers.start_on_terminal(*arguments, **more))
            return started[-1]

    yield Programs
    for process in started:
        process.close()


@pytest.fixture
def documents():
    return [helpers.ROOT / "README.md", *(helpers.ROOT / "docs").rglob("*.md")]
