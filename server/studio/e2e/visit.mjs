// A visit of the studio in a browser, and what people do there.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const pictures = process.env.SCREENSHOTS;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let browser;

export async function begin() {
  if (pictures) mkdirSync(pictures, { recursive: true });
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"] });
}

export async function end() {
  await browser?.close();
}

// visit opens the studio of a server in a browser of its own.
export async function visit({ server = process.env.STUDIO_URL, path = "", before, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: "light", reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000); // a machine that is short of time is no fault of the page
  const mistakes = [];
  page.on("pageerror", (e) => mistakes.push(String(e)));
  page.on("console", (m) => { if (m.type() === "error" && !/status of 4\d\d|Failed to load resource/.test(m.text())) mistakes.push(m.text()); });
  await before?.(context);
  await page.goto(server + "/studio/" + path);
  const v = {
    page, context, server,
    main: () => page.getByRole("main"),
    tab: (name) => page.getByRole("tab", { name }),
    dialog: () => page.getByRole("dialog"),
    button: (name, inside = page) => inside.getByRole("button", { name, exact: true }),
    box: (name, inside = page) => inside.getByRole("textbox", { name }),
    assistant: (name) => page.getByRole("combobox", { name: "Assistant", exact: true }).selectOption({ label: name }),
    node: (name, status) => page.locator(`[data-node="${name}"]${status ? `[data-status="${status}"]` : ""}`),
    moments: () => page.locator(".moment:not(.is-live)"),
    say: async (text) => {
      await v.box("Say something").fill(text);
      await v.button("Send").click(); // once the last run has ended
    },
    // hold keeps the next request to an address, once it has come, until it may go.
    hold: async (address) => {
      let go;
      const held = new Promise((r) => { go = r; }), came = page.waitForRequest(address);
      came.catch(() => {}); // whoever waits for it is told
      await page.route(address, async (r) => { await held; await r.continue(); }, { times: 1 });
      return { came, go };
    },
    picture: async (name) => { if (pictures) await page.screenshot({ path: join(pictures, name + ".png") }); },
    // faultless fails for serious faults that axe finds, and for mistakes of the page.
    faultless: async (where) => {
      assert.deepEqual(mistakes, [], `${where}: mistakes of the page`);
      // By the debugger, which the page's policy doesn't bind.
      if (!await page.evaluate("!!window.axe")) await page.evaluate(`(() => { const module = undefined, define = undefined; ${axe} })()`);
      const found = await page.evaluate(`axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations)`);
      const serious = found.filter((x) => x.impact === "serious" || x.impact === "critical");
      assert.deepEqual(serious.map((x) => `${x.id}: ${x.nodes.map((n) => n.target.join(" ") + " " + (n.any[0]?.message ?? "")).slice(0, 4).join(" | ")}`), [], `${where}: faults that axe finds`);
    },
    // narrow fails if the page is wider than the screen.
    narrow: async (where) => {
      const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth && [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 3).map((e) => e.className || e.tagName));
      assert.equal(wide, false, `${where} is wider than the screen: ${wide}`);
    },
    api: async (route, body, method = body ? "POST" : "GET") => {
      const response = await fetch(server + route, { method, headers: { "content-type": "application/json" }, body: body && JSON.stringify(body) });
      assert.ok(response.ok, `${route}: ${response.status}`);
      return response.status === 204 ? undefined : response.json();
    },
    close: () => context.close(),
  };
  return v;
}
