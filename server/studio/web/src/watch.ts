// Watching a thread for what others do on it: another page, a cron, the terminal,
// or the server, which wakes a graph that waits.

// Watched is a thread that is watched.
export type Watched = {
  // join opens the stream of what happens on the thread and calls opened as soon as
  // nothing that happens is missed any more.
  join: (opened: () => void, signal: AbortSignal) => AsyncIterable<{ event: string; data: unknown }>;
  // look asks what the thread is like now: events tell only what happens from now on.
  look: () => void;
  begun: (run: string) => void;
  ended: (run: string) => void;
  edited: (checkpoint: string | undefined) => void;
};

// A Stage says whether somebody sees the page.
export type Stage = Pick<Document, "hidden" | "addEventListener" | "removeEventListener">;

const least = 1000, most = 30_000; // ms between attempts

// watch tells what happens on a thread until the signal. While nobody sees the page
// it holds no connection, since browsers allow few of them to a server. Where the
// stream cannot be had it looks from time to time.
export async function watch(thread: Watched, signal: AbortSignal, stage: Stage = document): Promise<void> {
  for (let pause = least; !signal.aborted;) {
    await seen(stage, signal);
    if (signal.aborted) return;
    const hidden = new AbortController();
    const hide = () => { if (stage.hidden) hidden.abort(); };
    stage.addEventListener("visibilitychange", hide);
    const over = AbortSignal.any([signal, hidden.signal]);
    let opened = false;
    try {
      for await (const e of thread.join(() => { opened = true; pause = least; thread.look(); }, over)) {
        if (over.aborted) break;
        tell(thread, e);
      }
    } catch { /* it is opened again */ }
    if (!over.aborted) {
      if (!opened) thread.look();
      await wait(pause, over);
      pause = Math.min(pause * 2, most);
    }
    stage.removeEventListener("visibilitychange", hide);
  }
}

function tell(thread: Watched, { event, data }: { event: string; data: unknown }) {
  const d = data as { run_id?: string; status?: string; state?: { checkpoint?: { checkpoint_id?: string } | null } } | null;
  if (event === "metadata" && d?.run_id) {
    if (d.status === "run_done") thread.ended(d.run_id);
    else thread.begun(d.run_id);
  } else if (event === "state_update") thread.edited(d?.state?.checkpoint?.checkpoint_id);
}

// seen waits until somebody sees the page.
function seen(stage: Stage, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const end = () => {
      if (stage.hidden && !signal.aborted) return;
      stage.removeEventListener("visibilitychange", end);
      signal.removeEventListener("abort", end);
      done();
    };
    stage.addEventListener("visibilitychange", end);
    signal.addEventListener("abort", end);
    end();
  });
}

// poll calls a function from time to time while somebody sees the page, and at once
// when the page is seen again. The function says whether something was new: the
// pauses grow while nothing is. It returns what ends it.
export function poll(f: () => Promise<boolean>, from: number, to: number, stage: Stage = document): () => void {
  const stop = new AbortController();
  const { signal } = stop;
  void (async () => {
    for (let pause = from; ;) {
      await wait(pause, signal);
      if (stage.hidden) await seen(stage, signal);
      if (signal.aborted) return;
      pause = await f().catch(() => false) ? from : Math.min(pause * 1.5, to);
    }
  })();
  return () => stop.abort();
}

// wait waits, but not when the machine finds its network again.
export function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const stop = new AbortController();
    const end = () => { clearTimeout(timer); stop.abort(); done(); };
    const timer = setTimeout(end, ms);
    addEventListener("online", end, { signal: stop.signal });
    signal.addEventListener("abort", end, { signal: stop.signal });
    if (signal.aborted) end();
  });
}
