// What the turns of a conversation with a dialogue say.
import type { Json, JsonObject } from "./json";

export type Command = { type: string; flow?: string; slot?: string; value?: Json; slots?: JsonObject; span?: string; option?: string; topic?: string; reason?: string; language?: string };
export type TraceEvent = { turn: number; kind: string; flow?: string; step?: string; command?: string; slot?: string; value?: string; reason?: string; side?: number };
export type Frame = { flow_id: string; flow: string; version: string; state: string; step?: string; role: "user" | "call" | "pattern"; why?: string; waits: boolean };
export type Ran = { action: string; effect: string; flow?: string; step?: string; inputs: JsonObject; outputs?: JsonObject; error?: { type: string; message?: string }; attempts: number; recorded: boolean };
export type Turn = {
  turn: number; time?: string; began: { by?: string; language?: string; event?: { name: string } }; user: string[]; understanding_asked: boolean; commands: Command[]; trace: TraceEvent[];
  replies: { role: string; content: string }[]; actions?: Ran[]; state: string; waiting_for_slot?: string; stack: Frame[]; hidden?: string[]; ended: boolean;
};

// A Line is one thing that happened in a turn. Who gave it, or why it was, is its source.
export type Line = { kind: string; text: string; value?: string; source?: string; bad?: boolean };

const ends = new Set(["flow_completed", "flow_cancelled", "flow_abandoned", "flow_error"]);

function written(v: Json | undefined): string | undefined {
  if (v === undefined || v === null) return undefined;
  return typeof v === "object" ? JSON.stringify(v) : String(v);
}

// linesOf are the commands of a turn with who gave them, the steps that it took, and what
// came of them, in their order.
export function linesOf(t: Turn): Line[] {
  const left = [...t.commands], ran = [...(t.actions ?? [])];
  return t.trace.flatMap((e): Line[] => {
    const at = [e.flow, e.step].filter(Boolean).join(" / ");
    switch (e.kind) {
      case "command": case "command_ignored": {
        const i = left.findIndex((c) => c.type === e.command && (c.slot ?? "") === (e.slot ?? "") && (c.flow ?? "") === (e.flow ?? ""));
        const c = i < 0 ? undefined : left.splice(i, 1)[0];
        const value = written(c?.value) ?? c?.option ?? c?.topic ?? c?.language ?? (c?.slots && Object.entries(c.slots).map(([k, v]) => `${k} = ${written(v)}`).join(", "));
        const text = [e.command, e.flow, e.slot].filter(Boolean).join(" ");
        return [{ kind: e.kind === "command" ? "command" : "refused", text, value: value || undefined, source: e.reason, bad: e.kind !== "command" }];
      }
      case "slot_set": return [{ kind: "slot", text: e.slot ?? "", value: e.value ?? "", source: e.reason }];
      case "slot_emptied": return [{ kind: "slot", text: `${e.slot} is emptied` }];
      case "value_refused": return [{ kind: "refused", text: e.slot ?? "", source: e.reason, bad: true }];
      case "step": return [{ kind: "step", text: at }];
      case "step_skipped": return [{ kind: "passed by", text: at }];
      case "branch": return [{ kind: "branch", text: at, value: e.side ? `case ${e.side}` : "no case holds" }];
      case "action": {
        const i = ran.findIndex((r) => r.action === e.reason);
        const r = i < 0 ? undefined : ran.splice(i, 1)[0];
        const value = r?.error ? [r.error.type, r.error.message].filter(Boolean).join(": ") : r?.outputs && Object.entries(r.outputs).map(([k, v]) => `${k} = ${written(v)}`).join(", ");
        return [{ kind: "action", text: e.reason ?? "", value: value || undefined, source: r && r.attempts > 1 ? `${r.attempts} attempts` : undefined, bad: !!r?.error }];
      }
      case "confirmed": case "denied": return [{ kind: e.kind, text: at, source: e.reason }];
      case "error": return [{ kind: "error", text: at, source: e.reason, bad: true }];
      default:
        if (e.kind.startsWith("flow_")) return [{ kind: "flow", text: e.flow ?? "", value: e.kind.slice(5), source: e.reason }];
        return [{ kind: e.kind.replaceAll("_", " "), text: [at, e.command, e.slot, e.value].filter(Boolean).join(" "), source: e.reason }];
    }
  });
}

// upTo are the turns to one, all of them without.
export const upTo = (turns: Turn[], at: number | undefined) => (at === undefined ? turns : turns.filter((t) => t.turn <= at));

// stepsOf counts how often each step of a flow was taken since it was begun last.
export function stepsOf(turns: Turn[], flow: string, open: boolean): Map<string, number> {
  const events = turns.flatMap((t) => t.trace).filter((e) => e.flow === flow && (e.kind === "step" || ends.has(e.kind)));
  if (!open && events.length > 0 && ends.has(events.at(-1)!.kind)) events.pop(); // then its last way
  const steps = new Map<string, number>();
  for (const e of events) {
    if (ends.has(e.kind)) steps.clear();
    else steps.set(e.step!, (steps.get(e.step!) ?? 0) + 1);
  }
  return steps;
}

// Past is a value that a slot had, undefined once it was emptied, and who gave it.
export type Past = { turn: number; value?: string; source?: string };
export type Slot = { flow: string; name: string; open: boolean; past: Past[] };

// slotsOf are the slots with all that they held, by flow: those that are open first, then
// the newest.
export function slotsOf(turns: Turn[]): Slot[] {
  const open = new Set(turns.at(-1)?.stack.map((f) => f.flow));
  const slots = new Map<string, Slot>();
  for (const t of turns) for (const e of t.trace) {
    if (e.kind !== "slot_set" && e.kind !== "slot_emptied") continue;
    const session = e.slot!.startsWith("session.");
    const flow = session ? "session" : e.flow ?? "", name = session ? e.slot!.slice("session.".length) : e.slot!;
    const key = `${flow}\n${name}`;
    const slot = slots.get(key) ?? { flow, name, open: session || open.has(flow), past: [] };
    slots.delete(key); // the newest are last
    slots.set(key, slot);
    const past: Past = e.kind === "slot_set" ? { turn: t.turn, value: e.value ?? "", source: e.reason } : { turn: t.turn };
    const last = slot.past.at(-1);
    if (!last || last.value !== past.value || last.source !== past.source) slot.past.push(past);
  }
  const order = [...slots.values()].reverse();
  const flows = [...new Set(order.map((s) => s.flow))].sort((a, b) => Number(open.has(b)) - Number(open.has(a)));
  return flows.flatMap((f) => order.filter((s) => s.flow === f).reverse());
}

const beginnings: Record<string, string> = { button: "a button", event: "an event", release: "given back by a person", operator: "a person", deadline: "a deadline" };

// began says what a turn began with, unless it was a message.
export function began(t: Turn): string | undefined {
  const by = t.began.by ?? "";
  return by === "event" && t.began.event ? `event ${t.began.event.name}` : beginnings[by];
}
