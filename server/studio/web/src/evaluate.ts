// Where data sets and evaluations are kept, and how an evaluation goes on. Both are items of
// the long-term store, so that every client has them; the runs are those of threads whose
// metadata name the evaluation.
import { ask, client, searchRuns, searchThreads, words, type Assistant, type Interrupt, type Run } from "./api";
import { caseOf, inputOf, judged, judgeTask, outputOf, valueOf, type Case, type CaseReport, type Evaluation, type Report, type RunReport } from "./evals";
import type { JsonObject } from "./json";
import { conversation, textOf } from "./messages";
import { questionsOf } from "./runs";

const setsIn = "datasets", headsIn = "evaluations", resultsIn = "evaluation_results";
const most = 1000; // items that are read at once
export const graderGraph = "grader"; // eval.GraderName

type Item = { namespace: string[]; key: string; value: JsonObject; createdAt: string };

// items are all of a namespace, in the order in which they were made.
async function items(...namespace: string[]): Promise<Item[]> {
  const all: Item[] = [];
  for (;;) {
    const page = (await client.store.searchItems(namespace, { limit: most, offset: all.length })).items as unknown as Item[];
    all.push(...page);
    if (page.length < most) break;
  }
  return all.filter((i) => i.namespace.length === namespace.length).sort((a, b) => a.createdAt.localeCompare(b.createdAt));
}

const ever = 5e7; // minutes: a server may let items expire that say nothing of it

const put = (namespace: string[], key: string, value: object) => client.store.putItem(namespace, key, value as Record<string, unknown>, { index: false, ttl: ever });

// each does something with all, some at a time.
async function each<T>(of: T[], f: (t: T) => Promise<unknown>, atOnce = 5) {
  let next = 0;
  await Promise.all(Array.from({ length: Math.min(atOnce, of.length) }, async () => { while (next < of.length) await f(of[next++]!); }));
}

export async function dataSets(): Promise<string[]> {
  const { namespaces } = await client.store.listNamespaces({ prefix: [setsIn], maxDepth: 2, limit: most });
  return namespaces.flatMap((n) => n[1] ?? []).sort((a, b) => a.localeCompare(b));
}

export const casesOf = async (set: string) => (await items(setsIn, set)).map((i) => caseOf(i.key, i.value));
export const putCase = (set: string, c: Case) => put([setsIn, set], c.name, valueOf(c));
export const removeCase = (set: string, name: string) => client.store.deleteItem([setsIn, set], name);
// One after the other, which is the order that they keep.
export async function putCases(set: string, cases: Case[]) { for (const c of cases) await putCase(set, c); }

export const evaluationsOf = async (set: string) => (await items(headsIn, set)).map((i) => ({ ...(i.value as unknown as Evaluation), id: i.key, dataset: set })).reverse();
export const resultsOf = async (id: string) => (await items(resultsIn, id)).map((i) => i.value as unknown as CaseReport);

async function keep(e: Evaluation, cases: CaseReport[]) {
  const { id, dataset, ...head } = e;
  for (const c of cases) await put([resultsIn, id], c.case.name, c);
  await put([headsIn, dataset], id, head);
}

const newID = () => Date.now().toString(36) + Math.random().toString(36).slice(2, 6);

// addReport keeps a report of package eval as an evaluation.
export async function addReport(set: string, r: Report): Promise<Evaluation> {
  const e: Evaluation = { id: newID(), dataset: set, target: r.target ?? "a report", assistant_id: "", version: 0, repeat: r.repeat || 1, cases: r.cases.length, started_at: r.started_at };
  await keep(e, r.cases);
  return e;
}

const threadsOf = async (id: string) => {
  const all: Awaited<ReturnType<typeof searchThreads>> = [];
  for (;;) {
    const page = await searchThreads({ metadata: { evaluation: id }, select: ["thread_id", "status", "metadata"], limit: most, offset: all.length, sort_by: "created_at", sort_order: "asc" });
    all.push(...page);
    if (page.length < most) return all;
  }
};

export async function removeEvaluation(e: Evaluation) {
  await each(await threadsOf(e.id), (t) => client.threads.delete(t.thread_id));
  await each(await items(resultsIn, e.id), (i) => client.store.deleteItem([resultsIn, e.id], i.key));
  await client.store.deleteItem([headsIn, e.dataset], e.id);
}

// grade has the server's grader judge runs.
async function grade(runs: object[]): Promise<RunReport[]> {
  const end = await ask<{ reports?: RunReport[]; __error__?: { message: string } }>("/runs/wait", { assistant_id: graderGraph, input: { runs } });
  if (!end.reports || end.reports.length !== runs.length) throw new Error(`The grader failed: ${end.__error__?.message ?? "it has no reports"}`);
  return end.reports;
}

// wrongIn says what is wrong with cases by the grader, and of which.
export async function wrongIn(cases: Case[]): Promise<string[]> {
  const wrong: string[] = [];
  for (let i = 0; i < cases.length; i += 100) (await grade(cases.slice(i, i + 100).map((c) => ({ case: c })))).forEach((r, j) => { if (r.error) wrong.push(`“${cases[i + j]!.name}”: ${r.error.replace(/^the case: /, "")}`); });
  return wrong;
}

// begin starts an evaluation: a run for each case, on a thread of its own. They go on when the
// page is left.
export async function begin(set: string, cases: Case[], assistant: Assistant, repeat: number, judge: Evaluation["judge"], progress: (begun: number) => void): Promise<Evaluation> {
  const e: Evaluation = { id: newID(), dataset: set, target: assistant.name || assistant.graph_id, assistant_id: assistant.assistant_id, version: assistant.version, repeat, cases: cases.length, started_at: new Date().toISOString(), ...(judge ? { judge } : {}) };
  await keep(e, cases.map((c) => ({ case: c, runs: [] })));
  let begun = 0;
  await each(cases.flatMap((c) => Array.from({ length: repeat }, () => c)), async (c) => { await start(e, c); progress(++begun); });
  return e;
}

// start starts a run of a case, on a new thread unless one is left over. An input that the
// server refuses has failed.
async function start(e: Evaluation, c: Case, left?: string) {
  const thread = left ?? (await ask<{ thread_id: string }>("/threads", { metadata: { evaluation: e.id, dataset: e.dataset, example: c.name, title: `${e.dataset}: ${c.name}` } })).thread_id;
  try {
    await ask(`/threads/${thread}/runs`, { assistant_id: e.assistant_id, input: inputOf(c), metadata: { evaluation: e.id } });
  } catch (error) {
    if (!/^Error: HTTP 4(00|22)/.test(String(error))) throw error;
    const report: CaseReport = { case: c, runs: Array.from({ length: e.repeat }, () => ({ result: { cost: { known: 0 }, latency_ns: 0 }, error: `the input: ${words(error)}` })) };
    await put([resultsIn, e.id], c.name, report);
  }
}

// unbegun reports whether no run was ever started on a thread: whoever made it left too soon.
const unbegun = (t: { metadata?: unknown }) => (t.metadata as JsonObject | undefined)?.graph_id === undefined;

// begunLess starts the runs of an evaluation that were never started: whoever began it left too soon.
export async function begunLess(e: Evaluation, results: CaseReport[]) {
  const threads = await threadsOf(e.id);
  const missing = results.filter((c) => c.runs.length === 0).flatMap(({ case: c }) => {
    const mine = threads.filter((t) => t.metadata?.example === c.name);
    const left = mine.filter(unbegun).map((t) => t.thread_id);
    return Array.from({ length: left.length + Math.max(0, e.repeat - mine.length) }, (_, i) => ({ c, left: left[i] }));
  });
  await each(missing, ({ c, left }) => start(e, c, left));
}

type Ended = { thread: string; runs: (Run & { metadata?: { answered?: number } })[] };
const runMembers = ["run_id", "thread_id", "assistant_id", "status", "metadata", "run_started_at", "run_ended_at", "error", "usage", "cost", "created_at"];

// advance answers what runs of an evaluation ask, has those judged that have ended, and keeps
// what came of them. It returns how many cases are still open, and how many runs never began.
export async function advance(e: Evaluation, results: CaseReport[], graded: boolean): Promise<{ open: number; missing: number }> {
  const open = results.filter((c) => c.runs.length === 0);
  if (!open.length || !e.assistant_id) return { open: 0, missing: 0 };
  const threads = new Map<string, Awaited<ReturnType<typeof threadsOf>>>();
  for (const t of await threadsOf(e.id)) { const name = String(t.metadata?.example); threads.set(name, [...(threads.get(name) ?? []), t]); }
  let missing = 0;
  const ended: { report: CaseReport; of: Ended[] }[] = [];
  await each(open, async (report) => {
    const mine = threads.get(report.case.name) ?? [];
    const idle = mine.filter(unbegun).length + Math.max(0, e.repeat - mine.length);
    missing += idle;
    if (idle || mine.some((t) => t.status === "busy")) return;
    const of: Ended[] = [];
    for (const t of mine.slice(0, e.repeat)) {
      const runs: Ended["runs"] = await searchRuns({ thread_id: t.thread_id, limit: 100, select: runMembers });
      if (!runs.length || runs.some((r) => r.status === "pending" || r.status === "running")) return;
      of.push({ thread: t.thread_id, runs });
    }
    ended.push({ report, of });
  });
  let settled = 0;
  for (let i = 0; i < ended.length; i += 20) {
    const part = ended.slice(i, i + 20);
    const ids = part.flatMap((p) => p.of.map((o) => o.thread));
    const found = new Map((await searchThreads({ ids, limit: ids.length, select: ["thread_id", "status", "values", "interrupts"] })).map((t) => [t.thread_id, t]));
    const whole: { report: CaseReport; runs: object[] }[] = [];
    for (const { report, of } of part) {
      const runs: object[] = [];
      for (const o of of) {
        const t = found.get(o.thread), last = o.runs[0]!;
        const asked = questionsOf(t?.interrupts as unknown as Record<string, Interrupt[]> | undefined), answered = last.metadata?.answered ?? 0;
        const given = (report.case.answers ?? []).slice(answered, answered + asked.length);
        if (asked.length && given.length) {
          await ask(`/threads/${o.thread}/runs`, { assistant_id: e.assistant_id, command: { resume: Object.fromEntries(given.map((a, n) => [asked[n]!.id, a])) }, metadata: { evaluation: e.id, answered: answered + given.length }, multitask_strategy: "reject" });
          continue;
        }
        const ms = o.runs.reduce((n, r) => n + (r.run_started_at && r.run_ended_at ? Date.parse(r.run_ended_at) - Date.parse(r.run_started_at) : 0), 0);
        const cost = o.runs.every((r) => r.cost !== null) ? o.runs.reduce((n, r) => n + r.cost!, 0) : 0;
        const error = last.error ? `${last.error.error}: ${last.error.message}` : asked.length ? `the run waits: it asks ${asked.map((q) => q.key || JSON.stringify(q.value)).join(", ")}; give the case “answers” for what is asked` : last.status === "success" ? undefined : last.status === "interrupted" ? "the run was stopped" : last.status;
        runs.push({ case: report.case, state: t?.values ?? undefined, error, latency_ns: Math.round(Math.max(1, ms) * 1e6), cost: cost ? { known: cost } : undefined, thread: o.thread });
      }
      if (runs.length === of.length) whole.push({ report, runs });
    }
    if (!whole.length) continue;
    const flat = whole.flatMap((w) => w.runs) as { case: Case; state?: JsonObject; error?: string; latency_ns: number; cost?: { known: number }; thread: string }[];
    const reports: RunReport[] = graded ? await grade(flat) : flat.map((r) => ({ result: { output: outputOf(r.state ?? null), cost: r.cost ?? { known: 0 }, latency_ns: r.latency_ns, thread: r.thread }, error: r.error }));
    if (e.judge) await each(reports.map((r, n) => ({ r, c: flat[n]!.case })).filter(({ r }) => !r.error), async ({ r, c }) => { (r.scores ??= []).push(await judgedBy(e.judge!, c, r)); });
    let at = 0;
    for (const { report, runs } of whole) {
      report.runs = reports.slice(at, (at += runs.length));
      await put([resultsIn, e.id], report.case.name, report);
      settled++;
    }
  }
  return { open: open.length - settled, missing };
}

// judgedBy asks the assistant that judges.
async function judgedBy(judge: NonNullable<Evaluation["judge"]>, c: Case, r: RunReport) {
  const end = await ask<JsonObject & { __error__?: { message: string } }>("/runs/wait", { assistant_id: judge.assistant_id, input: { messages: [{ type: "human", content: judgeTask(judge.rubric, c, r.result) }] } }).catch((e: unknown) => ({ __error__: { message: String(e) } }) as never);
  if (end.__error__) return { name: "judge", value: 0, pass: false, error: end.__error__.message };
  return judged(textOf(conversation(end).findLast((m) => m.type === "ai")?.content ?? ""), judge.min);
}
