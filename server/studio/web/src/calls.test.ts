import { expect, test } from "vitest";
import { beginOf, differences, dollars, labelOf, pathOf, sent, spent, type Call, type ToolCall } from "./calls";
import { waterfall, type Moment } from "./history";

const call = (over: Partial<Call>): Call => ({
  call_id: "c", node: "agent", checkpoint_ns: "", checkpoint_id: null, run_id: null, step: 1, task: 0, attempt: 1, provider: "p", model: "m", began_at: "2026-01-01T00:00:01.000500+00:00",
  took: 0.5, first_token: null, finish: "stop", usage: null, cost: null, cached: false, error: null, error_kind: "", ...over,
});

test("the node of a call is named with those around it", () => {
  expect(pathOf(call({}))).toEqual(["agent"]);
  expect(pathOf(call({ checkpoint_ns: "tools:0198-1.0#x|poet%7C:0198-2" }))).toEqual(["tools", "poet|", "agent"]);
});

test("what was sent has messages, tools and settings", () => {
  const s = sent(call({ request: { messages: [{ id: "1", role: "user", content: "hi" }], tools: [{ name: "t" }], tool_choice: "@none", config: { max_tokens: 5 } } }));
  expect(s.messages.map((m) => [m.type, m.content])).toEqual([["human", "hi"]]);
  expect([s.tools, s.settings]).toEqual([[{ name: "t" }], { max_tokens: 5, tool_choice: "@none" }]);
  expect(sent(call({}))).toEqual({ messages: [], tools: [], settings: {} });
});

test("two calls differ in what was said, not in IDs and tokens", () => {
  const a = call({ request: { messages: [{ id: "1", role: "user", content: "hi" }] }, answer: { id: "x", role: "assistant", content: "a", usage: { input_tokens: 1 } } });
  const b = call({ request: { messages: [{ id: "2", role: "user", content: "hi" }, { id: "3", role: "user", content: "you" }] }, answer: { id: "y", role: "assistant", content: "b" } });
  expect(differences(a, b).map((c) => [c.path.join("."), c.kind])).toEqual([["messages.1", "added"], ["answer.content", "changed"]]);
  expect(differences(a, a)).toEqual([]);
});

test("the cost of calls is known if that of each is that used something", () => {
  const used = { input_tokens: 3, output_tokens: 2, cache_read_tokens: 0, cache_write_tokens: 0, reasoning_tokens: 0 };
  expect(spent([call({ usage: used, cost: 0.5 }), call({}), call({ usage: used, cost: 0.25 })])).toEqual({ input: 6, output: 4, cost: 0.75 });
  expect(spent([call({ usage: used, cost: 0.5 }), call({ usage: used })]).cost).toBeUndefined();
  expect([dollars(0), dollars(0.00123), dollars(1.234)]).toEqual(["$0", "$0.001", "$1.23"]);
});

test("calls are bars among the tasks of their run", () => {
  const state = { metadata: { run_id: "r", step: 1 } };
  const m = { id: "1", state, ran: [{ name: "agent", began_at: "2026-01-01T00:00:01.000000+00:00", took: 1 }] } as unknown as Moment;
  const inside = call({}), later = call({ call_id: "d", began_at: "2026-01-01T00:00:09.000000+00:00" }), own = call({ call_id: "e", run_id: "r", began_at: "2026-01-01T00:00:01.700000+00:00", took: 0.1 });
  expect(waterfall([m], [later, own, inside]).map((b) => [b.name, b.call?.call_id, Math.round(b.from * 10) / 10, b.took])).toEqual([["agent", undefined, 0, 1000], ["agent", "c", 0.5, 500], ["agent", "e", 700, 100]]);
  expect(beginOf(inside) % 1).toBeCloseTo(0.5);
  const { provider: _, model: __, ...where } = call({ call_id: "t", began_at: "2026-01-01T00:00:01.600000+00:00", took: 0.05 });
  const tool = { ...where, tool: "weather", tool_call_id: "1", failed: false } as unknown as ToolCall;
  expect(waterfall([m], [tool, inside]).map((b) => b.call && labelOf(b.call))).toEqual([undefined, "m", "weather"]);
  const early = call({ began_at: "2026-01-01T00:00:00.999900+00:00", took: 0.9 }); // than its task, as that was recorded
  expect(waterfall([m], [early]).map((b) => b.name)).toEqual(["agent", "agent"]);
  expect(waterfall([m], [early])[1]!.from).toBe(0);
});
