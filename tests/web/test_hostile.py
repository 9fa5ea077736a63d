"""Text of others in every place where it is shown: it stays text. No dialog, no request elsewhere, no report of the policy (X25)."""

from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.web import samples

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hostile")]

MARKUP = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<svg><script>alert&#40;1)</script></svg>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<iframe src=javascript:alert(1)>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<a href='javascript:alert(1)'>x</a>",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "\"><img src='//evil.example/x'>",
    "' onmouseover='alert(1)",
    '" style="background:url(//evil.example/x)',
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "<!--<script>alert(1)//-->",
    "<base href='//evil.example/'>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<object data=//evil.example/x>",
    "<embed src=//evil.example/x>",
    "<form action=//evil.example><button>",
    "<details open ontoggle=alert(1)>",
    "<template><script>alert(1)</script></template>",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "<style>@import '//evil.example/x.css'</style>",
    "\u202egnp.exe",
    "\u2066\u2069\u200b\ufeffzero",
    "\x1b[31mred\x1b[0m",
    "a\u0000b".replace("\u0000", "\u0001"),
    "https://evil.example/<script>",
    "__proto__",
    "constructor",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "\uff1cscript\uff1ealert(1)\uff1c/script\uff1e",
    "<x" * 50,
    "ﷺ" * 20,
    "🙂" * 30,
)

REPORTS = """
window.__faults = [];
document.addEventListener('securitypolicyviolation', event => window.__faults.push(event.violatedDirective + ' ' + event.blockedURI));
"""


def hostile_run(site):
    """A run whose inputs, outputs, tags, error and log hold every text."""
    texts = {f"key {number} {text}": text for number, text in enumerate(MARKUP)}
    definition: dict[str, Any] = {
        "name": "hostile",
        "description": MARKUP[0],
        "nodes": [
            samples.value("shown", "{{ inputs }}"),
            samples.task("logged", "says", "shown", args={"what": "{{ inputs.lines }}"}),
            samples.task("broken", "fail", "logged"),
        ],
    }
    definition["nodes"][2]["retry"] = 1
    tags = {f"t{number}": text for number, text in enumerate(MARKUP[:12])}
    inputs = {"texts": list(MARKUP), "keys": texts, "lines": "\n".join(MARKUP), "__proto__": {"polluted": True}}
    return site.start(definition, wait=60, inputs=inputs, tags=tags)


def test_text_stays_text_wherever_it_is_shown(site, context):
    run = hostile_run(site)
    context.add_init_script(REPORTS)
    page = context.new_page()
    shown = {
        "/runs": "hostile",
        f"/runs/{run}": "logged",
        f"/runs/{run}?tab=values": MARKUP[1],
        f"/runs/{run}?tab=journal": "run.created",
        f"/runs/{run}?tab=logs": MARKUP[1],
        f"/runs/{run}?node=shown": MARKUP[1],
        f"/runs/{run}?node=logged": MARKUP[1],
    }
    for path, text in shown.items():
        page.goto(site.url + path)
        expect(page.locator("main")).to_contain_text(text)
        for toggle in page.locator(".event .seq").all()[:3]:
            toggle.click()
        assert page.evaluate("window.__faults") == [], path
        assert page.evaluate("({}).polluted") is None
        assert page.locator("main script, main iframe, main img, main object, main embed, main base").count() == 0
    page.goto(f"{site.url}/runs/{run}?tab=values")
    expect(page.locator("main")).to_contain_text("U+202E")
    found = page.locator(".values").inner_text()
    for text in MARKUP[:25]:
        assert text in found, text


@pytest.mark.parametrize("text", MARKUP[:14])
def test_an_address_that_holds_markup_shows_it_as_text(site, page, watch, text):
    watch.allowed += ["404", "400", "422"]
    page.add_init_script(REPORTS)
    for path in (
        f"/runs?workflow={quote(text)}&since={quote(text)}",
        f"/runs/{quote(text, safe='')}?node={quote(text)}&tab={quote(text)}",
    ):
        if "/" in text and path.startswith("/runs/"):
            continue
        page.goto(site.url + path)
        expect(page.locator("#content")).to_be_visible()
        assert page.evaluate("window.__faults") == []
