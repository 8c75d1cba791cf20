// Drives the endpoint of AG-UI with the core of CopilotKit's client, as it is published: what
// its React and Angular packages stand on.
import { test as nodeTest } from "node:test";
import assert from "node:assert/strict";
import { HttpAgent } from "@ag-ui/client";
import { CopilotKitCore } from "@copilotkit/core";
import { z } from "zod";

const test = (name, f) => nodeTest(name, { timeout: 60_000 }, f);

/** A core with an agent, and the errors that it tells of. */
function open(assistant, options = {}) {
  const agent = new HttpAgent({ url: `${process.env.SUPERSTEP_URL}/assistants/${assistant}/agui`, threadId: crypto.randomUUID(), ...options });
  const core = new CopilotKitCore({ agents__unsafe_dev_only: { default: agent } });
  const errors = [], seen = [];
  core.subscribe({ onError: ({ code, error }) => { errors.push(`${code}: ${error.message}`); } });
  agent.subscribe({ onEvent: ({ event }) => { seen.push(event); } });
  return { agent, core, errors, seen, ask: (content) => {
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
    return core.runAgent({ agent });
  } };
}

test("CopilotKit: a turn of text", async () => {
  const { agent, ask, errors } = open("agent");
  await ask("What is 6 times 7?");
  assert.equal(agent.messages.at(-1).content, "The answer is 42.");
  await ask("Again");
  assert.equal(agent.messages.length, 8);
  assert.deepEqual(errors, []);
});

test("CopilotKit: a tool of the front end is called, and its result answered", async () => {
  const { agent, core, ask, errors } = open("desk");
  const tints = [];
  core.addTool({
    name: "paint", description: "Paints the page.", parameters: z.object({ tint: z.string() }),
    handler: async ({ tint }) => { tints.push(tint); return `painted ${tint}`; },
  });
  await ask("Paint it blue");
  assert.deepEqual(tints, ["blue"]);
  assert.deepEqual(agent.messages.map((m) => m.role), ["user", "assistant", "tool", "assistant"]);
  assert.equal(agent.messages.at(-1).content, "The page says: painted blue");
  assert.deepEqual(errors, []);
});

test("CopilotKit: the state is shared", async () => {
  const { agent, core, errors } = open("slow", { initialState: { todo: 2 } });
  const states = [];
  core.subscribeToAgentWithOptions(agent, { onStateChanged: ({ state }) => { states.push(state.done); } });
  await core.runAgent({ agent });
  assert.equal(agent.state.done, 2);
  assert.ok(states.includes(1), String(states));
  agent.setState({ ...agent.state, todo: 1 });
  await core.runAgent({ agent });
  assert.equal(agent.state.done, 3);
  assert.deepEqual(errors, []);
});

test("CopilotKit: an interrupt is answered", async () => {
  const { agent, core, errors, seen } = open("booking", { initialState: { city: "Bonn" } });
  await core.runAgent({ agent });
  const [asked] = seen.at(-1).outcome.interrupts;
  assert.equal(asked.message, "Book Bonn?");
  await core.runAgent({ agent, resume: [{ interruptId: asked.id, status: "resolved", payload: true }] });
  assert.equal(agent.state.booked, true);
  assert.deepEqual(errors, []);
});
