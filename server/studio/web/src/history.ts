// What the history of a thread says.
import { beginOf as callBegan, pathOf, type Call, type ToolCall } from "./calls";
import type { Interrupt, State } from "./api";
import { diff, equal, type Change, type Json, type JsonObject } from "./json";
import { conversation } from "./messages";

// questions are what the thread waits for, in the order of its tasks.
export function questions(state: State | undefined): (Interrupt & { node: string })[] {
  // Tasks also list the breakpoints that they wait at, which nobody answers.
  const open = (state as { interrupts?: { id: string }[] } | undefined)?.interrupts?.map((i) => i.id);
  return (state?.tasks ?? []).flatMap((t) => t.interrupts.filter((i) => !open || open.includes(String(i.id))).map((i) => ({ id: String(i.id ?? ""), value: i.value as Json, schema: (i as { schema?: JsonObject }).schema, node: t.name })));
}

function sourceOf(s: State): string | undefined {
  return (s.metadata as { source?: string } | null)?.source;
}

// Ran is when a task ran in the superstep that led to a checkpoint, as the engine measured it;
// took is in seconds.
export type Ran = { name: string; began_at: string; took: number };

// A Moment is a checkpoint in the history, with what led to it.
export type Moment = {
  state: State; id: string; current: boolean; head: boolean; lane: number; nodes: string[]; ran: Ran[]; ms?: number;
  parent?: State; // undefined at the beginning, and if it is not loaded
  first: boolean; // nothing was before
};

// beforeInput reports whether a checkpoint is one that the server shows before an input is
// taken in: a UUID of version 8.
const beforeInput = (c: State["parent_checkpoint"] | undefined) => c?.checkpoint_id?.[14] === "8";

// withInputs shows an input as one moment, where LangGraph has two: one before it was taken
// in, and one after.
function withInputs(history: State[]): State[] {
  const before = new Map(history.filter((s) => beforeInput(s.checkpoint)).map((s) => [s.checkpoint!.checkpoint_id, s]));
  return history.filter((s) => !beforeInput(s.checkpoint)).map((s) => {
    if (!beforeInput(s.parent_checkpoint)) return s;
    const source = sourceOf(s) === "loop" ? "input" : sourceOf(s);
    let parent: State["parent_checkpoint"] | undefined = s.parent_checkpoint;
    // One input after the other may have been given instead; it may not be loaded.
    for (let input = before.get(parent!.checkpoint_id); input; input = before.get(parent?.checkpoint_id ?? "")) parent = input.parent_checkpoint;
    return { ...s, parent_checkpoint: parent!, metadata: { ...(s.metadata as object), source } as State["metadata"] };
  });
}

// moments puts a history in order of time and says which of it led to the newest
// state. Those that didn't are on lanes of their own, one for each branch.
export function moments(history: State[], head: State | undefined): Moment[] {
  history = withInputs(history);
  const every = new Map(history.map((s) => [s.checkpoint?.checkpoint_id ?? "", s]));
  // A fork that changes nothing is only where a branch begins.
  const mere = (s: State) => {
    const from = every.get(s.parent_checkpoint?.checkpoint_id ?? "");
    return sourceOf(s) === "fork" && s.checkpoint?.checkpoint_id !== head?.checkpoint?.checkpoint_id && !!from && equal(from.values, s.values);
  };
  history = history.filter((s) => !mere(s)).map((s) => {
    let at = s.parent_checkpoint;
    for (let p = every.get(at?.checkpoint_id ?? ""); p && mere(p); p = every.get(at?.checkpoint_id ?? "")) at = p.parent_checkpoint;
    return at === s.parent_checkpoint ? s : { ...s, parent_checkpoint: at };
  });
  const byId = new Map(history.map((s) => [s.checkpoint?.checkpoint_id ?? "", s]));
  // A checkpoint inside of a step is not in the history: the step's own, the newest, stands for it.
  const newest = [head, history[0]].map((s) => s?.checkpoint?.checkpoint_id ?? "").find((id) => byId.has(id));
  const chain = new Set<string>();
  for (let id: string | null | undefined = newest; id; id = byId.get(id)?.parent_checkpoint?.checkpoint_id) {
    if (chain.has(id)) break;
    chain.add(id);
  }
  const lanes = new Map<string, number>();
  let next = 1;
  for (const s of history) { // newest first, so the leaf of each branch names its lane
    let id = s.checkpoint?.checkpoint_id ?? "";
    if (chain.has(id) || lanes.has(id)) continue;
    const lane = next++;
    while (id && !chain.has(id) && !lanes.has(id)) {
      lanes.set(id, lane);
      id = byId.get(id)?.parent_checkpoint?.checkpoint_id ?? "";
    }
  }
  return history.toReversed().map((state) => {
    const id = state.checkpoint?.checkpoint_id ?? "";
    const parent = byId.get(state.parent_checkpoint?.checkpoint_id ?? "");
    const source = sourceOf(state);
    const asked = parent && parent.tasks.some((t) => t.interrupts.length > 0);
    const ran = (state as { ran?: Ran[] }).ran ?? [];
    const measured = ran.length > 0 ? Math.max(...ran.map(endOf)) - Math.min(...ran.map(beginOf)) : undefined;
    const ms = measured ?? (parent?.created_at && state.created_at && source === "loop" && !asked ? Date.parse(state.created_at) - Date.parse(parent.created_at) : undefined);
    return { state, id, parent, first: !state.parent_checkpoint, current: chain.has(id), head: id === newest, lane: lanes.get(id) ?? 0, nodes: source === "loop" ? [...new Set(parent?.next ?? [])] : [], ran, ms };
  });
}

// Dates know milliseconds, tasks take less.
const beginOf = (r: Ran) => Date.parse(r.began_at) + Number(/\.\d{3}(\d{3})/.exec(r.began_at)?.[1] ?? 0) / 1000;
const endOf = (r: Ran) => beginOf(r) + r.took * 1000;

// A Bar is when a task ran, in milliseconds since the first of its run began.
// One with a call is of a call of a model or a tool, inside of a task or a subgraph of it.
export type Bar = { key: string; name: string; step?: number; from: number; took: number; call?: Call | ToolCall };

// waterfall is when the tasks of the newest run ran that the line to a moment has, and which
// calls of models and tools they made.
export function waterfall(line: Moment[], calls: (Call | ToolCall)[] = []): Bar[] {
  const run = (m: Moment) => (m.state.metadata as { run_id?: string } | null)?.run_id;
  const of = run(line.findLast((m) => m.ran.length > 0) ?? line.at(-1)!);
  const ran = line.filter((m) => run(m) === of).flatMap((m) => m.ran.map((r, i) => ({ m, r, i })));
  const began = Math.min(...ran.map(({ r }) => beginOf(r)));
  const tasks: Bar[] = ran.map(({ m, r, i }) => ({ key: `${m.id} ${i}`, name: r.name, step: stepOf(m), from: beginOf(r) - began, took: r.took * 1000 })).sort((a, b) => (a.step ?? 0) - (b.step ?? 0) || a.from - b.from);
  const ended = Math.max(...tasks.map((b) => b.from + b.took));
  const made = calls.map((c): Bar => ({ key: c.call_id, name: pathOf(c).join(" › "), from: callBegan(c) - began, took: c.took * 1000, call: c }))
    .filter((b) => b.from + b.took >= 0 && b.from <= ended && (b.call!.run_id === null || b.call!.run_id === of)).map((b) => ({ ...b, from: Math.max(0, b.from) })).sort((a, b) => a.from - b.from);
  for (const b of made) {
    // Behind the task that was running, and what else was in it before. By the call's middle, since
    // tasks that are alone tell when they began by when they were recorded.
    const middle = b.from + b.took / 2;
    const task = tasks.findLastIndex((t) => !t.call && t.from <= middle && middle <= t.from + t.took && b.name.split(" › ")[0] === t.name);
    let at = (task < 0 ? tasks.findLastIndex((t) => t.from <= middle) : task) + 1;
    while (at < tasks.length && tasks[at]!.call && tasks[at]!.from <= b.from) at++;
    tasks.splice(at, 0, b);
  }
  return tasks;
}

// step is the number of a moment's superstep.
export function stepOf(m: Moment): number | undefined {
  return (m.state.metadata as { step?: number } | null)?.step;
}

const sources: Record<string, string> = { input: "Input", update: "Edited", fork: "Forked" };

// titleOf says what made a moment.
export function titleOf(m: Moment): string {
  const source = sourceOf(m.state) ?? "loop";
  return m.nodes.length > 0 ? m.nodes.join(", ") : source === "loop" ? "Planned" : sources[source] ?? source;
}

// changesOf is what a moment changed; undefined if what was before is not known.
export function changesOf(m: Moment): Change[] | undefined {
  const known = changed.get(m.state);
  if (known && known.parent === m.parent) return known.changes;
  if (!m.parent && !m.first) return undefined;
  const changes = diff((m.parent?.values ?? {}) as Json, (m.state.values ?? {}) as Json);
  changed.set(m.state, { parent: m.parent, changes });
  return changes;
}
const changed = new WeakMap<State, { parent?: State; changes: Change[] }>();

export type Usage = { input: number; output: number };

// usageOf is how many tokens the messages cost that a moment added.
export function usageOf(m: Moment): Usage | undefined {
  if (!m.parent && !m.first) return undefined;
  const old = new Set(conversation(m.parent?.values).map((x) => x.id));
  return total(conversation(m.state.values).flatMap((x) => (x.usage && !old.has(x.id) ? [x.usage] : [])));
}

export function total(all: (Usage | undefined)[]): Usage | undefined {
  const known = all.filter((u): u is Usage => !!u);
  return known.length === 0 ? undefined : known.reduce((a, b) => ({ input: a.input + b.input, output: a.output + b.output }));
}

// lineOf is the moments that led to one, from the oldest.
export function lineOf(all: Moment[], id: string | undefined): Moment[] {
  const byId = new Map(all.map((m) => [m.id, m]));
  const out: Moment[] = [];
  for (let m = id === undefined ? undefined : byId.get(id); m && out.length <= all.length; m = m.parent && byId.get(m.parent.checkpoint?.checkpoint_id ?? "")) out.unshift(m);
  return out;
}

// A Rail is how the line of moments runs beside one of them, in a list that has
// the newest first: the lanes that pass, and those that join from above.
export type Rail = { passing: number[]; joining: number[]; above: boolean; below: boolean };

export function rails(newestFirst: Moment[]): Rail[] {
  const place = new Map(newestFirst.map((m, i) => [m.id, i]));
  const out: Rail[] = newestFirst.map(() => ({ passing: [], joining: [], above: false, below: false }));
  newestFirst.forEach((m, i) => {
    const parent = m.state.parent_checkpoint?.checkpoint_id;
    if (!parent) return;
    out[i]!.below = true;
    const end = place.get(parent);
    for (let r = i + 1; r < (end ?? newestFirst.length); r++) if (!out[r]!.passing.includes(m.lane)) out[r]!.passing.push(m.lane);
    if (end === undefined) return;
    if (newestFirst[end]!.lane === m.lane) out[end]!.above = true;
    else out[end]!.joining.push(m.lane);
  });
  return out;
}

// A Part is a run of a subgraph in a step: the node that is one, and where its
// history is.
export type Part = { name: string; path: string[]; ns: string };

// partsOf are the subgraphs among tasks.
export function partsOf(tasks: State["tasks"], path: string[] = []): Part[] {
  return tasks.flatMap((t) => {
    const ns = (t.checkpoint ?? (t.state as State | null | undefined)?.checkpoint)?.checkpoint_ns;
    return ns ? [{ name: t.name, path: [...path, t.name], ns }] : [];
  });
}
