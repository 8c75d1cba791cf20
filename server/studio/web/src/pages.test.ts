import { expect, test } from "vitest";
import { lengthened, renewed, wants, without, type Held } from "./pages";

// threads are as the server has them: the newest first, one a second.
const threads = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => ({ thread_id: `t${from + i}`, updated_at: new Date(1e12 - (from + i) * 1000).toISOString() }));
const names = (held: Held<{ thread_id: string }> | undefined) => held?.items.map((t) => t.thread_id);
const held = (to: number, more = true) => ({ query: "q", items: threads(0, to), loaded: to, more });

test("pages make up the list", () => {
  let h: ReturnType<typeof lengthened> = renewed(undefined, "q", threads(0, 4), 4);
  h = lengthened(h, "q", 4, threads(4, 8), 4);
  expect(h).toEqual(held(8));
  expect(lengthened(h, "q", 8, threads(8, 9), 4)).toEqual(held(9, false));
});

test("a page that is answered twice is one page, and the next is not passed over", () => {
  const once = lengthened(held(4), "q", 4, threads(4, 8), 4);
  expect(lengthened(once, "q", 4, threads(4, 8), 4)).toEqual(held(8));
});

test("a page of a list that was begun anew since leaves no gap", () => {
  expect(lengthened(held(4), "q", 8, threads(8, 12), 4)).toEqual(held(4));
  expect(lengthened(held(4), "before", 4, threads(4, 8), 4)).toEqual(held(4));
});

test("the first page is read again, and the rest stays", () => {
  const moved = [{ ...threads(6, 7)[0]!, updated_at: new Date(1e12 + 1000).toISOString() }, ...threads(0, 3)];
  const h = renewed(held(8), "q", moved, 4);
  expect(names(h)).toEqual(["t6", "t0", "t1", "t2", "t3", "t4", "t5", "t7"]);
  expect(h).toMatchObject({ loaded: 8, more: true });
});

test("what was deleted leaves the list, and the next page begins so much earlier", () => {
  const h = renewed(held(8), "q", [...threads(0, 1), ...threads(3, 6)], 4);
  expect(names(h)).toEqual(["t0", "t3", "t4", "t5", "t6", "t7"]);
  expect(h.loaded).toBe(6);
  expect(without(held(8), "t2")).toMatchObject({ loaded: 7, more: true });
  expect(without(held(8), "t9")).toEqual(held(8));
});

test("another query, and a list of less than a page, begin the list anew", () => {
  expect(renewed(held(8), "r", threads(0, 4), 4)).toEqual({ query: "r", items: threads(0, 4), loaded: 4, more: true });
  expect(renewed(held(8), "q", threads(0, 2), 4)).toEqual({ query: "q", items: threads(0, 2), loaded: 2, more: false });
  expect(renewed(held(2, false), "q", threads(0, 4), 4)).toEqual(held(4));
});

test("a list asks for a page where somebody comes to its end, however long it is", () => {
  expect(wants(held(400), true)).toBe(true);
  expect(wants(held(400, false), true)).toBe(false);
  expect(wants(held(8), false)).toBe(false);
  expect(wants(undefined, true)).toBe(false);
});
