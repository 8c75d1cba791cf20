// Drives the endpoint of AG-UI with the protocol's own client, as it is published. It
// checks the order of events, and what they add up to.
import { test as nodeTest } from "node:test";
import assert from "node:assert/strict";
import { HttpAgent } from "@ag-ui/client";

const url = (assistant) => `${process.env.SUPERSTEP_URL}/assistants/${assistant}/agui`;
const test = (name, f) => nodeTest(name, { timeout: 60_000 }, f);

/** An agent that notes the types of its events. */
function open(assistant, options = {}) {
  const agent = new HttpAgent({ url: url(assistant), threadId: crypto.randomUUID(), ...options });
  const seen = [];
  agent.subscribe({ onEvent: ({ event }) => { seen.push(event); } });
  return { agent, seen, types: () => new Set(seen.map((e) => e.type)) };
}

test("a run streams messages, calls of tools, steps and the state", async () => {
  const { agent, types, seen } = open("agent");
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: "What is 6 times 7?" });
  const { newMessages } = await agent.runAgent();
  assert.deepEqual(newMessages.map((m) => m.role), ["assistant", "tool", "assistant"]);
  assert.equal(agent.messages.at(-1).content, "The answer is 42.");
  assert.equal(agent.messages[1].toolCalls[0].function.name, "multiply");
  assert.deepEqual(JSON.parse(agent.messages[1].toolCalls[0].function.arguments), { a: 6, b: 7 });
  for (const t of ["RUN_STARTED", "STATE_SNAPSHOT", "STEP_STARTED", "STEP_FINISHED", "TEXT_MESSAGE_CONTENT", "TOOL_CALL_RESULT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]) assert.ok(types().has(t), t);
  assert.equal(seen[0].protocolVersion, "1.0");
  // The same thread goes on with what is new.
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: "Again" });
  await agent.runAgent();
  assert.equal(agent.messages.length, 8);
});

test("the state is shared", async () => {
  const { agent, types } = open("slow", { initialState: { todo: 3 } });
  await agent.runAgent();
  assert.equal(agent.state.done, 3);
  assert.ok(types().has("STATE_DELTA") && types().has("CUSTOM"));
  agent.setState({ ...agent.state, todo: 1 });
  await agent.runAgent();
  assert.equal(agent.state.done, 4);
});

test("an interrupt is answered", async () => {
  const { agent, seen } = open("booking", { initialState: { city: "Bonn" } });
  await agent.runAgent();
  const { outcome } = seen.at(-1);
  assert.equal(outcome.type, "interrupt");
  assert.equal(outcome.interrupts[0].message, "Book Bonn?");
  assert.deepEqual(outcome.interrupts[0].responseSchema, { type: "boolean" });
  await agent.runAgent({ resume: [{ interruptId: outcome.interrupts[0].id, status: "resolved", payload: true }] });
  assert.equal(agent.state.booked, true);
  assert.equal(seen.at(-1).outcome.type, "success");
});

test("a run that is aborted ends, and its thread goes on", async () => {
  const { agent } = open("slow", { initialState: { todo: 1000 } });
  const run = agent.runAgent({}, { onStateDeltaEvent: () => { agent.abortRun(); } }).catch(() => {});
  await run;
  const thread = `${process.env.SUPERSTEP_URL}/threads/${agent.threadId}`;
  let state;
  do {
    await new Promise((r) => setTimeout(r, 50));
    state = await (await fetch(thread)).json();
  } while (state.status === "busy");
  assert.ok(state.values.done > 0 && state.values.done < 1000, String(state.values.done));
});

test("failures are told", async () => {
  const { agent, seen } = open("boom");
  await agent.runAgent().catch(() => {});
  assert.deepEqual([seen.at(-1).type, seen.at(-1).message], ["RUN_ERROR", "I am a teapot"]);
  await assert.rejects(open("nobody").agent.runAgent(), (e) => e.status === 404);
  const locked = new HttpAgent({ url: `${process.env.SUPERSTEP_LOCKED_URL}/assistants/slow/agui`, threadId: crypto.randomUUID(), headers: { Authorization: "Bearer right" }, initialState: { todo: 1 } });
  await locked.runAgent();
  assert.equal(locked.state.done, 1);
});
