// What a replay of a thread comes to.

export type Difference = {
  kind: string; step: number; checkpoint: string; branch?: string; path?: string[]; node?: string; field?: string; substep?: number;
  want: string; got: string;
};
export type Replay = { differences: Difference[]; more: boolean; supersteps: number; error: { error: string; message: string } | null };
export type ReplayOptions = { take_recorded: string[]; ignore_fields: string[]; limit?: number };

const kinds: Record<string, string> = {
  state: "wrote something else", routing: "leads elsewhere", question: "asks something else", once: "calls what was not recorded", error: "fails",
};

// kindOf says in words in what a difference is.
export const kindOf = (d: Difference) => kinds[d.kind] ?? d.kind;

// whereOf says where a difference is: the superstep, the node with its path and the field.
export function whereOf(d: Difference): string {
  const node = [...(d.path ?? []), ...(d.node ? [d.node] : [])].join(" › ");
  return [d.step === 0 ? "the input" : `step ${d.step}`, node, d.substep && `its step ${d.substep}`, d.field && `field ${d.field}`].filter(Boolean).join(" · ");
}

// namesIn are the names in a text with commas between them.
export const namesIn = (text: string) => text.split(",").map((n) => n.trim()).filter(Boolean);

// outcomeOf sums a replay up.
export function outcomeOf(r: Replay): string {
  const steps = `${r.supersteps} ${r.supersteps === 1 ? "superstep" : "supersteps"}`;
  const n = r.differences.length;
  if (r.error) return `The replay ended before all of ${steps} were compared.`;
  if (n === 0) return `No difference in ${steps}.`;
  return `${n}${r.more ? " and more" : ""} ${n === 1 && !r.more ? "difference" : "differences"} in ${steps}.`;
}
