"""A newsletter: gather news, pick the best, shorten the text until it fits, ask the editor if need be, send it."""

from typing import TypedDict

import perdure


class Article(TypedDict):
    source: str
    title: str
    score: int
    delicate: bool


DESK: dict[str, list[Article]] = {
    "city": [{"source": "city", "title": "The bridge is open again", "score": 7, "delicate": False}],
    "sport": [{"source": "sport", "title": "A draw, after all", "score": 4, "delicate": False}],
    "weather": [{"source": "weather", "title": "Rain, then sun", "score": 5, "delicate": False}],
    "court": [{"source": "court", "title": "The mayor before the judge", "score": 9, "delicate": True}],
}


@perdure.task(retry=perdure.Retry(max_attempts=4, backoff_ms=50))
def gather(ctx: perdure.Context, source: str) -> list[Article]:
    if source == "sport" and ctx.attempt < 3:
        raise ConnectionError("the sports desk is at lunch")
    return DESK[source]


@perdure.task
def pick(found: list[list[Article]], most: int) -> list[Article]:
    articles = [article for articles in found for article in articles]
    return sorted(articles, key=lambda article: -article["score"])[:most]


@perdure.task
def write(articles: list[Article]) -> str:
    return "; ".join(article["title"] for article in articles)


@perdure.task
def shorten(text: str, limit: int) -> str:
    """One title less, if it is too long."""
    return text.rpartition("; ")[0] if len(text) > limit else text


@perdure.task
def send(ctx: perdure.Context, reader: str, text: str) -> str:
    return f"{reader}: {text}"  # a real one gives ctx.idempotency_key to the mail server


@perdure.workflow
def newsletter(sources: list[str], readers: list[str], most: int = 3, limit: int = 30):
    found = perdure.map(gather, sources, max_concurrency=2)
    best = pick(found, most)
    draft = write(best)
    text = perdure.loop(
        lambda loop: shorten(perdure.expr(f"{loop.previous} or {draft}"), limit),
        while_=lambda short: perdure.cel(f"size({short}) > {limit}"),
        max_iterations=20,
    )
    delicate = perdure.cel(f"{best}.exists(article, article.delicate)")
    cleared = perdure.branch(
        best,
        {delicate: lambda: perdure.approval({"text": text}, approvers=["editor"])},
        default=lambda: perdure.transform("nobody has to look", id="harmless"),
    )
    return perdure.map(lambda reader: send(reader, text), readers, after=cleared)


if __name__ == "__main__":
    run = perdure.run(newsletter, sources=list(DESK), readers=["ann"], on_approval=lambda approval: True)
    print(run.state, run.result())
