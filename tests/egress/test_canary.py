"""No packet reaches a canary by any spelling of its address: not directly, not by a redirect, not by a name that moves."""

import socket
from ipaddress import ip_network

import pytest

from perdure.egress.client import Request
from perdure.egress.errors import EgressRefused
from perdure.egress.policy import Entry, Policy
from perdure.egress.urls import parse
from tests.egress.forms import FORMS, NAMES, UNSENDABLE
from tests.egress.server import PUBLIC, Wire, client, names, reply, serving

EVERYTHING = Policy(tuple(Entry(network=ip_network(net), port=0) for net in ("0.0.0.0/0", "::/0")))


def as_the_system_does(table):
    """Names from the table; numbers in every form the C library takes for an address."""
    by_name = names(table)

    async def resolve(host, port):
        try:
            return [socket.inet_ntoa(socket.inet_aton(host))]
        except OSError:
            return await by_name(host, port)

    return resolve


def test_there_are_enough_forms_and_all_differ():
    urls = [url for url, _ in FORMS]
    assert len(urls) == len(set(urls)) >= 60


async def test_the_canary_sings_when_somebody_may_call_it():
    async with (
        serving(lambda seen: reply()) as public,
        serving(lambda seen: reply(body=b"song")) as canary,
        client(EVERYTHING, resolve=names(NAMES), backend=Wire(public, canary)) as free,
    ):
        for url in ("http://127.0.0.1/", "http://[::1]/", "http://localhost/", "http://169.254.169.254/"):
            assert (await free.send(Request(url=parse(url)))).body == b"song"
    assert canary.connections == 4


async def test_a_url_of_any_form_does_not_reach_it():
    async with serving(lambda seen: reply()) as public, serving(lambda seen: reply()) as canary:
        wire = Wire(public, canary)
        async with client(resolve=as_the_system_does(NAMES), backend=wire) as guarded:
            for url, _ in FORMS + UNSENDABLE:
                with pytest.raises(EgressRefused):
                    await guarded.send(Request(url=parse(url)))
    assert (canary.connections, public.connections, wire.called) == (0, 0, [])


@pytest.mark.slow
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_a_url_of_any_form_does_not_reach_it(status):
    async with serving(lambda seen: redirect(seen)) as public, serving(lambda seen: reply()) as canary:

        def redirect(seen):
            url = FORMS[int(seen.target[1:])][0]
            return f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\nLocation: {url}\r\n\r\n".encode()

        async with client(resolve=as_the_system_does(NAMES), backend=Wire(public, canary)) as guarded:
            for number in range(len(FORMS)):
                with pytest.raises(EgressRefused) as caught:
                    await guarded.send(Request(url=parse(f"http://public.test/{number}")))
                assert caught.value.sent
    assert canary.connections == 0
    assert len(public.seen) == len(FORMS)


@pytest.mark.slow
async def test_a_name_that_moves_to_any_address_does_not_reach_it():
    async with serving(lambda seen: reply()) as public, serving(lambda seen: reply()) as canary:
        for _, address in FORMS:
            answers = [[PUBLIC], [address], [PUBLIC, address], [address, PUBLIC]]

            async def resolve(host, port, answers=answers):
                return answers.pop(0)

            async with client(resolve=resolve, backend=Wire(public, canary)) as guarded:
                assert (await guarded.send(Request(url=parse("http://moving.test/")))).status == 200
                for _ in range(3):
                    with pytest.raises(EgressRefused):
                        await guarded.send(Request(url=parse("http://moving.test/")))
            assert answers == []
    assert canary.connections == 0


async def test_a_name_is_looked_up_once_so_that_what_was_checked_is_what_is_called():
    asked = []

    async def resolve(host, port):
        asked.append(host)
        return [PUBLIC] if len(asked) == 1 else ["127.0.0.1"]

    async with serving(lambda seen: reply()) as public, serving(lambda seen: reply()) as canary:
        wire = Wire(public, canary)
        async with client(resolve=resolve, backend=wire) as guarded:
            assert (await guarded.send(Request(url=parse("http://moving.test/")))).status == 200
    assert (asked, wire.called, canary.connections) == (["moving.test"], [(PUBLIC, 80)], 0)


async def test_a_redirect_to_a_name_that_moved_meanwhile_does_not_reach_it():
    answers = [[PUBLIC], ["127.0.0.1"]]

    async def resolve(host, port):
        return answers.pop(0)

    async with (
        serving(lambda seen: reply(302, location="http://moving.test/again")) as public,
        serving(lambda seen: reply()) as canary,
        client(resolve=resolve, backend=Wire(public, canary)) as guarded,
    ):
        with pytest.raises(EgressRefused, match="leads to an address that is not public"):
            await guarded.send(Request(url=parse("http://moving.test/")))
    assert canary.connections == 0
