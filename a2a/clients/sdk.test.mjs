// Talks with agents by the SDK of the protocol, as it is published.
import test from "node:test";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { ClientFactory } from "@a2a-js/sdk/client";
import { CancelTaskRequest, GetTaskRequest, ListTasksRequest, SendMessageRequest, SubscribeToTaskRequest, TaskState } from "@a2a-js/sdk";

const agent = (name) => new ClientFactory().createFromUrl(`${process.env.SUPERSTEP_URL}/a2a/${name}/.well-known/agent-card.json`, "");
const message = (parts, more = {}, configuration = undefined) =>
  SendMessageRequest.fromJSON({ message: { messageId: randomUUID(), role: "ROLE_USER", parts, ...more }, configuration });
const one = (part) => part.content.value;

test("the card says what the agent is", async () => {
  const card = await (await agent("parrot")).getAgentCard();
  assert.equal(card.name, "parrot");
  assert.equal(card.supportedInterfaces[0].protocolVersion, "1.0");
  assert.equal(card.capabilities.streaming, true);
});

test("an agent is talked with", async () => {
  const task = await (await agent("parrot")).sendMessage(message([{ text: "Hello" }]));
  assert.equal(task.status.state, TaskState.TASK_STATE_COMPLETED);
  assert.equal(one(task.artifacts[0].parts[0]), "Good day to you.");
});

test("a task asks, is answered and is found", async () => {
  const client = await agent("booking");
  let task = await client.sendMessage(message([{ data: { city: "Bonn" } }]));
  assert.equal(task.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
  assert.equal(one(task.status.message.parts[0]), "Which seat?");
  task = await client.sendMessage(message([{ text: "12a" }], { taskId: task.id, contextId: task.contextId }));
  assert.deepEqual(one(task.status.message.parts[0]).value, { book: "Bonn" });
  task = await client.sendMessage(message([{ data: true }], { taskId: task.id, contextId: task.contextId }));
  assert.equal(task.status.state, TaskState.TASK_STATE_COMPLETED);
  assert.deepEqual(one(task.artifacts[0].parts[0]), { city: "Bonn", notes: ["seat 12a", "sure true"] });
  assert.deepEqual(await client.getTask(GetTaskRequest.fromJSON({ id: task.id })), task);
  const list = await client.listTasks(ListTasksRequest.fromJSON({ contextId: task.contextId }));
  assert.deepEqual(list.tasks.map((t) => t.id), [task.id]);
});

test("a task is streamed", async () => {
  const kinds = [];
  let text = "";
  for await (const event of (await agent("parrot")).sendMessageStream(message([{ text: "Hello" }]))) {
    const { $case, value } = event.payload;
    kinds.push($case);
    if ($case === "artifactUpdate" && value.artifact.name === "message" && !value.lastChunk) text += one(value.artifact.parts[0]);
    if ($case === "statusUpdate") assert.equal(value.status.state, TaskState.TASK_STATE_COMPLETED);
  }
  assert.equal(text, "Good day to you.");
  assert.equal(kinds[0], "task");
  assert.equal(kinds.at(-1), "statusUpdate");
});

test("a task is followed again and cancelled", async () => {
  const client = await agent("gate");
  const task = await client.sendMessage(message([{ data: {} }], {}, { returnImmediately: true }));
  assert.ok([TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING].includes(task.status.state));
  const states = [];
  for await (const event of client.resubscribeTask(SubscribeToTaskRequest.fromJSON({ id: task.id }))) {
    states.push(event.payload.value.status.state);
    if (event.payload.$case === "statusUpdate" && event.payload.value.status.message) {
      assert.equal(one(event.payload.value.status.message.parts[0]), "at work");
      await client.cancelTask(CancelTaskRequest.fromJSON({ id: task.id }));
    }
  }
  assert.equal(states.at(-1), TaskState.TASK_STATE_CANCELED);
});

test("what fails and what is refused is said", async () => {
  const task = await (await agent("boom")).sendMessage(message([{ data: {} }]));
  assert.equal(task.status.state, TaskState.TASK_STATE_FAILED);
  assert.match(one(task.status.message.parts[0]), /out of paper/);
  await assert.rejects((await agent("boom")).getTask(GetTaskRequest.fromJSON({ id: "x" })), (e) => { assert.equal(e.name, "TaskNotFoundError"); return true; });
});
