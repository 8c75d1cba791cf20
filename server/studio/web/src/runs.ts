// Runs of all threads: which are looked for, what they come to over time, and which
// questions are alike.
import type { Assistant, Interrupt } from "./api";
import type { Json, JsonObject } from "./json";

// A RunFilter says which runs, as the page's address has it: statuses with commas
// between them, of a graph or an assistant, since when, and what it cost at least in dollars.
export type RunFilter = { status?: string; of?: string; user?: string; error?: string; since?: string; cost?: string };
const names = ["status", "of", "user", "error", "since", "cost"] as const;

export const filterOf = (query: URLSearchParams): RunFilter => Object.fromEntries(names.map((n) => [n, query.get(n)]).filter(([, v]) => v));

export const statuses = ["pending", "running", "success", "error", "timeout", "interrupted"];
const hour = 3600;
export const spans: Record<string, [seconds: number, label: string]> = { "1h": [hour, "The last hour"], "": [24 * hour, "The last day"], "7d": [7 * 24 * hour, "The last week"], "30d": [30 * 24 * hour, "The last 30 days"], all: [Infinity, "All time"] };

// asked is what a filter asks the server for, and how the time is divided: into 48
// parts, or days.
export function asked(f: RunFilter, assistants: Assistant[], now: number): { body: JsonObject; from: number; width: number } {
  const span = (spans[f.since ?? ""] ?? spans[""]!)[0], width = span === Infinity ? 24 * hour : span / 48;
  const from = span === Infinity ? -Infinity : Math.floor((now / 1000 - span) / width) * width;
  const body: JsonObject = {};
  if (f.status) body.status = f.status.split(",");
  if (f.of) body[assistants.some((a) => a.graph_id === f.of) ? "graph_id" : "assistant_id"] = f.of;
  if (f.user) body.user_id = f.user;
  if (f.error) body.error = f.error;
  if (Number(f.cost) > 0) body.min_cost = Number(f.cost);
  if (span !== Infinity) body.created_after = new Date(from * 1000).toISOString();
  return { body, from, width };
}

// Figures are what the runs of some time came to; p50 and p95 are seconds. The
// tokens and the cost are those of runs of which they are known, null if they are of none.
export type Figures = { from: string; runs: number; errors: number; p50: number | null; p95: number | null; input_tokens: number | null; output_tokens: number | null; cost: number | null };

// filled are figures with those of the times that had no runs, up to now.
export function filled(figures: Figures[], from: number, width: number, now: number): Figures[] {
  const known = new Map(figures.map((f) => [Math.round(Date.parse(f.from) / 1000 / width), f]));
  const first = from === -Infinity ? Math.min(...known.keys(), Math.floor(now / 1000 / width)) : Math.round(from / width);
  const out: Figures[] = [];
  for (let i = first; i * width <= now / 1000; i++) out.push(known.get(i) ?? { from: new Date(i * width * 1000).toISOString(), runs: 0, errors: 0, p50: null, p95: null, input_tokens: null, output_tokens: null, cost: null });
  return out;
}

// Asking is a thread that waits for answers, and whose run it is.
export type Asking = { thread: string; assistant: string; graph: string; questions: Interrupt[] };

// questionsOf are the questions of a thread in an order that they have in all threads.
export const questionsOf = (interrupts: Record<string, Interrupt[]> | undefined): Interrupt[] =>
  Object.values(interrupts ?? {}).flat().sort((a, b) => (a.key ?? "").localeCompare(b.key ?? "") || a.id.localeCompare(b.id));

// alike groups threads that are asked the same, which one answer can be given to.
export function alike(threads: Asking[]): Asking[][] {
  const calls = (v: Json) => (v as { action_requests?: { name: string }[] } | null)?.action_requests?.map((a) => a.name);
  const groups = new Map<string, Asking[]>();
  for (const t of threads) {
    const kind = JSON.stringify([t.graph, t.questions.map((q) => [q.key, q.schema, calls(q.value)])]);
    groups.set(kind, [...(groups.get(kind) ?? []), t]);
  }
  return [...groups.values()];
}

// answersFor are answers that were given to the questions of one thread, for another that
// is asked the same.
export const answersFor = (t: Asking, of: Asking, given: JsonObject): JsonObject => Object.fromEntries(t.questions.map((q, i) => [q.id, given[of.questions[i]!.id] ?? null]));
