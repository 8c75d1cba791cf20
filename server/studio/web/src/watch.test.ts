import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { poll, watch, type Stage, type Watched } from "./watch";

beforeEach(() => { vi.useFakeTimers(); vi.stubGlobal("addEventListener", () => {}); });
afterEach(() => { vi.useRealTimers(); vi.unstubAllGlobals(); });

// stage is a page that is seen or not.
function stage() {
  const target = new EventTarget();
  return Object.assign(target, { hidden: false, show(seen: boolean) { this.hidden = !seen; target.dispatchEvent(new Event("visibilitychange")); } }) as unknown as Stage & { show: (seen: boolean) => void };
}

// thread is one whose streams send what is put into them.
function thread() {
  const told: string[] = [];
  const streams: { send: (event: string, data: unknown) => void; lose: () => void; signal: AbortSignal }[] = [];
  const watched: Watched = {
    join: (opened, signal) => (async function* () {
      const queue: { event: string; data: unknown }[] = [];
      let wake = () => {}, lost = false;
      streams.push({ send: (event, data) => { queue.push({ event, data }); wake(); }, lose: () => { lost = true; wake(); }, signal });
      signal.addEventListener("abort", () => wake());
      opened();
      while (true) {
        if (signal.aborted || lost) throw new Error("network error");
        const e = queue.shift();
        if (e) yield e;
        else await new Promise<void>((r) => { wake = r; });
      }
    })(),
    look: () => told.push("look"), begun: (r) => told.push("begun " + r), ended: (r) => told.push("ended " + r), edited: (c) => told.push("edited " + c),
  };
  return { watched, told, streams };
}

const settle = () => vi.advanceTimersByTimeAsync(0);

test("runs that begin and end and edits are told", async () => {
  const { watched, told, streams } = thread();
  const end = new AbortController();
  const over = watch(watched, end.signal, stage());
  await settle();
  streams[0]!.send("metadata", { run_id: "r", attempt: 1 });
  streams[0]!.send("metadata", { run_id: "r", status: "run_done" });
  streams[0]!.send("state_update", { state: { checkpoint: { checkpoint_id: "c" } } });
  await settle();
  expect(told).toEqual(["look", "begun r", "ended r", "edited c"]);
  end.abort();
  await over; // nothing is left of it
  expect(vi.getTimerCount()).toBe(0);
});

test("a stream that is lost is opened again, and what was missed is looked for", async () => {
  const { watched, told, streams } = thread();
  const end = new AbortController();
  const over = watch(watched, end.signal, stage());
  await settle();
  streams[0]!.lose();
  await settle();
  expect(streams.length).toBe(1);
  await vi.advanceTimersByTimeAsync(1000);
  expect([streams.length, told]).toEqual([2, ["look", "look"]]);
  streams[1]!.send("metadata", { run_id: "r" });
  await settle();
  expect(told.at(-1)).toBe("begun r");
  end.abort();
  await over;
});

test("where there is no stream the thread is looked at ever more seldom", async () => {
  const { watched, told } = thread();
  const end = new AbortController();
  const over = watch({ ...watched, join: () => (async function* () { throw new Error("HTTP 404"); })() }, end.signal, stage());
  await vi.advanceTimersByTimeAsync(15_500);
  expect(told.length).toBe(5); // at 0, 1, 3, 7 and 15 seconds
  end.abort();
  await over;
});

test("a page that nobody sees holds no connection", async () => {
  const { watched, streams } = thread();
  const end = new AbortController(), page = stage();
  const over = watch(watched, end.signal, page);
  await settle();
  page.show(false);
  await vi.advanceTimersByTimeAsync(60_000);
  expect([streams.length, streams[0]!.signal.aborted]).toEqual([1, true]);
  page.show(true);
  await settle();
  expect([streams.length, streams[1]!.signal.aborted]).toEqual([2, false]);
  end.abort();
  await over;
});

test("polling slows down while nothing is new, and not before the page is seen", async () => {
  const page = stage();
  let n = 0, fresh = false;
  const stop = poll(async () => { n++; return fresh; }, 1000, 2000, page);
  await vi.advanceTimersByTimeAsync(6400); // at 1, 2.5, 4.5
  expect(n).toBe(3);
  page.show(false);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(n).toBe(3);
  fresh = true;
  page.show(true);
  await vi.advanceTimersByTimeAsync(2000);
  expect(n).toBe(6); // at once, and each second from then on
  stop();
  expect(vi.getTimerCount()).toBe(0);
});
