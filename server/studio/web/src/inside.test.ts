import { expect, test } from "vitest";
import type { State } from "./api";
import { moments } from "./history";
import { baseOf, editingOf, nodesIn, placesOf, writtenAt } from "./inside";

const state = (id: string, parent: string | null, next: string[], tasks: object[] = [], more: object = {}): State => ({
  values: {}, next, tasks: tasks.map((t) => ({ interrupts: [], checkpoint: null, state: null, error: null, ...t })), metadata: { source: parent ? "loop" : "input" }, created_at: null, ...more,
  checkpoint: { thread_id: "t", checkpoint_ns: "", checkpoint_id: id }, parent_checkpoint: parent ? { thread_id: "t", checkpoint_ns: "", checkpoint_id: parent } : null,
}) as unknown as State;
const asks = { id: "k:0", name: "check", interrupts: [{ id: "q", value: "?" }] };

test("a subgraph is open while the graph waits or has failed in it", () => {
  for (const t of [{ id: "r:0", name: "writer", checkpoint: { checkpoint_ns: "/writer:r.0.0" } }, { id: "r:0", name: "writer", checkpoint: { checkpoint_ns: "/writer:r.0.0" }, error: "no topic" }]) {
    const [only] = moments([state("a", null, ["writer"], [t])], undefined);
    expect(placesOf(only!)).toEqual([{ name: "writer", path: ["writer"], ns: "/writer:r.0.0", open: true }]);
  }
});

test("a subgraph that has ended is not, and neither is one inside of it", () => {
  const all = moments([state("b", "a", []), state("a", null, ["writer"], [{ id: "r:0", name: "writer", checkpoint: { checkpoint_ns: "/writer:r.0.0" } }])], undefined);
  const [place] = placesOf(all[1]!);
  expect(place!.open).toBe(false);
  const [inner] = moments([state("c", null, ["check"], [{ id: "k:0", name: "check", checkpoint: { checkpoint_ns: "/writer:r.0.0/check:k.0.0" }, error: "no" }])], undefined);
  expect(placesOf(inner!, place).map((p) => p.open)).toEqual([false]);
  expect(editingOf(place!, inner!, inner!).why).toMatch(/has ended/);
});

test("a question that waits in a subgraph lets only its newest state be edited, as nobody", () => {
  const place = { name: "writer", path: ["writer"], ns: "/writer:r.0.0", open: true };
  const all = moments([state("b", "a", ["check"], [asks], { interrupts: [{ id: "q" }] }), state("a", null, ["draft"])], undefined);
  expect(editingOf(place, all[1]!, all[1]!)).toEqual({ asNode: false, run: false });
  expect(editingOf(place, all[0]!, all[1]!).why).toMatch(/question waits/);
});

test("where a subgraph has failed any of its states is edited, and the run goes on", () => {
  const place = { name: "writer", path: ["writer"], ns: "/writer:r.0.0", open: true };
  const all = moments([state("b", "a", ["check"], [{ id: "k:0", name: "check", error: "no topic" }]), state("a", null, ["draft"])], undefined);
  for (const m of all) expect(editingOf(place, m, all[1]!)).toEqual({ asNode: true, run: true });
  expect([baseOf(place, all[1]!).checkpoint_id, baseOf(place, all[0]!).checkpoint_id]).toEqual([undefined, "a"]);
});

test("the nodes of a subgraph are those beneath its path", () => {
  const ids = ["__start__", "writer:draft", "writer:check:look", "writer:check:say", "post", "__end__"];
  expect(nodesIn(["writer"], ids)).toEqual(["draft", "check"]);
  expect(nodesIn(["writer", "check"], ids)).toEqual(["look", "say"]);
});

test("an edit as a node that ran before what waits is made where it ran", () => {
  const all = moments([state("b", "a", ["check"]), state("a", null, ["draft"])], undefined);
  const head = all[1]!;
  expect(["", "draft", "check", "other"].map((n) => writtenAt(all, head, n).id)).toEqual(["b", "a", "b", "b"]);
});
