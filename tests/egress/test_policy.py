"""Who may be called: the setting, and what each entry opens."""

from ipaddress import ip_address

import pytest

from perdure.egress.errors import EgressRefused
from perdure.egress.policy import Policy
from perdure.egress.urls import parse
from perdure.errors import SettingsInvalid


def allows(setting: str, url: str, address: str | None = None) -> bool:
    policy, target = Policy.parse(setting), parse(url)
    leads_to = ip_address(address) if address else target.address
    assert leads_to is not None
    try:
        policy.check_port(target)
        policy.check(target, leads_to)
    except EgressRefused:
        return False
    return True


@pytest.mark.parametrize(
    ("setting", "url", "address", "expected"),
    [
        # without an entry: public addresses on the usual ports
        ("", "http://a.test/", "8.8.8.8", True),
        ("", "https://a.test/", "2606:4700::1", True),
        ("", "http://a.test:8080/", "8.8.8.8", False),
        ("", "http://a.test/", "10.0.0.1", False),
        # a name
        ("a.test", "http://a.test/", "10.0.0.1", True),
        ("A.Test", "http://a.test/", "127.0.0.1", True),
        ("a.test", "http://a.test:8080/", "10.0.0.1", False),
        ("a.test:8080", "http://a.test:8080/", "10.0.0.1", True),
        ("a.test:8080", "http://a.test:8080/", "8.8.8.8", True),
        ("a.test:8080", "http://a.test/", "10.0.0.1", False),
        ("a.test:8080", "http://a.test/", "8.8.8.8", True),
        ("a.test:*", "http://a.test:1/", "10.0.0.1", True),
        ("a.test", "http://b.a.test/", "10.0.0.1", False),
        ("a.test", "http://xa.test/", "10.0.0.1", False),
        ("a.test:8080", "http://b.test:8080/", "8.8.8.8", False),
        # every name below one
        ("*.a.test", "http://b.a.test/", "10.0.0.1", True),
        (".a.test", "http://c.b.a.test/", "10.0.0.1", True),
        ("*.a.test", "http://a.test/", "10.0.0.1", False),
        ("*.a.test", "http://xa.test/", "10.0.0.1", False),
        # a name does not open where clouds keep credentials
        ("a.test:*", "http://a.test/", "169.254.169.254", False),
        ("a.test:*", "http://a.test/", "fe80::1", False),
        ("a.test:*", "http://a.test/", "224.0.0.1", False),
        ("a.test:* 169.254.169.254", "http://a.test/", "169.254.169.254", True),
        # addresses and networks
        ("10.0.0.0/8", "http://10.1.2.3/", None, True),
        ("10.0.0.0/8", "http://a.test/", "10.1.2.3", True),
        ("10.0.0.0/8", "http://11.1.2.3:81/", None, False),
        ("10.0.0.0/8", "http://10.1.2.3:8080/", None, False),
        ("10.0.0.0/8:8080", "http://10.1.2.3:8080/", None, True),
        ("10.0.0.0/8:*", "http://10.1.2.3:9/", None, True),
        ("127.0.0.1:8000", "http://127.0.0.1:8000/", None, True),
        ("127.0.0.1:8000", "http://127.0.0.2:8000/", None, False),
        ("127.0.0.1:8000", "http://[::ffff:127.0.0.1]:8000/", None, True),
        ("[::1]:8000", "http://[::1]:8000/", None, True),
        ("::1", "http://[::1]/", None, True),
        ("fd00::/8", "http://[fd12::1]/", None, True),
        ("[fd00::/8]:81", "http://[fd12::1]:81/", None, True),
        ("8.8.8.8:53", "http://8.8.8.8:53/", None, True),
        # several, with commas, spaces, or both
        ("x.test, 10.0.0.0/8:81 [::1]:82,y.test", "http://10.9.9.9:81/", None, True),
    ],
)
def test_an_entry_opens_what_it_names_and_nothing_else(setting, url, address, expected):
    assert allows(setting, url, address) is expected


@pytest.mark.parametrize(
    "entry",
    [
        "10.0.0.1/8",
        "a.test:0",
        "a.test:65536",
        "a.test:x",
        "0x7f.1",
        "127.1",
        "user@a.test",
        "http://a.test",
        "*",
        "a..b",
        "[::1",
        "fe80::1%eth0",
    ],
)
def test_an_entry_that_is_none_is_refused_with_the_others(entry):
    with pytest.raises(SettingsInvalid) as caught:
        Policy.parse(f"good.test, {entry}, also bad/")
    assert repr(entry) in caught.value.message
    assert "'bad/'" in caught.value.message
    assert "good.test" not in caught.value.message


def test_a_refusal_names_the_setting_and_not_the_address_a_name_leads_to():
    with pytest.raises(EgressRefused) as caught:
        Policy().check(parse("http://a.test/x?token=canary"), ip_address("10.11.12.13"))
    assert "PERDURE_EGRESS_ALLOW" in caught.value.message
    assert "private" not in caught.value.message  # which kind it is, only the log says (S30)
    assert "10.11.12.13" not in caught.value.message
    assert "canary" not in caught.value.message
