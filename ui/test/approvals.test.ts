import assert from "node:assert/strict";
import { test } from "node:test";
import { besideTitle, shownLine, titleIn } from "../src/screens/approvals/title.ts";

test("an approval is called by its title, if it is a text", () => {
  assert.equal(titleIn({ title: "Refund?" }), "Refund?");
  assert.equal(titleIn({ title: 7 }), undefined);
  assert.equal(titleIn(null), undefined);
});

test("what is shown is told in a line, what the node shows by itself before what led there", () => {
  const shown = { title: "Refund?", claim: { amount: 7 }, show: { amount: 120.5, items: ["lamp", "desk"], note: "" } };
  assert.equal(shownLine(shown), "amount: 120.5 · items: lamp · items: desk");
  assert.equal(shownLine({ offer: { total: "31.50", deep: { er: { est: 1 } } } }), "total: 31.50");
  assert.equal(shownLine("plain"), "plain");
  assert.equal(shownLine({}), "");
});

test("only a title that stands above is left out of what is shown", () => {
  assert.deepEqual(besideTitle({ title: "Refund?", claim: 1 }), { claim: 1 });
  assert.deepEqual(besideTitle({ title: 7, claim: 1 }), { title: 7, claim: 1 });
  assert.deepEqual(besideTitle([1]), [1]);
});
