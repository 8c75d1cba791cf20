import { expect, test } from "vitest";
import { casesIn, checksOf, compared, failuresOf, inputOf, judged, linesOf, outputOf, passed, reportIn, reportOf, sumOf, valueOf, caseOf, type CaseReport, type RunReport } from "./evals";

const run = (output: string, pass: boolean, more: Partial<RunReport> = {}): RunReport => ({ result: { output, latency_ns: 2e6, cost: { known: 0.5 }, usage: [{ input_tokens: 10, output_tokens: 2 }] }, scores: [{ name: "exact", value: pass ? 1 : 0, pass, reason: pass ? undefined : "it differs" }], ...more });
const of = (name: string, ...runs: RunReport[]): CaseReport => ({ case: { name, input: name, output: "x" }, runs });

test("a data set is read as it was written, and all that is wrong with one is told", () => {
  const text = '{"name":"a","input":"hi","output":"there","tags":["t"]}\n\n{"name":"b","input":{"x":1},"evaluators":["exact",{"type":"contains","text":"y"}]}\n';
  const cases = casesIn(text);
  expect(linesOf(cases)).toBe(text.replace("\n\n", "\n"));
  expect(cases.map(checksOf)).toEqual([["exact"], ["exact", "contains"]]);
  expect(cases.map(inputOf)).toEqual([{ messages: [{ type: "human", content: "hi" }] }, { x: 1 }]);
  expect(caseOf("a", valueOf(cases[0]!))).toEqual(cases[0]);
  expect(() => casesIn('{"name":"a","input":1}\n{\n[]\n{"name":"a","input":1}\n{"input":1}\n{"name":"c"}\n{"name":"d","inputs":1}\n')).toThrow(/Line 2: it is no JSON.*\nLine 3: a case is an object.*\nLine 4: the name “a” is that of line 1, too\nLine 5: the case has no “name”\nLine 6: .*no “input”\nLine 7: there is no member “inputs”; there are name, input/);
  expect(() => casesIn("\n")).toThrow("no cases");
});

test("an evaluation comes to what its runs came to", () => {
  const cases = [of("a", run("x", true), run("x", true)), of("b", run("x", true), run("y", false)), of("c", run("", true, { error: "no money", scores: undefined }))];
  expect(sumOf(cases)).toEqual({ cases: 3, judged: 3, passed: 1, latency: 2, tokens: 60, cost: 2.5, unknown: false });
  expect(failuresOf(cases[1]!.runs[1]!)).toEqual(["exact: it differs"]);
  expect(passed(cases[2]!.runs[0]!)).toBe(false);
  expect(failuresOf(cases[2]!.runs[0]!)).toEqual(["no money"]);
});

test("evaluations are compared by case, differences first", () => {
  const before = [of("same", run("x", true)), of("worse", run("x", true)), of("better", run("x", false)), of("gone", run("x", true)), of("said", run("x", true)), { ...of("asked", run("x", true)), case: { name: "asked", input: "other" } }];
  const after = [of("same", run("x", true)), of("worse", run("y", false)), of("better", run("x", true)), of("new", run("x", true)), of("said", run("X", true)), of("asked", run("x", true))];
  expect(compared([before, after]).map((r) => [r.name, r.verdict])).toEqual([["worse", "worse"], ["better", "better"], ["said", "other output"], ["asked", "reworded"], ["gone", "not run"], ["new", "not run"], ["same", "same"]]);
  expect(compared([after]).map((r) => r.name)[0]).toBe("worse");
});

test("a judge's answer is a score, or why it is none", () => {
  expect(judged('```json\n{"reason": "short", "score": 0.8}\n```', 0.7)).toEqual({ name: "judge", value: 0.8, pass: true, reason: "short" });
  expect(judged('{"score": 0.5}', 0.7).pass).toBe(false);
  expect(judged("Fine!", 0.7).error).toMatch(/said: Fine!/);
  expect(judged('{"score": 7}', 0.7).error).toBeTruthy();
});

test("the output of a conversation is the last answer", () => {
  expect(outputOf({ messages: [{ type: "human", content: "a" }, { type: "ai", content: "b" }] })).toBe("b");
  expect(outputOf({ city: "Bonn" })).toEqual({ city: "Bonn" });
});

test("a report is read as it was written", () => {
  const e = { id: "e", dataset: "d", target: "chat", assistant_id: "chat", version: 1, repeat: 1, cases: 1, started_at: "2026-11-28T12:00:00Z" };
  const r = reportOf(e, [of("a", run("x", true))]);
  expect(reportIn(JSON.stringify(r))).toEqual(r);
  expect(() => reportIn("{}")).toThrow("no report");
  expect(() => reportIn('{"format": 2, "cases": []}')).toThrow("format is 2");
});
