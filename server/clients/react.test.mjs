// Drives the server with the older of LangGraph's React hooks, that of its SDK, which
// works by threads, runs and histories.
import { test as nodeTest } from "node:test";
import assert from "node:assert/strict";
import { HumanMessage } from "@langchain/core/messages";
import { Client } from "@langchain/langgraph-sdk";
import { useStream } from "@langchain/langgraph-sdk/react";
import { createElement } from "react";
import { act, create } from "react-test-renderer";

const apiUrl = process.env.SUPERSTEP_URL;
const client = new Client({ apiUrl, apiKey: null });
const question = { messages: [{ type: "human", content: "What is 6 times 7?", id: "q" }] };

const test = (name, f) => nodeTest(name, { timeout: 60_000 }, f);

/** Renders a component that uses the hook. `now()` is what the hook returned last. */
async function page(options) {
  globalThis.IS_REACT_ACT_ENVIRONMENT = true;
  let stream;
  const Page = () => {
    const s = useStream({ apiUrl, apiKey: null, fetchStateHistory: true, ...options });
    // The hook asks for the modes of what a page uses.
    stream = { hook: s, messages: s.messages, values: s.values, interrupt: s.interrupt, error: s.error, isLoading: s.isLoading, isThreadLoading: s.isThreadLoading, branch: s.branch };
    return null;
  };
  let root;
  await act(async () => { root = create(createElement(Page)); });
  return {
    now: () => stream,
    submit: (input, more) => act(async () => { void stream.hook.submit(input, more); }),
    async until(what) {
      for (let i = 0; i < 1000; i++) {
        if (what(stream)) return stream;
        await act(() => new Promise((r) => setTimeout(r, 20)));
      }
      assert.fail(`never: ${what}`);
    },
    leave: () => act(async () => root.unmount()),
  };
}

const types = (messages) => messages.map((m) => m.type);

test("the older hook shows an agent's answer as it comes, and a thread again", async () => {
  let threadId, created;
  const p = await page({ assistantId: "agent", onThreadId: (id) => { threadId = id; }, onCreated: (run) => { created = run; } });
  const shown = new Set();
  await p.submit(question);
  await p.until((s) => { shown.add(s.messages.at(-1)?.content); return !s.isLoading && s.messages.length === 4; });
  assert.deepEqual(types(p.now().messages), ["human", "ai", "tool", "ai"]);
  assert.equal(p.now().messages.at(-1).content, "The answer is 42.");
  assert.equal(p.now().error, undefined);
  assert.ok(shown.size > 1, [...shown].join());
  assert.equal((await client.runs.get(threadId, created.run_id)).status, "success");
  assert.equal(p.now().hook.getMessagesMetadata(p.now().messages.at(-1)).firstSeenState.values.messages.length, 4);
  await p.leave();
  const again = await page({ assistantId: "agent", threadId });
  await again.until((s) => !s.isThreadLoading && s.messages.length === 4);
  await again.leave();
});

test("the older hook answers again, on another branch", async () => {
  const p = await page({ assistantId: "agent" });
  await p.submit(question);
  await p.until((s) => !s.isLoading && s.messages.length === 4);
  const first = p.now().messages.at(-1);
  const from = () => p.now().hook.getMessagesMetadata(p.now().messages.at(-1));
  await p.until(() => from()?.firstSeenState?.parent_checkpoint);
  await p.submit(undefined, { checkpoint: from().firstSeenState.parent_checkpoint });
  await p.until((s) => !s.isLoading && s.messages.length === 4 && s.messages.at(-1).id !== first.id);
  assert.equal(p.now().messages.at(-1).content, "The answer is 42.");
  await p.until(() => from()?.branchOptions?.length === 2);
  const [older] = from().branchOptions;
  await act(async () => { p.now().hook.setBranch(older); });
  await p.until((s) => s.messages.at(-1).id === first.id);
  await p.leave();
});

test("the older hook edits the first message, on another branch", async () => {
  const p = await page({ assistantId: "agent" });
  await p.submit(question);
  await p.until((s) => !s.isLoading && s.messages.length === 4);
  const from = () => p.now().hook.getMessagesMetadata(p.now().messages[0]);
  await p.until(() => from()?.firstSeenState?.parent_checkpoint);
  await p.submit({ messages: [new HumanMessage({ content: "What is six times seven?", id: "again" })] }, { checkpoint: from().firstSeenState.parent_checkpoint });
  await p.until((s) => !s.isLoading && s.messages.length === 4 && s.messages[0].id === "again");
  assert.deepEqual(types(p.now().messages), ["human", "ai", "tool", "ai"]);
  await p.until(() => from()?.branchOptions?.length === 2);
  await act(async () => { p.now().hook.setBranch(from().branchOptions[0]); });
  await p.until((s) => s.messages[0].id === "q");
  await p.leave();
});

test("the older hook shows a question and answers it", async () => {
  const p = await page({ assistantId: "booking" });
  await p.submit({ city: "Bonn" });
  await p.until((s) => !s.isLoading && s.interrupt);
  assert.deepEqual(p.now().interrupt.value, { question: "Book Bonn?" });
  await p.submit(undefined, { command: { resume: true } });
  await p.until((s) => !s.isLoading && s.values.booked);
  assert.equal(p.now().interrupt, undefined);
  await p.leave();
});

test("the older hook stops a run", async () => {
  let run;
  const p = await page({ assistantId: "slow", onCreated: (r) => { run = r; } });
  await p.submit({ todo: 1000 });
  await p.until((s) => s.values.done > 1);
  await act(async () => { await p.now().hook.stop(); });
  await p.until((s) => !s.isLoading);
  while ((await client.runs.get(run.thread_id, run.run_id)).status === "running") await new Promise((r) => setTimeout(r, 20));
  assert.equal((await client.runs.get(run.thread_id, run.run_id)).status, "interrupted");
  await p.leave();
});

test("the older hook shows a failure", async () => {
  let told;
  const p = await page({ assistantId: "boom", onError: (e) => { told = e; } });
  await p.submit({});
  await p.until((s) => s.error && !s.isLoading);
  assert.match(String(p.now().error.message), /I am a teapot/);
  assert.match(String(told.message), /I am a teapot/);
  await p.leave();
});
