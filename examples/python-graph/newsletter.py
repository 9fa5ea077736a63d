"""A newsletter: gather news, pick the best, shorten the text until it fits, ask the editor if need be, send it."""

from typing import TypedDict

import weft


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


@weft.task(retry=weft.Retry(max_attempts=4, backoff_ms=50))
def gather(ctx: weft.Context, source: str) -> list[Article]:
    if source == "sport" and ctx.attempt < 3:
        raise ConnectionError("the sports desk is at lunch")
    return DESK[source]


@weft.task
def pick(found: list[list[Article]], most: int) -> list[Article]:
    articles = [article for articles in found for article in articles]
    return sorted(articles, key=lambda article: -article["score"])[:most]


@weft.task
def write(articles: list[Article]) -> str:
    return "; ".join(article["title"] for article in articles)


@weft.task
def shorten(text: str, limit: int) -> str:
    """One title less, if it is too long."""
    return text.rpartition("; ")[0] if len(text) > limit else text


@weft.task
def send(ctx: weft.Context, reader: str, text: str) -> str:
    return f"{reader}: {text}"  # a real one gives ctx.idempotency_key to the mail server


@weft.workflow
def newsletter(sources: list[str], readers: list[str], most: int = 3, limit: int = 30):
    found = weft.map(gather, sources, max_concurrency=2)
    best = pick(found, most)
    draft = write(best)
    text = weft.loop(
        lambda loop: shorten(weft.expr(f"{loop.previous} or {draft}"), limit),
        while_=lambda short: weft.cel(f"size({short}) > {limit}"),
        max_iterations=20,
    )
    delicate = weft.cel(f"{best}.exists(article, article.delicate)")
    cleared = weft.branch(
        best,
        {delicate: lambda: weft.approval({"text": text}, approvers=["editor"])},
        default=lambda: weft.transform("nobody has to look", id="harmless"),
    )
    return weft.map(lambda reader: send(reader, text), readers, after=cleared)


if __name__ == "__main__":
    run = weft.run(newsletter, sources=list(DESK), readers=["ann"], on_approval=lambda approval: True)
    print(run.state, run.result())
