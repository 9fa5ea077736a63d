"""Where a call that is allowed is led to: by redirects, by names that move, and by receivers of notifications (X07, X08, X30).

The servers are real; only names and addresses are a test's own (`tests/egress/server.py`): `shop.test` and `other.test` lead to the public
one, everything else to what stands inside.
"""

from typing import Any

import pytest

from perdure import egress
from perdure.egress.policy import Policy
from tests.attack.marks import attack
from tests.egress.server import PLAIN, PUBLIC, Wire, reply, serving
from tests.engine.helpers import finish, running, start, workflow
from tests.notify.helpers import SECRET, asking, until_settled

INSIDE = ["127.0.0.1", "10.0.0.7", "169.254.169.254", "::1", "::ffff:10.0.0.7"]
TOKEN = "canary-7f3a9c"


@pytest.fixture
async def leading(monkeypatch):
    """Names of a test: `leading(public, inside, name=[addresses of each look-up])`."""
    monkeypatch.setenv("PERDURE_SECRET_TOKEN", TOKEN)
    monkeypatch.setenv("PERDURE_SECRET_HOOK", SECRET)

    def configure(public: Any, inside: Any, **moving: list[list[str]]) -> list[str]:
        asked: list[str] = []

        async def resolve(host: str, port: int) -> list[str]:
            asked.append(host)
            answers = moving.get(host.partition(".")[0])
            return [PUBLIC] if not answers else answers.pop(0) if len(answers) > 1 else answers[0]

        egress.configure(
            Policy.parse("shop.test:8080"), resolve=resolve, backend=Wire(public, inside), ssl_context=PLAIN
        )
        return asked

    yield configure
    await egress.close()
    egress.configure(None)


def calling(url: str, **config: Any) -> dict[str, Any]:
    node = {"id": "call", "type": "http", "config": {"url": url, **config}, "retry": {"max_attempts": 1}}
    return workflow(node)


def code_of(state: Any) -> str | None:
    return state.error.code if state.error is not None else None


CREDENTIALS = {
    "bearer": {"auth": {"type": "bearer", "token": "{{ secrets.TOKEN }}"}},
    "basic": {"auth": {"type": "basic", "username": "perdure", "password": "{{ secrets.TOKEN }}"}},
    "header": {"auth": {"type": "header", "name": "x-shop-key", "value": "{{ secrets.TOKEN }}"}},
    "own header": {"headers": {"x-anything": "{{ secrets.TOKEN }}"}},
    "cookie": {"headers": {"cookie": "session={{ secrets.TOKEN }}"}},
    "query": {"query": {"key": "{{ secrets.TOKEN }}"}},
}
WAYS = {
    "another host": ["http://other.test/end"],
    "another port": ["http://shop.test:8080/end"],
    "away and back": ["http://other.test/1", "http://shop.test/end"],
    "an address that begins like the host": ["http://shop.test.other.test/end"],
    "the host as a user": ["http://other.test/shop.test/end"],
}


@attack("X08", "a redirect takes the credential of a call to another host")
@pytest.mark.parametrize("kind", CREDENTIALS)
@pytest.mark.parametrize("way", WAYS)
async def test_no_credential_of_a_call_follows_a_redirect_to_another_origin(tmp_path, leading, kind, way):
    left = list(WAYS[way])
    async with serving(lambda seen: reply(302, location=left.pop(0)) if left else reply()) as shop:
        leading(shop, None)
        async with running(tmp_path) as engine:
            state = await finish(engine, calling("http://shop.test/begin", **CREDENTIALS[kind]))
    assert (state.state, len(shop.seen)) == ("completed", 1 + len(WAYS[way])), state.error
    first, *rest = shop.seen
    assert TOKEN in f"{first.target} {first.headers}" or "cGVyZHVyZT" in str(first.headers)
    assert not [one for one in rest if TOKEN in f"{one.target} {one.headers}" or "authorization" in one.headers]


@attack("X08", "a redirect takes what a call sends to another host")
async def test_what_a_call_sends_does_not_follow_a_redirect_to_another_origin(tmp_path, leading):
    async with serving(lambda seen: reply(307, location="http://other.test/end")) as shop:
        leading(shop, None)
        async with running(tmp_path) as engine:
            state = await finish(
                engine, calling("http://shop.test/begin", method="POST", body="card={{ secrets.TOKEN }}")
            )
    assert (state.state, code_of(state), len(shop.seen)) == ("failed", "egress_refused", 1)


@pytest.mark.slow
@attack("X07", "a redirect leads inside")
@pytest.mark.parametrize("address", INSIDE)
async def test_no_redirect_leads_inside_by_name_or_by_number(tmp_path, leading, address):
    places = {
        "name": "http://inner.test/",
        "number": f"http://[{address}]/" if ":" in address else f"http://{address}/",
    }

    def lead(seen):
        _, status, place = seen.target.split("/")
        return reply(int(status), location=places[place])

    async with serving(lead) as shop, serving(lambda seen: reply(body=b"inside")) as inside:
        leading(shop, inside, inner=[[address]])
        async with running(tmp_path) as engine:
            for number, path in enumerate(
                f"{status}/{place}" for status in (301, 302, 303, 307, 308) for place in places
            ):
                state = await finish(engine, calling(f"http://shop.test/{path}"), run_id=f"r{number}")
                assert (state.state, code_of(state)) == ("failed", "egress_refused"), path
    assert (len(shop.seen), inside.connections) == (10, 0)


@attack("X07", "a name that is public when it is checked and inside when it is called")
@pytest.mark.parametrize("address", INSIDE)
async def test_a_name_that_moves_inside_is_called_where_it_was_checked(tmp_path, leading, address):
    """Each call looks the name up once: what was checked is what is called, and the next call is checked anew."""
    async with serving(lambda seen: reply(body=b"out")) as shop, serving(lambda seen: reply(body=b"in")) as inside:
        asked = leading(shop, inside, moving=[[PUBLIC], [address], [PUBLIC, address]])
        async with running(tmp_path) as engine:
            states = [await finish(engine, calling("http://moving.test/"), run_id=f"r{number}") for number in range(3)]
    assert [one.state for one in states] == ["completed", "failed", "failed"]
    assert {code_of(one) for one in states[1:]} == {"egress_refused"}
    assert (len(asked), len(shop.seen), inside.connections) == (3, 1, 0)


@attack("X07", "a redirect back to the same name, which has moved inside meanwhile")
@pytest.mark.parametrize("address", INSIDE)
async def test_a_redirect_to_a_name_that_moved_meanwhile_is_not_followed(tmp_path, leading, address):
    async with serving(lambda seen: reply(302, location="/again")) as shop, serving(lambda seen: reply()) as inside:
        leading(shop, inside, moving=[[PUBLIC], [address]])
        async with running(tmp_path) as engine:
            state = await finish(engine, calling("http://moving.test/"))
    assert (state.state, code_of(state), inside.connections) == ("failed", "egress_refused", 0)


@attack("X07", "a receiver of notifications that stands inside, or leads there")
@pytest.mark.parametrize("address", INSIDE)
async def test_nobody_inside_is_told_of_an_approval(tmp_path, leading, address):
    where = f"[{address}]" if ":" in address else address
    async with (
        serving(lambda seen: reply(307, location=f"http://{where}/")) as shop,
        serving(lambda seen: reply()) as inside,
    ):
        leading(shop, inside, moving=[[address]])
        async with running(tmp_path) as engine:
            urls = ["http://shop.test/", "http://moving.test/"]
            for number, url in enumerate(urls):
                notify = {"url": url, "secret": "hook"}
                await start(engine, asking(0, notify=notify), run_id=f"r{number}")
            refused = await until_settled(engine.journal, "waiting", "r1:ask:1")
            led = await until_settled(engine.journal, "waiting", "r0:ask:1")
    assert "is refused" in refused.last_error
    assert address not in refused.last_error
    assert "answered 307" in led.last_error
    assert (len(shop.seen), inside.connections) == (1, 0)


@attack("X30", "a receiver of notifications hands the signed message on")
@pytest.mark.parametrize("status", [303, 308])
async def test_a_notification_is_not_told_to_whom_its_receiver_redirects(tmp_path, leading, status):
    async with serving(lambda seen: reply(status, location="http://other.test/")) as shop:
        leading(shop, None)
        async with running(tmp_path) as engine:
            await start(engine, asking(0, notify={"url": "http://shop.test/", "secret": "hook"}))
            await until_settled(engine.journal, "waiting")
    assert {seen.headers["host"] for seen in shop.seen} == {"shop.test"}
