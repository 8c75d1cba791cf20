import { expect, test } from "vitest";
import type { Assistant } from "./api";
import { alike, answersFor, asked, filled, questionsOf, type Asking } from "./runs";

const now = Date.parse("2026-03-01T12:34:56Z");

test("a filter asks for what it says, from a whole part of the time on", () => {
  const assistants = [{ assistant_id: "1", graph_id: "trip" }] as Assistant[];
  expect(asked({}, assistants, now)).toEqual({ body: { created_after: "2026-02-28T12:30:00.000Z" }, from: Date.parse("2026-02-28T12:30:00Z") / 1000, width: 1800 });
  expect(asked({ status: "error,timeout", of: "trip", user: "kim", error: "x", since: "all", cost: "0.5" }, assistants, now).body).toEqual({ status: ["error", "timeout"], graph_id: "trip", user_id: "kim", error: "x", min_cost: 0.5 });
  expect(asked({ of: "1", since: "odd", cost: "much" }, assistants, now)).toEqual({ body: { assistant_id: "1", created_after: "2026-02-28T12:30:00.000Z" }, from: Date.parse("2026-02-28T12:30:00Z") / 1000, width: 1800 });
});

test("times without runs have figures as well", () => {
  const f = { from: "2026-03-01T11:30:00.000000+00:00", runs: 2, errors: 1, p50: 1, p95: 2, input_tokens: 9, output_tokens: 1, cost: null };
  const { from, width } = asked({}, [], now);
  const all = filled([f], from, width, now);
  expect(all.length).toBe(49);
  expect(all.filter((x) => x.runs)).toEqual([f]);
  expect(all.indexOf(f)).toBe(46);
  expect(filled([{ ...f, from: "2026-02-27T00:00:00Z" }], -Infinity, 86400, now).map((x) => x.runs)).toEqual([2, 0, 0]);
  expect(filled([], -Infinity, 86400, now).length).toBe(1);
});

test("threads that are asked the same are answered together, each by its own IDs", () => {
  const ask = (thread: string, graph: string, ...keys: string[]): Asking => ({ thread, graph, assistant: "a", questions: questionsOf({ t: keys.map((key, i) => ({ id: thread + i, key, value: "?" })) }) });
  const a = ask("a", "g", "party", "remark"), b = ask("b", "g", "remark", "party"), c = ask("c", "g", "party"), d = ask("d", "h", "party");
  expect(alike([a, b, c, d])).toEqual([[a, b], [c], [d]]);
  expect(answersFor(b, a, { a0: "six", a1: "none" })).toEqual({ b1: "six", b0: "none" });
  const approval = (thread: string, name: string): Asking => ({ thread, graph: "g", assistant: "a", questions: [{ id: thread, value: { action_requests: [{ name, args: { to: thread } }] } }] });
  expect(alike([approval("a", "mail"), approval("b", "mail"), approval("c", "delete")]).map((g) => g.length)).toEqual([2, 1]);
});
