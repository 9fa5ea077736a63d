"""Deliveries of webhooks: the examples in the senders' own documentation, and everything that is nearly right."""

import base64
import hashlib
import hmac
import inspect
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.model.trigger_sources import SCHEMES, Verify
from perdure.secrets.signatures import WeakSecret
from perdure.triggers import deliveries
from perdure.triggers.deliveries import Genuine, Unproven, read_secrets, verify
from tests.attack.marks import attack

NOW = 1_790_000_000
SLACK_BODY = (
    "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar"
    "&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com"
    "%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    "&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
KEY = "a-secret-of-reasonable-length"


def mac(key, signed):
    return hmac.new(key.encode(), signed, "sha256")


def stripe_headers(body, stamp=NOW, key=KEY):
    return {"stripe-signature": f"t={stamp},v1={mac(key, f'{stamp}.'.encode() + body).hexdigest()},v0=abc"}


OWN = Verify("hmac", "S", "x-sig", "v1=", "base64", "x-time", "{id}:{timestamp}.{body}", "x-id")
PLAIN = Verify("hmac", "S", "x-sig")


def own_headers(body, stamp=NOW, key=KEY, id="m1"):
    signature = base64.b64encode(mac(key, f"{id}:{stamp}.".encode() + body).digest()).decode()
    return {"x-sig": f"v1={signature}", "x-time": str(stamp), "x-id": id}


STRIPE_BODY = b'{"id": "evt_1NG8Du2eZvKYlo2CUI79vXWy", "object": "event"}'
CASES = {
    # https://github.com/standard-webhooks/standard-webhooks: the example of its libraries
    "standard": (
        Verify("standard", "S"),
        {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        },
        b'{"test": 2432232314}',
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        1_614_265_330,
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
    ),
    # docs.github.com, "Validating webhook deliveries", "Testing the webhook payload validation"
    "github": (
        Verify("github", "S"),
        {
            "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
            "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        },
        b"Hello, World!",
        "It's a Secret to Everybody",
        NOW,
        "72d3162e-cc78-11e3-81ab-4c9367dc0958",
    ),
    # docs.slack.dev, "Verifying requests from Slack"
    "slack": (
        Verify("slack", "S"),
        {
            "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
            "x-slack-request-timestamp": "1531420618",
        },
        SLACK_BODY.encode(),
        "8f742231b10e8888abcd99yyyzzz85a5",
        1_531_420_618,
        hashlib.sha256(f"v0:1531420618:{SLACK_BODY}".encode()).hexdigest(),
    ),
    "stripe": (
        Verify("stripe", "S"),
        stripe_headers(STRIPE_BODY),
        STRIPE_BODY,
        KEY,
        NOW,
        "evt_1NG8Du2eZvKYlo2CUI79vXWy",
    ),
    "own": (OWN, own_headers(b"body"), b"body", KEY, NOW, "m1"),
    "plain": (PLAIN, {"x-sig": mac(KEY, b"body").hexdigest()}, b"body", KEY, NOW, ""),
    "bearer": (Verify("bearer", "S"), {"authorization": f"Bearer {KEY}"}, b"body", KEY, NOW, ""),
}
SIGNED = [name for name in CASES if name != "bearer"]
TIMED = ["standard", "slack", "stripe", "own"]


@pytest.mark.parametrize("name", CASES)
def test_a_genuine_delivery_passes_with_its_id(name):
    how, headers, body, secret, now, id = CASES[name]
    assert verify(how, headers, body, read_secrets(how.scheme, secret), now) == Genuine(id)


def test_every_scheme_has_a_case():
    assert {case[0].scheme for case in CASES.values()} | {"none"} == set(SCHEMES) == set(deliveries._SCHEMES)


@pytest.mark.parametrize("name", SIGNED)
def test_a_bit_that_differs_in_the_body_is_refused(name):
    how, headers, body, secret, now, _ = CASES[name]
    for place in range(0, len(body) * 8, max(1, len(body) // 4)):
        other = bytearray(body)
        other[place // 8] ^= 1 << place % 8
        assert verify(how, headers, bytes(other), read_secrets(how.scheme, secret), now) == Unproven("signature")
    assert verify(how, headers, body + b"\n", read_secrets(how.scheme, secret), now) == Unproven("signature")


@pytest.mark.parametrize("name", CASES)
def test_a_character_that_differs_in_any_header_that_counts_is_refused(name):
    how, headers, body, secret, now, _ = CASES[name]
    for header, value in headers.items():
        if header == "x-github-delivery":  # GitHub does not sign the id
            continue
        signature = value.index("v0=abc") if header == "stripe-signature" else len(value)
        for place in range(0, signature, 3):
            if value[place] in " ,;" or (value[place] == "=" and place == len(value) - 1):
                continue
            other = value[:place] + ("0" if value[place] != "0" else "1") + value[place + 1 :]
            found = verify(how, {**headers, header: other}, body, read_secrets(how.scheme, secret), now)
            assert isinstance(found, Unproven), (header, other)


@pytest.mark.parametrize("name", CASES)
def test_without_its_headers_or_with_another_secret_it_is_refused(name):
    how, headers, body, secret, now, _ = CASES[name]
    secrets = read_secrets(how.scheme, secret)
    assert verify(how, {}, body, secrets, now) == Unproven("missing")
    assert isinstance(verify(how, headers, body, ("another-secret-long-enough-to-be-one",), now), Unproven)
    for header in headers:
        if header != "x-github-delivery":
            rest = {key: value for key, value in headers.items() if key != header}
            assert isinstance(verify(how, rest, body, secrets, now), Unproven)


@pytest.mark.parametrize("name", CASES)
def test_without_a_secret_nothing_passes(name):
    """An empty secret would sign everything: HMAC takes one."""
    how, headers, body, _, now, _ = CASES[name]
    assert isinstance(verify(how, headers, body, (), now), Unproven)
    for secret in ("", " ", "\n\n", "short", f"{KEY}\nshort"):
        with pytest.raises(WeakSecret) as caught:
            read_secrets(how.scheme, secret)
        assert "short" not in str(caught.value)


@pytest.mark.parametrize("name", CASES)
def test_while_a_secret_is_replaced_both_are_good(name):
    how, headers, body, secret, now, id = CASES[name]
    other = "whsec_" + base64.b64encode(b"x" * 32).decode() if name == "standard" else "the new one, long enough"
    for both in (f"{other}\n{secret}", f"{secret}\n{other}"):
        assert verify(how, headers, body, read_secrets(how.scheme, both), now) == Genuine(id)


@pytest.mark.parametrize("name", TIMED)
def test_a_delivery_is_good_for_five_minutes_in_both_directions(name):
    how, headers, body, secret, now, id = CASES[name]
    secrets = read_secrets(how.scheme, secret)
    for skew in (-300, -299, 0, 300):
        assert verify(how, headers, body, secrets, now + skew) == Genuine(id)
    for skew in (-301, 301, 86_400, -(10**9)):
        assert verify(how, headers, body, secrets, now + skew) == Unproven("old")
        bad = {key: f"{value[:-2]}xx" if "sig" in key else value for key, value in headers.items()}
        bad = {
            **bad,
            **({"stripe-signature": headers["stripe-signature"].replace("v1=", "v1=0")} if name == "stripe" else {}),
        }
        assert verify(how, bad, body, secrets, now + skew) == Unproven("signature")


@pytest.mark.parametrize("stamp", ["", "-5", "1e9", "٣", "9" * 20, "1790000000 ", "0x10"])
def test_an_odd_time_is_refused_even_when_it_is_signed(stamp):
    headers = own_headers(b"body", stamp)
    if not stamp.isascii():
        headers["x-sig"] = "v1=" + base64.b64encode(mac(KEY, b"m1:?.body").digest()).decode()
    assert isinstance(verify(OWN, headers, b"body", (KEY,), NOW), Unproven)
    signed = stripe_headers(b"{}", stamp)
    assert isinstance(verify(Verify("stripe", "S"), signed, b"{}", (KEY,), NOW), Unproven)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"id": 5}', b'{"id": ""}', b"\xff", b'{"id": "a b"}', b"[" * 100_000])
def test_a_genuine_body_without_an_id_is_a_delivery_without_one(body):
    assert verify(Verify("stripe", "S"), stripe_headers(body), body, (KEY,), NOW) == Genuine("")


def test_slack_names_its_events():
    body = json.dumps({"type": "event_callback", "event_id": "Ev123"}).encode()
    signature = mac(KEY, f"v0:{NOW}:".encode() + body).hexdigest()
    headers = {"x-slack-signature": f"v0={signature}", "x-slack-request-timestamp": str(NOW)}
    assert verify(Verify("slack", "S"), headers, body, (KEY,), NOW) == Genuine("Ev123")


@attack("X30", "a command of Slack that was seen on its way is sent again within five minutes")
def test_what_slack_signed_without_an_id_is_one_delivery_however_often_it_is_sent():
    def send(text, stamp):
        body = f"command=%2Fdeploy&text={text}&trigger_id=13345224609.738474920".encode()
        headers = {"x-slack-signature": "v0=" + mac(KEY, f"v0:{stamp}:".encode() + body).hexdigest()}
        return verify(Verify("slack", "S"), {**headers, "x-slack-request-timestamp": str(stamp)}, body, (KEY,), NOW)

    first = send("now", NOW)
    assert isinstance(first, Genuine)
    assert first.id
    assert send("now", NOW) == first
    assert send("now", NOW + 1) != first
    assert send("later", NOW) != first


def test_stripe_is_good_by_any_of_its_signatures_and_not_by_old_ones():
    good = mac(KEY, f"{NOW}.{{}}".encode()).hexdigest()
    how = Verify("stripe", "S")
    assert verify(how, {"stripe-signature": f"t={NOW}, v1={'0' * 64}, v1={good}"}, b"{}", (KEY,), NOW) == Genuine("")
    assert verify(how, {"stripe-signature": f"t={NOW},v0={good}"}, b"{}", (KEY,), NOW) == Unproven("missing")
    other = {"stripe-signature": f"t={NOW + 1},t={NOW},v1={good}"}
    assert verify(how, other, b"{}", (KEY,), NOW) == Unproven("signature")


def test_what_is_put_between_signed_parts_cannot_be_moved():
    """`{id}:{timestamp}.{body}`: a sender's id that holds the separators gives another signature, not the same."""
    how = Verify("hmac", "S", "x-sig", signed="{id}.{body}", id_header="x-id")
    headers = {"x-id": "a", "x-sig": mac(KEY, b"a.b.c").hexdigest()}
    assert verify(how, headers, b"b.c", (KEY,), NOW) == Genuine("a")
    odd = {**headers, "x-id": "a b"}
    odd["x-sig"] = mac(KEY, b"a b.c").hexdigest()
    assert isinstance(verify(how, odd, b"c", (KEY,), NOW), Unproven)


@pytest.mark.parametrize("prefix", ["{0}{{x}}=", "}", "{", "}{", "{}", "%s"])
def test_a_prefix_is_text_and_no_format(prefix):
    how = Verify("hmac", "S", "x-sig", prefix=prefix)
    assert verify(how, {"x-sig": prefix + mac(KEY, b"b").hexdigest()}, b"b", (KEY,), NOW) == Genuine("")


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.sampled_from(sorted(CASES)),
    st.dictionaries(st.sampled_from(sorted({h for case in CASES.values() for h in case[1]})), st.text(max_size=30)),
    st.binary(max_size=30),
)
def test_whatever_is_sent_is_refused_and_raises_nothing(name, headers, body):
    how, _, _, secret, now, _ = CASES[name]
    assert isinstance(verify(how, headers, body, read_secrets(how.scheme, secret), now), Unproven)


def test_secrets_are_compared_in_constant_time_only():
    source = inspect.getsource(deliveries)
    assert "good |= hmac.compare_digest" in source
    assert not [line for line in source.splitlines() if "secret" in line and "==" in line and "scheme" not in line]


def test_unsigned_deliveries_pass_where_a_trigger_says_so():
    assert verify(Verify("none"), {}, b"", (), NOW) == Genuine("")
    assert read_secrets("none", "") == ()


@pytest.mark.parametrize("scheme", ["standard", "hmac"])
def test_what_is_signed_is_cut_in_one_way_only(scheme):
    """A captured delivery, an hour old, with a time of today in its body: cut there, it was another delivery of today."""
    body = f'{{"note":"x.{NOW}.&type=refund"}}'.encode()
    head, _, rest = body.partition(f".{NOW}.".encode())
    old = NOW - 3600
    if scheme == "standard":
        how, key = Verify("standard", "S"), "whsec_" + base64.b64encode(KEY.encode()).decode()
        signature = base64.b64encode(mac(KEY, f"m1.{old}.".encode() + body).digest()).decode()
        headers = {"webhook-signature": f"v1,{signature}"}
        names, id = ("webhook-id", "webhook-timestamp"), f"m1.{old}.{head.decode()}"
    else:
        how, key = Verify("hmac", "S", "x-sig", "", "hex", "x-time", "{id}.{timestamp}.{body}", "x-id"), KEY
        headers = {"x-sig": mac(KEY, f"m1.{old}.".encode() + body).hexdigest()}
        names, id = ("x-id", "x-time"), f"m1.{old}.{head.decode()}"
    captured = {**headers, names[0]: "m1", names[1]: str(old)}
    secrets = read_secrets(how.scheme, key)
    assert verify(how, captured, body, secrets, old) == Genuine("m1")
    assert isinstance(verify(how, captured, body, secrets, NOW), Unproven)
    forged = {**headers, names[0]: id, names[1]: str(NOW)}
    assert isinstance(verify(how, forged, rest, secrets, NOW), Unproven)
