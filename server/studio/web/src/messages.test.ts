import { expect, test } from "vitest";
import { append, conversation, textOf, glimpse } from "./messages";

test("chunks add up to a message", () => {
  const one = append(undefined, { type: "AIMessageChunk", id: "m", content: "Hel" }, "agent");
  const two = append(one, { type: "AIMessageChunk", id: "m", content: "lo" });
  expect(two).toMatchObject({ content: "Hello", node: "agent", streaming: true });
});

test("a whole message replaces its chunks", () => {
  const one = append(undefined, { type: "AIMessageChunk", id: "m", content: "Hel" });
  expect(append(one, { type: "ai", id: "m", content: "Hello" })).toMatchObject({ content: "Hello", streaming: false });
});

test("arguments of tools add up", () => {
  const chunk = (c: object) => ({ type: "AIMessageChunk", id: "m", content: "", tool_call_chunks: [{ index: 0, ...c }] });
  const one = append(undefined, chunk({ id: "c1", name: "send", args: '{"to":' }));
  expect(one?.toolCalls).toEqual([{ id: "c1", name: "send", args: '{"to":' }]);
  expect(append(one, chunk({ id: null, name: null, args: '"kim"}' }))?.toolCalls).toEqual([{ id: "c1", name: "send", args: { to: "kim" } }]);
});

test("blocks of text add up, others stay apart", () => {
  const one = append(undefined, { type: "AIMessageChunk", id: "m", content: [{ type: "reasoning", reasoning: "so" }] });
  const two = append(one, { type: "AIMessageChunk", id: "m", content: [{ type: "text", text: "a" }] });
  expect(append(two, { type: "AIMessageChunk", id: "m", content: "b" })?.content).toEqual([{ type: "reasoning", reasoning: "so" }, { type: "text", text: "ab" }]);
});

test("what is no message is left out of a conversation", () => {
  expect(conversation({ messages: [{ role: "user", content: "a" }, { type: "remove", id: "x" }, 3] }).map((m) => [m.type, textOf(m.content)])).toEqual([["human", "a"]]);
});

test("a message in one line says who speaks and what is called", () => {
  expect(glimpse({ id: "1", type: "ai", content: "Well.", tool_calls: [{ id: "c", name: "weather", args: { city: "Bonn" } }] })).toBe('ai: Well. weather({"city":"Bonn"})');
  expect(glimpse({ id: "2", type: "tool", name: "weather", content: "clear" })).toBe("weather: clear");
  expect(glimpse({ content: 1 })).toBe('{"content":1}');
});
