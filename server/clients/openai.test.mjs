// Drives the endpoints of OpenAI's form with OpenAI's own client, as it is published.
import { test as nodeTest } from "node:test";
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.SUPERSTEP_URL + "/v1", apiKey: "any" });
const locked = new OpenAI({ baseURL: process.env.SUPERSTEP_LOCKED_URL + "/v1", apiKey: "right" });
const messages = [{ role: "user", content: "What is 6 times 7?" }];
const ask = { name: "ask", parameters: { type: "object", properties: { question: { type: "string" } }, required: ["question"] } };

const test = (name, f) => nodeTest(name, { timeout: 60_000 }, f);

test("models are listed and shown", async () => {
  const ids = [];
  for await (const m of client.models.list()) ids.push(m.id);
  assert.ok(ids.includes("agent") && ids.includes("booking") && !ids.includes("slow"), ids.join());
  assert.equal((await client.models.retrieve("agent")).object, "model");
});

test("a chat completion answers, whole and streamed", async () => {
  const whole = await client.chat.completions.create({ model: "agent", messages, temperature: 0 });
  assert.equal(whole.choices[0].message.content, "The answer is 42.");
  assert.equal(whole.choices[0].finish_reason, "stop");
  const stream = client.chat.completions.stream({ model: "agent", messages, stream_options: { include_usage: true } });
  let text = "";
  stream.on("content", (delta) => { text += delta; });
  const final = await stream.finalChatCompletion();
  assert.equal(text, "The answer is 42.");
  assert.equal(final.choices[0].message.content, text);
  assert.equal(typeof (await stream.totalUsage()).total_tokens, "number");
});

test("a thread goes on with the header", async () => {
  const thread = crypto.randomUUID();
  const on = { headers: { "X-Thread-Id": thread } };
  await client.chat.completions.create({ model: "booking", messages: [{ role: "user", content: "Book it" }] }, on);
  await client.chat.completions.create({ model: "booking", messages: [{ role: "user", content: "Book it" }, { role: "assistant", content: "Book Ulm?" }, { role: "user", content: "yes" }] }, on);
  const state = await (await fetch(`${process.env.SUPERSTEP_URL}/threads/${thread}/state`)).json();
  assert.equal(state.values.booked, true);
});

test("a question is a call of the tool ask (chat completions)", async () => {
  const tools = [{ type: "function", function: ask }];
  const said = [{ role: "user", content: "Book it" }];
  const stream = client.chat.completions.stream({ model: "booking", messages: said, tools });
  const asked = (await stream.finalChatCompletion()).choices[0];
  assert.equal(asked.finish_reason, "tool_calls");
  const call = asked.message.tool_calls[0];
  assert.deepEqual(JSON.parse(call.function.arguments), { question: "Book Ulm?" });
  const done = await client.chat.completions.create({ model: "booking", messages: [...said, asked.message, { role: "tool", tool_call_id: call.id, content: "yes" }], tools });
  assert.equal(done.choices[0].finish_reason, "stop");
});

test("a response answers, whole and streamed, and goes on", async () => {
  const first = await client.responses.create({ model: "agent", input: "What is 6 times 7?", instructions: "Be brief." });
  assert.equal(first.output_text, "The answer is 42.");
  assert.equal(first.status, "completed");
  const stream = client.responses.stream({ model: "agent", input: [{ role: "user", content: "Again" }], previous_response_id: first.id });
  let text = "";
  const types = new Set();
  for await (const e of stream) {
    types.add(e.type);
    if (e.type === "response.output_text.delta") text += e.delta;
  }
  assert.equal(text, "The answer is 42.");
  assert.equal((await stream.finalResponse()).output_text, text);
  for (const t of ["created", "in_progress", "output_item.added", "content_part.added", "output_text.done", "content_part.done", "output_item.done", "completed"]) assert.ok(types.has("response." + t), t);
});

test("a question is a call of the tool ask (responses)", async () => {
  const tools = [{ type: "function", strict: false, ...ask }];
  const stream = client.responses.stream({ model: "booking", input: "Book it", tools });
  const first = await stream.finalResponse();
  const call = first.output.find((item) => item.type === "function_call");
  assert.deepEqual(JSON.parse(call.arguments), { question: "Book Ulm?" });
  const done = await client.responses.create({ model: "booking", input: [{ type: "function_call_output", call_id: call.call_id, output: "yes" }], previous_response_id: first.id, tools });
  assert.equal(done.status, "completed");
});

test("errors are those of OpenAI's client", async () => {
  await assert.rejects(client.chat.completions.create({ model: "nobody", messages }), (e) => e instanceof OpenAI.NotFoundError && e.code === "model_not_found");
  await assert.rejects(client.chat.completions.create({ model: "agent", messages, n: 2 }), (e) => e instanceof OpenAI.BadRequestError && e.param === "n");
  await assert.rejects(client.responses.create({ model: "agent", input: "x", previous_response_id: "resp_none" }), (e) => e.code === "previous_response_not_found");
  await assert.rejects(new OpenAI({ baseURL: process.env.SUPERSTEP_LOCKED_URL + "/v1", apiKey: "wrong" }).models.list(), OpenAI.AuthenticationError);
  assert.deepEqual((await locked.models.list()).data, []);
});
