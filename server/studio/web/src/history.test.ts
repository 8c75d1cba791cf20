import { expect, test } from "vitest";
import type { State } from "./api";
import { moments, questions, titleOf, waterfall } from "./history";

const state = (id: string, parent: string | null, next: string[] = [], source = "loop"): State => ({
  values: {}, next, tasks: [], metadata: { source }, created_at: null,
  checkpoint: { thread_id: "t", checkpoint_ns: "", checkpoint_id: id }, parent_checkpoint: parent ? { thread_id: "t", checkpoint_ns: "", checkpoint_id: parent } : null,
}) as unknown as State;

test("what led to the newest state is told from other branches", () => {
  const history = [state("e", "b"), state("d", "c"), state("c", "b"), state("b", "a", ["y"]), state("a", null, ["x"], "input")];
  expect(moments(history, history[0]).map((m) => [m.id, m.current, m.lane, m.nodes.join()])).toEqual([
    ["a", true, 0, ""], ["b", true, 0, "x"], ["c", false, 1, "y"], ["d", false, 1, ""], ["e", true, 0, "y"],
  ]);
});

test("an input is one moment", () => {
  const before = (n: number) => `01a21a14-c3e9-8917-9076-19b20000000${n}`;
  const history = [state("d", "c"), state("c", before(2), ["y"]), state(before(2), "b", ["__start__"], "input"), state("b", "a"), state("a", before(1), ["x"]), state(before(1), null, ["__start__"], "input")];
  expect(moments(history, history[0]).map((m) => [m.id, titleOf(m), m.first, m.current])).toEqual([["a", "Input", true, true], ["b", "x", false, true], ["c", "Input", false, true], ["d", "y", false, true]]);
  expect(moments(history.slice(0, 2), history[0]).map((m) => [m.id, m.first])).toEqual([["c", false], ["d", false]]);
});

test("an input that was given instead of another begins where that one did", () => {
  const before = (n: number) => `01a21a14-c3e9-8917-9076-19b20000000${n}`;
  const input = (n: number, from: string) => state(before(n), from, ["__start__"], "input");
  const history = [state("e", before(4)), input(4, before(3)), state("d", before(3)), input(3, before(2)), state("c", before(2)), input(2, "a"), state("a", null)];
  expect(moments(history, history[0]).map((m) => [m.id, m.parent?.checkpoint?.checkpoint_id, m.current])).toEqual([["a", undefined, true], ["c", "a", false], ["d", "a", false], ["e", "a", true]]);
});

test("a history whose beginning is not there yet is shown", () => {
  expect(moments([state("c", "b")], state("c", "b")).map((m) => [m.id, m.current])).toEqual([["c", true]]);
});

test("a head inside of a step is stood for by the newest of the history", () => {
  expect(moments([state("b", "a"), state("a", null)], state("x", "b")).map((m) => [m.id, m.current, m.head])).toEqual([["a", true, false], ["b", true, true]]);
});

test("breakpoints are no questions", () => {
  const s = { ...state("a", null), tasks: [{ id: "1", name: "n", interrupts: [{ id: "q", value: "?" }, { id: "b", value: null }] }], interrupts: [{ id: "q" }] } as unknown as State;
  expect(questions(s)).toEqual([{ id: "q", value: "?", node: "n" }]);
});

test("a fork that changes nothing is passed over", () => {
  const history = [state("d", "c", [], "update"), state("c", "b", ["y"], "fork"), state("b", "a", ["y"]), state("a", null, ["x"], "input")];
  expect(moments(history, history[0]).map((m) => [m.id, m.parent?.checkpoint?.checkpoint_id])).toEqual([["a", undefined], ["b", "a"], ["d", "b"]]);
});

test("durations are those that were measured, and the tasks of the newest run stand in a waterfall", () => {
  const at = (s: State, run: string, step: number, created: string, ...ran: [string, string, number][]) => ({
    ...s, created_at: created, metadata: { source: "loop", run_id: run, step }, ran: ran.map(([name, began_at, took]) => ({ name, began_at, took })),
  }) as unknown as State;
  const history = [
    at(state("d", "c"), "2", 3, "2026-01-01T00:00:09+00:00", ["join", "2026-01-01T00:00:02.500250+00:00", 0.0005]),
    at(state("c", "b", ["join"]), "2", 2, "2026-01-01T00:00:03+00:00", ["slow", "2026-01-01T00:00:02.000000+00:00", 0.5], ["quick", "2026-01-01T00:00:02.000250+00:00", 0.1]),
    at(state("b", "a", ["slow", "quick"]), "1", 1, "2026-01-01T00:00:01+00:00", ["old", "2026-01-01T00:00:00.000000+00:00", 1]),
    state("a", null, ["old"], "input"),
  ];
  const all = moments(history, history[0]);
  expect(all.map((m) => m.ms)).toEqual([undefined, 1000, 500, 0.5]);
  expect(waterfall(all).map((b) => [b.name, b.step, b.from, b.took])).toEqual([["slow", 2, 0, 500], ["quick", 2, 0.25, 100], ["join", 3, 500.25, 0.5]]);
});
