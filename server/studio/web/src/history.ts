// What the history of a thread says.
import type { Interrupt, State } from "./api";
import { equal, type Json } from "./json";

// questions are what the thread waits for, in the order of its tasks.
export function questions(state: State | undefined): (Interrupt & { node: string })[] {
  // Tasks also list the breakpoints that they wait at, which nobody answers.
  const open = (state as { interrupts?: { id: string }[] } | undefined)?.interrupts?.map((i) => i.id);
  return (state?.tasks ?? []).flatMap((t) => t.interrupts.filter((i) => !open || open.includes(String(i.id))).map((i) => ({ id: String(i.id ?? ""), value: i.value as Json, node: t.name })));
}

function sourceOf(s: State): string | undefined {
  return (s.metadata as { source?: string } | null)?.source;
}

// A Moment is a checkpoint in the history, with what led to it.
export type Moment = { state: State; id: string; parent?: State; current: boolean; head: boolean; lane: number; nodes: string[]; ms?: number };

// moments puts a history in order of time and says which of it led to the newest
// state. Those that didn't are on lanes of their own, one for each branch.
export function moments(history: State[], head: State | undefined): Moment[] {
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
    const ms = parent?.created_at && state.created_at && source === "loop" && !asked ? Date.parse(state.created_at) - Date.parse(parent.created_at) : undefined;
    return { state, id, parent, current: chain.has(id), head: id === newest, lane: lanes.get(id) ?? 0, nodes: source === "loop" ? [...new Set(parent?.next ?? [])] : [], ms };
  });
}
