"""Text of others in every place where it is shown: it stays text. No dialog, no request elsewhere, no report of the policy (X25)."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.web import samples
from tests.web.payloads import HIDDEN, PAYLOADS, SEEN

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
        "/": "hostile",
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


def test_text_stays_text_on_paper_and_beside_another_run(site, context):
    run, other = hostile_run(site), site.start(samples.definition_named("plain", samples.value("shown", 1)), wait=60)
    context.add_init_script(REPORTS)
    page = context.new_page()
    for path in (f"/runs/{run}/print", f"/runs/{other}?compare={run}"):
        page.goto(site.url + path)
        expect(page.locator("main")).to_contain_text(MARKUP[1])
        assert page.evaluate("window.__faults") == [], path
        assert page.evaluate("({}).polluted") is None
        assert page.locator("main script, main iframe, main img:not(.picture), main object, main base").count() == 0


def test_no_payload_of_the_corpus_is_more_than_text(site, context):
    """More than 300 texts in a few page loads: as values, as the lines of a log, and as what an error says."""
    assert len(set(PAYLOADS) | set(MARKUP)) >= 300
    parts = [list(PAYLOADS[start : start + 50]) for start in range(0, len(PAYLOADS), 50)]
    nodes = [samples.value(f"part{number}", part) for number, part in enumerate(parts)]
    nodes.append(samples.task("logged", "says", args={"what": "{{ inputs.lines }}"}))
    lines = "\n".join(text for text in SEEN if "\t" not in text)
    run = site.start(samples.definition_named("corpus", *nodes), wait=60, inputs={"lines": lines})
    context.add_init_script(REPORTS)
    page = context.new_page()
    shown = ""
    for number in range(len(parts)):
        page.goto(f"{site.url}/runs/{run}?node=part{number}")
        expect(page.locator("aside.drawer")).to_contain_text(f"part{number}")
        expect(page.locator("aside.drawer [aria-busy=true]")).to_have_count(0)
        expect(page.locator("aside.drawer")).to_contain_text("Copy value")
        shown += page.locator("aside.drawer").inner_text()
        assert page.evaluate("window.__faults") == []
        assert (
            page.locator("main script, main iframe, main img, main object, main embed, main form[action]").count() == 0
        )
    page.goto(f"{site.url}/runs/{run}?tab=logs")
    expect(page.locator("main")).to_contain_text(SEEN[0])
    assert page.evaluate("window.__faults") == []
    assert [text for text in SEEN if "\t" not in text and text not in shown] == []
    assert [f"U+{ord(one):04X}" for one in HIDDEN if f"U+{ord(one):04X}" not in shown] == []


def test_text_of_a_trigger_stays_text(site, context):
    """In its description, its definition, the reason it was paused for, the error of a parked item and the id of an item."""
    seen = [text for text in (*MARKUP, *SEEN) if text.isprintable() and "{{" not in text]
    site.post("/workflows", {**samples.FULFIL, "name": "hostile-started"})
    trigger = {"name": "hostile", "workflow": "hostile-started", "schedule": {"cron": "0 0 1 1 *"}}
    made = {**trigger, "description": MARKUP[1], "inputs": {"city": "Oslo", "texts": seen}}
    site.post("/triggers", made)
    for text in seen[:60]:
        site.post("/triggers/hostile/fire", {"inputs": {"city": [text]}})
        site.post("/triggers/hostile/pause", {"reason": text})
        site.post("/triggers/hostile/resume")
    context.add_init_script(REPORTS)
    page = context.new_page()
    page.goto(f"{site.url}/triggers/hostile")
    expect(page.get_by_role("table", name="What happened")).to_contain_text(seen[0])
    expect(page.get_by_role("table", name="Items that it holds").locator("tbody tr")).to_have_count(50)
    page.locator("details.definition summary").click()
    closed = ".definition .fold[aria-expanded=false], .definition li > button.quiet"
    while page.locator(closed).count():
        page.evaluate("closed => document.querySelectorAll(closed).forEach(one => one.click())", closed)
    shown = page.locator("main").inner_text()
    assert [text for text in seen if text not in shown] == []
    page.get_by_role("button", name="Fire", exact=True).click()
    sheet = page.get_by_role("dialog")
    sheet.get_by_label("Inputs").fill(json.dumps({"city": MARKUP[1]}))
    sheet.get_by_text("Copy as command").click()
    expect(sheet.locator("pre").first).to_contain_text("onerror")
    page.keyboard.press("Escape")
    for path in ("/triggers", "/schedules", "/schedules?as=agenda&name=hostile"):
        page.goto(site.url + path)
        expect(page.locator("main")).to_contain_text("hostile")
    assert page.evaluate("window.__faults") == []
    assert page.locator("main script, main iframe, main img, main object, main embed, main base").count() == 0


@pytest.mark.parametrize("text", MARKUP[:14])
def test_an_address_that_holds_markup_shows_it_as_text(site, page, watch, text):
    watch.allowed += ["404", "400", "422"]
    page.add_init_script(REPORTS)
    for path in (
        f"/runs?workflow={quote(text)}&since={quote(text)}",
        f"/runs?workflow={quote(text)}&tag={quote(text)}%3D1&error={quote(text)}&by={quote(text)}&id={quote(text)}",
        f"/?span={quote(text)}&as={quote(text)}",
        f"/runs/{quote(text, safe='')}?node={quote(text)}&tab={quote(text)}",
        f"/triggers?kind={quote(text)}&state={quote(text)}",
        f"/triggers/{quote(text, safe='')}",
        f"/schedules?month={quote(text)}&name={quote(text)}&as={quote(text)}",
    ):
        if "/" in text and path.startswith(("/runs/", "/triggers/")):
            continue
        page.goto(site.url + path)
        expect(page.locator("#content")).to_be_visible()
        assert page.evaluate("window.__faults") == []
