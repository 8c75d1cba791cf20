// People read the documentation in a browser: on a screen and a phone, light and dark.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { begin, end, visit } from "./visit.mjs";

before(begin);
after(end);

test("a page is searched for, without the mouse", async () => {
  const v = await visit();
  await v.page.getByRole("heading", { level: 1, name: "Superstep documentation" }).waitFor();
  await v.faultless("the index");
  await v.page.keyboard.press("/");
  await v.page.keyboard.type("fields that mergge"); // with a mistake
  await v.dialog().getByRole("link", { name: "Tutorial › Fields that merge" }).waitFor();
  await v.faultless("the search");
  await v.picture("docs-search");
  await v.page.keyboard.press("Enter");
  await v.page.waitForURL("**/tutorial.html#fields-that-merge");
  const heading = v.page.getByRole("heading", { name: "Fields that merge" });
  await heading.waitFor();
  await assert.doesNotReject(v.page.waitForFunction(() => {
    const top = document.getElementById("fields-that-merge").getBoundingClientRect().top;
    return top >= 0 && top < innerHeight / 2;
  }), "the heading is seen");
  assert.equal(await v.page.getByRole("navigation").locator("[aria-current]").textContent(), "Tutorial");
  await v.page.locator("pre .hljs-keyword").first().waitFor();
  await v.faultless("a page");
  await v.picture("docs-page");
  await v.close();
});

test("what was chosen stays dark", async () => {
  const v = await visit({ path: "client.html" });
  await v.button("Light or dark").click();
  await v.page.reload();
  assert.equal(await v.page.evaluate("document.documentElement.dataset.theme"), "dark");
  await v.page.locator("pre .hljs-keyword").first().waitFor();
  await v.faultless("a dark page");
  await v.picture("docs-dark");
  await v.close();
});

test("pages are read on a phone", async () => {
  const v = await visit({ path: "performance.html", viewport: { width: 390, height: 844 } });
  for (const name of ["performance", "errors", "studio", "dialogues-reference", "commands", "index"]) {
    await v.page.goto(`${v.server}/studio/${name}.html`);
    await v.narrow(name);
  }
  await v.button("Pages").click();
  await v.picture("docs-phone");
  await v.faultless("the menu of a phone");
  await v.page.getByRole("navigation").getByRole("link", { name: "Waiting" }).click();
  await v.page.getByRole("heading", { level: 1 }).waitFor();
  await v.close();
});

test("a page without scripts can be read", async () => {
  const v = await visit({ path: "interrupts.html", javaScriptEnabled: false });
  await v.page.getByRole("link", { name: "Waiting", exact: true }).first().click();
  await v.page.getByRole("heading", { level: 1 }).waitFor();
  await v.close();
});
