// Drives the studio in a browser, as people do: several at once. STUDIO_URL is
// the server, CHROMIUM the browser; pictures are left in SCREENSHOTS if that is set.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, describe, test } from "node:test";
import { begin, end, visit } from "./visit.mjs";

const { STUDIO_LARGE, STUDIO_RUNS, STUDIO_TESTS, STUDIO_BANK, STUDIO_KEYED, STUDIO_GATED, STUDIO_GATE } = process.env;

before(begin);
after(end);

// scenario is what one visitor does.
function scenario(name, options, act) {
  test(name, async () => {
    const v = await visit(options);
    try {
      await act(v);
    } catch (e) {
      await v.picture("failed-" + name.slice(0, 30).replaceAll(/\W/g, "-")).catch(() => {});
      throw e;
    } finally {
      await v.close();
    }
  });
}

describe("the studio", { concurrency: 4 }, () => {

scenario("many threads stay usable, and a search among them misses none", { server: STUDIO_LARGE }, async (v) => {
  const { page, api } = v;
  await Promise.all(Array.from({ length: 20 }, async (_, i) => { for (let j = 0; j < 50; j++) await api("/threads", { metadata: { graph_id: "archive", title: `Box ${i * 50 + j}` } }); }));
  const found = (text) => page.getByText(text, { exact: true }).and(page.locator(".thread-count"));
  // Another search may find as many: what is found next is of this one.
  const search = async (text) => {
    const box = page.getByRole("searchbox", { name: "Search threads" });
    await box.fill("no such box");
    await page.getByText("Nothing found").waitFor();
    await box.fill(text);
  };
  const offset = (request) => JSON.parse(request.postData()).offset;
  await page.reload();
  await page.getByText(/^1,00\d threads$/).waitFor(); // those of who looks at a large state may be among them
  // The list holds few of them at a time, and loads more where somebody looks.
  assert.ok(await page.locator(".thread-list li").count() < 60);
  const list = page.locator(".thread-box");
  const scroll = (to) => page.waitForFunction((to) => {
    const b = document.querySelector(".thread-box");
    b.scrollTop = b.scrollHeight;
    return document.querySelectorAll(".thread-list li").length > 0 && Number(document.querySelector(".thread-list li:last-child").getAttribute("aria-posinset")) > to;
  }, to);
  await scroll(200);
  assert.ok(await list.locator("li").count() < 60);
  await search("7 BOX");
  await found("271 found").waitFor(); // words are looked for in all of them
  await v.picture("large-threads");
  // A page that cannot be had is asked for again when somebody says so.
  await page.route("**/threads/search", (r) => (offset(r.request()) === 40 ? r.fulfill({ status: 500, body: "no page" }) : r.continue()));
  await search("box 8");
  await found("271 found").waitFor();
  await scroll(20);
  await page.getByRole("alert").getByText("no page").waitFor();
  await page.unroute("**/threads/search");
  await v.button("Try again").click();
  await scroll(60);
  assert.equal(await page.getByRole("alert").count(), 0);
  // A page that a search asked for before somebody looked elsewhere is no part of it later.
  let go, begin;
  const late = new Promise((r) => { go = r; }), left = new Promise((r) => { begin = r; });
  await page.route("**/threads/search", async (r) => {
    if (offset(r.request()) !== 40) return r.continue();
    begin();
    await late;
    await r.continue().catch(() => {}); // nobody waits for it any more
  });
  await search("box 9");
  await found("271 found").waitFor();
  await scroll(20);
  await left;
  const status = page.getByRole("combobox", { name: "Status" });
  await status.selectOption("error");
  await page.getByText("Nothing found").waitFor();
  await status.selectOption("Any status");
  await page.locator(".thread-list li").first().waitFor();
  go();
  await found("271 found").waitFor();
  const asked = [];
  page.on("request", (r) => { if (r.url().endsWith("/threads/search") && offset(r) > 0) asked.push(offset(r)); });
  await search("box");
  await found("1,000 found").waitFor();
  await list.locator('li[aria-posinset="1"]').waitFor();
  assert.equal(await list.evaluate((b) => b.scrollTop), 0, "a search is shown from its beginning, wherever the last one was scrolled to");
  await scroll(200);
  assert.ok(asked.length >= 4, `pages ${asked} were asked for`);
  assert.deepEqual(asked, [...new Set(asked)], "no page is asked for twice");
});

scenario("a large state and a long history stay usable", { server: STUDIO_LARGE }, async (v) => {
  const { page, main, tab, box, api } = v;
  const one = (await api("/threads", {})).thread_id;
  await api(`/threads/${one}/runs/wait`, { assistant_id: "archive", input: { steps: 500 }, config: { recursion_limit: 1000 } });
  await page.goto(`${v.server}/studio/#/t/${one}`);
  await tab("Timeline").click();
  await page.locator('[data-step="500"]').waitFor();
  assert.ok(await v.moments().count() < 60);
  await page.waitForFunction(() => {
    const b = document.querySelector(".tab-body");
    b.scrollTop = b.scrollHeight;
    return document.querySelector('[data-step="0"]') !== null;
  });
  await page.getByText("501 checkpoints").waitFor();
  assert.ok(await v.moments().count() < 60);
  await v.picture("large-history");
  await v.faultless("a long history");
  // A state of a megabyte.
  const two = (await api("/threads", {})).thread_id;
  await api(`/threads/${two}/runs/wait`, { assistant_id: "archive", input: { steps: 12, kilobytes: 1000 } });
  await page.goto(`${v.server}/studio/#/t/${two}`);
  await tab("State").click();
  await main().getByText("page 1 lorem").waitFor();
  await page.getByRole("button", { name: "900 more" }).waitFor();
  await v.picture("large-state");
  await tab("Timeline").click();
  await page.locator('[data-step="12"]').waitFor();
  await page.locator('[data-step="12"]').getByRole("button", { name: "1 change" }).click();
  await page.locator('[data-step="12"] .plus').getByText("12").waitFor();
  await page.locator('[data-step="12"] .moment-head').click();
  await page.getByRole("button", { name: "Edit and fork" }).click();
  await box("State as JSON").waitFor(); // faster than a form of 1000 fields
  await page.keyboard.press("Escape");
});

scenario("a conversation streams, asks before it calls a tool, and goes on", {}, async (v) => {
  const { page, main, tab, node } = v;
  await v.assistant("chat");
  await v.box("Say something").waitFor();
  await v.picture("chat-empty");
  const spoken = Promise.all([page.locator(".from-human").getByText("Hello there").waitFor(), page.locator(".from-ai.is-streaming").waitFor(), node("agent", "running").waitFor()]);
  await v.say("Hello there");
  await spoken; // it is being said
  await v.picture("chat-streaming");
  await main().getByText("What shall it be today?").waitFor();
  await page.locator(".from-ai strong").getByText("send mails", { exact: true }).waitFor(); // as it is marked
  await v.say("Please send a mail to Kim");
  await page.getByText("May send_mail be called?").waitFor();
  await node("tools", "interrupted").waitFor();
  await v.picture("approval");
  await page.getByRole("radio", { name: "Edit" }).click();
  await v.box(/^to/).fill("lee@example.com");
  await v.picture("approval-edit");
  await v.button("Call it like this").click();
  await main().getByText("is on its way").waitFor();
  await page.locator(".call").getByText("done").first().waitFor();
  await page.locator(".call > summary").last().click();
  await page.getByText("sent to lee@example.com").waitFor();
  await page.locator(".message").getByText("412 → 23 tokens").first().waitFor();
  await v.picture("chat-answered");
  await v.faultless("a conversation");
  await v.say("How is the weather?");
  await main().getByText("a fine day for a walk").waitFor();
  await page.getByText('{"looked_up":"Bonn"}').waitFor(); // what the tool sent
  await tab("Events").click();
  await page.getByLabel("Show").selectOption("tools");
  await page.locator('.event-kind[data-kind="tools"]').nth(1).waitFor();
  await page.getByLabel("Show").selectOption("custom");
  await page.locator('.event-kind[data-kind="custom"]').waitFor();
  await v.picture("events");
  await v.faultless("the events");
  await tab("Timeline").click();
  await page.locator(".timeline-bar").getByText(/2060 → 115 tokens/).waitFor(); // of five answers
  await page.locator(".moment", { hasText: "agent" }).first().getByText("412 → 23 tokens").waitFor();
  await page.locator(".moment", { hasText: "agent" }).first().getByText(/\d m?s/).waitFor();
  await v.picture("timeline-tokens");
  const [exported] = await Promise.all([page.waitForEvent("download"), v.button("Export").click()]);
  assert.match(exported.suggestedFilename(), /^[0-9a-f-]+\.jsonl$/);
  assert.match(await readFile(await exported.path(), "utf8"), /"superstep":"recording".*\n(.*\n)+\{"end":true/);
  await page.getByLabel("Waterfall").check();
  await page.locator(".waterfall li", { hasText: "tools" }).getByText(/\d (µs|ms|s)$/).first().waitFor();
  await page.getByText(/^\d+ tasks, \d+ calls? of models, \d+ calls? of tools in /).waitFor();
  await page.locator(".waterfall .is-tool").first().waitFor();
  await page.locator(".waterfall .is-call").first().waitFor();
  await v.picture("waterfall");
  await v.faultless("the waterfall");
  await page.getByLabel("Waterfall").uncheck();
  await page.locator(".moment", { hasText: "agent" }).first().waitFor();
  await tab("Calls").click();
  await page.getByText(/^5 calls · .*2060 → 115 tokens/).waitFor();
  await v.picture("calls");
  await page.locator(".call-head").first().click(); // the newest: what came back from the tool was sent
  await page.getByRole("region", { name: "Sent" }).getByText("How is the weather?").waitFor();
  await page.getByRole("region", { name: "Answered" }).getByText("a fine day for a walk").waitFor();
  await page.getByText(/^\d+ tools?: .*send_mail/).click();
  await v.picture("call");
  await v.faultless("a call of a model");
  await v.button("Edit and ask again").click();
  await page.getByLabel("What to ask").fill('{"messages": [');
  await page.getByRole("region", { name: "Ask again" }).getByRole("alert").waitFor();
  await page.getByLabel("What to ask").fill(JSON.stringify({ messages: [{ role: "user", content: "Shall I take an umbrella?" }] }));
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  await page.getByRole("region", { name: "Ask again" }).locator(".call-text").getByText("You sent 1 messages.").waitFor();
  await v.picture("call-again");
  await v.faultless("a call that is made again");
  await page.getByLabel("Compare with").selectOption({ index: 1 });
  await page.getByRole("region", { name: "Differences" }).getByText("messages", { exact: false }).first().waitFor();
  await v.picture("calls-compared");
  await v.faultless("two calls compared");
  await page.getByLabel("Compare with").selectOption("no other");
  await page.setViewportSize({ width: 360, height: 740 });
  await page.getByRole("region", { name: "Sent" }).waitFor();
  await v.narrow("the calls on a phone");
  await v.picture("calls-phone");
  await v.faultless("the calls on a phone");
});

scenario("notes and scores are left on a thread, for others to see, and removed", {}, async (v) => {
  const { page, api, tab, button } = v;
  const { thread_id: id } = await api("/threads", {});
  await api(`/threads/${id}/runs/wait`, { assistant_id: "booking", input: { city: "Bonn" } });
  await page.goto(`${v.server}/studio/#/t/${id}`);
  await tab("Notes").click();
  await page.getByText("No notes yet").waitFor();
  await page.getByLabel("What do you think?").fill("Ask Kim before it is booked.");
  await button("Add").click();
  const list = page.getByRole("list", { name: "Notes, the newest first" });
  await list.getByText("Ask Kim before it is booked.").waitFor();
  await page.getByLabel("Score", { exact: true }).fill("0.5");
  await button("Add").click();
  await page.getByRole("alert").getByText("a score needs a key").waitFor();
  await page.getByLabel("Score of").fill("correctness");
  await page.getByLabel("of the last run alone").check();
  await button("Add").click();
  await list.getByText("correctness: 0.5").waitFor();
  assert.deepEqual((await api(`/threads/${id}/feedback`)).map((f) => [f.key, f.score, f.run_id === null]), [["correctness", 0.5, false], ["", null, true]]);
  await v.picture("notes");
  await v.faultless("the notes");
  await button("Remove the note Ask Kim before it is booked.").click();
  await list.getByText("Ask Kim").waitFor({ state: "detached" });
  await page.setViewportSize({ width: 360, height: 740 });
  await v.narrow("the notes on a phone");
});

scenario("a thread is exported, imported and replayed, and a difference leads to its checkpoint", {}, async (v) => {
  const { page, api, tab, button, dialog } = v;
  const run = async (assistant_id, input) => {
    const { thread_id } = await api("/threads", {});
    await api(`/threads/${thread_id}/runs/wait`, { assistant_id, input });
    return thread_id;
  };
  const id = await run("booking", { city: "Bonn" });
  await page.goto(`${v.server}/studio/#/t/${id}`);
  await tab("Timeline").click();
  const [exported] = await Promise.all([page.waitForEvent("download"), button("Export").click()]);
  const recording = { name: exported.suggestedFilename(), mimeType: "application/x-ndjson", buffer: await readFile(await exported.path()) };
  const file = page.getByLabel("Recording to import");
  const [chooser] = await Promise.all([page.waitForEvent("filechooser"), button("Import").press("Enter")]);
  await chooser.setFiles(recording);
  await page.waitForURL((url) => url.hash.includes("/t/") && !url.hash.includes(id));
  const other = /\/t\/([^/]+)/.exec(page.url())[1];
  const steps = async (id) => (await api(`/threads/${id}/history`)).map((s) => s.checkpoint.checkpoint_id);
  assert.deepEqual(await steps(other), await steps(id));
  await v.moments().nth(1).waitFor();
  await v.picture("imported");
  // It goes on by itself.
  await tab("Run").click();
  await page.getByText("Book Bonn?").first().waitFor();
  await api(`/threads/${other}/runs/wait`, { assistant_id: "booking", command: { resume: true } });
  assert.equal((await api(`/threads/${other}`)).values.booked, true);
  assert.equal((await api(`/threads/${id}`)).values.booked, false);
  await file.setInputFiles({ ...recording, buffer: recording.buffer.subarray(0, 1000) });
  await page.getByRole("alert").getByText("the recording is cut off").waitFor();
  await button("Dismiss").click();
  // The program is as it was.
  await page.goto(`${v.server}/studio/#/t/${id}`);
  await tab("Timeline").click();
  await button("Replay").press("Enter");
  await button("Replay", dialog()).press("Enter");
  await dialog().getByText("No difference in 1 superstep.").waitFor();
  await v.faultless("a replay without a difference");
  await dialog().getByLabel("Don't compare fields").fill("town");
  await button("Replay again", dialog()).click();
  await dialog().getByRole("alert").getByText('no field "town"').waitFor();
  await page.keyboard.press("Escape");
  await dialog().waitFor({ state: "detached" });
  // A model is not asked what it wasn't asked then.
  const chat = await run("chat", { messages: [{ type: "human", content: "How is the weather?" }] });
  await page.goto(`${v.server}/studio/#/t/${chat}`);
  await v.moments().nth(1).waitFor();
  await button("Replay").click();
  await button("Replay", dialog()).click();
  const differences = dialog().getByRole("list", { name: "Differences" });
  await differences.getByRole("listitem").first().getByText(/^step \d/).waitFor();
  await v.picture("replay");
  await v.faultless("a replay with differences");
  await page.setViewportSize({ width: 360, height: 740 });
  await v.narrow("a replay on a phone");
  await page.setViewportSize({ width: 1440, height: 900 });
  await differences.getByRole("button", { name: "Show in the timeline" }).first().press("Enter");
  await dialog().waitFor({ state: "detached" });
  await page.locator(".moment.is-selected").waitFor();
});

scenario("a double click on Send is one click, and a click on Stop stops", {}, async (v) => {
  const { page, main, box, button } = v;
  await v.assistant("chat");
  await box("Say something").fill("Hello there");
  const send = await button("Send").boundingBox();
  await page.mouse.move(send.x + send.width / 2, send.y + send.height / 2);
  const click = async (clickCount) => { await page.mouse.down({ clickCount }); await page.mouse.up({ clickCount }); };
  await click(1);
  await page.locator(".from-ai.is-streaming").waitFor();
  await click(2);
  await main().getByText("What shall it be today?").waitFor();
  await button("Send").waitFor();
  await box("Say something").fill("Tell me a story"); // it lasts until it is stopped
  await page.keyboard.press("Enter");
  await page.locator(".from-ai.is-streaming").waitFor();
  await box("Say something").fill("Please tidy up");
  await click(1);
  await button("Send").waitFor();
  await click(2);
  assert.equal(await box("Say something").inputValue(), "Please tidy up");
  assert.equal(await page.locator(".from-human").count(), 2);
  assert.equal(await main().getByText("What shall it be today?").count(), 1);
});

scenario("a held Enter counts once on Send and on Stop", {}, async (v) => {
  const { page, main, box, button } = v, { keyboard } = page;
  const hold = async () => { for (let i = 0; i < 5; i++) await keyboard.down("Enter"); };
  await v.assistant("chat");
  await box("Say something").fill("Hello there");
  await button("Send").focus();
  const first = await v.hold("**/runs/stream");
  await keyboard.down("Enter");
  await first.came;
  await button("Stop the run").and(page.locator(":focus")).waitFor(); // it is where Send was
  await hold();
  await keyboard.up("Enter");
  assert.ok(await button("Stop the run").isVisible());
  first.go();
  await main().getByText("What shall it be today?").waitFor();
  await button("Send").waitFor();
  const second = await v.hold("**/runs/stream");
  await v.say("Hello again");
  await second.came;
  await box("Say something").fill("Please tidy up");
  await button("Stop the run").focus();
  await keyboard.down("Enter");
  await button("Stopping the run").waitFor();
  second.go();
  await button("Send").focus();
  await hold();
  await keyboard.up("Enter");
  assert.equal(await box("Say something").inputValue(), "Please tidy up");
  // The run that was stopped may not have begun: whether it has taken in its message isn't said.
  assert.equal(await page.locator(".from-human", { hasText: "Please tidy up" }).count(), 0);
});

scenario("Stop is not lost while a run is only asked for", {}, async (v) => {
  const { page, main, box, button, api } = v;
  const runs = async () => (await api(`/threads/${/\/t\/([^/]+)/.exec(page.url())[1]}/runs`)).map((r) => r.status);
  await v.assistant("count");
  await page.getByRole("spinbutton", { name: "todo" }).fill("1000");
  const run = await v.hold("**/runs/stream");
  await button("Run").click();
  await run.came;
  await button("Stop").click();
  assert.ok(await button("Stopping…").isDisabled());
  await page.locator(".graph-head").getByText("stopping").waitFor();
  await v.picture("stopping");
  await v.faultless("a run that is being stopped");
  run.go();
  await button("Run").waitFor();
  assert.deepEqual(await runs(), ["interrupted"]);
  await page.locator(".graph-head").getByText("stopping").waitFor({ state: "detached" });
  // While its thread is made, the run isn't begun at all, and what was typed is there again.
  await button("New thread").click();
  await v.assistant("chat");
  const thread = await v.hold("**/threads");
  await v.say("Hello there");
  await thread.came;
  await button("Stop the run").click();
  await button("Stopping the run").waitFor();
  thread.go();
  await button("Send").waitFor();
  assert.equal(await box("Say something").inputValue(), "Hello there");
  assert.deepEqual(await runs(), []);
  await button("Send").click();
  await main().getByText("What shall it be today?").waitFor();
});

scenario("calls of tools are rejected, responded to and edited, several at once", {}, async (v) => {
  const { page, main } = v;
  await v.assistant("chat");
  await v.say("Please tidy up");
  await page.getByText("May send_mail be called?").waitFor();
  await page.locator(".call", { hasText: "send_mail" }).getByText("waits", { exact: true }).waitFor(); // it has not been called
  const mail = page.getByRole("group", { name: "Call of send_mail" }), file = page.getByRole("group", { name: "Call of delete_file" });
  assert.equal(await file.getByRole("radio", { name: "Edit" }).count(), 0, "only what is allowed is offered");
  await mail.getByRole("radio", { name: "Reject" }).click();
  await mail.getByRole("textbox").fill("Kim is on holiday");
  await file.getByRole("radio", { name: "Respond" }).click();
  assert.ok(await v.button("Send 2 decisions").isDisabled(), "a response needs words");
  await file.getByRole("textbox").fill("It was archived instead");
  await v.picture("approvals");
  // Nothing typed is lost by a look elsewhere.
  await v.tab("State").click();
  await v.tab("Run").click();
  await v.button("Send 2 decisions").click();
  await main().getByText("Both are dealt with").waitFor();
  await page.locator(".call", { hasText: "send_mail" }).locator("summary").click();
  await page.locator(".call", { hasText: "send_mail" }).getByText("Kim is on holiday").waitFor();
  await page.locator(".call", { hasText: "delete_file" }).locator("summary").click();
  await page.locator(".call", { hasText: "delete_file" }).getByText("It was archived instead").waitFor();
  await v.say("Once more, tidy up");
  await page.getByText("May delete_file be called?").waitFor();
  await mail.getByRole("radio", { name: "Edit" }).click();
  await v.box(/^to/, mail).fill("lee@example.com");
  await v.button("Send 2 decisions").click();
  await main().getByText("Both are dealt with").nth(1).waitFor();
  await page.locator(".call", { hasText: "lee@example.com" }).or(page.locator(".call", { hasText: "send_mail" })).last().locator("summary").click();
  await page.getByText("sent to lee@example.com").waitFor();
});

scenario("questions are answered in forms of their schemas, and wrong answers lose nothing", {}, async (v) => {
  const { page } = v;
  await v.assistant("survey");
  await v.button("Run").click();
  await page.getByText("Who comes to the party?").waitFor();
  const party = page.locator('[data-question="party"]'), remark = page.locator('[data-question="remark"]');
  await party.getByRole("spinbutton", { name: /guests/ }).fill("4");
  await party.getByRole("combobox", { name: /menu/ }).selectOption("fish");
  await party.getByRole("textbox", { name: "city" }).fill("bonn");
  await party.getByRole("button", { name: "Add to names" }).click();
  await party.getByRole("textbox", { name: "names 1" }).fill("Kim");
  await v.picture("question-form");
  await v.faultless("a question with a schema");
  await v.button("Answer", party).click();
  await party.locator(".badge", { hasText: "Answered" }).waitFor();
  await remark.getByRole("radio", { name: "JSON" }).click();
  await remark.getByRole("textbox").fill('{"music": ');
  await remark.getByRole("alert").waitFor();
  assert.ok(await v.button("Answer", remark).isDisabled());
  await remark.getByRole("textbox").fill('{"music": "loud"}');
  await v.button("Answer", remark).click();
  await page.getByRole("alert").getByText(/refused|pattern/).waitFor(); // the server's words
  await v.picture("question-refused");
  assert.equal(await party.getByRole("textbox", { name: "city" }).inputValue(), "bonn");
  assert.equal(await party.getByRole("textbox", { name: "names 1" }).inputValue(), "Kim");
  assert.match(await remark.getByRole("textbox").inputValue(), /loud/);
  await v.button("As JSON", party).click();
  const json = JSON.parse(await v.box("Answer as JSON", party).inputValue());
  await v.box("Answer as JSON", party).fill(JSON.stringify({ ...json, where: { city: "Bonn" } }));
  await v.button("Answer", party).click();
  await v.button("Answer", remark).click();
  await page.getByText("4 guests eat fish; remark: map[music:loud]").first().waitFor();
  await v.node("sum", "done").waitFor();
});

scenario("a message is said again in other words, and the two branches are compared", {}, async (v) => {
  const { page, main, tab } = v;
  await v.assistant("chat");
  await v.say("Hello there");
  await main().getByText("What shall it be today?").waitFor();
  await v.button("Edit and send again").click();
  await v.box("Edit the message").fill("How is the weather?");
  await page.keyboard.press("Enter");
  await main().getByText("a fine day for a walk").waitFor();
  assert.equal(await page.getByText("Hello there").filter({ visible: true }).and(page.locator(".chat *")).count(), 0);
  await tab("Timeline").click();
  await page.getByText("other branch").first().waitFor();
  await v.picture("branches");
  await v.button("Compare", page.locator(".timeline-bar")).click();
  await page.getByRole("heading", { name: "Compare" }).waitFor();
  await page.locator(".pairs .is-different").first().waitFor();
  assert.match(page.url(), /#\/a\/.+\/t\/.+\/compare\/.+\/.+/);
  const messages = page.locator('[data-field="messages"]');
  await messages.locator(".minus").getByText("Hello there").waitFor();
  await messages.locator(".plus").getByText("How is the weather?").waitFor();
  await v.picture("compare");
  await v.faultless("a comparison");
  await v.button("Change sides").click();
  await messages.locator(".plus").getByText("Hello there").waitFor();
  await page.reload(); // it has an address of its own
  await messages.locator(".plus").getByText("Hello there").waitFor();
  await page.getByRole("checkbox", { name: "Show what is the same" }).check();
  await page.getByRole("combobox", { name: "Left" }).selectOption({ index: 1 });
  await page.locator(".pairs .is-same").first().waitFor();
  await page.getByRole("link", { name: "Thread", exact: false }).first().click();
  await main().getByRole("tab", { name: "Run" }).waitFor();
});

scenario("a question is answered, and the past is run again with another state", {}, async (v) => {
  const { page, main, tab, node, moments, dialog, box, button } = v;
  await v.assistant("booking");
  await box("city").fill("Bonn");
  await page.getByRole("spinbutton", { name: "nights" }).fill("3");
  await v.picture("form");
  await v.faultless("a form");
  await button("Run").click();
  await page.getByText("Book Bonn?").waitFor();
  await node("book", "interrupted").waitFor();
  await v.picture("question");
  await button("Yes").click();
  await node("confirm", "done").waitFor();
  await tab("Timeline").click();
  await page.locator(".moment").nth(3).waitFor();
  while ((await moments().count()) !== 4) await page.waitForTimeout(50); // the list is read again as the run ends
  const first = page.locator(".moment", { hasText: "plan" }).and(page.locator('[data-step="1"]'));
  await first.getByRole("button", { name: /change/ }).click();
  await first.getByText("planned 3 nights in Bonn").waitFor();
  await v.picture("timeline");
  await v.faultless("the timeline");
  await first.locator(".moment-head").click();
  await node("book", "interrupted").waitFor(); // the graph shows that moment
  await button("Edit and fork").click();
  await box("city", dialog()).fill("Rome");
  await box("steps 1", dialog()).fill("planned otherwise");
  await v.picture("edit");
  await v.faultless("the editor");
  await button("Save and run", dialog()).click();
  await page.getByText("Book Rome?").waitFor();
  await button("No").click();
  await node("cancel", "done").waitFor();
  await tab("State").click();
  await main().getByText("did not book Rome").filter({ visible: true }).waitFor();
  await main().getByText("planned otherwise").filter({ visible: true }).waitFor();
  assert.equal(await main().getByText("planned 3 nights in Bonn").filter({ visible: true }).count(), 0, "the list was replaced");
  await v.picture("state");
  await tab("Timeline").click();
  await page.getByText("other branch").first().waitFor();
  await v.picture("fork");
  await button("Compare", page.locator(".timeline-bar")).click();
  await page.locator('[data-field="city"].is-different').getByText("Rome").waitFor();
  await page.locator('[data-field="booked"].is-different').getByText("true").waitFor();
  await v.picture("compare-fork");
  await page.goBack();
  // Run again from a node.
  await page.getByRole("button", { name: /^book,/ }).click();
  await button("Run again from here").waitFor();
  await page.waitForFunction(() => document.querySelector(".react-flow__node:last-of-type").getBoundingClientRect().bottom < document.querySelector(".node-panel").getBoundingClientRect().top); // it covers nothing
  await v.picture("node");
  await v.faultless("a node");
  await button("Run again from here").click();
  await page.getByText("Book Rome?").waitFor();
  await node("book", "interrupted").waitFor();
  // Edit the state as a node: what follows it comes next.
  await page.getByRole("button", { name: /^confirm/ }).click();
  await button("Edit state as confirm").click();
  assert.equal(await dialog().getByRole("combobox", { name: "As if written by" }).inputValue(), "confirm");
  await page.getByRole("dialog").getByRole("combobox", { name: "As if written by" }).selectOption("plan");
  await box("city", dialog()).fill("Pisa");
  await button("Save as a fork", dialog()).click();
  await dialog().waitFor({ state: "detached" });
  await page.getByText("Paused before book").waitFor();
  await button("Go on").click();
  await page.getByText("Book Pisa?").waitFor();
});

scenario("a long run is watched, joined after a reload, and stopped", {}, async (v) => {
  const { page, node } = v;
  await v.assistant("count");
  await page.getByRole("spinbutton", { name: "todo" }).fill("200");
  await v.button("Run").click();
  await node("tick", "running").waitFor();
  await page.getByText('{"tick":2}').waitFor();
  await v.picture("running");
  await page.reload();
  await node("tick", "running").waitFor();
  await page.getByText(/^([5-9]|\d\d) custom events/).waitFor(); // those before the reload among them
  await v.button("Stop").click();
  await v.button("Run").waitFor();
  await v.tab("Timeline").click();
  await page.locator(".moment", { hasText: "tick" }).getByText(/2[5-9]\d ms|[3-9]\d\d ms|\d s/).first().waitFor(); // how long a step took
});

scenario("what others start on the open thread is seen as it runs, and once", {}, async (v) => {
  const { page, node, tab, api, context } = v;
  const streams = new Set(); // of the thread that is open
  page.on("request", (r) => { if (/\/threads\/[^/]+\/stream/.test(r.url())) streams.add(r); });
  for (const over of ["requestfinished", "requestfailed"]) page.on(over, (r) => streams.delete(r));
  const id = (await api("/threads", {})).thread_id;
  await api(`/threads/${id}/runs/wait`, { assistant_id: "count", input: { todo: 1 } });
  await page.goto(`${v.server}/studio/#/t/${id}`);
  const inList = (status) => page.locator('.thread-list li:has([aria-current="page"])').getByText(status, { exact: true }).waitFor();
  await inList("idle");
  await node("tick", "done").waitFor(); // the thread was read: what begins now begins while it is open
  // By a client that asks for the state alone.
  await api(`/threads/${id}/runs`, { assistant_id: "count", input: { todo: 24 }, stream_mode: "values" });
  await page.locator(".graph-head").getByText("started elsewhere").waitFor();
  await node("tick", "running").waitFor();
  await v.picture("elsewhere");
  await inList("busy");
  await v.faultless("a run that was started elsewhere");
  await inList("idle");
  await node("tick", "done").waitFor();
  await tab("Timeline").click();
  await page.getByText("26 checkpoints").waitFor(); // two inputs, one tick and then twenty-three
  // By another page, and the other way round.
  const other = await context.newPage();
  await other.goto(page.url());
  await other.getByRole("spinbutton", { name: "todo" }).fill("30");
  await other.getByRole("button", { name: "Run", exact: true }).click();
  await tab("Run").click();
  await page.getByText("6 custom events").waitFor();
  await other.getByText("6 custom events").waitFor();
  await v.button("Run").waitFor();
  await other.getByRole("button", { name: "Run", exact: true }).waitFor();
  assert.equal(await page.getByText("6 custom events").count(), 1);
  assert.equal(await page.locator(".live > ol > li").count(), 6, "each step once");
  await page.getByRole("spinbutton", { name: "todo" }).fill("40");
  await v.button("Run").click();
  await other.locator(".graph-head").getByText("started elsewhere").waitFor();
  await other.getByText("10 custom events").waitFor();
  await page.getByText("10 custom events").waitFor();
  assert.equal(await page.getByText("started elsewhere").count(), 0);
  await v.button("Run").waitFor();
  // An edit from outside.
  await tab("State").click();
  await api(`/threads/${id}/state`, { values: { done: 77 } });
  await page.locator(".state .json-scalar").getByText("77").waitFor();
  // A page that nobody looks at listens to nothing, and catches up.
  const look = (seen) => page.evaluate((seen) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => !seen });
    document.dispatchEvent(new Event("visibilitychange"));
  }, seen);
  await look(false);
  while (streams.size > 0) await page.waitForTimeout(20);
  await api(`/threads/${id}/state`, { values: { done: 88 } });
  await look(true);
  await page.locator(".state .json-scalar").getByText("88").waitFor();
  // Another thread leaves nothing behind of this one.
  await v.button("New thread").click();
  while (streams.size > 0) await page.waitForTimeout(20);
});

scenario("an answer that comes late does not take back what was shown since", {}, async (v) => {
  const { page, node, api } = v;
  const id = (await api("/threads", {})).thread_id;
  await api(`/threads/${id}/runs/wait`, { assistant_id: "count", input: { todo: 1 } });
  await page.goto(`${v.server}/studio/#/t/${id}`);
  await node("tick", "done").waitFor();
  let go;
  const held = new Promise((r) => { go = r; });
  await page.route("**/history", async (r) => {
    const response = await r.fetch(); // in the midst of the run
    await held;
    await r.fulfill({ response });
  }, { times: 1 });
  await api(`/threads/${id}/runs`, { assistant_id: "count", input: { todo: 24 }, stream_mode: "values" });
  await page.locator(".graph-head").getByText("started elsewhere").waitFor();
  await page.locator(".graph-head").getByText("idle").waitFor();
  await node("tick", "done").waitFor();
  const late = page.waitForResponse("**/history");
  go();
  await (await late).finished();
  await page.evaluate(() => new Promise((r) => setTimeout(() => requestAnimationFrame(r), 100))); // it is shown by now, if it is
  assert.equal(await node("tick", "done").count(), 1);
  assert.equal(await page.locator(".graph-head").getByText("idle").count(), 1);
});

scenario("older history that comes late leaves no gap in what is shown since", {}, async (v) => {
  const { page, tab, api } = v;
  const id = (await api("/threads", {})).thread_id;
  const archive = (steps) => api(`/threads/${id}/runs/wait`, { assistant_id: "archive", input: { steps }, config: { recursion_limit: 1000 } });
  await archive(120);
  await page.goto(`${v.server}/studio/#/t/${id}`);
  await tab("Timeline").click();
  await page.locator('[data-step="120"]').waitFor();
  let go, goOn;
  const late = new Promise((r) => { go = r; }), over = new Promise((r) => { goOn = r; });
  let first = true;
  await page.route("**/history", async (r) => {
    if (!r.request().postDataJSON().before) await over; // the history is read anew once it is another
    else if (first) {
      first = false;
      await late;
    }
    await r.continue();
  });
  const older = (r) => r.url().endsWith("/history") && !!r.postDataJSON().before;
  await Promise.all([page.waitForRequest(older), page.evaluate(() => { const b = document.querySelector(".tab-body"); b.scrollTop = b.scrollHeight; })]);
  await archive(240);
  goOn();
  await page.evaluate(() => { document.querySelector(".tab-body").scrollTop = 0; });
  await page.locator('[data-step="240"]').waitFor();
  const answer = page.waitForResponse((r) => older(r.request()));
  go();
  await (await answer).finished();
  await page.waitForFunction(() => {
    const b = document.querySelector(".tab-body");
    b.scrollTop = b.scrollHeight;
    return document.querySelector('[data-step="0"]') !== null;
  });
  const all = (await api(`/threads/${id}/history`, { limit: 1000 })).filter((h) => h.next[0] !== "__start__"); // what is before the first isn't shown
  await page.getByText(`${all.length} checkpoints`, { exact: true }).waitFor();
});

scenario("what was of one assistant is gone when another is chosen", {}, async (v) => {
  const { page, node, box } = v;
  await v.assistant("booking");
  await box("city").waitFor();
  await node("book").waitFor();
  let go;
  const held = new Promise((r) => { go = r; });
  for (const slow of ["**/assistants/*/schemas", "**/assistants/*/graph?*"]) await page.route(slow, async (r) => { await held; await r.continue(); });
  await v.assistant("letter");
  await box("city").waitFor({ state: "hidden" });
  await node("book").waitFor({ state: "hidden" });
  go();
  await box("topic").waitFor();
  await node("writer").waitFor();
});

scenario("a graph that sleeps is seen to wake up", {}, async (v) => {
  const { page, node } = v;
  await v.assistant("nap");
  await v.button("Run").click();
  await page.locator(".graph-head").getByText("busy").waitFor();
  await page.getByText("sleep waits for a time or an event").waitFor();
  await v.picture("asleep");
  await v.api(`/threads/${/\/t\/([^/]+)/.exec(page.url())[1]}/events`, { name: "alarm" });
  await node("rise", "done").waitFor();
  await page.getByText("slept well").first().waitFor();
});

scenario("a server that goes away in the midst of a run is waited for", { server: STUDIO_GATED }, async (v) => {
  const { page } = v;
  await v.assistant("count");
  await page.getByRole("spinbutton", { name: "todo" }).fill("40"); // long enough for a machine that is short of time
  await v.button("Run").click();
  await page.getByText('{"tick":2}').waitFor();
  await fetch(STUDIO_GATE + "/close");
  await page.getByText("The server is away").waitFor();
  await v.picture("lost");
  await fetch(STUDIO_GATE + "/open");
  await page.getByText("The server is away").waitFor({ state: "detached" });
  await page.getByText("40 custom events").waitFor(); // each of them once
  await v.button("Run").waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
  // What others start from then on is heard of again.
  const id = /\/t\/([^/]+)/.exec(page.url())[1];
  await v.api(`/threads/${id}/runs`, { assistant_id: "count", input: { todo: 1000 } });
  await v.node("tick", "running").waitFor();
  await v.button("Stop").click();
  await v.button("Run").waitFor();
  // A page that is opened while it is away.
  await page.route("**/assistants/search", (r) => r.abort());
  await page.reload();
  await page.getByText("cannot be reached").waitFor();
  await v.picture("away");
  await v.faultless("a server that is away");
  await page.unroute("**/assistants/search");
  await v.button("Try again").click();
  await v.button("New thread").waitFor();
});

scenario("a server that wants a key is given one", { server: STUDIO_KEYED }, async (v) => {
  const { page } = v;
  await page.getByText("asks for an API key").waitFor();
  await v.picture("sign-in");
  await v.faultless("signing in");
  await page.getByLabel("API key").fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").getByText("does not take that key").waitFor();
  await page.getByLabel("API key").fill("open-sesame");
  await page.keyboard.press("Enter");
  await v.assistant("booking");
  await v.button("Run").click();
  await page.getByText("Book Ulm?").waitFor();
});

scenario("a thread that is not there is told, and what loads says so", { path: "#/t/01a20094-dde4-7548-b33f-a64c6d0bb2ff" }, async (v) => {
  const { page } = v;
  await page.getByText("No such thread").waitFor();
  await v.picture("not-found");
  await page.getByRole("link", { name: "Begin a new one" }).click();
  let go;
  const held = new Promise((r) => { go = r; });
  await page.route("**/threads/search", async (r) => { await held; await r.continue(); });
  await page.getByRole("combobox", { name: "Status" }).selectOption("error");
  await page.getByRole("status").getByText("Loading threads").waitFor();
  go();
  await page.getByRole("status").getByText("Loading threads").waitFor({ state: "detached" });
});

scenario("subgraphs open and close, and show what runs in them and what ran", {}, async (v) => {
  const { page, node, tab } = v;
  await v.assistant("report");
  await v.button("Open subgraph research").click();
  await node("research|search").waitFor();
  await v.box("topic").fill("tea");
  const parallel = Promise.all([node("research|search", "running").waitFor(), node("research|ask", "running").waitFor()]);
  await v.button("Run").click();
  await parallel;
  await v.picture("subgraph");
  await v.faultless("a subgraph");
  await node("publish", "done").waitFor();
  await page.reload(); // from the history now
  await v.button("Open subgraph write").click();
  await node("write|draft", "done").waitFor();
  await node("write|revise", "done").waitFor();
  await tab("Timeline").click();
  await v.button("Inside research").click();
  const inner = page.getByRole("list", { name: "Steps inside research" });
  await inner.getByText("the sum on tea").waitFor();
  await inner.locator('[data-inner="search, ask"]').getByText("what was found on tea").waitFor();
  await v.button("State", inner.locator('[data-inner="sum"]')).click();
  await inner.locator(".inside-state").getByText("what was said on tea").waitFor();
  await v.picture("inside");
  await v.faultless("the history of a subgraph");
  await page.getByRole("button", { name: /^Close write/ }).click();
  await node("write").waitFor();
  assert.equal(await node("write|draft").count(), 0);
});

scenario("a question inside of a subgraph is seen there and answered", {}, async (v) => {
  const { page, node, tab } = v;
  await v.assistant("letter");
  await v.box("topic").fill("rain");
  await v.button("Run").click();
  await page.getByText("How shall the letter end?").waitFor();
  await node("writer", "interrupted").waitFor();
  await page.reload();
  await v.button("Open subgraph writer").click();
  await node("writer|draft", "done").waitFor();
  await node("writer|check", "interrupted").waitFor();
  await tab("Timeline").click();
  await v.button("Inside writer").click();
  await page.locator('[data-inner="draft"]').getByText("a draft on rain").waitFor();
  await v.picture("inside-question");
  await tab("Run").click();
  await v.box("Answer").fill("Farewell");
  await v.button("Answer").click();
  await node("post", "done").waitFor();
  await page.getByText("On rain. Farewell").first().waitFor();
});

scenario("the state inside of a subgraph is edited, and the run goes on from there", {}, async (v) => {
  const { page, node, tab, dialog, box, button } = v;
  await v.assistant("letter");
  await button("Run").click();
  await page.getByRole("alert").getByText("a letter needs a topic").waitFor();
  await button("Open subgraph writer").click();
  await node("writer|check", "failed").waitFor();
  await tab("Timeline").click();
  await button("Inside writer").click();
  const inner = page.getByRole("list", { name: "Steps inside writer" });
  const step = (name) => inner.locator(`[data-inner="${name}"]`);
  await step("draft").getByText("check failed").waitFor();
  await button("State", step("draft")).click();
  await button("Edit inside writer").click();
  await box("topic", dialog()).fill("rain");
  assert.equal(await dialog().getByRole("alert").count(), 0, "the failure of the run is none of saving");
  await dialog().getByRole("combobox", { name: "As if written by" }).selectOption("draft");
  await v.picture("inside-edit");
  await v.faultless("the editor inside of a subgraph");
  await button("Save and run", dialog()).click();
  await page.getByText("How shall the letter end?").waitFor();
  // While it asks the newest state alone is edited, and the question stays.
  await tab("Timeline").click();
  await button("Inside writer").click();
  await button("State", step("Input")).click();
  await step("Input").getByText("A question waits").waitFor();
  await v.picture("inside-why");
  await v.faultless("why the state inside of a subgraph cannot be edited");
  await button("State", step("Edited")).click();
  await button("Edit inside writer").click();
  await box("topic", dialog()).fill("snow");
  assert.equal(await button("Save and run", dialog()).count(), 0);
  await button("Save", dialog()).click();
  await dialog().waitFor({ state: "detached" });
  await tab("Run").click();
  await box("Answer").fill("Farewell");
  await button("Answer").click();
  await page.getByText("On snow. Farewell").first().waitFor();
  await node("post", "done").waitFor();
  await page.locator('.thread-list li:has([aria-current="page"])').getByText("idle", { exact: true }).waitFor(); // else the steps inside are those of before
  await tab("Timeline").click();
  await button("Inside writer").click();
  await button("State", step("check")).click();
  await step("check").getByText("writer has ended").waitFor();
});

scenario("a breakpoint pauses, and a failure is told", {}, async (v) => {
  const { page, node } = v;
  await v.assistant("broken");
  await page.getByRole("button", { name: /^second/ }).click();
  await v.button("Pause before").click();
  await v.button("Run").click();
  await page.getByText("Paused before second").waitFor();
  await v.picture("paused");
  await v.button("Don't pause before").click();
  await v.button("Go on").click();
  await page.getByRole("alert").getByText("the kettle is empty").waitFor();
  await node("second", "failed").waitFor();
  await node("first", "done").waitFor();
  await v.picture("failed");
  await v.faultless("a failure");
});

// tone is a field of the form of what the graph is configured with.
const tone = (page) => page.getByRole("group", { name: "Configurable" }).getByRole("textbox", { name: /^tone/ });

scenario("a run is told its configuration, its limit, where to pause and metadata", {}, async (v) => {
  const { page } = v;
  await v.assistant("greet");
  await page.getByText("Options").click();
  await tone(page).fill("dry");
  await v.button("choose", page.getByRole("group", { name: "Pause after" })).click();
  await v.box(/^Metadata/).fill('{"desk": "seven"}');
  await v.picture("options");
  await v.faultless("the options of a run");
  await v.button("Run").click();
  await page.getByText("Paused before say").waitFor();
  await v.button("Go on").click();
  await page.getByText("a dry hello to world").first().waitFor();
  const id = /\/t\/([^/]+)/.exec(page.url())[1];
  const runs = await v.api(`/threads/${id}/runs`);
  assert.equal(runs[0].metadata.desk, "seven");
  await page.getByRole("spinbutton", { name: "Recursion limit" }).fill("1");
  await v.button("choose", page.getByRole("group", { name: "Pause after" })).click();
  await v.button("Run").click();
  await page.getByRole("alert").getByText(/recursion|supersteps|steps/i).waitFor();
});

scenario("threads are searched, opened by the keyboard and deleted", {}, async (v) => {
  const { page, dialog } = v;
  const made = await v.api("/threads", {});
  await v.api(`/threads/${made.thread_id}/runs/wait`, { assistant_id: "booking", input: { city: "Ghent" } });
  await page.reload();
  await page.locator(".thread-list li").first().waitFor();
  await page.locator("#main").focus();
  await page.keyboard.press("/");
  await page.locator("input[type=search]:focus").waitFor(); // with the next frame
  await page.keyboard.type("city=Ghent");
  await page.getByText("1 found", { exact: true }).waitFor();
  await v.picture("search");
  await page.locator(".thread-list a").focus();
  await page.keyboard.press("Enter");
  await page.getByText("Book Ghent?").waitFor();
  await page.getByRole("button", { name: /^Delete thread/ }).click();
  await v.button("Delete", dialog()).click();
  await page.getByText("Nothing found").waitFor();
  await v.picture("nothing-found");
});

scenario("the store is filled, searched and emptied", {}, async (v) => {
  const { page, dialog } = v;
  await page.getByRole("link", { name: "Store" }).click();
  await page.getByText("The store is empty").waitFor();
  await v.picture("store-empty");
  await v.button("New item").click();
  await v.box(/^Namespace/).fill("users.kim");
  await v.box("Key").fill("tea");
  await v.box(/^Value/).fill('{"likes": "green", "cups": [1, 2]}');
  await v.button("Save", dialog()).click();
  await page.getByRole("region", { name: "Item", exact: true }).getByText("green").waitFor();
  await v.picture("store");
  await v.faultless("the store");
  await v.button("Delete the item").click();
  await v.button("Delete", dialog()).click();
  await page.getByText("The store is empty").waitFor();
});

scenario("an assistant is made, configured, run, taken back to an older version and deleted", {}, async (v) => {
  const { page, dialog } = v;
  await page.getByRole("link", { name: "Assistants" }).click();
  await v.button("New assistant").click();
  await page.getByRole("combobox", { name: "Graph" }).selectOption("greet");
  await v.box("Name").fill("Kim's greetings");
  await v.button("Create", dialog()).click();
  await page.getByRole("heading", { name: "Kim's greetings" }).waitFor();
  await tone(page).fill("warm");
  await page.getByRole("spinbutton", { name: "Recursion limit" }).fill("40");
  await v.button("Save as a new version").click();
  await page.getByText(/^Version 2/).waitFor();
  await v.button("Configuration", page.locator(".version", { hasText: "Version 2" })).click();
  await page.locator(".version", { hasText: "Version 2" }).locator(".json-string").getByText("warm").waitFor();
  await v.picture("assistant");
  await v.faultless("an assistant");
  const address = page.url();
  await v.button("Run").click();
  await v.tab("Run").waitFor(); // it leads to where the assistant is run
  await v.button("Run").click();
  await page.getByText("a warm hello to world").first().waitFor();
  await page.goto(address);
  await v.button("Use it", page.locator(".version", { hasText: "Version 1" })).click();
  await page.locator(".version", { hasText: "Version 1" }).getByText("in use").waitFor();
  assert.equal(await tone(page).inputValue(), "");
  await v.button("Use it", page.locator(".version", { hasText: "Version 2" })).click();
  await page.locator(".version", { hasText: "Version 2" }).getByText("in use").waitFor();
  await v.button("Delete the assistant").click();
  await v.button("Delete", dialog()).click();
  await page.getByText("Choose an assistant").waitFor();
});

scenario("a cron is made, paused, changed and deleted", {}, async (v) => {
  const { page, dialog } = v;
  await page.getByRole("link", { name: "Crons" }).click();
  await page.getByText("No crons yet").waitFor();
  await v.picture("crons-empty");
  await v.button("New cron").click();
  await dialog().getByRole("combobox", { name: "Assistant" }).selectOption({ label: "booking" });
  await v.box(/^Schedule/).fill("every day");
  await v.box(/^Time zone/).fill("Europe/Berlin");
  await v.box("city", dialog()).fill("Bonn");
  await v.button("Create", dialog()).click();
  await dialog().getByRole("alert").getByText("schedule must be five fields").waitFor();
  await v.button("On workdays at 9").click();
  await v.picture("cron-new");
  await v.faultless("a new cron");
  await v.button("Create", dialog()).click();
  const shown = page.getByRole("region", { name: "Cron", exact: true });
  await shown.getByText("0 9 * * 1-5").waitFor();
  await shown.getByText("Bonn").waitFor();
  await v.picture("cron");
  await v.faultless("a cron");
  await v.button("Pause").click();
  await v.button("Resume").waitFor();
  await page.locator(".rows").getByText("paused").waitFor();
  await v.button("Resume").click();
  await v.button("Pause").waitFor();
  await v.button("Edit").click();
  await v.box(/^Schedule/).fill("@daily");
  await v.button("Save", dialog()).click();
  await shown.getByText("@daily").waitFor();
  await v.button("Delete the cron").click();
  await v.button("Delete", dialog()).click();
  await page.getByText("No crons yet").waitFor();
});

scenario("runs of all threads are counted, filtered, answered together and tried again", { server: STUDIO_RUNS }, async (v) => {
  const { page, api, button } = v;
  const ran = async (assistant_id, input) => {
    const { thread_id } = await api("/threads", {});
    await api(`/threads/${thread_id}/runs/wait`, { assistant_id, input });
    return thread_id;
  };
  const asking = [await ran("booking", { city: "Bonn" }), await ran("booking", { city: "Ulm" }), await ran("booking", { city: "Rome" })];
  const survey = await ran("survey", {}), failed = await ran("broken", {});
  for (let i = 0; i < 3; i++) await ran("greet", { name: "you" });
  await ran("chat", { user_input: "the weather" });
  await page.getByRole("link", { name: "Runs" }).click();
  const rows = (n) => page.waitForFunction((n) => document.querySelectorAll(".runs tbody tr").length === n, n);
  const status = (text) => page.getByRole("status").getByText(text, { exact: true }).waitFor();
  await rows(9);
  await page.getByRole("img", { name: /^9 runs, 1 failed\. .*: \d runs?, \d failed/ }).waitFor();
  await page.getByRole("img", { name: /^How long they took: .*half within/ }).waitFor();
  await page.getByRole("img", { name: /^870 tokens: .*824 of requests, 46 of answers/ }).waitFor();
  await page.getByRole("img", { name: /^\$0\.0003, as far as it is known/ }).waitFor();
  await page.getByRole("row").filter({ hasText: "chat" }).getByText("$0.0003").waitFor();
  await v.faultless("the runs");
  // A day on which more has happened than here.
  await page.route("**/runs/figures", (r) => {
    const from = Date.parse(r.request().postDataJSON().created_after);
    return r.fulfill({ json: Array.from({ length: 48 }, (_, i) => ({ from: new Date(from + i * 1_800_000).toISOString(), runs: 40 + (i * 37) % 23 + (i > 16 && i < 40 ? 60 : 0), errors: (i * 7) % 5 + (i === 30 ? 20 : 0), p50: 0.8 + (i % 7) / 10, p95: 2 + (i % 5) / 2 + (i === 30 ? 6 : 0), input_tokens: 90_000 + (i * 7919) % 30_000, output_tokens: 20_000 + (i * 7919) % 9_000, cost: 0.2 + (i * 37) % 9 / 20 })) });
  });
  await button("Reload").click();
  await page.getByRole("img", { name: /^\d,\d+ runs, \d+ failed/ }).waitFor();
  await v.picture("runs");
  await page.unroute("**/runs/figures");
  // Filters stand in the address.
  await button("error").press("Space");
  await rows(1);
  await page.getByRole("img", { name: /^1 run, 1 failed/ }).waitFor();
  assert.match(page.url(), /#\/runs\?status=error$/);
  await page.reload();
  await rows(1);
  await page.getByRole("searchbox", { name: "Error" }).fill("KETTLE is");
  await page.waitForURL(/error=KETTLE/);
  await rows(1);
  await page.getByRole("searchbox", { name: "Error" }).fill("teapot");
  await button("Show all runs").click();
  await rows(9);
  assert.equal(await page.getByRole("searchbox", { name: "Error" }).inputValue(), "");
  await page.getByRole("combobox", { name: "Graph or assistant" }).selectOption("greet");
  await rows(3);
  await page.getByRole("combobox", { name: "Graph or assistant" }).selectOption("All graphs");
  await rows(9);
  await page.getByRole("combobox", { name: "Cost" }).selectOption("$0.01 or more");
  await page.getByText("Nothing found").waitFor();
  await button("Show all runs").click();
  await rows(9);
  // What has failed is tried again, from where it failed.
  await page.getByRole("button", { name: /^Try again: broken on thread/ }).click();
  await status("1 run was tried again");
  await rows(10);
  assert.equal((await api(`/threads/${failed}/runs`)).length, 2);
  // Threads that are asked the same get one answer, others their own.
  await button("interrupted").click();
  await rows(4);
  await page.getByRole("checkbox", { name: "Choose all that wait or have failed" }).press("Space");
  await button("Answer 4 threads").click();
  const same = v.dialog().getByRole("region", { name: "Questions of booking" });
  await same.getByText("One answer goes to 3 threads that are asked the same:").waitFor();
  await v.dialog().getByRole("region", { name: "Questions of survey" }).getByText("Who comes to the party?").waitFor();
  await v.picture("runs-answer");
  await v.faultless("an answer to several threads");
  await button("Yes", same).click();
  await status("3 threads were answered");
  await button("Close", v.dialog()).click();
  for (const t of asking) assert.equal((await api(`/threads/${t}/runs/${(await api(`/threads/${t}/runs`))[0].run_id}/join`)).booked, true);
  // An answer that the server does not take is told.
  await page.getByRole("button", { name: /^Answer survey on thread/ }).click();
  await api("/threads/prune", { thread_ids: [survey] });
  const party = v.dialog().locator('[data-question="party"]'), remark = v.dialog().locator('[data-question="remark"]');
  await party.getByRole("spinbutton").first().fill("3");
  await party.getByRole("combobox").selectOption("fish");
  await button("Answer", party).click();
  await button("No", remark).click();
  await page.getByRole("alert").getByText(/^1 of 1: .*not found/).waitFor();
  // What sleeps is overdue by a clock that is two hours ahead.
  const asleep = await ran("nap", {});
  await page.route("**/threads/search", (r) => {
    const asked = r.request().postDataJSON();
    return r.continue(asked.due_before ? { postData: JSON.stringify({ ...asked, due_before: new Date(Date.now() + 7_200_000).toISOString() }) } : {});
  });
  await button("Reload").click();
  const late = page.getByRole("region", { name: "Overdue threads" });
  await late.getByRole("heading", { name: "1 overdue thread" }).waitFor();
  await v.picture("runs-overdue");
  await v.faultless("overdue threads");
  await late.getByRole("button", { name: /^Try again: thread/ }).press("Enter");
  await status("1 thread was tried again");
  assert.equal((await api(`/threads/${asleep}/runs`)).length, 2);
  // The way to a thread.
  await button("interrupted").click();
  await page.getByRole("row").filter({ hasText: "greet" }).getByRole("link").first().click();
  await page.getByRole("tab", { name: "Timeline" }).waitFor();
  await page.goBack();
  await page.setViewportSize({ width: 360, height: 740 });
  await page.getByRole("row").filter({ hasText: "greet" }).first().waitFor();
  await v.narrow("the runs on a phone");
  await v.picture("runs-phone");
});

scenario("a thread becomes an example, a data set is evaluated, and two evaluations are compared", { server: STUDIO_TESTS }, async (v) => {
  const { page, api, button, dialog, tab } = v;
  await page.getByRole("link", { name: "Tests" }).click();
  await page.getByText("No data sets yet").waitFor();
  await v.picture("tests-empty");
  await v.faultless("no data sets");
  // A thread as an example.
  const { thread_id } = await api("/threads", { metadata: { title: "greets Kim" } });
  await api(`/threads/${thread_id}/runs/wait`, { assistant_id: "greet", input: { name: "Kim" } });
  await page.goto(`${v.server}/studio/#/t/${thread_id}`);
  await tab("Timeline").click();
  await button("Save as test").press("Enter");
  await dialog().getByRole("combobox", { name: /^Data set/ }).fill("a.b");
  await button("Save", dialog()).click();
  assert.equal(await dialog().getByRole("combobox", { name: /^Data set/ }).evaluate((e) => e.validity.patternMismatch), true);
  await dialog().getByRole("combobox", { name: /^Data set/ }).fill("greetings");
  assert.equal(await v.box("Name of the example").inputValue(), "greets Kim");
  assert.deepEqual(JSON.parse(await v.box(/^Input/).inputValue()), { name: "Kim" });
  await v.picture("save-test");
  await v.faultless("a thread to be saved");
  await dialog().getByRole("radio", { name: "Recording" }).click();
  await dialog().getByText("graphtest.Replay(t, greet()").waitFor();
  await v.picture("save-recording");
  const [recording] = await Promise.all([page.waitForEvent("download"), button("Save the recording", dialog()).click()]);
  assert.equal(recording.suggestedFilename(), `${thread_id}.jsonl`);
  await dialog().getByRole("radio", { name: "Example of a data set" }).click();
  await dialog().getByRole("combobox", { name: /^Data set/ }).fill("greetings");
  await button("Save", dialog()).click();
  await dialog().getByText("Saved as greets Kim").waitFor();
  await dialog().getByRole("link", { name: "greetings" }).click();
  await page.getByRole("heading", { name: "1 example", exact: true }).waitFor();
  assert.deepEqual((await api("/store/items/search", { namespace_prefix: ["datasets", "greetings"] })).items[0].value.input, { name: "Kim" });
  // By hand, with mistakes that are told.
  await button("New example").press("Enter");
  await v.box("Name of the example").fill("polite");
  await v.box(/^Input/).fill('{"name": "Lee"}');
  await dialog().getByRole("combobox", { name: "Checked by" }).selectOption("own");
  await v.box(/^Evaluators/).fill('["exakt"]');
  await button("Save", dialog()).click();
  await dialog().getByRole("alert").getByText(/evaluator "exakt".*did you mean "exact"/).waitFor();
  await v.box(/^Evaluators/).fill('[{"type": "contains", "text": "Lee"}]');
  await button("Save", dialog()).click();
  await page.getByRole("heading", { name: "2 examples" }).waitFor();
  // From a file, as superstep eval reads it, and to one.
  const file = page.getByLabel("Data set to import");
  await file.setInputFiles({ name: "greetings.jsonl", mimeType: "application/x-ndjson", buffer: Buffer.from('{"name":"x"}\n') });
  await page.getByRole("alert").getByText("Line 1: the case “x” has no “input”").waitFor();
  await button("Dismiss").click();
  await file.setInputFiles({ name: "greetings.jsonl", mimeType: "application/x-ndjson", buffer: Buffer.from('{"name":"never right","input":{"name":"Ada"},"evaluators":[{"type":"contains","text":"Good evening"}],"tags":["hard"]}\n{"name":"quick","input":{"name":"Bo"},"evaluators":[{"type":"limits","seconds":60}]}\n') });
  await button("Import", dialog()).click();
  await page.getByRole("heading", { name: "4 examples" }).waitFor();
  const [exported] = await Promise.all([page.waitForEvent("download"), button("Export").click()]);
  assert.deepEqual((await readFile(await exported.path(), "utf8")).trim().split("\n").map((l) => JSON.parse(l).name), ["greets Kim", "polite", "never right", "quick"]);
  // The first evaluation.
  const evaluate = async (assistant) => {
    await page.getByRole("heading", { name: /^\d+ examples$/ }).waitFor(); // before that there is nothing to evaluate
    await button("Evaluate").press("Enter");
    await dialog().getByRole("combobox", { name: /^Assistant/ }).selectOption({ label: assistant });
  };
  await evaluate("greet");
  await v.picture("evaluate");
  await v.faultless("an evaluation to begin");
  await button("Evaluate", dialog()).click();
  const table = page.getByRole("region", { name: "Evaluations" });
  await table.getByText("3 of 4").waitFor();
  // With another configuration, each twice, and an assistant that judges.
  await api("/assistants", { graph_id: "greet", name: "gruff greeter", config: { configurable: { tone: "gruff" } } });
  await page.reload();
  await evaluate("gruff greeter");
  await dialog().getByRole("spinbutton", { name: /^Runs of each example/ }).fill("2");
  await dialog().getByRole("combobox", { name: /^Judged by/ }).selectOption({ label: "judge" });
  await v.box(/^Rubric/).fill("It greets.");
  await button("Evaluate", dialog()).click();
  await table.getByText("2 of 4").waitFor();
  await v.picture("tests");
  await v.faultless("a data set with evaluations");
  for (const box of await table.getByRole("checkbox").all()) await box.check();
  await button("Compare 2").press("Enter");
  const rows = page.locator(".tests-compare tbody tr");
  await rows.first().waitFor();
  assert.deepEqual(await rows.evaluateAll((r) => r.map((e) => e.dataset.verdict)), ["worse", "other output", "other output", "other output"]);
  await page.getByText("1 worse, 0 better, 3 with another output").waitFor();
  await button("greets Kim").press("Enter");
  await page.locator(".opened").getByText(/^exact: /).first().waitFor();
  await page.locator(".opened").getByText("judge 0.9: It greets.").first().waitFor();
  await v.picture("evaluations");
  await v.faultless("two evaluations");
  const [report] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save the report of gruff greeter, for superstep eval compare" }).click()]);
  const saved = JSON.parse(await readFile(await report.path(), "utf8"));
  assert.deepEqual([saved.format, saved.target, saved.repeat, saved.cases.length, saved.cases[0].runs.length], [1, "gruff greeter", 2, 4, 2]);
  await page.getByLabel("Show what is the same").check();
  await rows.nth(4).waitFor();
  await page.setViewportSize({ width: 360, height: 740 });
  await v.narrow("evaluations on a phone");
  await v.picture("phone-evaluations");
  await page.getByRole("link", { name: "← greetings" }).click();
  await table.waitFor();
  await v.narrow("a data set on a phone");
  await v.picture("phone-tests");
  await v.faultless("a data set on a phone");
  await page.setViewportSize({ width: 1440, height: 900 });
  // What runs ask is answered as the examples say.
  await file.setInputFiles({ name: "bookings.jsonl", mimeType: "application/x-ndjson", buffer: Buffer.from('{"name":"books","input":{"city":"Bonn"},"answers":[true],"evaluators":[{"type":"state","want":{"booked":true}}]}\n{"name":"waits","input":{"city":"Ulm"},"evaluators":[]}\n{"name":"no input","input":7,"evaluators":[]}\n') });
  await button("Import", dialog()).click();
  await page.getByRole("heading", { name: "3 examples" }).waitFor();
  await evaluate("booking");
  await button("Evaluate", dialog()).click();
  await table.getByText("1 of 3").waitFor();
  await table.getByRole("link", { name: "booking" }).click();
  await page.getByRole("row").filter({ hasText: "books" }).getByText("passed", { exact: true }).waitFor();
  await page.getByRole("row").filter({ hasText: "waits" }).getByText("it asks sure; give the case “answers”").waitFor();
  await page.getByRole("row").filter({ hasText: "no input" }).getByText(/^the input: /).waitFor();
  await v.picture("evaluation");
  await v.faultless("one evaluation");
  await page.getByRole("link", { name: "← bookings" }).click();
  await button("Delete the data set bookings").click();
  await button("Delete", dialog()).click();
  await page.getByRole("link", { name: "bookings" }).waitFor({ state: "detached" });
  // A conversation is what was said, the answer and the calls of tools.
  const { thread_id: talk } = await api("/threads", {});
  await api(`/threads/${talk}/runs/wait`, { assistant_id: "chat", input: { messages: [{ type: "human", content: "How is the weather?" }] } });
  await page.goto(`${v.server}/studio/#/t/${talk}`);
  await tab("Timeline").click();
  await button("Save as test").click();
  await dialog().getByRole("combobox", { name: /^Data set/ }).fill("talks");
  assert.equal(await v.box(/^Input/).inputValue(), '"How is the weather?"');
  await button("Save", dialog()).click();
  await dialog().getByRole("link", { name: "talks" }).click();
  await page.getByRole("heading", { name: "1 example", exact: true }).waitFor();
  assert.deepEqual((await api("/store/items/search", { namespace_prefix: ["datasets", "talks"] })).items[0].value.trajectory, [{ tool: "weather", args: { city: "Bonn" } }]);
  await button("Evaluate").click();
  assert.equal(await dialog().getByRole("combobox", { name: /^Assistant/ }).evaluate((s) => s.selectedOptions[0].text), "chat");
  await button("Evaluate", dialog()).click();
  await table.getByText("1 of 1").waitFor();
  await table.getByText("870", { exact: true }).waitFor();
  await button("Delete the data set talks").click();
  await button("Delete", dialog()).click();
  await page.getByRole("link", { name: "talks" }).waitFor({ state: "detached" });
  await page.getByRole("link", { name: "greetings" }).click();
  // A report of the command line is an evaluation as any.
  await page.getByLabel("Report to add").setInputFiles({ name: "new.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify({ ...saved, target: "from the terminal" })) });
  await table.getByRole("link", { name: "from the terminal" }).waitFor();
  await table.getByRole("button", { name: /^Delete the evaluation of gruff/ }).click();
  await button("Delete", dialog()).click();
  await table.getByRole("link", { name: "gruff greeter" }).waitFor({ state: "detached" });
  assert.equal((await api("/threads/search", { metadata: { dataset: "greetings" }, limit: 100 })).length, 4);
  await button("Delete the data set greetings").click();
  await button("Delete", dialog()).click();
  await page.getByText("No data sets yet").waitFor();
  assert.deepEqual((await api("/store/items/search", { namespace_prefix: [], limit: 100 })).items, []);
});

scenario("a dialogue shows where it stands in its flows, why it went so, and itself as a test", { server: STUDIO_BANK }, async (v) => {
  const { page, main, tab, button } = v;
  await v.assistant("banking");
  await page.getByText("Nothing was said yet").waitFor();
  await v.node("transfer_funds").waitFor(); // all flows
  await v.picture("flow-none");
  await v.faultless("a dialogue with which nobody has talked");
  const answered = async (text, reply) => { await v.say(text); await main().getByText(reply).first().waitFor(); };
  const stack = page.getByRole("list", { name: "Stack of flows, the active one last" }).getByRole("listitem");
  await answered("Send 15000 euros to Maria Garcia", "What is the recipient's IBAN?");
  await stack.getByText("waits at collect_1").waitFor();
  await v.node("collect_1", "interrupted").waitFor();
  await answered("ES91 2100 0418 4502 0005 1332", "Please enter the 6-digit code");
  await stack.getByText("waits at collect_2").waitFor();
  assert.deepEqual((await stack.allInnerTexts()).map((t) => t.replace(/\s+/g, " ")), ["transfer_funds paused at call_6", "security_check waits at collect_2"]);
  await v.node("collect_2", "interrupted").waitFor();
  await v.node("say_1", "done").waitFor();
  await stack.getByRole("button", { name: /^transfer_funds/ }).click();
  await v.node("call_6", "paused").waitFor();
  await v.picture("flow-paused");
  await button("follow the conversation").click();
  await answered("012345", "What shall I print as the purpose?");
  await answered("What's my savings balance?", "Your savings account holds 15230.00 EUR.");
  await answered("Investment fund", "Which of your accounts");
  await button("savings", page.getByRole("group", { name: "Buttons" })).click();
  await main().getByText("Shall I send it?").first().waitFor();
  await answered("no, make it 9000", "Updated amount to 9000.");
  await v.node("confirm_transfer", "interrupted").waitFor();
  // Slots have what they held before, and sensitive ones are masked.
  const slots = page.getByRole("region", { name: "Slots" });
  const row = (name) => slots.getByRole("row", { name: new RegExp(`^${name}\\b`) });
  await row("amount").getByText("9000", { exact: true }).waitFor();
  await row("amount").getByText("15000", { exact: true }).waitFor();
  await row("iban").getByText("******************1332").waitFor();
  assert.equal(await page.getByText("ES9121").count(), 0);
  await page.locator(".graph-head").getByText("interrupted").waitFor();
  await v.picture("flow");
  await v.faultless("a dialogue");
  // The turns say what was understood, by whom, and what came of it.
  await tab("Turns").click();
  const turn = (n) => page.locator(`[data-turn="${n}"]`);
  const line = (n, kind, text) => turn(n).locator(`[data-kind="${kind}"]`, { hasText: text });
  await line(1, "command", "start_flow transfer_funds").getByText("user", { exact: true }).waitFor();
  await line(1, "slot", "beneficiary_name").getByText("Maria Garcia").waitFor();
  await turn(1).getByText("understanding asked").waitFor();
  await line(2, "action", "check_transfer_limits").getByText("code_required = true").waitFor();
  await line(6, "command", "select").getByText("button", { exact: true }).waitFor();
  await turn(7).getByText("Updated amount to 9000.").waitFor();
  await v.picture("turns");
  await v.faultless("the turns of a dialogue");
  // The flow as it stood then.
  await turn(2).getByRole("button", { name: /^Turn 2/ }).click();
  await page.locator(".graph-head").getByText("at turn 2").waitFor();
  await v.node("collect_2", "interrupted").waitFor();
  assert.equal(await row("amount").getByText("9000", { exact: true }).count(), 0);
  await v.picture("turn-then");
  await button("back to now").click();
  await v.node("confirm_transfer", "interrupted").waitFor();
  // The test.
  await button("Make this conversation a test").click();
  await v.dialog().getByText("It was run once, and holds.").waitFor();
  await v.picture("turns-test");
  await v.faultless("a conversation as a test");
  const [download] = await Promise.all([page.waitForEvent("download"), button("Download", v.dialog()).click()]);
  assert.match(download.suggestedFilename(), /^[0-9a-f-]+\.yaml$/);
  const text = await readFile(await download.path(), "utf8");
  assert.match(text, /^# Sensitive, with stand-ins in their place:\n#   iban, from turn 2: DE89/);
  assert.match(text, /call: |calls: \[lookup_iban, check_transfer_limits\]/);
  assert.doesNotMatch(text, /ES91|012345/);
  await button("Close", v.dialog()).click();
  await page.keyboard.press("d");
  await v.faultless("a dialogue in dark mode");
  await v.picture("dark-flow");
  await page.setViewportSize({ width: 390, height: 844 });
  await v.narrow("the turns of a dialogue");
  await v.picture("phone-turns");
  await page.getByRole("navigation", { name: "Views" }).getByRole("button", { name: "Graph" }).click();
  await v.narrow("a dialogue");
  await v.picture("phone-flow");
});

scenario("it is dark when that is wanted, and stays so", {}, async (v) => {
  const { page, tab } = v;
  await v.assistant("booking");
  await v.button("Dark mode").click();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await page.reload();
  await v.button("Light mode").waitFor();
  await v.box("city").fill("Bonn");
  await v.button("Run").click();
  await page.getByText("Book Bonn?").waitFor();
  await v.picture("dark");
  await v.faultless("dark mode");
  await v.button("No").click();
  await tab("Timeline").click();
  await page.locator('[data-step="1"] .moment-head').click();
  await v.button("Run from here").click();
  await page.getByText("Book Bonn?").waitFor();
  await v.button("Yes").click();
  await v.node("confirm", "done").waitFor();
  await tab("Timeline").click();
  await page.locator('[data-step="3"]').first().getByRole("button", { name: /change/ }).click();
  await v.picture("dark-timeline");
  await v.faultless("the timeline in dark mode");
  await v.button("Compare", page.locator(".timeline-bar")).click();
  await page.locator(".pairs .is-different").first().waitFor();
  await v.picture("dark-compare");
  await v.faultless("a comparison in dark mode");
});

scenario("everything is done with the keyboard", {}, async (v) => {
  const { page, tab } = v;
  await v.assistant("booking");
  await v.button("Run").waitFor();
  const { keyboard } = page;
  const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent);
  // to presses Tab until something has the focus.
  const to = async (what, key = "Tab") => {
    for (let i = 0; i < 200; i++) {
      if (what.test(await focused())) return;
      await keyboard.press(key);
    }
    assert.fail(`${what} is not reached; the focus is on ${await focused()}`);
  };
  await page.evaluate(() => document.activeElement.blur());
  await keyboard.press("Tab");
  await page.getByRole("link", { name: "Skip to the content" }).and(page.locator(":focus")).waitFor();
  await keyboard.press("Enter"); // to the content
  await keyboard.press("?");
  await v.dialog().waitFor();
  await v.picture("keys");
  await keyboard.press("Escape");
  await keyboard.press("n");
  await to(/^Run$/); // the tab
  await keyboard.press("ArrowRight");
  assert.equal(await focused(), "Timeline");
  await keyboard.press("ArrowLeft");
  await keyboard.press("Tab");
  await keyboard.type("Oslo");
  await keyboard.press("Enter");
  await page.getByText("Book Oslo?").waitFor();
  await to(/^Yes$/, "Shift+Tab");
  await keyboard.press("Enter");
  await v.node("confirm", "done").waitFor();
  await page.locator("#main").focus();
  await keyboard.press("2");
  await page.locator(".moment").nth(3).waitFor();
  await to(/^bookstep 2/);
  await keyboard.press("Enter");
  await v.button("Run from here").waitFor();
  await to(/^Compare with now$/);
  await keyboard.press("Enter");
  await page.getByRole("heading", { name: "Compare" }).waitFor();
  await to(/Thread$/);
  await keyboard.press("Enter");
  await tab("Run").waitFor();
  await v.node("plan", "done").waitFor(); // else others that are called so come first
  await page.locator("#main").focus();
  await to(/^plan/);
  await keyboard.press("Enter"); // a node of the graph
  await v.button("Edit state as plan").waitFor();
  await to(/^Close$/);
  await keyboard.press("Enter");
  await keyboard.press("d");
  await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
});

scenario("it works on a phone", { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 }, async (v) => {
  const { page, main } = v;
  await v.button("Graph").tap();
  await v.assistant("chat");
  await page.getByRole("button", { name: "agent" }).waitFor();
  await page.waitForFunction(() => { const r = document.querySelector('[data-node="agent"]')?.getBoundingClientRect(); return r && r.width > 60 && r.left > 0 && r.right < innerWidth; });
  await v.picture("phone-graph");
  await v.narrow("the graph");
  await v.button("Run", page.locator(".phone-bar")).tap();
  await v.box("Say something").fill("Please tidy up");
  await v.button("Send").tap();
  await page.getByText("May send_mail be called?").waitFor();
  await v.picture("phone-question");
  await v.faultless("a phone");
  await v.narrow("a question");
  await v.button("Send 2 decisions").tap();
  await main().getByText("Both are dealt with").waitFor();
  await v.picture("phone-chat");
  await v.tab("Timeline").tap();
  await page.locator('[data-step="1"] .moment-head').tap();
  await v.picture("phone-timeline");
  await v.narrow("the timeline");
  await v.tab("Run").tap();
  await page.getByText("At step 1 of the history").waitFor();
  await v.picture("phone-past");
  await v.button("back to now").filter({ visible: true }).tap();
  await page.getByText("At step 1 of the history").waitFor({ state: "detached" });
  await v.tab("Timeline").tap();
  await page.locator('[data-step="1"] .moment-head').tap();
  await v.button("Compare with now").tap();
  await page.locator(".pairs .is-different").first().waitFor();
  await v.picture("phone-compare");
  await v.narrow("a comparison");
  await v.faultless("a comparison on a phone");
  await page.getByRole("link", { name: "Threads" }).tap();
  await v.button("Threads").tap();
  await page.locator(".thread-list li").first().waitFor();
  await v.picture("phone-threads");
  await v.faultless("threads on a phone");
  await v.narrow("threads");
  await page.getByRole("link", { name: "Assistants" }).tap();
  await page.locator(".rows a").first().tap();
  await v.button("Save as a new version").waitFor();
  await v.picture("phone-assistant");
  await v.narrow("an assistant");
  await page.getByRole("link", { name: "Crons" }).tap();
  await v.button("New cron").tap();
  await v.button("Create").waitFor();
  await v.picture("phone-cron");
  await v.narrow("a cron");
});

});
