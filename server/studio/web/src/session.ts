// A Session follows one thread: its state, its history, and the run that works on
// it. Components read it with useSyncExternalStore.
import { away, client, joinThread, words, type Checkpoint, type State, type ThreadInfo } from "./api";
import type { StreamMode } from "@langchain/langgraph-sdk";
import { isObject, weigh, type Json, type JsonObject } from "./json";
import { append, messageOf, type Message } from "./messages";
import { wait, watch } from "./watch";

// A Task is one execution of a node. Its path has the subgraphs around it.
export type Task = { id: string; name: string; path: string[]; began: number; ended?: number; error?: string; result?: Json };
export type ToolEvent = { id: string; name: string; status: "running" | "done" | "failed"; input?: Json; output?: Json; began: number; ended?: number };
export type LogEntry = { seq: number; at: number; event: string; data: Json; weight: number };

export type Snapshot = {
  thread?: ThreadInfo;
  threadId?: string;
  loading: boolean;
  error?: string; // of the last run or request
  notFound?: boolean;
  state?: State; // the newest one
  history: State[]; // newest first
  more: boolean; // older history is there
  running: boolean;
  lost?: boolean; // the server is away while a run works
  older?: boolean; // older history is on its way
  runId?: string;
  stopping?: boolean; // the run, as soon as it is known
  fresh: boolean; // the run began with an input
  elsewhere?: boolean; // the run was not started by this page
  sudden?: boolean; // it began elsewhere while the thread was open
  began?: number; // the run, in ms
  ended?: number;
  values?: JsonObject; // newest, while a run works
  said: Message[]; // streamed, and not yet in the values
  tasks: Task[]; // of the run
  tools: ToolEvent[];
  custom: LogEntry[];
  log: LogEntry[];
};

const nothing: Snapshot = { loading: false, history: [], more: false, running: false, fresh: false, said: [], tasks: [], tools: [], custom: [], log: [] };
const page = 50; // checkpoints; fewer if states are large
const pageWeight = 4_000_000; // of the states of a page, about, in characters
const mostEvents = 2000; // older events of a run are forgotten
const mostWeight = 20_000_000; // as are those before so many characters

// The SDK's types don't know all modes that its users ask for.
const modes = ["values", "updates", "messages-tuple", "custom", "tasks", "tools"] as StreamMode[];

export type RunInput = {
  input?: JsonObject | null;
  command?: { resume?: Json; goto?: string; update?: JsonObject };
  checkpoint?: Checkpoint | null;
  before?: string[]; // nodes to pause before
  after?: string[]; // nodes to pause after
  config?: JsonObject;
  metadata?: JsonObject;
};

export class Session {
  private snap = nothing;
  private listeners = new Set<() => void>();
  private timer?: ReturnType<typeof setTimeout>;
  private abort = new AbortController();
  private seq = 0;
  private logWeight = 0;
  private begun = new Set<string>(); // runs that work on the thread, as far as it is known
  private shownRuns = new Set<string>(); // those that were followed
  private missed = false; // one came and went while another was followed
  private editing = false;
  private watched?: AbortSignal; // with which the thread is watched
  private trailing?: ReturnType<typeof setTimeout>;
  /** Called when a thread was made or its status may have changed. */
  changed: () => void = () => {};

  subscribe = (f: () => void) => {
    this.listeners.add(f);
    return () => void this.listeners.delete(f);
  };

  get = () => this.shown;
  private shown = nothing;

  // Listeners hear of changes at most once a frame.
  private set(patch: Partial<Snapshot>, now = false) {
    this.snap = { ...this.snap, ...patch };
    const tell = () => {
      this.timer = undefined;
      this.shown = this.snap;
      for (const f of this.listeners) f();
    };
    if (now) {
      clearTimeout(this.timer);
      tell();
    } else this.timer ??= setTimeout(tell, 16);
  }

  dispose() {
    this.abort.abort();
    clearTimeout(this.timer);
    clearTimeout(this.trailing);
    this.listeners.clear();
  }

  clearError = () => this.set({ error: undefined });

  // open shows a thread; none is one that the first run will make.
  async open(threadId: string | undefined) {
    if (threadId === this.snap.threadId && (threadId || !this.snap.running)) return;
    this.abort.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    this.set({ ...nothing, threadId, loading: !!threadId, thread: undefined, state: undefined, values: undefined, error: undefined, runId: undefined, began: undefined, ended: undefined, notFound: undefined, lost: false, older: false, stopping: false, elsewhere: false, sudden: false }, true);
    this.missed = false;
    this.begun.clear();
    this.shownRuns.clear();
    if (!threadId) return;
    try {
      await this.load(signal);
      if (signal.aborted) return;
      this.watch(threadId, signal);
      if (this.snap.thread?.status === "busy") await this.join(threadId, signal);
    } catch (e) {
      if (!signal.aborted) this.set({ error: words(e), notFound: /not found/i.test(String(e)) });
    } finally {
      if (!signal.aborted) this.set({ loading: false });
    }
  }

  // watch shows what others do on the thread from now on.
  private watch(threadId: string, signal: AbortSignal) {
    if (this.watched === signal) return;
    this.watched = signal;
    void watch({
      join: (opened, over) => joinThread(threadId, opened, over) as AsyncIterable<Event>,
      look: () => void this.look(threadId, signal),
      begun: (run) => {
        if (this.shownRuns.has(run)) return;
        this.begun.add(run);
        this.takeUp(signal);
      },
      ended: (run) => {
        this.begun.delete(run);
        if (this.shownRuns.has(run)) return;
        if (this.snap.running) this.missed = true;
        else void this.reload().then(() => this.changed());
      },
      edited: (checkpoint) => {
        if (!this.snap.running && !this.editing && checkpoint !== this.snap.state?.checkpoint?.checkpoint_id) void this.reload().then(() => this.changed());
      },
    }, signal);
  }

  // look finds what has happened while nobody listened.
  private async look(threadId: string, signal: AbortSignal) {
    if (this.snap.running) return;
    try {
      const thread = await client.threads.get(threadId, { signal });
      if (signal.aborted || this.snap.running) return;
      const known = this.snap.thread;
      if (thread.status === "busy" && await this.join(threadId, signal, true)) return;
      if (signal.aborted || this.snap.running || (known && thread.updated_at === known.updated_at && thread.status === known.status)) return;
      await this.load(signal);
      this.changed();
    } catch (e) {
      if (!signal.aborted && /not found/i.test(String(e))) this.set({ error: words(e), notFound: true });
    }
  }

  // takeUp follows a run that others have started, once no other is followed.
  private takeUp(signal: AbortSignal) {
    if (signal.aborted || this.snap.running) return;
    for (const run of this.begun) if (!this.shownRuns.has(run)) return void this.take(run, signal, true);
  }

  // take shows a run that others have started, from its beginning.
  private async take(run: string, signal: AbortSignal, sudden = false) {
    if (this.snap.running) return;
    const threadId = this.snap.threadId!;
    this.begin(run, false, true, sudden);
    this.changed();
    void client.runs.get(threadId, run, { signal }).then((r) => {
      const input = (r as { kwargs?: { input?: unknown } }).kwargs?.input;
      if (!signal.aborted && this.snap.running && this.snap.runId === run) this.set({ fresh: input !== null && input !== undefined });
    }, () => {});
    await this.follow(client.runs.joinStream(threadId, run, { signal, lastEventId: "-1" }) as AsyncIterable<Event>, signal);
  }

  // trail reads the history again while a run works that tells of no tasks, since
  // whoever started it did not ask for them.
  private trail(signal: AbortSignal) {
    this.trailing ??= setTimeout(async () => {
      if (!signal.aborted && this.snap.running && this.snap.tasks.length === 0) await this.load(signal).catch(() => {});
      this.trailing = undefined;
    }, 700);
  }

  // load shows what the thread is like now, unless what was asked for later has been
  // shown by then.
  private async load(signal: AbortSignal) {
    const id = this.snap.threadId!, turn = ++this.asked;
    const [thread, state] = await Promise.all([client.threads.get<JsonObject>(id), client.threads.getState<JsonObject>(id, undefined, { subgraphs: true })]);
    const limit = Math.max(3, Math.min(page, Math.floor(pageWeight / weigh(state.values, pageWeight))));
    const history = await client.threads.getHistory<JsonObject>(id, { limit });
    if (signal.aborted || turn < this.answered) return;
    this.answered = turn;
    const error = this.snap.error ?? (thread.status === "error" ? failure((thread as { error?: Json }).error) : undefined);
    const known = new Set(history.map(idOf));
    // What was loaded of older history stays, if it joins on.
    const joins = this.snap.history.some((s) => known.has(idOf(s)));
    const kept = joins ? this.snap.history.filter((s) => !known.has(idOf(s)) && String(idOf(s)) < String(idOf(history.at(-1)!))) : [];
    this.set({ thread: thread as ThreadInfo, state, history: [...history, ...kept], more: kept.length > 0 ? this.snap.more : history.length === limit, error });
    this.limit = limit;
  }

  private asked = 0; // loads that were begun
  private answered = 0; // the newest of them that is shown
  private limit = page;

  reload = async () => {
    const { signal } = this.abort;
    if (!this.snap.threadId) return;
    try {
      await this.load(signal);
    } catch (e) {
      if (!signal.aborted) this.set({ error: words(e) });
    }
  };

  // refresh looks for what others have done on the thread.
  refresh = async () => {
    const { signal } = this.abort, id = this.snap.threadId;
    if (!id || this.snap.running) return;
    this.set({ error: undefined });
    try {
      await this.load(signal);
      if (signal.aborted) return;
      this.set({ notFound: false });
      this.watch(id, signal);
      if (this.snap.thread?.status === "busy") await this.join(id, signal);
    } catch (e) {
      if (!signal.aborted) this.set({ error: words(e), notFound: /not found/i.test(String(e)) });
    }
  };

  older = async () => {
    const { signal } = this.abort;
    const last = this.snap.history.at(-1), limit = this.limit;
    if (!this.snap.threadId || !last || this.snap.older || !this.snap.more) return;
    this.set({ older: true });
    // What was loaded since may end elsewhere: then what comes next is asked for anew.
    const joins = () => !signal.aborted && idOf(this.snap.history.at(-1)) === idOf(last);
    try {
      const history = await client.threads.getHistory<JsonObject>(this.snap.threadId, { limit, before: { configurable: last.checkpoint as unknown as Record<string, unknown> } });
      if (joins()) this.set({ history: [...this.snap.history, ...history], more: history.length === limit });
    } catch (e) {
      if (joins()) this.set({ error: words(e), more: false });
    } finally {
      if (!signal.aborted) this.set({ older: false });
    }
  };

  // join shows the run that works on the thread. It reports whether there is one.
  private async join(threadId: string, signal: AbortSignal, sudden = false): Promise<boolean> {
    const open = (await client.runs.list(threadId, { limit: 20 })).filter((r) => r.status === "running" || r.status === "pending");
    const run = open.find((r) => r.status === "running") ?? open[0];
    if (!run || signal.aborted) return false;
    await this.take(run.run_id, signal, sudden);
    return true;
  }

  private begin(runId?: string, fresh = false, elsewhere = false, sudden = false) {
    if (runId) this.shownRuns.add(runId);
    this.set({ loading: false, running: true, fresh, elsewhere, sudden, runId, stopping: false, began: Date.now(), ended: undefined, error: undefined, said: [], tasks: [], tools: [], custom: [], log: [], values: undefined, lost: false }, true);
    this.logWeight = 0;
  }

  // run begins a run on the thread, which it makes if there is none, and returns
  // when the run has ended. It reports whether the server was asked for the run: one
  // that is stopped while its thread is made isn't begun.
  async run(assistant: string, what: RunInput, made?: (threadId: string) => void): Promise<boolean> {
    const { signal } = this.abort;
    if (this.snap.running) return false;
    let asked = false;
    this.begin(undefined, !!what.input);
    this.greet(what.input);
    try {
      let id = this.snap.threadId;
      if (!id) {
        id = (await client.threads.create()).thread_id;
        if (signal.aborted) return true; // nobody looks at it any more
        this.set({ threadId: id }, true);
        this.watch(id, signal);
        made?.(id);
        if (this.snap.stopping) {
          await this.load(signal);
          if (!signal.aborted) this.finish();
          return signal.aborted;
        }
      }
      asked = true;
      const stream = client.runs.stream(id, assistant, {
        input: what.command ? undefined : (what.input ?? null),
        command: what.command as never,
        checkpoint: what.checkpoint ? { checkpoint_id: what.checkpoint.checkpoint_id, checkpoint_ns: what.checkpoint.checkpoint_ns, checkpoint_map: what.checkpoint.checkpoint_map } : undefined,
        interruptBefore: what.before?.length ? what.before : undefined,
        interruptAfter: what.after?.length ? what.after : undefined,
        config: what.config, metadata: what.metadata,
        streamMode: modes,
        streamSubgraphs: true, streamResumable: true, onDisconnect: "continue", signal,
        onRunCreated: (r) => { this.known(r.run_id); this.changed(); },
      });
      await this.follow(stream as AsyncIterable<Event>, signal);
    } catch (e) {
      if (!signal.aborted) this.finish(words(e));
    }
    return asked || signal.aborted;
  }

  // known takes the ID of the run that was asked for.
  private known(runId: string) {
    this.shownRuns.add(runId);
    if (runId === this.snap.runId) return;
    this.set({ runId });
    if (this.snap.stopping) void this.cancel();
  }

  // What is said is shown before the server has it.
  private greet(input: JsonObject | null | undefined) {
    const last = input && Array.isArray(input.messages) ? input.messages.at(-1) : undefined;
    const m = messageOf(last);
    if (m?.type === "human") this.set({ said: [m] });
  }

  // follow takes up what a run streams, until it has ended. If the connection is
  // lost, it goes on after the last event once the server is back.
  private async follow(stream: AsyncIterable<Event>, signal: AbortSignal) {
    let failed: string | undefined;
    let last = "-1";
    for (let over = false; ;) {
      let broken = false;
      try {
        for await (const e of stream) {
          if (signal.aborted) return;
          if (this.snap.lost) this.set({ lost: false });
          if (over && e.event === "error" && isObject(e.data) && e.data.error === "NotFound") break; // the run is gone, and what it has told
          if (e.id) last = e.id;
          failed = this.event(e) ?? failed;
          if (this.snap.elsewhere && this.snap.tasks.length === 0) this.trail(signal);
        }
      } catch (e) {
        if (signal.aborted) return;
        if (over) break; // what it has missed isn't kept any more
        if (!away(e) || !this.snap.runId) failed = words(e);
        broken = true;
      }
      if (signal.aborted) return;
      if (failed !== undefined || over) break;
      over = await this.ended(signal);
      if (signal.aborted) return;
      if (over && !broken) break;
      stream = client.runs.joinStream(this.snap.threadId!, this.snap.runId!, { signal, lastEventId: last }) as AsyncIterable<Event>;
    }
    this.set({ error: failed, lost: false });
    try {
      await this.load(signal);
    } catch (e) {
      failed ??= words(e);
    }
    if (!signal.aborted) this.finish(failed);
  }

  // ended reports whether the run has ended, as soon as the server can be reached.
  private async ended(signal: AbortSignal): Promise<boolean> {
    const { threadId, runId } = this.snap;
    if (!threadId || !runId) return true;
    for (let pause = 250; ; pause = Math.min(pause * 2, 5000)) {
      try {
        const { status } = await client.runs.get(threadId, runId, { signal });
        if (signal.aborted) return true;
        if (status !== "pending" && status !== "running") return true;
        await wait(150, signal); // the stream ended too early
        return false;
      } catch (e) {
        if (signal.aborted) return true;
        if (!away(e)) return true; // it has been deleted: the thread says what there is
        this.set({ lost: true });
        await wait(pause, signal);
      }
    }
  }

  private finish(error?: string) {
    const at = Date.now();
    this.set({ running: false, stopping: false, lost: false, ended: at, said: [], values: undefined, ...(error ? { error } : {}), tasks: this.snap.tasks.map((t) => (t.ended ? t : { ...t, ended: at })) }, true);
    this.changed();
    if (this.missed) void this.reload();
    this.missed = false;
    this.takeUp(this.abort.signal); // another may have waited for its turn
  }

  // event takes up an event of the stream. It returns the run's failure.
  private event(e: Event): string | undefined {
    const [kind, ...place] = e.event.split("|") as [string, ...string[]];
    const path = place.map((at) => (at.includes(":") ? at.slice(0, at.lastIndexOf(":")) : at)); // node:task
    const at = Date.now();
    const data = (e.data ?? null) as Json;
    const entry: LogEntry = { seq: this.seq++, at, event: e.event, data, weight: 0 };
    if (kind !== "messages") {
      const log = this.snap.log.length < mostEvents ? [...this.snap.log, entry] : [...this.snap.log.slice(1), entry];
      this.logWeight += entry.weight = weigh(data, mostWeight);
      while (this.logWeight > mostWeight && log.length > 1) this.logWeight -= log.shift()!.weight;
      this.set({ log });
    }
    const names = path.map((p) => p.split(":")[0]!);
    switch (kind) {
      case "metadata":
        if (isObject(data) && typeof data.run_id === "string") this.known(data.run_id);
        break;
      case "values":
        if (isObject(data) && path.length === 0 && !("__interrupt__" in data)) {
          const known = new Set(Array.isArray(data.messages) ? data.messages.map((m) => (isObject(m) ? m.id : undefined)) : []);
          this.set({ values: data, said: this.snap.said.filter((m) => !known.has(m.id)) });
        }
        break;
      case "messages": {
        if (!Array.isArray(data) || !isObject(data[0])) break;
        const about = isObject(data[1]) ? data[1] : {};
        const id = data[0].id;
        const known = isObject(this.snap.values) && Array.isArray(this.snap.values.messages) && this.snap.values.messages.some((m) => isObject(m) && m.id === id);
        if (known) break;
        const said = [...this.snap.said];
        const place = said.findIndex((m) => m.id === id);
        const sum = append(place < 0 ? undefined : said[place], data[0], typeof about.langgraph_node === "string" ? about.langgraph_node : undefined);
        if (!sum) break;
        if (place < 0) said.push(sum);
        else said[place] = sum;
        this.set({ said });
        break;
      }
      case "custom":
        this.set({ custom: [...this.snap.custom.slice(-mostEvents), { ...entry, event: names.join(" › ") }] });
        break;
      case "tasks":
        if (isObject(data)) this.task(data, names, at);
        break;
      case "tools":
        if (isObject(data)) this.tool(data, at);
        break;
      case "error":
        return failure(data);
    }
    return undefined;
  }

  private task(data: JsonObject, path: string[], at: number) {
    const id = path.join("|") + "|" + String(data.id);
    const tasks = [...this.snap.tasks];
    const place = tasks.findLastIndex((t) => t.id === id && !t.ended);
    if (!("result" in data) && !("error" in data)) {
      const task: Task = { id, name: String(data.name), path, began: at };
      if (place < 0) tasks.push(task);
      else tasks[place] = task; // another attempt
    } else if (place >= 0) {
      tasks[place] = { ...tasks[place]!, ended: at, error: typeof data.error === "string" ? data.error : undefined, result: data.result };
    }
    this.set({ tasks: tasks.slice(-mostEvents) });
  }

  private tool(data: JsonObject, at: number) {
    const id = String(data.toolCallId ?? data.name);
    const tools = [...this.snap.tools];
    const place = tools.findLastIndex((t) => t.id === id && t.status === "running");
    switch (data.event) {
      case "on_tool_start":
        tools.push({ id, name: String(data.name), status: "running", input: data.input, began: at });
        break;
      case "on_tool_event":
        if (place >= 0) tools[place] = { ...tools[place]!, output: data.data };
        break;
      default:
        if (place < 0) break;
        tools[place] = { ...tools[place]!, status: data.event === "on_tool_error" ? "failed" : "done", output: data.output ?? data.error, ended: at };
    }
    this.set({ tools });
  }

  // stop stops the run. A request for a run isn't broken off, since the server may have
  // begun it: the run is stopped once the server has told its ID.
  stop = async () => {
    if (!this.snap.running || this.snap.stopping) return;
    this.set({ stopping: true }, true);
    if (this.snap.runId) await this.cancel();
  };

  private async cancel() {
    const { signal } = this.abort, { threadId, runId } = this.snap;
    try {
      await client.runs.cancel(threadId!, runId!, true);
    } catch (e) {
      if (!signal.aborted && this.snap.running && this.snap.runId === runId) this.set({ stopping: false, error: words(e) });
    }
  }

  // edit changes the state at a checkpoint, which makes a new one. It reports
  // whether that worked.
  edit = async (values: JsonObject | null, checkpoint: Checkpoint | null | undefined, asNode?: string): Promise<boolean> => {
    if (!this.snap.threadId) return false;
    this.editing = true;
    try {
      await client.threads.updateState(this.snap.threadId, {
        values, asNode: asNode || undefined,
        checkpoint: checkpoint ? { checkpoint_id: checkpoint.checkpoint_id, checkpoint_ns: checkpoint.checkpoint_ns, checkpoint_map: null } as Checkpoint : undefined,
      });
      this.set({ error: undefined, tasks: [] });
      await this.reload();
      this.changed();
      return true;
    } catch (e) {
      this.set({ error: words(e) });
      return false;
    } finally {
      this.editing = false;
    }
  };
}

type Event = { event: string; data: unknown; id?: string };

const idOf = (s: State | undefined) => s?.checkpoint?.checkpoint_id;

function failure(data: Json | undefined): string | undefined {
  if (!isObject(data)) return typeof data === "string" ? data : undefined;
  const name = typeof data.error === "string" && data.error !== "Error" ? data.error + ": " : "";
  return name + String(data.message ?? "the run failed");
}
