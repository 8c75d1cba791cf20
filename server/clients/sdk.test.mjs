// Drives a server with LangGraph's own client, as it is published.
import test from "node:test";
import assert from "node:assert/strict";
import http from "node:http";
import { Client } from "@langchain/langgraph-sdk";
import { MessageTupleManager, StreamManager } from "langgraph-sdk-1/ui";
import { isGraphInterrupt } from "@langchain/langgraph";
import { RemoteGraph } from "@langchain/langgraph/remote";

const apiUrl = process.env.SUPERSTEP_URL;
const client = new Client({ apiUrl, apiKey: null });

async function collect(stream) {
  const out = [];
  for await (const chunk of stream) out.push(chunk);
  return out;
}

const events = (chunks) => chunks.map((c) => c.event);
const rejects = (promise, text) => assert.rejects(promise, (e) => { assert.match(String(e.message), text); return true; });

test("assistants are made, changed, found and removed", async () => {
  const made = await client.assistants.create({ graphId: "booking", metadata: { team: "a" }, name: "Mine" });
  assert.equal(made.graph_id, "booking");
  assert.equal(made.version, 1);
  const changed = await client.assistants.update(made.assistant_id, { metadata: { owner: "kim" }, config: { configurable: { tone: "dry" } } });
  assert.equal(changed.version, 2);
  assert.deepEqual(changed.metadata, { team: "a", owner: "kim" });
  assert.deepEqual((await client.assistants.search({ metadata: { team: "a" } })).map((a) => a.assistant_id), [made.assistant_id]);
  assert.equal(await client.assistants.count({ metadata: { team: "a" } }), 1);
  assert.deepEqual((await client.assistants.getVersions(made.assistant_id)).map((a) => a.version), [2, 1]);
  assert.equal((await client.assistants.setLatest(made.assistant_id, 1)).version, 1);
  assert.equal((await client.assistants.update(made.assistant_id, {})).version, 3);
  await rejects(client.assistants.create({ graphId: "booking", assistantId: made.assistant_id }), /HTTP 409: .*Assistant already exists/);
  await client.assistants.create({ graphId: "booking", assistantId: made.assistant_id, ifExists: "do_nothing" });
  await client.assistants.delete(made.assistant_id);
  await rejects(client.assistants.get(made.assistant_id), /HTTP 404: .*Assistant not found/);
  assert.equal((await client.assistants.get("agent")).metadata.created_by, "system");
});

test("a graph is drawn and described", async () => {
  const drawn = await client.assistants.getGraph("agent");
  assert.deepEqual(drawn.nodes.map((n) => n.id), ["__start__", "agent", "tools", "__end__"]);
  assert.ok(drawn.edges.some((e) => e.source === "tools" && e.target === "agent"));
  assert.ok(drawn.edges.find((e) => e.source === "agent" && e.target === "__end__").conditional);
  const schemas = await client.assistants.getSchemas("agent");
  assert.equal(schemas.graph_id, "agent");
  assert.ok(schemas.state_schema.properties.messages);
});

test("threads are made, found and removed", async () => {
  const t = await client.threads.create({ metadata: { kind: "x1" } });
  assert.equal(t.status, "idle");
  assert.deepEqual(await client.threads.getState(t.thread_id).then((s) => [s.values, s.next, s.checkpoint]), [{}, [], null]);
  await client.threads.update(t.thread_id, { metadata: { more: 1 } });
  assert.deepEqual((await client.threads.get(t.thread_id)).metadata, { kind: "x1", more: 1 });
  assert.equal((await client.threads.search({ metadata: { kind: "x1" } })).length, 1);
  assert.equal(await client.threads.count({ metadata: { kind: "x1" } }), 1);
  await rejects(client.threads.create({ threadId: t.thread_id }), /HTTP 409: .*Thread already exists/);
  await client.threads.create({ threadId: t.thread_id, ifExists: "do_nothing" });
  await client.threads.delete(t.thread_id);
  await rejects(client.threads.get(t.thread_id), new RegExp(`HTTP 404: .*Thread with ID ${t.thread_id} not found`));
});

const question = { messages: [{ type: "human", content: "What is 6 times 7?", id: "q" }] };

test("an agent streams tokens, values and updates", async () => {
  const t = await client.threads.create();
  let created;
  const chunks = await collect(client.runs.stream(t.thread_id, "agent", {
    input: question, streamMode: ["values", "updates", "messages-tuple", "tools"], onRunCreated: (p) => { created = p; },
  }));
  assert.equal(chunks[0].event, "metadata");
  assert.equal(chunks[0].data.run_id, created.run_id);
  assert.equal(created.thread_id, t.thread_id);
  const answer = chunks.filter((c) => c.event === "messages" && /^ai/i.test(c.data[0].type)).map((c) => c.data[0]);
  const last = answer.at(-1).id;
  const tokens = answer.filter((m) => m.id === last).map((m) => m.content).filter(Boolean);
  assert.ok(tokens.length > 1, "several tokens");
  assert.equal(tokens.join(""), "The answer is 42.");
  assert.deepEqual(chunks.filter((c) => c.event === "updates").map((c) => Object.keys(c.data)[0]), ["agent", "tools", "agent"]);
  assert.deepEqual(chunks.filter((c) => c.event === "tools").map((c) => c.data.event), ["on_tool_start", "on_tool_end"]);
  const values = chunks.filter((c) => c.event === "values").at(-1).data;
  assert.deepEqual(values.messages.map((m) => m.type), ["human", "ai", "tool", "ai"]);
  assert.equal(values.messages.at(-1).id, last);
  const run = await client.runs.get(t.thread_id, created.run_id);
  assert.equal(run.status, "success");
  const found = (await client.threads.get(t.thread_id));
  assert.equal(found.metadata.graph_id, "agent");
  assert.equal(found.values.messages.length, 4);
});

test("the older mode of messages adds them up", async () => {
  const t = await client.threads.create();
  const chunks = await collect(client.runs.stream(t.thread_id, "agent", { input: question, streamMode: ["messages"] }));
  const partial = chunks.filter((c) => c.event === "messages/partial");
  assert.equal(partial.at(-1).data[0].content, "The answer is 42.");
  assert.deepEqual(chunks.filter((c) => c.event === "messages/complete").map((c) => c.data[0].type), ["human", "ai", "tool", "ai"]);
});

test("tasks, checkpoints, debug and custom events come through", async () => {
  const t = await client.threads.create();
  const chunks = await collect(client.runs.stream(t.thread_id, "slow", { input: { todo: 2 }, streamMode: ["tasks", "checkpoints", "debug", "custom"] }));
  assert.deepEqual(chunks.filter((c) => c.event === "custom").map((c) => c.data), [{ tick: 1 }, { tick: 2 }]);
  assert.ok(chunks.some((c) => c.event === "tasks" && c.data.name === "tick" && c.data.triggers));
  assert.ok(chunks.some((c) => c.event === "tasks" && c.data.name === "tick" && c.data.result));
  const checkpoints = chunks.filter((c) => c.event === "checkpoints");
  assert.deepEqual(checkpoints.map((c) => c.data.metadata.source), ["input", "loop", "loop", "loop"]);
  assert.deepEqual(checkpoints.map((c) => c.data.next), [["__start__"], ["tick"], ["tick"], []]);
  assert.equal(checkpoints.at(-1).data.values.done, 2);
  assert.ok(events(chunks).includes("debug"));
});

test("a question is answered", async () => {
  const t = await client.threads.create();
  const out = await client.runs.wait(t.thread_id, "booking", { input: { city: "Bonn" } });
  assert.deepEqual(out.__interrupt__[0].value, { question: "Book Bonn?" });
  assert.equal(out.city, "Bonn");
  const state = await client.threads.getState(t.thread_id);
  assert.deepEqual(state.next, ["book"]);
  assert.equal(state.tasks[0].interrupts[0].id, out.__interrupt__[0].id);
  assert.equal((await client.threads.get(t.thread_id)).status, "interrupted");
  const done = await client.runs.wait(t.thread_id, "booking", { command: { resume: { [out.__interrupt__[0].id]: true } } });
  assert.equal(done.booked, true);
  assert.equal((await client.threads.get(t.thread_id)).status, "idle");
});

test("an interrupt is the last of the values", async () => {
  const t = await client.threads.create();
  const chunks = await collect(client.runs.stream(t.thread_id, "booking", { input: {}, streamMode: ["values", "updates"] }));
  assert.deepEqual(Object.keys(chunks.at(-1).data), ["__interrupt__"]);
  assert.deepEqual(events(chunks).slice(-2).sort(), ["updates", "values"]);
});

test("breakpoints pause before a node", async () => {
  const t = await client.threads.create();
  await client.runs.wait(t.thread_id, "slow", { input: { todo: 1 }, interruptBefore: ["tick"] });
  assert.deepEqual((await client.threads.getState(t.thread_id)).next, ["tick"]);
  const out = await client.runs.wait(t.thread_id, "slow", { input: null });
  assert.equal(out.done, 1);
});

test("a conversation begins again with another first message", async () => {
  const t = await client.threads.create();
  await client.runs.wait(t.thread_id, "agent", { input: question });
  const history = await client.threads.getHistory(t.thread_id);
  const first = history.findLast((h) => h.values.messages?.length === 1);
  assert.deepEqual([first.metadata.source, first.metadata.step], ["loop", 0]);
  const before = await client.threads.getState(t.thread_id, first.parent_checkpoint);
  assert.deepEqual([before.next, before.values, before.metadata.source, before.metadata.step, before.parent_checkpoint], [["__start__"], { messages: [] }, "input", -1, null]);
  assert.deepEqual(history.at(-1), before);
  const again = { messages: [{ type: "human", content: "What is six times seven?", id: "again" }] };
  const out = await client.runs.wait(t.thread_id, "agent", { input: again, checkpoint: first.parent_checkpoint });
  assert.deepEqual(out.messages.map((m) => m.type), ["human", "ai", "tool", "ai"]);
  assert.equal(out.messages[0].id, "again");
  const both = await client.threads.getHistory(t.thread_id, { limit: 20 });
  const inputs = both.filter((h) => h.next[0] === "__start__");
  assert.deepEqual(inputs.map((h) => [h.metadata.source, h.parent_checkpoint]), [["input", before.checkpoint], ["input", null]]);
  assert.deepEqual(inputs[1], before);
  await client.threads.updateState(t.thread_id, { values: again, asNode: "__input__", checkpoint: before.checkpoint });
  assert.deepEqual((await client.threads.getState(t.thread_id)).next, ["agent"]);
});

test("history, forks and edits", async () => {
  const t = await client.threads.create();
  await client.runs.wait(t.thread_id, "booking", { input: { city: "Bonn" } });
  await client.runs.wait(t.thread_id, "booking", { command: { resume: true } });
  const history = await client.threads.getHistory(t.thread_id);
  assert.deepEqual(history.map((h) => h.next), [[], ["book"], ["plan"], ["__start__"]]);
  assert.equal(history[0].parent_checkpoint.checkpoint_id, history[1].checkpoint.checkpoint_id);
  const page = await client.threads.getHistory(t.thread_id, { limit: 1, before: { configurable: { checkpoint_id: history[0].checkpoint.checkpoint_id } } });
  assert.deepEqual(page.map((h) => h.next), [["book"]]);
  // Another answer, where the question was asked.
  const forked = await client.runs.wait(t.thread_id, "booking", { command: { resume: false }, checkpoint: history[1].checkpoint });
  assert.equal(forked.booked, false);
  const after = await client.threads.getHistory(t.thread_id);
  assert.deepEqual(after.map((h) => h.metadata.source), ["loop", "fork", "loop", "loop", "loop", "input"]);
  assert.equal(after[1].parent_checkpoint.checkpoint_id, history[1].checkpoint.checkpoint_id);
  // An edit as a node, from the beginning.
  const edited = await client.threads.updateState(t.thread_id, { values: { city: "Rom" }, asNode: "plan", checkpoint: history[2].checkpoint });
  assert.ok(edited.checkpoint.checkpoint_id);
  const state = await client.threads.getState(t.thread_id);
  assert.deepEqual([state.values.city, state.next], ["Rom", ["book"]]);
  assert.equal((await client.threads.getState(t.thread_id, history[0].checkpoint.checkpoint_id)).values.booked, true);
  const copy = await client.threads.copy(t.thread_id);
  assert.equal((await client.threads.getState(copy.thread_id)).values.city, "Rom");
});

test("a command leads elsewhere", async () => {
  const t = await client.threads.create();
  await client.runs.wait(t.thread_id, "booking", { input: { city: "Bonn" } });
  await client.runs.wait(t.thread_id, "booking", { command: { goto: "__end__" } });
  assert.deepEqual((await client.threads.getState(t.thread_id)).next, []);
});

test("a failure is told", async () => {
  const t = await client.threads.create();
  await rejects(client.runs.wait(t.thread_id, "boom", { input: {} }), /TeapotError: I am a teapot/);
  const chunks = await collect(client.runs.stream(t.thread_id, "boom", { input: {} }));
  assert.deepEqual(chunks.at(-1), { id: chunks.at(-1).id, event: "error", data: { error: "TeapotError", message: "I am a teapot" } });
  assert.equal((await client.threads.get(t.thread_id)).status, "error");
  const other = await client.threads.create();
  await rejects(client.runs.wait(other.thread_id, "slow", { input: { todo: 9 }, config: { recursion_limit: 3 } }), /GraphRecursionError/);
});

test("background runs are joined, listed and cancelled", async () => {
  const t = await client.threads.create();
  const run = await client.runs.create(t.thread_id, "slow", { input: { todo: 2 } });
  assert.equal(run.status, "pending");
  assert.equal((await client.runs.join(t.thread_id, run.run_id)).done, 2);
  assert.deepEqual((await client.runs.list(t.thread_id)).map((r) => [r.run_id, r.status]), [[run.run_id, "success"]]);
  const long = await client.runs.create(t.thread_id, "slow", { input: { todo: 1000 } });
  assert.equal((await client.threads.get(t.thread_id)).status, "busy");
  await rejects(client.threads.updateState(t.thread_id, { values: { todo: 1 } }), /HTTP 409: .*busy/i);
  await client.runs.cancel(t.thread_id, long.run_id, true);
  assert.equal((await client.runs.get(t.thread_id, long.run_id)).status, "interrupted");
  assert.notEqual((await client.threads.get(t.thread_id)).status, "busy");
  await client.runs.delete(t.thread_id, long.run_id);
  await rejects(client.runs.get(t.thread_id, long.run_id), /HTTP 404: .*Run not found/);
});

for (const strategy of ["reject", "enqueue", "interrupt", "rollback"]) {
  test(`double texting: ${strategy}`, async () => {
    const t = await client.threads.create();
    const first = await client.runs.create(t.thread_id, "slow", { input: { todo: strategy === "enqueue" ? 3 : 1000 } });
    while (!(await client.threads.getState(t.thread_id)).values.done) await new Promise((r) => setTimeout(r, 20));
    const second = client.runs.wait(t.thread_id, "slow", { input: { todo: 1, left: 1 }, multitaskStrategy: strategy });
    if (strategy === "reject") {
      await rejects(second, /HTTP 422: .*already running/);
      await client.runs.cancel(t.thread_id, first.run_id, true);
      return;
    }
    const out = await second;
    switch (strategy) {
      case "enqueue":
        assert.equal(out.done, 4);
        assert.equal((await client.runs.get(t.thread_id, first.run_id)).status, "success");
        break;
      case "interrupt":
        assert.ok(out.done > 1);
        assert.equal((await client.runs.get(t.thread_id, first.run_id)).status, "interrupted");
        break;
      case "rollback":
        assert.equal(out.done, 1);
        await rejects(client.runs.get(t.thread_id, first.run_id), /HTTP 404/);
        assert.equal((await client.threads.getHistory(t.thread_id, { limit: 100 })).length, 3);
    }
  });
}

test("a rollback leaves what was there before", async () => {
  const t = await client.threads.create();
  await client.runs.wait(t.thread_id, "slow", { input: { todo: 2 } });
  const before = await client.threads.getHistory(t.thread_id, { limit: 100 });
  const run = await client.runs.create(t.thread_id, "slow", { input: { todo: 1000 } });
  while ((await client.threads.getState(t.thread_id)).values.done < 4) await new Promise((r) => setTimeout(r, 20));
  await client.runs.cancel(t.thread_id, run.run_id, true, "rollback");
  assert.equal((await client.threads.getState(t.thread_id)).values.done, 2);
  const after = await client.threads.getHistory(t.thread_id, { limit: 100 });
  assert.deepEqual(after.slice(-before.length), before);
  assert.ok(after.length <= before.length + 1, "at most the return is there as well");
  assert.equal((await client.threads.get(t.thread_id)).status, "idle");
});

test("a stream is joined again from any event", async () => {
  const t = await client.threads.create();
  let run;
  const whole = await collect(client.runs.stream(t.thread_id, "slow", { input: { todo: 5 }, streamMode: ["values", "custom"], streamResumable: true, onRunCreated: (p) => { run = p; } }));
  assert.deepEqual(await collect(client.runs.joinStream(t.thread_id, run.run_id, { lastEventId: "-1" })), whole);
  const rest = await collect(client.runs.joinStream(t.thread_id, run.run_id, { lastEventId: whole[4].id }));
  assert.deepEqual(rest, whole.slice(5));
});

test("runs without a thread leave none", async () => {
  const out = await client.runs.wait(null, "slow", { input: { todo: 1 } });
  assert.equal(out.done, 1);
  const chunks = await collect(client.runs.stream(null, "slow", { input: { todo: 1 }, streamMode: "updates" }));
  assert.deepEqual(events(chunks), ["metadata", "updates"]);
  const batch = await client.runs.createBatch([{ assistantId: "slow", input: { todo: 1 } }, { assistantId: "slow", input: { todo: 1 } }]);
  assert.equal(batch.length, 2);
});

test("later runs wait for their time", async () => {
  const t = await client.threads.create();
  const began = Date.now();
  await client.runs.wait(t.thread_id, "slow", { input: { todo: 1 }, afterSeconds: 1 });
  assert.ok(Date.now() - began >= 1000);
});

test("the store keeps items", async () => {
  await client.store.putItem(["users", "kim"], "tea", { likes: "green", cups: 2 });
  const item = await client.store.getItem(["users", "kim"], "tea");
  assert.deepEqual(item.value, { likes: "green", cups: 2 });
  assert.ok(item.createdAt ?? item.created_at);
  assert.equal((await client.store.searchItems(["users"], { filter: { cups: 2 } })).items.length, 1);
  assert.deepEqual((await client.store.listNamespaces({ prefix: ["users"] })).namespaces, [["users", "kim"]]);
  await client.store.deleteItem(["users", "kim"], "tea");
  assert.equal(await client.store.getItem(["users", "kim"], "tea"), null);
  await rejects(client.store.putItem(["a.b"], "k", {}), /may not contain periods|HTTP 4\d\d|Invalid namespace/);
});

test("crons start runs", async () => {
  const t = await client.threads.create();
  const made = await client.crons.createForThread(t.thread_id, "slow", { schedule: "* * * * *", input: { todo: 1 }, timezone: "Europe/Berlin" });
  assert.ok(new Date(made.next_run_date) > new Date());
  assert.equal((await client.crons.search({ threadId: t.thread_id })).length, 1);
  await client.crons.delete(made.cron_id);
  assert.equal((await client.crons.search({ threadId: t.thread_id })).length, 0);
  await rejects(client.crons.create("slow", { schedule: "every day" }), /HTTP 422: .*schedule/);
});

test("RemoteGraph runs, pauses and goes on", async () => {
  const remote = new RemoteGraph({ graphId: "booking", client });
  const config = { configurable: { thread_id: (await client.threads.create()).thread_id } };
  await assert.rejects(remote.invoke({ city: "Bonn" }, config), (e) => isGraphInterrupt(e) && e.interrupts[0].value.question === "Book Bonn?");
  const state = await remote.getState(config);
  assert.deepEqual(state.next, ["book"]);
  assert.equal(state.tasks[0].interrupts.length, 1);
  const updated = await remote.updateState(config, { city: "Rom" });
  assert.ok(updated.configurable.checkpoint_id);
  assert.equal((await remote.getState(config)).values.city, "Rom");
  const history = [];
  for await (const h of remote.getStateHistory(config)) history.push(h);
  assert.ok(history.length >= 2);
  const drawn = await remote.getGraphAsync();
  assert.ok(drawn.nodes.book);
});

test("RemoteGraph streams, and tells of failures", async () => {
  const remote = new RemoteGraph({ graphId: "slow", client });
  const config = { configurable: { thread_id: (await client.threads.create()).thread_id } };
  const chunks = await collect(await remote.stream({ todo: 2 }, { ...config, streamMode: ["updates", "custom"] }));
  assert.deepEqual(chunks.filter(([mode]) => mode === "custom").map(([, data]) => data), [{ tick: 1 }, { tick: 2 }]);
  assert.deepEqual(chunks.filter(([mode]) => mode === "updates").map(([, data]) => Object.keys(data)), [["tick"], ["tick"]]);
  const values = await collect(await remote.stream({ todo: 1, left: 1 }, { ...config, streamMode: "values" }));
  assert.equal(values.at(-1).done, 3);
  const failing = new RemoteGraph({ graphId: "boom", client });
  await assert.rejects(failing.invoke({}), (e) => e.name === "RemoteException" && /I am a teapot/.test(e.message));
});

test("the mode events tells of chains, models and tools", async () => {
  const chunks = await collect(client.runs.stream(null, "agent", { input: question, streamMode: "events" }));
  assert.deepEqual([...new Set(events(chunks))], ["metadata", "events"]);
  const traced = chunks.slice(1).map((c) => c.data);
  const names = new Set(traced.map((e) => e.event));
  for (const name of ["on_chain_start", "on_chain_end", "on_chat_model_start", "on_chat_model_stream", "on_chat_model_end", "on_tool_start", "on_tool_end"]) assert.ok(names.has(name), name);
  assert.equal(traced.filter((e) => e.event === "on_chat_model_stream").map((e) => e.data.chunk.content).join(""), "The answer is 42.");
  assert.deepEqual(traced.find((e) => e.event === "on_chain_start" && e.name === "agent" && e.parent_ids.length === 1).data.input.messages.map((m) => m.content), ["What is 6 times 7?"]);
  assert.equal(traced.at(-1).data.output.messages.length, 4);
});

/** A proxy that kills the connection of the first answers in their middle, `times` of them. */
async function cutting(times, after) {
  const target = new URL(apiUrl);
  const seen = [];
  const proxy = http.createServer((req, res) => {
    seen.push([req.method, req.url, req.headers["last-event-id"]]);
    const passed = http.request({ host: target.hostname, port: target.port, method: req.method, path: req.url, headers: req.headers }, (answer) => {
      res.writeHead(answer.statusCode, answer.headers);
      if (!/stream$/.test(req.url.split("?")[0]) || times-- <= 0) return answer.pipe(res);
      let text = "";
      answer.on("data", (data) => {
        if (text.split("\n\n").length > after) return; // it is cut already
        const sent = text.length;
        text += data;
        const events = text.split("\n\n");
        if (events.length <= after) return res.write(data);
        // Some of the next event comes through, too.
        text = `${events.slice(0, after).join("\n\n")}\n\nevent: cus`;
        res.write(text.slice(sent), () => { res.destroy(); answer.destroy(); });
      });
      answer.on("error", () => res.destroy());
    });
    req.pipe(passed);
    passed.on("error", () => res.destroy());
  });
  await new Promise((r) => proxy.listen(0, "127.0.0.1", r));
  return { url: `http://127.0.0.1:${proxy.address().port}`, seen, close: () => { proxy.closeAllConnections(); proxy.close(); } };
}

test("a connection that is cut loses nothing", { timeout: 60_000 }, async () => {
  const proxy = await cutting(2, 5);
  try {
    const through = new Client({ apiUrl: proxy.url, apiKey: null });
    const t = await client.threads.create();
    const chunks = await collect(through.runs.stream(t.thread_id, "slow", { input: { todo: 60 }, streamMode: ["custom"], streamResumable: true }));
    assert.deepEqual(chunks.filter((c) => c.event === "custom").map((c) => c.data.tick), Array.from({ length: 60 }, (_, i) => i + 1));
    assert.equal(new Set(chunks.map((c) => c.id)).size, chunks.length, "each event once");
    const streams = proxy.seen.filter(([, url]) => /stream$/.test(url));
    assert.deepEqual(streams.map(([method]) => method), ["POST", "GET", "GET"]);
    assert.ok(streams.slice(1).every(([, , last]) => Number(last) > 0), JSON.stringify(streams));
  } finally {
    proxy.close();
  }
});

test("a server that asks for a key", async () => {
  const locked = (apiKey) => new Client({ apiUrl: process.env.SUPERSTEP_LOCKED_URL, apiKey });
  const known = locked("right");
  const t = await known.threads.create();
  assert.equal((await known.runs.wait(t.thread_id, "slow", { input: { todo: 1 } })).done, 1);
  assert.equal(events(await collect(known.runs.stream(t.thread_id, "slow", { input: { todo: 1, left: 1 } }))).at(-1), "values");
  await rejects(locked("wrong").threads.get(t.thread_id), /HTTP 401: .*credentials are not valid/);
  await rejects(locked(null).threads.get(t.thread_id), /HTTP 401: .*credentials are required/);
  await rejects(collect(locked(null).runs.stream(null, "slow", { input: { todo: 1 } })), /HTTP 401: .*credentials are required/);
  const bearer = new Client({ apiUrl: process.env.SUPERSTEP_LOCKED_URL, apiKey: null, defaultHeaders: { Authorization: "Bearer right" } });
  assert.equal((await bearer.threads.get(t.thread_id)).thread_id, t.thread_id);
  await rejects(locked("wrong").runs.create(t.thread_id, "slow", { input: {} }), /HTTP 401/);
});

// The schedule allows for no time that is soon: the test's own server makes crons due.
test("a cron that is due starts a run", { skip: process.env.SUPERSTEP_OVERDUE ? false : "this server's times can't be changed", timeout: 60_000 }, async () => {
  const t = await client.threads.create();
  const made = await client.crons.createForThread(t.thread_id, "slow", { schedule: "@yearly", input: { todo: 2 } });
  assert.deepEqual(await client.runs.list(t.thread_id), []);
  assert.equal((await fetch(process.env.SUPERSTEP_OVERDUE, { method: "POST" })).status, 204);
  let runs = [];
  while (!runs.some((r) => r.status === "success")) {
    await new Promise((r) => setTimeout(r, 50));
    runs = await client.runs.list(t.thread_id);
  }
  assert.equal(runs.length, 1);
  assert.equal((await client.threads.getState(t.thread_id)).values.done, 2);
  await client.crons.delete(made.cron_id);
});

test("agents that work at once as tools have places of their own, which are found again after a reload", async () => {
  assert.deepEqual(Object.keys(await client.assistants.getSubgraphs("team")), ["tools"]);
  const { thread_id } = await client.threads.create();
  const chunks = await collect(client.runs.stream(thread_id, "team", {
    input: { messages: [{ role: "user", content: "Plan my trip." }] }, streamMode: ["updates", "tasks"], streamSubgraphs: true,
  }));
  const tasks = chunks.filter((c) => c.event === "tasks" && c.data.name === "tools" && "result" in c.data);
  assert.deepEqual(tasks.map((c) => c.data.result.messages.map((m) => m.tool_call_id)).flat().sort(), ["call_1", "call_2"]);
  const places = [...new Set(chunks.filter((c) => c.event.startsWith("updates|")).map((c) => c.event.slice("updates|".length)))];
  assert.deepEqual(places.sort(), tasks.map((c) => `tools:${c.data.id}`).sort());
  for (const checkpoint_ns of places) {
    const inside = await client.threads.getState(thread_id, { thread_id, checkpoint_ns });
    assert.match(inside.values.messages.at(-1).content, /^done: find (flights|hotels)$/);
  }

  const manager = new StreamManager(new MessageTupleManager(), { throttle: false, filterSubagentMessages: true, subagentToolNames: ["task"] });
  manager.reconstructSubagents((await client.threads.getState(thread_id)).values.messages);
  await manager.fetchSubagentHistory(client.threads, thread_id);
  const found = [...manager.getSubagents().values()].map((s) => [s.id, s.status, s.messages.at(-1)?.content]);
  assert.deepEqual(found, [["call_1", "complete", "done: find flights"], ["call_2", "complete", "done: find hotels"]]);
});
