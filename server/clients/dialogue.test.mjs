// Talks with a dialogue by LangGraph's own client, and by the routes of the dialogue.
import test from "node:test";
import assert from "node:assert/strict";
import { Client } from "@langchain/langgraph-sdk";
import { RemoteGraph } from "@langchain/langgraph/remote";

const apiUrl = process.env.SUPERSTEP_URL;
const client = new Client({ apiUrl, apiKey: null });

test("a dialogue is talked to as a graph", async () => {
  const { thread_id } = await client.threads.create();
  const last = async (payload) => {
    let values;
    for await (const ev of client.runs.stream(thread_id, "opera", { ...payload, streamMode: ["values", "updates"] })) {
      assert.notEqual(ev.event, "error", JSON.stringify(ev.data));
      if (ev.event === "values" && ev.data.messages) values = ev.data;
    }
    return values;
  };
  const said = (values) => values.messages.map((m) => `${m.type}: ${m.content}`);
  let values = await last({ input: { messages: [{ role: "user", content: "Two seats, please" }] } });
  assert.deepEqual(said(values), ["human: Two seats, please", "ai: How many seats?"]);
  let state = await client.threads.getState(thread_id);
  const [question] = state.tasks[0].interrupts;
  assert.equal(question.value.slot, "seats");
  assert.equal(question.value.prompt, "How many seats?");
  assert.equal((await client.threads.get(thread_id)).status, "interrupted");
  values = await last({ command: { resume: "2" } });
  assert.equal(values.messages.at(-1).content, "Which card?");
  // A message is understood also while a question waits.
  values = await last({ input: { messages: [{ type: "human", content: "Who am I?", id: "m-3" }] }, config: { configurable: { user_id: "u-js" } } });
  assert.equal(values.messages.at(-1).content, "You are u-js.\nWhich card?");
  assert.equal(values.messages.at(-2).id, "m-3");
  const history = await client.threads.getHistory(thread_id, { limit: 100 });
  assert.ok(history.length > 9, `${history.length} checkpoints`);
  assert.ok(history.every((s) => s.checkpoint.thread_id === thread_id));
  await client.threads.delete(thread_id);
});

test("a dialogue is a remote graph", async () => {
  const graph = new RemoteGraph({ graphId: "opera", url: apiUrl });
  const { thread_id } = await client.threads.create();
  const config = { configurable: { thread_id } };
  const out = await graph.invoke({ messages: [{ role: "user", content: "Who am I?" }] }, config);
  assert.equal(out.last_response, `You are ${thread_id}.`);
  assert.equal((await graph.getState(config)).values.turn_count, 1);
});

test("a dialogue answers those who talk with it", async () => {
  const user = `js-${Date.now()}`;
  const post = async (path, body) => fetch(apiUrl + path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const reply = await (await post("/chat", { user_id: user, message: "Two seats, please" })).json();
  assert.equal(reply.response, "How many seats?");
  assert.equal(reply.flow_state, "waiting_for_slot");
  const events = (await (await post(`/chat/${user}/stream`, { message: "2" })).text()).split("\n").filter((l) => l.startsWith("data: ")).map((l) => JSON.parse(l.slice(6)));
  assert.equal(events.at(0).type, "start");
  assert.deepEqual(events.filter((e) => e.type === "token").map((e) => e.content), ["Which card?"]);
  assert.equal(events.at(-1).type, "done");
  const state = await (await fetch(`${apiUrl}/state/${user}`)).json();
  assert.equal(state.slots.seats, 2);
  assert.equal((await fetch(`${apiUrl}/state/${user}`, { method: "DELETE" })).status, 204);
  assert.equal((await fetch(`${apiUrl}/state/${user}`)).status, 404);
});
