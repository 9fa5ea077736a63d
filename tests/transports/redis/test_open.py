"""Opening and closing: what is refused, what is warned about, and that nothing stays behind."""

import asyncio
import gc
import logging
import os
import threading

import pytest

from perdure.errors import SettingsInvalid
from perdure.transport import TransportFull, TransportUnavailable
from perdure.transports.redis import open_redis
from perdure.transports.redis.server_check import ServerTooOld, judge
from perdure.transports.redis.server_url import Address, parse
from tests.conformance.transport.messages import beat, claim, task
from tests.servers.redis import RedisServer
from tests.waiting import no_more


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://localhost", Address()),
        ("redis://h:1/3", Address("h", 1, database=3)),
        ("redis://u:p%40ss@h", Address("h", username="u", password="p@ss")),
        ("redis://:p@h", Address("h", password="p")),
        ("rediss://h:1?ssl_ca_certs=/ca.pem", Address("h", 1, tls=True, ca_file="/ca.pem")),
        ("unix:///run/x.sock?db=2", Address(path="/run/x.sock", database=2)),
        ("unix://u:p@/run/x.sock", Address(path="/run/x.sock", username="u", password="p")),
    ],
)
def test_a_url_is_understood(url, address):
    assert parse(url) == address


def test_a_url_that_is_none_is_refused_without_its_password():
    with pytest.raises(SettingsInvalid, match="expected redis://host:port/database") as caught:
        parse("http://user:hunter2@host")
    assert "hunter2" not in str(caught.value)


def test_an_address_never_shows_its_password():
    address = parse("redis://user:hunter2@host:1/2")
    assert (str(address), repr(address)) == ("host:1/2", "Address(host:1/2)")


async def test_a_server_that_cannot_be_reached_is_said_to_be_away_and_nothing_stays(tmp_path):
    before = threading.active_count(), len(asyncio.all_tasks())
    with pytest.raises(TransportUnavailable, match="cannot be reached"):
        await open_redis(f"unix://{tmp_path / 'nobody'}")
    assert no_more((threading.active_count(), len(asyncio.all_tasks())), before)


async def test_a_wrong_password_is_said_to_be_one(own_server):
    with own_server.client() as client:
        client.execute_command("ACL", "SETUSER", "ann", "on", ">right", "+@all", "~*", "&*")
    with pytest.raises(TransportUnavailable, match="WRONGPASS"):
        await open_redis(f"unix://ann:wrong@{own_server.socket}")


async def test_nothing_stays_behind_when_a_transport_is_closed(redis_server):
    async def use() -> None:
        prefix = redis_server.new_prefix()
        transport = await open_redis(redis_server.url, prefix=prefix, partitions=range(256))
        transport.beat(beat())
        await transport.publish([task("a")])
        await claim(transport)
        await transport.close()

    def left() -> tuple[int, int, int]:
        gc.collect()
        return threading.active_count(), len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))

    await use()
    before = left()
    for _ in range(5):
        await use()
    assert no_more(left(), before)
    with redis_server.client() as client:
        names = [one["name"] for one in client.client_list()]
    assert [name for name in names if name.startswith("perdure-")] == []


@pytest.mark.parametrize(
    ("facts", "warning"),
    [
        ({"redis_version": "7.2.11"}, None),
        ({"redis_version": "7.2.4"}, "redis 7.2.4, which has known holes"),
        ({"redis_version": "7.0.15"}, "redis 7.0.15, which has known holes"),
        ({"redis_version": "8.4.0"}, None),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.2"}, None),
        ({"redis_version": "7.2.4", "valkey_version": "8.1.3"}, "valkey 8.1.3, which has known holes"),
        ({"redis_version": "8.4.0", "maxmemory": "1000", "maxmemory_policy": "allkeys-lru"}, "allkeys-lru"),
        ({"redis_version": "8.4.0", "maxmemory": "0", "maxmemory_policy": "allkeys-lru"}, None),
    ],
)
def test_a_server_that_should_be_otherwise_is_warned_about(facts, warning):
    warnings = judge(facts)
    assert len(warnings) == (0 if warning is None else 1)
    assert warning is None or warning in warnings[0]


@pytest.mark.parametrize("version", ["6.2.14", "5.0", ""])
def test_a_server_that_is_too_old_is_refused(version):
    with pytest.raises(ServerTooOld, match=r"needs Redis 7\.0 or later"):
        judge({"redis_version": version})


async def test_the_warning_is_given_when_a_transport_is_opened(caplog):
    server = RedisServer("--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru").start()
    try:
        with caplog.at_level(logging.WARNING):
            await (await open_redis(server.url)).close()
        assert "set it to noeviction" in caplog.text
    finally:
        server.remove()


async def test_a_server_out_of_memory_is_full_and_takes_none_of_it():
    server = RedisServer("--maxmemory", "3mb").start()
    try:
        transport = await open_redis(server.url)

        async def fill() -> None:
            for number in range(200):
                await transport.publish([task(f"n{number}", config="x" * 100_000)])

        with pytest.raises(TransportFull, match="out of memory: raise maxmemory"):
            await fill()
        await transport.close()
    finally:
        server.remove()
