import { expect, test } from "vitest";
import type { State } from "./api";
import { sides } from "./compare";
import { moments, partsOf, rails, total, usageOf } from "./history";

const state = (id: string, parent: string | null, values: object, next: string[] = []): State => ({
  values, next, tasks: [], metadata: { source: parent ? "loop" : "input", step: 0 }, created_at: null,
  checkpoint: { thread_id: "t", checkpoint_ns: "", checkpoint_id: id }, parent_checkpoint: parent ? { thread_id: "t", checkpoint_ns: "", checkpoint_id: parent } : null,
}) as unknown as State;

// a, then b and from there c, d on one branch and e, f on the other.
const history = [state("f", "e", { n: 3 }), state("e", "b", { n: 2 }, ["y"]), state("d", "c", { n: 4 }), state("c", "b", { n: 2 }, ["y"]), state("b", "a", { n: 1 }, ["x"]), state("a", null, { n: 0 }, ["x"])];
const all = moments(history, history[0]);

test("branches are compared from where they part", () => {
  const { common, pairs } = sides(all, "d", "f");
  expect(common.map((m) => m.id)).toEqual(["a", "b"]);
  expect(pairs.map((p) => [p.left?.id, p.right?.id, p.same])).toEqual([["c", "e", true], ["d", "f", false]]);
});

test("a moment is compared with one that came after it", () => {
  const { common, pairs } = sides(all, "b", "f");
  expect(common.map((m) => m.id)).toEqual(["a", "b"]);
  expect(pairs.map((p) => [p.left?.id, p.right?.id, p.same])).toEqual([[undefined, "e", false], [undefined, "f", false]]);
});

test("steps of the same name stand beside each other", () => {
  // From a, one branch goes on with x and y, the other with w, x and z.
  const line = [
    state("f", "e", { n: 5 }), state("e", "d", { n: 4 }, ["z"]), state("d", "a", { n: 3 }, ["x"]),
    state("c", "b", { n: 2 }), state("b", "a", { n: 1 }, ["y"]), state("a", null, { n: 0 }, ["x"]),
  ];
  line[2]!.metadata = { source: "update" } as never;
  expect(sides(moments(line, line[0]), "c", "f").pairs.map((p) => [p.left?.id, p.right?.id])).toEqual([[undefined, "d"], ["b", "e"], ["c", "f"]]);
});

test("rails run from each step to the one before", () => {
  expect(rails(all.toReversed()).map((r) => [r.passing, r.joining, r.above, r.below])).toEqual([
    [[], [], false, true], [[], [], true, true], [[0], [], false, true], [[0], [], true, true], [[], [1], true, true], [[], [], true, false],
  ]);
});

test("a step costs the tokens of the messages that it added", () => {
  const said = (id: string, input: number) => ({ id, type: "ai", content: "x", usage_metadata: { input_tokens: input, output_tokens: 1 } });
  const line = [state("b", "a", { messages: [said("1", 10), said("2", 20)] }), state("a", null, { messages: [said("1", 10)] })];
  const m = moments(line, line[0]);
  expect(m.map(usageOf)).toEqual([{ input: 10, output: 1 }, { input: 20, output: 1 }]);
  expect(total(m.map(usageOf))).toEqual({ input: 30, output: 2 });
  expect(total([undefined])).toBeUndefined();
});

test("a subgraph's history is where the server says", () => {
  const task = (name: string, checkpoint: object | null) => ({ id: "01:2", name, interrupts: [], checkpoint }) as never;
  expect(partsOf([task("in", { checkpoint_ns: "/in:x" }), task("other", null)])).toEqual([{ name: "in", path: ["in"], ns: "/in:x" }]);
  expect(partsOf([task("deep", { checkpoint_ns: "/in:x/deep" })], ["in"])).toEqual([{ name: "deep", path: ["in", "deep"], ns: "/in:x/deep" }]);
});
