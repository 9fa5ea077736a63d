"""Random pictures for the tests of layouts and formats."""

from hypothesis import strategies as st

from perdure.drawing.curves import Route
from perdure.drawing.picture import Arrow, Box, Picture

TYPES = ["task", "http", "human", "wait", "transform", "workflow", "map", "input", "output", "llm", "odd"]
WORDS = st.text(st.characters(codec="utf-8"), max_size=60)


@st.composite
def pictures(draw, most=14):
    """Any boxes and arrows at all: circles, arrows to oneself, islands; at most one arrow for each pair and direction."""
    count = draw(st.integers(1, most))
    boxes = tuple(
        Box(
            id=f"n{number}",
            type=draw(st.sampled_from(TYPES)),
            detail=draw(WORDS),
            notes=tuple(draw(st.lists(WORDS, max_size=1))),
            compensated=draw(st.booleans()),
            state=draw(st.sampled_from(["", "completed", "failed", "pending"])),
        )
        for number in range(count)
    )
    pairs = draw(
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=3 * count, unique=True)
    )
    arrows = tuple(
        Arrow(
            source=source,
            target=target,
            kind=draw(st.sampled_from(["plain", "plain", "choice", "failure", "back"])),
            label=draw(st.one_of(st.just(""), WORDS)),
            fate=draw(st.sampled_from(["", "taken", "skipped"])),
        )
        for source, target in pairs
    )
    return Picture(name="random", boxes=boxes, arrows=arrows)


def along(route: Route, steps: int = 12):
    """Points of a line, close to each other."""
    at = route.start
    yield at
    for first, second, end in route.curves:
        for step in range(1, steps + 1):
            t = step / steps
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            yield tuple(a * at[i] + b * first[i] + c * second[i] + d * end[i] for i in (0, 1))
        at = end
