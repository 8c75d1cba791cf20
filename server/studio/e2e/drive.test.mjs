// Drives the studio in a browser, as people do. STUDIO_URL is the page,
// CHROMIUM the browser; pictures are left in SCREENSHOTS if that is set.
import test, { after, afterEach, before, beforeEach } from "node:test";
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const url = process.env.STUDIO_URL;
const api = new URL("/", url).origin;
const pictures = process.env.SCREENSHOTS;
const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const source = (await import("node:fs")).readFileSync(axe, "utf8");

let browser, context, page;
const mistakes = [];

before(async () => {
  if (pictures) mkdirSync(pictures, { recursive: true });
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
});
after(async () => { await browser?.close(); });

afterEach(async (t) => { await picture("last-" + t.name.slice(0, 20).replaceAll(/\W/g, "-")); });

beforeEach(async () => {
  await context?.close();
  context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: "light" });
  await open();
});

// open makes a page in the context on which mistakes of the page fail the test.
async function open(path = "") {
  page = await context.newPage();
  page.setDefaultTimeout(15_000);
  mistakes.length = 0;
  page.on("pageerror", (e) => mistakes.push(String(e)));
  page.on("console", (m) => { if (m.type() === "error" && !/status of 4\d\d/.test(m.text())) mistakes.push(m.text()); });
  await page.goto(url + path);
}

async function picture(name) {
  if (pictures) await page.screenshot({ path: join(pictures, name + ".png") });
}

// faultless fails for serious faults that axe finds, and for mistakes of the page.
async function faultless(where) {
  assert.deepEqual(mistakes, [], `${where}: mistakes of the page`);
  // By the debugger, which the page's policy doesn't bind.
  const found = await page.evaluate(`(() => { const module = undefined; const define = undefined; ${source}; return axe.run(document, { resultTypes: ["violations"] }); })()`);
  const serious = found.violations.filter((v) => v.impact === "serious" || v.impact === "critical");
  assert.deepEqual(serious.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(" ") + " " + (n.any[0]?.message ?? "")).slice(0, 4).join(" | ")}`), [], `${where}: faults that axe finds`);
}

const main = () => page.getByRole("main");
const tab = (name) => page.getByRole("tab", { name });
const assistant = (name) => page.getByRole("combobox", { name: "Assistant", exact: true }).selectOption({ label: name });
const node = (name, status) => page.locator(`[data-node="${name}"][data-status="${status}"]`);
const moments = () => page.locator(".moment:not(.is-live)");

test("a conversation streams, asks before it calls a tool, and goes on", async () => {
  await page.getByText("Superstep").first().waitFor();
  await assistant("chat");
  await picture("01-empty");
  await faultless("an empty chat");
  await page.getByRole("textbox", { name: "Say something" }).fill("Hello there");
  await page.keyboard.press("Enter");
  await page.locator(".from-human").getByText("Hello there").waitFor();
  await page.locator(".from-ai.is-streaming").waitFor(); // it is being said
  await node("agent", "running").waitFor();
  await picture("02-streaming");
  await main().getByText("What shall it be today?").waitFor();
  await page.getByRole("textbox", { name: "Say something" }).fill("Please send a mail to Kim");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByText("May send_mail be called?").waitFor();
  await node("tools", "interrupted").waitFor();
  await picture("03-approval");
  await faultless("a question");
  await page.getByRole("radio", { name: "Edit" }).click();
  await page.getByRole("textbox", { name: /^to/ }).fill("lee@example.com");
  await picture("04-approval-edit");
  await page.getByRole("button", { name: "Call it like this" }).click();
  await main().getByText("is on its way").waitFor();
  await page.locator(".call").getByText("done").first().waitFor();
  await page.locator(".call > summary").last().click();
  await page.getByText("sent to lee@example.com").waitFor();
  await picture("05-answered");
  await faultless("a conversation");
  await tab("Events").click();
  await page.locator(".events li").first().waitFor();
  await picture("06-events");
  await faultless("the events");
});

test("a message is said again in other words, which makes a branch", async () => {
  await assistant("chat");
  await page.getByRole("textbox", { name: "Say something" }).fill("Hello there");
  await page.keyboard.press("Enter");
  await main().getByText("What shall it be today?").waitFor();
  await page.getByRole("button", { name: "Edit and send again" }).click();
  await page.getByRole("textbox", { name: "Edit the message" }).fill("How is the weather?");
  await page.keyboard.press("Enter");
  await main().getByText("a fine day for a walk").waitFor();
  assert.equal(await page.getByText("Hello there").filter({ visible: true }).and(page.locator(".chat *")).count(), 0);
  await tab("Timeline").click();
  await page.getByText("other branch").first().waitFor();
  await picture("07-branches");
  await faultless("branches");
});

test("a question is answered, and the past is run again with another state", async () => {
  await assistant("booking");
  await page.getByRole("textbox", { name: "city" }).fill("Bonn");
  await page.getByRole("spinbutton", { name: "nights" }).fill("3");
  await picture("08-form");
  await faultless("a form");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("Book Bonn?").waitFor();
  await node("book", "interrupted").waitFor();
  await picture("09-question");
  await page.getByRole("button", { name: "Yes", exact: true }).click();
  await node("confirm", "done").waitFor();
  await tab("Timeline").click();
  await page.locator(".moment").nth(3).waitFor();
  assert.equal(await moments().count(), 4);
  const first = moments().nth(1);
  await first.getByRole("button", { name: /change/ }).click();
  await first.getByText("planned 3 nights in Bonn").waitFor();
  await picture("10-timeline");
  await faultless("the timeline");
  await first.locator(".moment-head").click();
  await node("book", "interrupted").waitFor(); // the graph shows that moment
  await first.getByRole("button", { name: "Edit and fork" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "city" }).fill("Rome");
  await dialog.getByRole("textbox", { name: "steps 1" }).fill("planned otherwise");
  await picture("11-edit");
  await faultless("the editor");
  await dialog.getByRole("button", { name: "Save and run" }).click();
  await page.getByText("Book Rome?").waitFor();
  await page.getByRole("button", { name: "No", exact: true }).click();
  await node("cancel", "done").waitFor();
  await tab("State").click();
  await main().getByText("did not book Rome").waitFor();
  await main().getByText("planned otherwise").waitFor();
  assert.equal(await main().getByText("planned 3 nights in Bonn").count(), 0, "the list was replaced");
  await picture("12-state");
  await tab("Timeline").click();
  await page.getByText("other branch").first().waitFor();
  await picture("13-fork");
  await faultless("a fork");
  // Run again from a node.
  await page.getByRole("button", { name: /^book,/ }).click();
  await page.getByRole("button", { name: "Run again from here" }).waitFor();
  await picture("14-node");
  await faultless("a node");
  await page.getByRole("button", { name: "Run again from here" }).click();
  await page.getByText("Book Rome?").waitFor();
});

test("a long run is watched, joined after a reload, and stopped", async () => {
  await assistant("count");
  await page.getByRole("spinbutton", { name: "todo" }).fill("200");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await node("tick", "running").waitFor();
  await page.getByText('{"tick":2}').waitFor();
  await picture("15-running");
  await faultless("a run");
  await page.reload();
  await node("tick", "running").waitFor();
  await page.getByText(/^\d\d custom events/).waitFor(); // those before the reload among them
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByRole("button", { name: "Run", exact: true }).waitFor();
});

test("subgraphs open and close, and show what runs in them", async () => {
  await assistant("report");
  await page.getByRole("button", { name: "Open subgraph research" }).click();
  await page.locator('[data-node="research|search"]').waitFor();
  await page.getByRole("textbox", { name: "topic" }).fill("tea");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await node("research|search", "running").waitFor();
  await node("research|ask", "running").waitFor();
  await picture("16-subgraph");
  await faultless("a subgraph");
  await node("publish", "done").waitFor();
  await page.getByRole("button", { name: /^Close research/ }).click();
  await page.locator('[data-node="research"]').waitFor();
  assert.equal(await page.locator('[data-node="research|search"]').count(), 0);
});

test("a breakpoint pauses, and a failure is told", async () => {
  await assistant("broken");
  await page.getByRole("button", { name: /^second/ }).click();
  await page.getByRole("button", { name: "Pause before" }).click();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("Paused before second").waitFor();
  await picture("17-paused");
  await page.getByRole("button", { name: "Don't pause before" }).click();
  await page.getByRole("button", { name: "Go on" }).click();
  await page.getByRole("alert").getByText("the kettle is empty").waitFor();
  await node("second", "failed").waitFor();
  await node("first", "done").waitFor();
  await picture("18-failed");
  await faultless("a failure");
});

test("threads are searched, opened by the keyboard and deleted", async () => {
  const made = await (await fetch(`${api}/threads`, { method: "POST", body: "{}" })).json();
  await fetch(`${api}/threads/${made.thread_id}/runs/wait`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ assistant_id: "booking", input: { city: "Ghent" } }) });
  await page.reload();
  await page.locator(".thread-list li").first().waitFor();
  await page.locator("#main").focus();
  await page.keyboard.press("/");
  await page.keyboard.type("city=Ghent");
  await page.waitForFunction(() => document.querySelectorAll(".thread-list li").length === 1);
  await picture("19-search");
  await page.getByRole("navigation").first().focus();
  await page.locator(".thread-list a").click();
  await page.getByText("Book Ghent?").waitFor();
  await page.getByRole("button", { name: /^Delete thread/ }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("Nothing found").waitFor();
  await page.keyboard.press("Escape");
});

test("the store is filled, searched and emptied", async () => {
  await page.getByRole("link", { name: "Store" }).click();
  await page.getByText("The store is empty").waitFor();
  await picture("20-store-empty");
  await page.getByRole("button", { name: "New item" }).click();
  await page.getByRole("textbox", { name: /^Namespace/ }).fill("users.kim");
  await page.getByRole("textbox", { name: "Key" }).fill("tea");
  await page.getByRole("textbox", { name: /^Value/ }).fill('{"likes": "green", "cups": [1, 2]}');
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await page.getByRole("region", { name: "Item", exact: true }).getByText("green").waitFor();
  await picture("21-store");
  await faultless("the store");
  await page.getByRole("button", { name: "Delete the item" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("The store is empty").waitFor();
});

test("an assistant is made, configured, taken back to an older version and deleted", async () => {
  await page.getByRole("link", { name: "Assistants" }).click();
  await page.getByRole("button", { name: "New assistant" }).click();
  await page.getByRole("combobox", { name: "Graph" }).selectOption("booking");
  await page.getByRole("textbox", { name: "Name" }).fill("Kim's bookings");
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  await page.getByRole("heading", { name: "Kim's bookings" }).waitFor();
  await page.getByRole("textbox", { name: /^Configuration/ }).fill('{"configurable": {"tone": "dry"}}');
  await page.getByRole("button", { name: "Save as a new version" }).click();
  await page.getByText(/^Version 2/).waitFor();
  await picture("22-assistant");
  await faultless("an assistant");
  await page.getByRole("button", { name: "Use it" }).click();
  await page.locator(".version", { hasText: "Version 1" }).getByText("in use").waitFor();
  await page.getByRole("button", { name: "Delete the assistant" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("Choose an assistant").waitFor();
});

test("it is dark when that is wanted, and stays so", async () => {
  await assistant("booking");
  await page.getByRole("button", { name: "Dark mode" }).click();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await page.reload();
  await page.getByRole("button", { name: "Light mode" }).waitFor();
  await page.getByRole("textbox", { name: "city" }).fill("Bonn");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("Book Bonn?").waitFor();
  await picture("23-dark");
  await faultless("dark mode");
  await tab("Timeline").click();
  await page.locator(".moment").first().waitFor();
  await page.getByRole("button", { name: /change/ }).first().click();
  await picture("24-dark-timeline");
  await faultless("the timeline in dark mode");
  await page.locator("#main").focus();
  await page.keyboard.press("?");
  await page.getByRole("dialog").waitFor();
  await picture("25-keys");
});

test("it works on a phone", async () => {
  await context.close();
  context = await browser.newContext({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 });
  await open();
  await page.getByRole("button", { name: "Graph" }).tap();
  await assistant("chat");
  await page.getByRole("button", { name: "agent" }).waitFor();
  await page.waitForFunction(() => { const r = document.querySelector('[data-node="agent"]')?.getBoundingClientRect(); return r && r.width > 60 && r.left > 0 && r.right < innerWidth; });
  await picture("26-phone-graph");
  await page.getByRole("button", { name: "Run", exact: true }).tap();
  await page.getByRole("textbox", { name: "Say something" }).fill("Please send a mail to Kim");
  await page.getByRole("button", { name: "Send", exact: true }).tap();
  await page.getByText("May send_mail be called?").waitFor();
  await picture("27-phone-question");
  await faultless("a phone");
  await page.getByRole("button", { name: "Approve", exact: true }).tap();
  await main().getByText("is on its way").waitFor();
  await picture("28-phone-chat");
  await page.getByRole("button", { name: "Threads" }).tap();
  await page.locator(".thread-list li").first().waitFor();
  await picture("29-phone-threads");
  await faultless("threads on a phone");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing is wider than the screen");
});

test("a server that is away is told, and asked again", async () => {
  await context.route("**/assistants/search", (r) => r.abort());
  await page.reload();
  await page.getByText("cannot be reached").waitFor();
  await picture("30-away");
  await context.unroute("**/assistants/search");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("button", { name: "New thread" }).waitFor();
  await page.goto(url + "#/t/01a20094-dde4-7548-b33f-a64c6d0bb2ff");
  await page.getByText(/not found/).waitFor();
});
