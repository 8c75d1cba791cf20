import { expect, test } from "vitest";
import { layered } from "./layout";

const graph = (edges: [string, string][]) => ({ nodes: [...new Set(edges.flat())].map((id) => ({ id })), edges: edges.map(([source, target]) => ({ source, target })) });
const rows = (edges: [string, string][]) => Object.fromEntries(layered(graph(edges)).nodes.map((n) => [n.id, Math.floor(n.y / 96)]));

test("every node stands below those that lead to it", () => {
  expect(rows([["__start__", "a"], ["__start__", "b"], ["a", "c"], ["b", "c"], ["a", "b"], ["c", "__end__"]])).toEqual({ __start__: 0, a: 1, b: 2, c: 3, __end__: 4 });
});

test("edges that lead back don't move anything", () => {
  expect(rows([["__start__", "agent"], ["agent", "tools"], ["tools", "agent"], ["agent", "__end__"]])).toEqual({ __start__: 0, agent: 1, tools: 2, __end__: 2 });
});

test("boxes don't overlap", () => {
  const l = layered(graph([["__start__", "one"], ["__start__", "a long name of a node"], ["__start__", "three"]]));
  for (const a of l.nodes) for (const b of l.nodes) if (a !== b && a.y === b.y) expect(a.x + a.w <= b.x || b.x + b.w <= a.x).toBe(true);
});

test("an empty graph has a place", () => {
  expect(layered({ nodes: [], edges: [] }).nodes).toEqual([]);
});
