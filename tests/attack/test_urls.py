"""Data stays data in a URL, and a secret goes where the definition says (S17)."""

import pytest

from perdure.expressions.errors import TemplateError
from perdure.expressions.templates import has_literal_host, render
from perdure.model import compile_definition
from perdure.nodes import builtin
from perdure.nodes.config_checks import find_problems
from tests.attack.marks import attack
from tests.expressions.helpers import namespace

URL = (("url",),)


def made(url, **inputs):
    return render({"url": url, "json": {"url": "{{ inputs.x | default('a/b') }}"}}, namespace(inputs=inputs), URL)[
        "url"
    ]


@attack("S17", "data that changes the path, the query or the host of a call")
@pytest.mark.parametrize(
    ("url", "data", "wanted"),
    [
        ("http://api/public/{{ inputs.h }}", "../admin?x=1#f", "http://api/public/..%2Fadmin%3Fx%3D1%23f"),
        ("http://api/public/{{ inputs.h }}", "a/b", "http://api/public/a%2Fb"),
        ("http://api/public/{{ inputs.h | slashes }}", "a/b c", "http://api/public/a/b%20c"),
        ("http://api/public/{{ inputs.h }}/end", "%2e%2e%2f", "http://api/public/%252e%252e%252f/end"),
        ("http://api/?q={{ inputs.h }}&r=1", "a&r=2#x", "http://api/?q=a%26r%3D2%23x&r=1"),
        ("http://api?q={{ inputs.h }}", "/../x", "http://api?q=%2F..%2Fx"),
        ("http://api/{{ inputs.h }}", "é \r\nHost: evil", "http://api/%C3%A9%20%0D%0AHost%3A%20evil"),
        ("http://api/v{{ inputs.h }}", 2, "http://api/v2"),
        ("api.example.com/{{ inputs.h }}", "a?b", "api.example.com/a%3Fb"),
        ("http://{{ inputs.h }}/x", "example.com:8080", "http://example.com:8080/x"),
        ("{{ inputs.h }}", "http://example.com/a/b?c", "http://example.com/a/b?c"),
        ("http://api{{ inputs.h | slashes }}", "/a/b?c", "http://api/a/b%3Fc"),
        ("{{ inputs.h }}/city.json", "http://127.0.0.1:8000/base", "http://127.0.0.1:8000/base/city.json"),
    ],
)
def test_what_is_put_into_a_url_stays_in_its_part(url, data, wanted):
    assert made(url, h=data) == wanted


@attack("S17", "dot segments, and hosts that are more than a host")
@pytest.mark.parametrize(
    ("url", "data"),
    [
        ("http://api/public/{{ inputs.h }}", ".."),
        ("http://api/public/{{ inputs.h }}/x", "."),
        ("http://api/public/{{ inputs.h | slashes }}", "a/../../admin"),
        ("http://{{ inputs.h }}/x", "good.com@169.254.169.254"),
        ("http://{{ inputs.h }}/x", "good.com/evil"),
        ("http://{{ inputs.h }}/x", "good.com\\\\@evil"),
        ("https{{ inputs.h }}", "://evil/"),
        ("https:/{{ inputs.h | slashes }}", "/evil/x"),
        ("https:{{ inputs.h | slashes }}", "//evil/x"),
        ("HTTP:/{{ inputs.h | slashes }}/x", "/evil"),
        ("{{ inputs.h }}/city.json", "http://evil/x?"),
        ("{{ inputs.h }}/city.json", "http://good@evil"),
        ("{{ inputs.h }}/city.json", "http://good/.."),
    ],
)
def test_what_would_lead_elsewhere_is_refused(url, data):
    with pytest.raises(TemplateError):
        made(url, h=data)


@attack("S17", "a scheme without a host, taken for a host")
@pytest.mark.parametrize("url", ["https:/{{ inputs.h | slashes }}", "https:{{ inputs.h }}", "http:/{{ inputs.h }}/x"])
def test_a_scheme_is_no_host(url):
    assert not has_literal_host(url)
    node = {"id": "a", "type": "http", "config": {"url": url}}
    found = find_problems(compile_definition({"name": "w", "nodes": [node]}).get_ir(), builtin())
    assert ["begin with http:// or https://" in problem.message for problem in found] == [True]


def test_only_urls_are_encoded():
    config = {
        "url": "http://api/{{ inputs.h }}",
        "json": {"url": "{{ inputs.h }}/x"},
        "headers": {"x": "{{ inputs.h }}"},
    }
    rendered = render(config, namespace(inputs={"h": "a/b"}), URL)
    assert rendered == {"url": "http://api/a%2Fb", "json": {"url": "a/b/x"}, "headers": {"x": "a/b"}}


@attack("S17", "a secret beside a host that the data names")
@pytest.mark.parametrize(
    ("url", "fine"),
    [
        ("{{ inputs.h }}", False),
        ("http://{{ inputs.h }}/", False),
        ("https:/{{ inputs.h | slashes }}", False),
        ("https:/{{ inputs.h | slashes }}/", False),
        ("https://a\\@{{ inputs.h }}/", False),
        ("https://[::1]:8000/{{ inputs.h }}", True),
        ("https://api.example.com:8000/{{ inputs.h }}", True),
        ("https://api.example.com/{{ inputs.h }}", True),
        ("https://api.example.com?x={{ inputs.h }}", True),
        ("https://api.example.com", True),
    ],
)
@pytest.mark.parametrize(
    "more",
    [
        {"auth": {"type": "bearer", "token": "{{ secrets.X }}"}},
        {"headers": {"x": "k {{- secrets.X }}"}},
        {"json": [{"a": "{{ secrets.X }}"}]},
    ],
)
def test_a_secret_needs_a_host_that_is_written_out(url, fine, more):
    node = {"id": "a", "type": "http", "config": {"url": url, "method": "POST", **more}}
    found = find_problems(compile_definition({"name": "w", "nodes": [node]}).get_ir(), builtin())
    refused = [problem for problem in found if "written out" in problem.message]
    assert bool(refused) is not fine
