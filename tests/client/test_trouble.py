"""What clients do when something is in the way: try again what may be tried again, and say what happened otherwise."""

import threading

import pytest

from perdure import Client
from perdure.client import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    RateLimited,
    ServerBroken,
    Unauthenticated,
    Unavailable,
    Unreachable,
)
from perdure.client.conversation import Options
from perdure.client.http_calls import get
from perdure.client.live_events import Stream
from perdure.errors import SettingsInvalid
from perdure.settings import Settings
from tests.cli.helpers import wait_until
from tests.client.helpers import DEADLINE, ONE, SIGNALLED, TWO, Background
from tests.client.scripted import Scripted, answer, events, problem
from tests.proxy import Proxy

pytestmark = pytest.mark.slow


@pytest.fixture
def proxy(server):
    with Proxy(("127.0.0.1", server.port)) as made:
        yield made


@pytest.fixture
def through(clients, proxy):
    return clients(f"http://127.0.0.1:{proxy.port}", timeout=DEADLINE)


# -- connections -------------------------------------------------------------------------------------------------------


def test_a_stream_that_is_cut_goes_on_where_it_was(through, proxy):
    run_id = through.runs.start(definition=SIGNALLED)["run_id"]
    seen = []
    for event in through.runs.stream(run_id):
        seen.append(event)
        if event["type"] == "node.waiting":
            proxy.cut()
            through.runs.signal(run_id, "go")
    assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
    assert seen[-1]["type"] == "run.completed"


def test_a_stream_outlives_the_server_it_began_with(tmp_path, clients):
    seen: list[dict] = []

    def read(url, run_id):
        seen.extend(clients(url).runs.stream(run_id))

    with Background(tmp_path) as first, Client(first.url) as client:
        run_id = client.runs.start(definition=SIGNALLED)["run_id"]
        reader = threading.Thread(target=read, args=(first.url, run_id))
        reader.start()
        feed = first.app.state.site.engine.feed
        wait_until(lambda: feed.followed == 1, "somebody follows")
    with Background(tmp_path, port=first.port) as second, Client(second.url) as client:
        client.runs.signal(run_id, "go")
        reader.join(DEADLINE)
    assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
    assert seen[-1]["type"] == "run.completed"


def test_an_event_that_was_cut_in_the_middle_arrives_once_and_whole(through, proxy):
    run_id = through.runs.start(definition=TWO, inputs={"n": 1}, wait_seconds=DEADLINE)["run_id"]
    whole = list(through.runs.events(run_id))
    proxy.cut_at(b'"run.completed"')
    assert list(through.runs.stream(run_id)) == whole


def test_a_start_whose_answer_got_lost_starts_one_run(through, proxy, server, clients):
    tag = ("lost", f"{clients.kind} {proxy.port}")
    proxy.cut_at(b"HTTP/1.1 201")
    started = through.runs.start(definition=ONE, tags=dict([tag]))
    assert [run["run_id"] for run in clients(server.url).runs.list(tag=tag)] == [started["run_id"]]
    assert proxy.connections == 2


def test_what_may_not_be_repeated_is_not_when_its_answer_got_lost(through, proxy):
    run_id = through.runs.start(definition=SIGNALLED)["run_id"]
    before = proxy.connections
    proxy.cut_at(b"HTTP/1.1 200")
    with pytest.raises(Unreachable, match="it may have done what was asked, so look before you ask again"):
        through.runs.cancel(run_id, force=True)
    assert proxy.connections == before
    assert through.runs.get(run_id)["state"] == "cancelled"


def test_a_server_that_is_not_there_is_said_so(clients, proxy):
    proxy.refuse()
    with pytest.raises(Unreachable, match=r"cannot reach http://127.0.0.1:\d+: .*; is the server running\?") as caught:
        clients(f"http://127.0.0.1:{proxy.port}", retries=1).runs.cancel("r1")
    assert caught.value.http_status == 0


def test_a_server_that_comes_back_is_found_again(clients, proxy):
    pauses: list[float] = []

    def pause(seconds):
        pauses.append(seconds)
        proxy.heal()

    proxy.refuse()
    client = clients(f"http://127.0.0.1:{proxy.port}", pause=pause)
    assert client.runs.start(definition=ONE, inputs={"n": 1}, wait_seconds=DEADLINE)["state"] == "completed"
    assert len(pauses) == 1
    assert 0 < pauses[0] <= 0.2


def test_a_server_that_says_nothing_is_not_waited_for_longer_than_was_asked(clients, proxy):
    proxy.go_silent()
    with pytest.raises(Unreachable, match="no answer from"):
        clients(f"http://127.0.0.1:{proxy.port}", timeout=0.2, retries=0).runs.get("r1")


# -- answers -----------------------------------------------------------------------------------------------------------


def test_a_busy_server_is_asked_again_when_it_said_so(clients):
    busy = problem(429, "rate_limited", Retry_After="7")
    with Scripted([busy, problem(503, "overloaded", Retry_After="1"), answer({"state": "paused"})]) as server:
        pauses: list[float] = []
        assert clients(server.url, pause=pauses.append).runs.pause("r1") == {"state": "paused"}
    assert len(server.asked) == 3
    assert pauses == [7, 1]


def test_only_what_may_be_repeated_is_asked_again_when_nobody_knows_the_outcome(clients):
    gone = problem(503, "store_unavailable", "the database did not answer", Retry_After="1")
    with Scripted([gone, gone, answer({"run_id": "r1"}, 201)]) as server:
        client = clients(server.url, pause=[].append)
        with pytest.raises(Unavailable, match="the database did not answer") as caught:
            client.runs.cancel("r1")
        assert (caught.value.code, caught.value.retry_after) == ("store_unavailable", 1)
        assert client.runs.start("orders") == {"run_id": "r1"}
    keys = [headers["idempotency-key"] for _, path, headers, _ in server.asked if path == "/api/v1/runs"]
    assert len(keys) == 2
    assert keys[0] == keys[1]


def test_it_gives_up_after_so_many_tries_and_pauses_longer_each_time(clients):
    pauses: list[float] = []
    with Scripted([problem(503, "store_unavailable")] * 4) as server, pytest.raises(Unavailable):
        clients(server.url, retries=3, pause=pauses.append).runs.get("r1")
    assert len(server.asked) == 4
    assert pauses == sorted(pauses)
    assert len(pauses) == 3


def test_a_server_that_wants_very_much_patience_is_not_waited_for(clients):
    pauses: list[float] = []
    with Scripted([problem(429, "rate_limited", Retry_After="3600")]) as server, pytest.raises(RateLimited) as caught:
        clients(server.url, pause=pauses.append).runs.get("r1")
    assert (caught.value.retry_after, pauses) == (3600, [])


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Invalid), (401, Unauthenticated), (403, Forbidden), (409, Conflict), (413, Invalid), (500, ServerBroken)],
)
def test_each_answer_is_an_error_of_its_kind_with_its_code(clients, status, kind):
    with Scripted([problem(status, "some_code", "because")]) as server, pytest.raises(kind, match="because") as caught:
        clients(server.url).runs.get("r1")
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.http_status) == ("some_code", status)


def test_an_answer_that_is_not_from_perdure_is_said_to_be_none(clients):
    html = (502, {"Content-Type": "text/html"}, b"<h1>Bad\n gateway</h1>")
    with (
        Scripted([html]) as server,
        pytest.raises(ServerBroken, match="answered 502, but not as a Perdure server does: <h1>Bad gate"),
    ):
        clients(server.url).runs.get("r1")


def test_a_page_of_somebody_else_is_no_answer(clients):
    page = (200, {"Content-Type": "text/html"}, b"<h1>Welcome</h1>")
    with Scripted([page, page]) as server:
        client = clients(server.url)
        with pytest.raises(ApiError, match="answered 200, but not as a Perdure server does: <h1>Welcome</h1>"):
            client.runs.get("r1")
        with pytest.raises(ApiError, match="did not answer with a stream of events; is the URL right"):
            list(client.runs.stream("r1"))


def test_a_redirect_is_not_followed_and_says_where_it_points(clients):
    moved = (308, {"Location": "https://elsewhere.example/api/v1/runs/r1"}, b"")
    with (
        Scripted([moved]) as server,
        pytest.raises(ApiError, match=r"it points to https://elsewhere\.example/") as caught,
    ):
        clients(server.url).runs.get("r1")
    assert caught.value.http_status == 308


def test_a_stream_that_ends_before_the_run_is_asked_for_again(clients):
    script = [events(1, 2), problem(503, "store_unavailable"), events(3), events(4, last="run.completed")]
    pauses: list[float] = []
    with Scripted(script) as server:
        client = clients(server.url, pause=pauses.append)
        assert [event["seq"] for event in client.runs.stream("r/1")] == [1, 2, 3, 4]
    assert [headers.get("last-event-id") for _, _, headers, _ in server.asked] == [None, "2", "2", "3"]
    assert {path for _, path, _, _ in server.asked} == {"/api/v1/runs/r%2F1/stream?after=0"}
    assert len(pauses) == 3


def test_a_stream_that_has_nothing_more_ends(clients):
    with Scripted([events(1), (204, {}, b"")]) as server:
        assert [event["seq"] for event in clients(server.url, pause=[].append).runs.stream("r1")] == [1]


def test_what_unicode_calls_a_line_separator_does_not_end_a_line(client):
    text = "a\u2028b\u0085c\r\nd\n\ne"
    run_id = client.runs.start(definition=ONE, inputs={"n": text}, wait_seconds=DEADLINE)["run_id"]
    assert next(iter(client.runs.stream(run_id)))["data"]["inputs"] == {"n": text}


# -- who asks ----------------------------------------------------------------------------------------------------------


def test_a_key_is_needed_where_the_server_wants_one_and_says_what_it_may(tmp_path, clients):
    with Background(tmp_path, settings=Settings(auth="keys")) as server:
        with pytest.raises(Unauthenticated):
            clients(server.url).runs.list().first()
        client = clients(server.url, api_key=f" {server.make_key('look', 'viewer')}\n")
        assert client.runs.list().first()["items"] == []
        with pytest.raises(Forbidden, match="runs:start"):
            client.runs.start("orders")


def test_a_limit_of_requests_is_told_with_when_to_come_back(tmp_path, clients):
    with Background(tmp_path, settings=Settings(auth="keys", rate_limit_per_key=0.5)) as server:
        client = clients(server.url, retries=0, api_key=server.make_key("look", "viewer"))
        client.runs.list().first()
        with pytest.raises(RateLimited) as caught:
            client.runs.list().first()
        assert 1 <= (caught.value.retry_after or 0) <= 2


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8700", "ftp://x", "http://", "http://a:b@c", "http://x/?a=1", "http://x:0"]
)
def test_a_url_that_is_none_is_refused_without_showing_a_password(clients, url):
    with pytest.raises(SettingsInvalid, match="the URL of a server is") as caught:
        clients(url)
    assert "a:b" not in str(caught.value)


def test_what_cannot_be_sent_is_refused_before_it_is(clients):
    with pytest.raises(SettingsInvalid, match="the API key is not one word"):
        clients("http://127.0.0.1:1", api_key="perdure_ä")
    for key in ("order 17", "ordre-é", "", "a\nb", "x" * 256):
        with pytest.raises(Invalid, match="idempotency_key"):
            clients("http://127.0.0.1:1").runs.start("orders", idempotency_key=key)


def test_without_a_url_it_is_the_one_of_the_settings_with_its_key(clients, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsInvalid, match="PERDURE_SERVER_URL"):
        clients()
    with Scripted([answer({}), answer({})]) as server:
        monkeypatch.setenv("PERDURE_SERVER_URL", server.url + "/")
        monkeypatch.setenv("PERDURE_API_KEY", "perdure_1_2")
        clients().runs.get("r1")
        clients(server.url + "/api/v1").runs.get("r1")
    shown = [headers.get("authorization") for _, _, headers, _ in server.asked]
    assert shown == ["Bearer perdure_1_2", None]  # a key of the settings goes to the server of the settings
    assert [path for _, path, _, _ in server.asked] == ["/api/v1/runs/r1"] * 2


def test_a_stream_that_is_cut_goes_on_behind_the_last_event_and_behind_the_last_line():
    call = get("runs", "r", "stream", **{"after": 0, "with": "logs", "logs_after": 3})
    stream = Stream(Options(url="http://x"), call, lambda: 0.0)
    assert "logs_after=3" in stream.request().url
    told = list(
        stream.feed(
            b'event: log\ndata: {"position":7,"message":"m"}\n\nid: 4\nevent: node.routed\ndata: {"seq":4,"type":"node.routed"}\n\n'
        )
    )
    assert [one["type"] for one in told] == ["log", "node.routed"]
    again = stream.request()
    assert "logs_after=7" in again.url
    assert again.headers["Last-Event-ID"] == "4"


def test_chunks_that_are_cut_go_on_behind_the_last_one_and_end_with_their_end():
    stream = Stream(Options(url="http://x"), get("runs", "r", "nodes", "a", "chunks"), lambda: 0.0)
    chunk = b'id: 2.7\nevent: chunk\ndata: {"edition":2,"number":7,"chunk":"x"}\n\n'
    assert list(stream.feed(chunk)) == [{"type": "chunk", "edition": 2, "number": 7, "chunk": "x"}]
    assert stream.ended() is not None
    assert stream.request().headers["Last-Event-ID"] == "2.7"
    list(stream.feed(b'id: 2.7\nevent: end\ndata: {"edition":2,"number":7,"reason":"end"}\n\n'))
    assert stream.ended() is None
