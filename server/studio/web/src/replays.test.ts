import { expect, test } from "vitest";
import { kindOf, namesIn, outcomeOf, whereOf, type Difference } from "./replays";

const d: Difference = { kind: "state", step: 2, checkpoint: "c", want: "1", got: "2" };

test("a difference says where it is", () => {
  expect(whereOf({ ...d, path: ["research"], node: "look", field: "advice", substep: 1 })).toBe("step 2 · research › look · its step 1 · field advice");
  expect(whereOf({ ...d, kind: "routing", step: 0 })).toBe("the input");
  expect(kindOf(d)).toBe("wrote something else");
  expect(kindOf({ ...d, kind: "new" })).toBe("new");
});

test("a replay is summed up", () => {
  const r = { differences: [] as Difference[], more: false, supersteps: 3, error: null };
  expect(outcomeOf(r)).toBe("No difference in 3 supersteps.");
  expect(outcomeOf({ ...r, supersteps: 1, differences: [d] })).toBe("1 difference in 1 superstep.");
  expect(outcomeOf({ ...r, more: true, differences: [d] })).toBe("1 and more differences in 3 supersteps.");
  expect(outcomeOf({ ...r, error: { error: "Error", message: "x" } })).toBe("The replay ended before all of 3 supersteps were compared.");
});

test("names stand between commas", () => {
  expect(namesIn(" search, research/look ,,")).toEqual(["search", "research/look"]);
  expect(namesIn("")).toEqual([]);
});
