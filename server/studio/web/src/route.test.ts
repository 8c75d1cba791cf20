import { expect, test } from "vitest";
import { format, parse, type Route } from "./route";
import { wanted } from "./search";

test("every place has an address, and is found by it", () => {
  const places: Route[] = [
    { page: "work", assistant: undefined, thread: undefined }, { page: "work", assistant: "a/b c", thread: undefined }, { page: "work", assistant: "a", thread: "t" }, { page: "store" }, { page: "assistants", assistant: "x" },
    { page: "runs", filter: {} }, { page: "runs", filter: { status: "error,timeout", of: "a graph", error: "100% of it? #1/2", since: "7d" } },
    { page: "crons", cron: "c" }, { page: "tests", set: undefined, shown: [] }, { page: "tests", set: "a/b c", shown: [] }, { page: "tests", set: "x", shown: ["1", "2"] }, { page: "compare", assistant: "a", thread: "t", left: "1", right: "2" }, { page: "compare", assistant: undefined, thread: "t", left: undefined, right: "2" },
  ];
  for (const p of places) expect(parse(format(p))).toEqual(p);
  expect(parse("#/t/x")).toEqual({ page: "work", thread: "x" });
  expect(parse("#/runs?status=&odd=1&user=kim")).toEqual({ page: "runs", filter: { user: "kim" } });
  expect(parse("#/t/%")).toEqual({ page: "work" });
});

test("a search asks for values, metadata, IDs and words", () => {
  const id = "01A20094-d7d9-7608-b1a1-d5337ea2d0a5";
  expect(wanted(`city=Bonn nights=3 meta.user=kim ${id} Two words`)).toEqual({ values: { city: "Bonn", nights: 3 }, metadata: { user: "kim" }, ids: [id.toLowerCase()], rest: "two words" });
});
