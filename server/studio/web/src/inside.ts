// What can be done inside of subgraphs.
import type { State } from "./api";
import { lineOf, partsOf, questions, type Moment, type Part } from "./history";

// A Place is a run of a subgraph. It is open if the graph around it waits in it, or
// has failed there, so that the next run goes on from its newest state.
export type Place = Part & { open: boolean };

// placesOf are the subgraphs that ran in the step of a moment, and those in which
// the newest moment waits. A moment of a subgraph has that subgraph around it.
export function placesOf(m: Moment, around?: Place): Place[] {
  const done = m.parent && m.nodes.length > 0 ? partsOf(m.parent.tasks, around?.path) : [];
  const waiting = m.head ? partsOf(m.state.tasks, around?.path) : [];
  const open = new Set(waiting.map((p) => p.ns));
  return [...done.filter((p) => !open.has(p.ns)).map((p) => ({ ...p, open: false })), ...waiting.map((p) => ({ ...p, open: around?.open ?? true }))];
}

// An Editing says how a moment of a subgraph may be edited, or why not.
export type Editing = { why: string } | { why?: undefined; asNode: boolean; run: boolean };

// editingOf says how the state at a moment of a subgraph may be edited; head is the
// newest one there. A question that waits holds the run until it is answered:
// what an edit would plan anew behind it would not run.
export function editingOf(place: Place, m: Moment, head: Moment | undefined): Editing {
  if (!place.open) return { why: `${place.name} has ended, so nothing would go on from here. Edit the state after its step, or run it again.` };
  const asks = questions(head?.state).length > 0;
  if (asks && !m.head) return { why: "A question waits: until it is answered, only the newest state in here can be edited." };
  return { asNode: !asks, run: !asks };
}

// writtenAt is the moment from which a state is edited as a node: where something
// else still waits to run, it is the one before that node ran, so that what follows
// it is planned once.
export function writtenAt(all: Moment[], m: Moment, asNode: string): Moment {
  const { next } = m.state;
  if (!asNode || next.length === 0 || next.includes(asNode)) return m;
  return lineOf(all, m.id).findLast((x) => x.state.next.includes(asNode)) ?? m;
}

// baseOf names the checkpoint that an edit inside of a subgraph is made from. The
// newest has no ID, which keeps the question that waits there.
export function baseOf(place: Place, m: Moment): NonNullable<State["checkpoint"]> {
  return { thread_id: m.state.checkpoint?.thread_id ?? "", checkpoint_ns: place.ns, checkpoint_id: m.head ? undefined : m.id, checkpoint_map: null } as unknown as NonNullable<State["checkpoint"]>;
}

// nodesIn are the nodes of a subgraph, by the IDs in a drawing of all of them: the
// names on the way to a node, with colons between.
export function nodesIn(path: string[], ids: string[]): string[] {
  const before = path.map((p) => p + ":").join("");
  const names = ids.filter((id) => id.startsWith(before)).map((id) => id.slice(before.length).split(":")[0]!);
  return [...new Set(names)].filter((n) => n !== "__start__" && n !== "__end__");
}
