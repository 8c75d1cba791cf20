// Drives the second version of the protocol with LangGraph's own clients, as they
// are published: the thread streams of its SDK, its remote graph and its React
// hook.
import { test as nodeTest } from "node:test";
import assert from "node:assert/strict";
import { Client } from "langgraph-sdk-1";
import { Command } from "@langchain/langgraph";
import { RemoteGraph } from "@langchain/langgraph/remote";
import { useStream } from "@langchain/react";
import { createElement } from "react";
import { act, create } from "react-test-renderer";
import { WebSocket } from "ws";

globalThis.WebSocket ??= WebSocket; // which older versions of Node don't have

const apiUrl = process.env.SUPERSTEP_URL;
const client = new Client({ apiUrl, apiKey: null });
const question = { messages: [{ type: "human", content: "What is 6 times 7?", id: "q" }] };

const test = (name, f) => nodeTest(name, { timeout: 60_000 }, f);

/** Opens a thread's streams, which a test that fails leaves behind otherwise. */
function open(t, options) {
  const thread = client.threads.stream(options);
  t.after(() => thread.close());
  return thread;
}

async function collect(stream) {
  const out = [];
  for await (const item of stream) out.push(item);
  return out;
}

for (const transport of ["sse", "websocket"]) {
  test(`a thread streams an agent's messages, tools and values (${transport})`, async (t) => {
    const thread = open(t, { assistantId: "agent", transport });
    const messages = collect(thread.messages).then((list) => Promise.all(list.map(async (m) => ({ id: m.id, text: await m.text, calls: await m.toolCalls }))));
    const calls = collect(thread.toolCalls).then((list) => Promise.all(list.map(async (c) => [c.name, c.input, await c.output])));
    const { run_id } = await thread.run.start({ input: question });
    assert.match(run_id, /^[0-9a-f-]{36}$/);
    const output = await thread.output;
    assert.deepEqual(output.messages.map((m) => m.getType()), ["human", "ai", "tool", "ai"]);
    assert.equal(output.messages.at(-1).content, "The answer is 42.");
    const said = await messages;
    assert.deepEqual(said.map((m) => m.text), ["", "The answer is 42."]);
    assert.deepEqual(said[0].calls.map((c) => [c.name, c.args]), [["multiply", { a: 6, b: 7 }]]);
    assert.equal(said[1].id, output.messages.at(-1).id);
    assert.deepEqual((await calls)[0], ["multiply", { a: 6, b: 7 }, "42"]);
    assert.equal(thread.interrupted, false);
    assert.equal((await client.runs.get(thread.threadId, run_id)).status, "success");
  });

  test(`a thread asks and is answered (${transport})`, async (t) => {
    const thread = open(t, { assistantId: "booking", transport });
    await thread.run.start({ input: { city: "Bonn" } });
    await thread.output;
    assert.equal(thread.interrupted, true);
    assert.deepEqual(thread.interrupts.map((i) => [i.payload, i.namespace]), [[{ question: "Book Bonn?" }, []]]);
    const asked = thread.interrupts[0];
    await assert.rejects(thread.input.respond({ namespace: [], interrupt_id: "unknown", response: true }), (e) => e.code === "no_such_interrupt");
    const tree = await thread.agent.getTree();
    assert.deepEqual([tree.tree.status, tree.tree.graph_name], ["interrupted", "booking"]);
    const follow = await thread.subscribe({ channels: ["lifecycle", "values"] });
    await thread.input.respond({ namespace: asked.namespace, interrupt_id: asked.interruptId, response: true });
    let values;
    for await (const e of follow) {
      if (e.method === "values") values = e.params.data;
      if (e.method === "lifecycle" && e.params.data.event === "completed") break;
    }
    assert.equal(values.booked, true);
    const state = await thread.state.get({ namespace: [], keys: ["booked"] });
    assert.deepEqual(state.values, { booked: true });
    const { checkpoints } = await thread.state.listCheckpoints({ limit: 10 });
    assert.deepEqual(checkpoints.map((c) => c.step), [2, 1, 0, -1]);
    const forked = await thread.state.fork({ checkpoint_id: checkpoints.at(-1).id, input: { city: "Rom" } });
    assert.equal(forked.thread_id, thread.threadId);
    await client.runs.join(thread.threadId, forked.run_id);
    assert.equal((await thread.state.get({ namespace: [] })).values.city, "Rom");
  });

  test(`one stream follows several runs of a thread (${transport})`, async (t) => {
    const thread = open(t, { assistantId: "slow", transport });
    const seen = [];
    for (const todo of [1, 2]) {
      // While a run works, a subscription would get what happens from the stream that the
      // client has, and what was before from one that it opens, in no order.
      const events = await thread.subscribe({ channels: ["custom", "lifecycle"] });
      await thread.run.start({ input: { todo, left: todo } });
      for await (const e of events) {
        if (seen.some((other) => other.event_id === e.event_id)) continue;
        seen.push(e);
        if (e.method === "lifecycle" && e.params.data.event === "completed") break;
      }
    }
    assert.deepEqual(seen.filter((e) => e.method === "custom").map((e) => e.params.data.payload.tick), [1, 2, 3]);
    assert.deepEqual(seen, seen.toSorted((a, b) => a.seq - b.seq));
    assert.deepEqual(seen.filter((e) => e.method === "lifecycle").map((e) => e.params.data.event), ["running", "completed", "running", "completed"]);
  });
}

test("a failure ends a thread's stream", async (t) => {
  const thread = open(t, { assistantId: "boom" });
  await thread.run.start({ input: {} });
  const events = await thread.subscribe("lifecycle");
  let last;
  for await (const e of events) last = e;
  assert.deepEqual([last.params.data.event, last.params.data.error], ["failed", "I am a teapot"]);
});

test("the runs of a thread are joined", async (t) => {
  const { thread_id } = await client.threads.create();
  const stop = new AbortController();
  t.after(() => stop.abort());
  const seen = [];
  const joined = (async () => {
    for await (const e of client.threads.joinStream(thread_id, { streamMode: ["run_modes"], lastEventId: "-1", signal: stop.signal })) {
      seen.push(e);
      if (e.event === "metadata" && e.data.status === "run_done") break;
    }
  })();
  await new Promise((r) => setTimeout(r, 200));
  await client.runs.create(thread_id, "slow", { input: { todo: 2 }, streamMode: ["custom"] });
  await joined;
  assert.deepEqual(seen.map((e) => e.event), ["metadata", "custom", "custom", "metadata"]);
});

test("a remote graph streams events", async (t) => {
  const remote = new RemoteGraph({ graphId: "slow", url: apiUrl });
  const run = await remote.streamEvents({ todo: 20 }, { version: "v3" });
  t.after(() => run.thread.close());
  const methods = new Set();
  for await (const e of run) methods.add(e.method);
  for (const m of ["lifecycle", "values", "updates", "custom", "tasks", "checkpoints"]) assert.ok(methods.has(m), m);
  assert.equal((await run.output).done, 20);
});

test("a remote graph pauses and goes on", async (t) => {
  const remote = new RemoteGraph({ graphId: "booking", url: apiUrl });
  const config = { configurable: { thread_id: crypto.randomUUID() } };
  const run = await remote.streamEvents({ city: "Bonn" }, { ...config, version: "v3" });
  t.after(() => run.thread.close());
  assert.equal((await run.output).city, "Bonn");
  assert.equal(run.interrupted, true);
  assert.deepEqual(run.interrupts[0].payload, { question: "Book Bonn?" });
  const again = await remote.streamEvents(new Command({ resume: true }), { ...config, version: "v3" });
  t.after(() => again.thread.close());
  while (!(await remote.getState(config)).values.booked) await new Promise((r) => setTimeout(r, 20));
});

/** Renders a component that uses the hook. `now()` is what the hook returned last. */
async function page(t, options) {
  globalThis.IS_REACT_ACT_ENVIRONMENT = true;
  let stream;
  const Page = () => { stream = useStream({ apiUrl, apiKey: null, ...options }); return null; };
  let root;
  await act(async () => { root = create(createElement(Page)); });
  const leave = () => act(async () => root.unmount());
  t.after(leave);
  return {
    now: () => stream,
    async until(what) {
      for (let i = 0; i < 1000; i++) {
        if (what(stream)) return stream;
        await act(() => new Promise((r) => setTimeout(r, 20)));
      }
      const { isLoading, values, interrupt, error } = stream;
      assert.fail(`never: ${what}; it is ${JSON.stringify({ isLoading, values, interrupt, error: error?.message })}`);
    },
    leave,
  };
}

for (const transport of ["sse", "websocket"]) {
  test(`a page shows an agent's answer as it comes (${transport})`, async (t) => {
    let threadId;
    const p = await page(t, { assistantId: "agent", transport, onThreadId: (id) => { threadId = id; } });
    const shown = new Set();
    await act(async () => { p.now().submit(question); });
    await p.until((s) => { shown.add(s.messages.at(-1)?.text); return !s.isLoading && s.messages.length === 4; });
    assert.deepEqual(p.now().messages.map((m) => m.getType()), ["human", "ai", "tool", "ai"]);
    assert.equal(p.now().messages.at(-1).text, "The answer is 42.");
    assert.equal(p.now().error, undefined);
    assert.deepEqual(p.now().toolCalls.map((c) => [c.name, c.status]), [["multiply", "finished"]]);
    await act(async () => { p.now().submit({ messages: [{ type: "human", content: "Again", id: "q2" }] }); });
    await p.until((s) => !s.isLoading && s.messages.length === 8);
    await p.leave();
    // The page is loaded again.
    const again = await page(t, { assistantId: "agent", transport, threadId });
    await again.until((s) => !s.isThreadLoading && s.messages.length === 8);
    await again.leave();
  });

  test(`a page answers a question (${transport})`, async (t) => {
    const p = await page(t, { assistantId: "booking", transport });
    await act(async () => { p.now().submit({ city: "Bonn" }); });
    await p.until((s) => !s.isLoading && s.interrupt);
    assert.deepEqual(p.now().interrupt.value, { question: "Book Bonn?" });
    await act(async () => { await p.now().respond(true); });
    // The hook may hear of the question once more from its second stream; then it asks
    // for the thread's state when the run has ended.
    await p.until((s) => !s.isLoading && s.values.booked && !s.interrupt);
    await p.leave();
  });

  test(`a page stops a run and shows a failure (${transport})`, async (t) => {
    const p = await page(t, { assistantId: "slow", transport });
    await act(async () => { p.now().submit({ todo: 1000 }); });
    await p.until((s) => s.values.done > 1);
    await act(async () => { await p.now().stop(); });
    await p.until((s) => !s.isLoading);
    await p.leave();
    const failing = await page(t, { assistantId: "boom", transport });
    await act(async () => { failing.now().submit({}); });
    await failing.until((s) => s.error);
    assert.equal(failing.now().error.message, "I am a teapot");
    await failing.leave();
  });
}
