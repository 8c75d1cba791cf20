import { expect, test } from "vitest";
import { diff, equal, preview, weigh } from "./json";

test("equal values have no differences", () => {
  expect(diff({ a: [1, { b: null }] }, { a: [1, { b: null }] })).toEqual([]);
  expect(equal({ a: 1, b: undefined }, { a: 1 })).toBe(false);
});

test("members are added, removed and changed", () => {
  expect(diff({ a: 1, b: 2, d: { e: 1 } }, { a: 1, c: 3, d: { e: false } })).toEqual([
    { path: ["c"], kind: "added", after: 3 },
    { path: ["d", "e"], kind: "changed", before: 1, after: false },
    { path: ["b"], kind: "removed", before: 2 },
  ]);
});

test("lists grow and shrink at their end", () => {
  expect(diff(["a"], ["a", "b"])).toEqual([{ path: ["1"], kind: "added", after: "b" }]);
  expect(diff(["a", "b"], ["a"])).toEqual([{ path: ["1"], kind: "removed", before: "b" }]);
});

test("elements with ids are compared with their like, wherever that was", () => {
  const [a, b] = [{ id: "a", text: "x" }, { id: "b", text: "y" }];
  expect(diff([a, b], [b])).toEqual([{ path: ["0"], kind: "removed", before: a }]);
  expect(diff([a, b], [{ id: "a", text: "z" }, b])).toEqual([{ path: ["0", "text"], kind: "changed", before: "x", after: "z" }]);
});

test("another kind of value is a change of the whole", () => {
  expect(diff({ a: [] }, { a: {} })).toEqual([{ path: ["a"], kind: "changed", before: [], after: {} }]);
});

test("previews are one line", () => {
  expect(preview("a\n  b")).toBe("a b");
  expect(preview("abcdef", 4)).toBe("abc…");
  expect(preview({ a: [1, "x", null], b: {} })).toBe('{"a":[1,"x",null],"b":{}}');
  expect(preview({ a: Array.from({ length: 1e6 }, (_, i) => i) }, 10)).toBe('{"a":[0,1…');
});

test("the weight of a value is about the length of its JSON", () => {
  const v = { a: "x".repeat(1000), b: [1, 2, 3] };
  expect(Math.abs(weigh(v) - JSON.stringify(v).length)).toBeLessThan(50);
  expect(weigh(Array.from({ length: 1e6 }, () => "x"), 100)).toBeLessThan(200);
});
