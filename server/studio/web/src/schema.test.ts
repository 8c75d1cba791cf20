import { expect, test } from "vitest";
import type { Json } from "./json";
import { blank, fieldOf, overwritable, update } from "./schema";

const strings = { type: ["null", "array"], items: { type: "string" } };
const merging = { anyOf: [strings, { type: "object", properties: { $overwrite: strings } }] };

test("plain types have controls of their own", () => {
  const kinds = (s: Parameters<typeof fieldOf>[0]) => fieldOf(s, {}).kind;
  expect(kinds({ type: "string" })).toBe("text");
  expect(kinds({ type: "integer" })).toBe("number");
  expect(kinds({ type: ["boolean", "null"] })).toBe("boolean");
  expect(kinds({ enum: ["a", "b"] })).toBe("choice");
  expect(kinds({ type: "object", properties: { a: {} } })).toBe("object");
});

test("what has no control is JSON", () => {
  const all: Json[] = [true, {}, { type: "object" }, { type: "array" }, { anyOf: [{ type: "string" }, { type: "number" }] }, { type: ["string", "number"] }];
  for (const s of all) expect(fieldOf(s, {}).kind).toBe("json");
});

test("a field that merges is entered as its value", () => {
  expect(fieldOf(merging, {})).toMatchObject({ kind: "list", nullable: true, items: { type: "string" } });
  expect(overwritable(merging)).toBe(true);
  expect(overwritable(strings)).toBe(false);
});

test("references are followed, and circles end", () => {
  const root = { $defs: { n: { type: "number", description: "d" }, loop: { $ref: "#/$defs/loop" } } };
  expect(fieldOf({ $ref: "#/$defs/n", title: "t" }, root)).toMatchObject({ kind: "number", description: "d", title: "t" });
  expect(fieldOf({ $ref: "#/$defs/loop" }, root).kind).toBe("json");
});

test("new elements begin with what they need", () => {
  expect(blank({ type: "object", properties: { a: { type: "string" }, b: { type: "number" }, c: { default: 3 } }, required: ["a", "c"] }, {})).toEqual({ a: "", c: 3 });
});

test("an update has what differs, and replaces what merges", () => {
  expect(update({ a: 1, b: ["x"], c: true }, { a: 2, b: ["y"], c: true }, { properties: { b: merging } })).toEqual({ a: 2, b: { $overwrite: ["y"] } });
});
