// One thread and its graph.
import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { callsOf, historyIn, schemas, turnsOf, words, type Assistant, type Drawing, type Schemas } from "./api";
import type { Recorded } from "./Calls";
import type { Call } from "./calls";
import { Chat, Composer } from "./Chat";
import { Form, JsonInput } from "./Form";
import { activity, GraphView, type Inner } from "./GraphView";
import { moments, partsOf, questions, stepOf, type Moment } from "./history";
import { writtenAt } from "./inside";
import { InsideEditor, type InsideEdit } from "./InsideEditor";
import { equal, isObject, preview, type Json, type JsonObject } from "./json";
import { conversation, textOf, type Message } from "./messages";
import { countOf, nothingTold, RunFields, type Told } from "./Options";
import { Questions } from "./Questions";
import { format, go } from "./route";
import { fieldOf, update } from "./schema";
import type { RunInput, Session, Snapshot } from "./session";
import { StateEditor } from "./StateEditor";
import { EventLog, Timeline } from "./Timeline";
import type { Talk } from "./TurnList";
import type { Turn } from "./turns";
import { Button, duration, Empty, Icon, IconButton, JsonView, Problem, Spinner, Status, useAsync } from "./ui";

const Calls = lazy(() => import("./Calls"));
const Notes = lazy(() => import("./Notes"));
const FlowView = lazy(() => import("./FlowView"));
const TurnList = lazy(() => import("./TurnList"));

export type Pane = "run" | "turns" | "timeline" | "calls" | "state" | "events" | "notes";

export function Workbench({ session, assistant, assistants, dialogue, dark, pane: wanted, setPane }: { session: Session; assistant: Assistant; assistants: Assistant[]; dialogue?: string; dark: boolean; pane: Pane; setPane: (p: Pane) => void }) {
  const speaks = assistant.graph_id === dialogue;
  const snap = useSyncExternalStore(session.subscribe, session.get);
  const recorded = useCalls(snap);
  const pane = wanted === "turns" && !speaks || wanted === "calls" && recorded.calls.length === 0 ? "run" : wanted;
  const { data: loaded, error: formError, reload } = useAsync(async () => ({ of: assistant.assistant_id, forms: await schemas(assistant.assistant_id) }), [assistant.assistant_id]);
  const forms = loaded?.forms;
  const ready = loaded?.of === assistant.assistant_id; // until then they are another assistant's
  const [selected, selectMoment] = useState<string>();
  const [node, selectNode] = useState<string>();
  const [told, tell] = useState<Told>(nothingTold);
  const [drawn, setDrawn] = useState<Drawing>();
  const [open, setOpen] = useState<string[]>([]); // subgraphs
  const [editing, edit] = useState<{ at?: Moment; asNode?: string }>();
  const [editingInside, editInside] = useState<InsideEdit>();
  const opened = useRef(snap.threadId);
  useEffect(() => {
    const made = opened.current === undefined && session.get().running; // by the run: what is chosen stays so
    opened.current = snap.threadId;
    if (made) return;
    selectMoment(undefined);
    selectNode(undefined);
    edit(undefined);
    editInside(undefined);
  }, [session, snap.threadId]);
  useEffect(() => { tell(nothingTold); setOpen([]); setDrawn(undefined); selectNode(undefined); }, [assistant.assistant_id]);
  const names = useMemo(() => (drawn?.layout ? drawn.layout.nodes.filter((b) => !b.path?.length && b.kind !== "start" && b.kind !== "end") : drawn?.nodes ?? []).map((n) => n.id).filter((n) => n !== "__start__" && n !== "__end__"), [drawn]);
  const all = useMemo(() => moments(snap.history, snap.state), [snap.history, snap.state]);
  const at = all.find((m) => m.id === selected);
  const inner = useInner(snap, all, at, open);
  const shown = useMemo(() => activity(snap, all, at, inner), [snap.tasks, snap.running, snap.state, all, at, inner]);
  const run = useCallback((what: RunInput) => {
    selectMoment(undefined);
    return session.run(assistant.assistant_id, { ...what, ...told }, (id) => go({ page: "work", assistant: assistant.assistant_id, thread: id }, true));
  }, [session, assistant.assistant_id, told]);
  const rerun = (m: Moment) => { setPane("run"); run({ input: null, checkpoint: m.state.checkpoint }); };
  const select = useCallback((k: string | undefined) => selectNode(k), []);
  const nodes = names.length > 0 ? names : [...new Set([...all.flatMap((m) => m.state.next), ...all.flatMap((m) => m.nodes)])];
  const older = useCallback(() => void session.older(), [session]);
  const compare = (l: Moment, r: Moment) => go({ page: "compare", assistant: assistant.assistant_id, thread: snap.threadId!, left: l.id, right: r.id });
  const stops = (where: "before" | "after", name: string) => ({ on: told[where].includes(name), toggle: () => tell((t) => ({ ...t, [where]: t[where].includes(name) ? t[where].filter((n) => n !== name) : [...t[where], name] })) });
  const editState = (editing ? editing.at : at)?.state ?? snap.state;
  useEffect(() => {
    document.title = `${snap.running ? "▶ " : questions(snap.state).length > 0 ? "? " : ""}${assistant.name || assistant.graph_id} · Superstep Studio`;
    return () => { document.title = "Superstep Studio"; };
  }, [snap.running, snap.state, assistant]);
  const [view, setView] = useState<"flow" | "graph">("flow");
  const talk = useTurns(speaks, snap);
  const [turn, selectTurn] = useState<number>();
  useEffect(() => selectTurn(undefined), [snap.threadId, assistant.assistant_id]);
  const inFlow = speaks && view === "flow";
  const panes: [Pane, string][] = [["run", "Run"], ...(speaks ? [["turns", "Turns"] as [Pane, string]] : []), ["timeline", "Timeline"], ...(recorded.calls.length > 0 ? [["calls", "Calls"] as [Pane, string]] : []), ["state", "State"], ["events", "Events"], ["notes", "Notes"]];
  return (
    <>
      <section className="pane pane-graph" aria-label="Graph">
        <div className="graph-head">
          <select aria-label="Assistant" value={assistant.assistant_id} disabled={snap.running} onChange={(e) => go({ page: "work", assistant: e.target.value, thread: undefined })}>
            {assistants.map((a) => <option key={a.assistant_id} value={a.assistant_id}>{a.name || a.graph_id}</option>)}
          </select>
          {speaks && <div className="choices" role="radiogroup" aria-label="What is drawn">{(["flow", "graph"] as const).map((v) => <button key={v} type="button" role="radio" aria-checked={view === v} onClick={() => setView(v)}>{v === "flow" ? "Flow" : "Graph"}</button>)}</div>}
          {snap.lost ? <Status status="reconnecting" /> : snap.stopping ? <Status status="stopping" /> : snap.running ? <Status status="busy" /> : snap.thread && <Status status={snap.thread.status} />}
          <Clock snap={snap} />
          {snap.running && snap.sudden && <span className="hint" role="status">started elsewhere</span>}
          {snap.threadId && <IconButton icon="refresh" label="Load the thread again" disabled={snap.running} onClick={() => void session.refresh()} />}
          {at && !inFlow && <span className="badge">at step {stepOf(at) ?? "?"} <button type="button" className="link" onClick={() => selectMoment(undefined)}>back to now</button></span>}
          {turn !== undefined && inFlow && <span className="badge">at turn {turn} <button type="button" className="link" onClick={() => selectTurn(undefined)}>back to now</button></span>}
        </div>
        {inFlow && <Suspense fallback={<div className="center"><Spinner /></div>}><FlowView key={assistant.assistant_id} assistant={assistant} turns={talk.turns} at={turn} dark={dark} select={(n) => { selectTurn(n); setPane("turns"); }} /></Suspense>}
        <div className="graph" hidden={inFlow}>
          <GraphView key={assistant.assistant_id} assistant={assistant.assistant_id} activity={shown} selected={node} select={select} before={told.before} after={told.after} dark={dark} open={open} setOpen={setOpen} drawn={setDrawn} />
        </div>
        {node && !inFlow && <NodePanel node={node} snap={snap} all={all} before={stops("before", node)} after={stops("after", node)}
          rerun={rerun} edit={() => edit({ at, asNode: node })} close={() => selectNode(undefined)} />}
      </section>
      <section className={`pane pane-side show-${pane}`} aria-label="Thread">
        <div className="tabs" role="tablist" aria-label="Views of the thread" onKeyDown={(e) => {
          const step = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
          if (!step) return;
          const i = panes.findIndex(([p]) => p === pane), next = panes[(i + step + panes.length) % panes.length]!;
          setPane(next[0]);
          document.getElementById("tab-" + next[0])?.focus();
        }}>
          {panes.map(([p, l]) => <button key={p} type="button" role="tab" id={"tab-" + p} aria-selected={pane === p} aria-controls="tabpanel" tabIndex={pane === p ? 0 : -1} onClick={() => setPane(p)}>{l}{p === "run" && !snap.running && questions(snap.state).length > 0 && <span className="dot-alert" title="A question waits" />}</button>)}
          {snap.running && <span className="on-phone tabs-busy" role="status"><span className="spin" aria-hidden="true" /><span className="sr">{snap.sudden ? "A run works that was started elsewhere" : "A run works"}</span></span>}
        </div>
        <div className="tab-body" role="tabpanel" id="tabpanel" aria-labelledby={"tab-" + pane} tabIndex={-1}>
          {at && pane !== "timeline" && pane !== "turns" && <p className="at-bar on-phone">At step {stepOf(at) ?? "?"} of the history <button type="button" className="link" onClick={() => selectMoment(undefined)}>back to now</button></p>}
          {snap.lost && <p className="lost" role="status"><span className="spin" aria-hidden="true" /> The server is away. The run is taken up again as soon as it is back.</p>}
          {formError !== undefined && <Problem text={words(formError)} retry={reload} />}
          {snap.error && <Problem text={snap.error} retry={snap.notFound || snap.thread ? undefined : () => void session.refresh()} dismiss={snap.thread ? session.clearError : undefined} />}
          {snap.notFound && <Empty title="No such thread"><p>It may have been deleted, or its address is mistyped.</p><p><a href={format({ page: "work", assistant: assistant.assistant_id })}>Begin a new one</a></p></Empty>}
          {/* What is typed there stays while another pane is shown, and until the forms of another assistant are there. */}
          {pane === "run" && !ready && formError === undefined && <div className="center"><Spinner label="Loading the forms" /></div>}
          <div className="keep" hidden={pane !== "run" || !ready}>
            {snap.loading ? <div className="center"><Spinner label="Loading the thread" /></div> : forms && !snap.notFound && (!snap.error || snap.thread || !snap.threadId) && <RunPane snap={snap} forms={forms} run={run} stop={session.stop} edit={session.edit} at={at} all={all} assistant={assistant} told={told} tell={tell} nodes={nodes} seen={pane === "run"} speaks={speaks} />}
          </div>
          {pane === "turns" && !snap.notFound && <Suspense fallback={<div className="center"><Spinner /></div>}><TurnList thread={snap.threadId} talk={talk} at={turn} select={selectTurn} running={snap.running} /></Suspense>}
          {pane === "timeline" && !snap.notFound && <Timeline snap={snap} moments={all} calls={recorded.calls} selected={selected} select={selectMoment} rerun={rerun} edit={(m) => edit({ at: m })} editInside={editInside} compare={compare} older={older} />}
          {pane === "calls" && snap.threadId && !snap.notFound && <Suspense fallback={<div className="center"><Spinner /></div>}><Calls key={snap.threadId} thread={snap.threadId} recorded={recorded} /></Suspense>}
          {pane === "state" && !snap.notFound && <StatePane snap={snap} at={at} edit={() => edit({ at })} />}
          {pane === "events" && <EventLog snap={snap} />}
          {pane === "notes" && !snap.notFound && (snap.threadId ? <Suspense fallback={<div className="center"><Spinner /></div>}><Notes key={snap.threadId} thread={snap.threadId} run={snap.state?.metadata?.run_id as string | undefined} /></Suspense> : <Empty title="No thread yet"><p>Notes are of a thread.</p></Empty>)}
        </div>
      </section>
      {editingInside && <InsideEditor assistant={assistant} edit={editingInside} session={session} snap={snap} close={() => editInside(undefined)} goOn={() => { setPane("run"); run({ input: null }); }} />}
      {editing && forms && editState && (
        <StateEditor title={editing.at ? "Edit and fork" : "Edit the state"} values={editState.values ?? {}} next={editState.next} nodes={nodes} asNode={editing.asNode ?? writerOf(editing.at ?? all.find((m) => m.head))} asks={questions(editState).length > 0}
          state={forms.state} problem={snap.error} close={() => { edit(undefined); session.clearError(); }}
          save={async (values, asNode, runToo) => {
            const end = editing.at ?? all.find((x) => x.head);
            const from = end && writtenAt(all, end, asNode);
            const base = from && from !== end ? from.state : editState;
            const changed = update(base.values ?? {}, values, forms.input);
            if (!await session.edit(Object.keys(changed).length > 0 ? changed : null, base.checkpoint, asNode)) return false;
            selectMoment(undefined);
            if (runToo) { setPane("run"); run({ input: null }); }
            return true;
          }} />
      )}
    </>
  );
}

// writerOf is the node as which the state of a moment is edited when nobody says
// so: where a question waits it is the one before, so that it is asked anew.
function writerOf(m: Moment | undefined): string | undefined {
  return m && questions(m.state).length > 0 && m.nodes.length === 1 ? m.nodes[0] : undefined;
}

const someCalls = 50;

// useCalls loads the calls of models of a thread, again when its state has changed or a run ends.
function useCalls(snap: Snapshot): Recorded {
  const thread = snap.threadId, checkpoint = snap.state?.checkpoint?.checkpoint_id;
  const [limit, more] = useState(someCalls);
  const { data, error, loading, reload } = useAsync(async (signal) => ({ thread, calls: thread && checkpoint ? await callsOf(thread, limit, undefined, signal) : [] }), [thread, checkpoint, snap.running, limit]);
  const calls = data?.thread === thread ? data?.calls ?? noCalls : noCalls;
  return { calls, more: calls.length === limit && limit < 1000, older: () => more((n) => Math.min(1000, 2 * n)), loading, error: data ? undefined : error, reload };
}
const noCalls: Call[] = [];

// useTurns loads the turns of a conversation, again when its state has changed.
function useTurns(speaks: boolean, snap: Snapshot): Talk {
  const thread = speaks ? snap.threadId : undefined, checkpoint = snap.state?.checkpoint?.checkpoint_id;
  const loaded = useAsync(async (signal) => ({ thread, ...(thread && checkpoint ? await turnsOf(thread, undefined, signal) : { turns: [], more: false }) }), [thread, checkpoint]);
  const [earlier, setEarlier] = useState<{ thread?: string; turns: Turn[]; more: boolean }>({ turns: [], more: false });
  const [failed, fail] = useState<unknown>();
  const { data, reload } = loaded;
  return useMemo(() => {
    const newest = data?.thread === thread && data ? data.turns : [];
    const joins = earlier.thread === thread && earlier.turns.length > 0 && newest.length > 0 && earlier.turns.at(-1)!.turn >= newest[0]!.turn - 1;
    const turns = joins ? [...earlier.turns.filter((t) => t.turn < newest[0]!.turn), ...newest] : newest;
    return {
      turns, more: joins ? earlier.more : newest.length > 0 && !!data?.more, loading: loaded.loading, error: loaded.error ?? failed, reload,
      older: () => void turnsOf(thread!, turns[0]?.turn, new AbortController().signal).then((m) => { fail(undefined); setEarlier({ thread, turns: [...m.turns, ...turns], more: m.more }); }, fail),
    };
  }, [data, earlier, failed, thread, loaded.loading, loaded.error, reload]);
}

// useInner loads what happened in the subgraphs that are open, as far as it is in
// the history, by their paths.
function useInner(snap: Snapshot, all: Moment[], at: Moment | undefined, open: string[]): Inner {
  const quiet = !snap.running && open.length > 0 && !!snap.threadId;
  const { data } = useAsync(async (signal) => {
    const out: Inner = new Map();
    if (!quiet) return out;
    const end = at ?? all.find((m) => m.head);
    const spaces = new Map<string, { ns: string; path: string[] }>();
    const note = (tasks: Moment["state"]["tasks"], path: string[]) => { for (const p of partsOf(tasks, path)) spaces.set(p.path.join("|"), { ns: p.ns, path: p.path }); };
    const byId = new Map(all.map((m) => [m.id, m]));
    const line: Moment[] = [];
    for (let m = end; m; m = m.parent && byId.get(m.parent.checkpoint?.checkpoint_id ?? "")) {
      line.unshift(m);
      if ((m.state.metadata as { source?: string } | null)?.source === "input") break;
    }
    for (const m of line) if (m.parent && m.nodes.length > 0) note(m.parent.tasks, []);
    note((at?.state ?? snap.state)?.tasks ?? [], []);
    for (const key of open.toSorted((a, b) => a.split("|").length - b.split("|").length)) {
      const space = spaces.get(key);
      if (!space) continue;
      const history = await historyIn(snap.threadId!, space.ns, signal);
      const inner = moments(history, history[0]);
      out.set(key, inner);
      for (const m of inner) if (m.parent && m.nodes.length > 0) note(m.parent.tasks, space.path);
      note(inner.find((m) => m.head)?.state.tasks ?? [], space.path);
    }
    return out;
  }, [quiet, snap.threadId, all, at, open.join()]);
  return data ?? none;
}
const none: Inner = new Map();

// Clock shows for how long a run has worked.
function Clock({ snap }: { snap: Snapshot }) {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!snap.running) return;
    const t = setInterval(() => tick((n) => n + 1), 200);
    return () => clearInterval(t);
  }, [snap.running]);
  if (!snap.began) return null;
  return <span className="hint clock">{duration((snap.ended ?? Date.now()) - snap.began)}</span>;
}

type Stop = { on: boolean; toggle: () => void };

function NodePanel({ node, snap, all, before: stopBefore, after: stopAfter, rerun, edit, close }: { node: string; snap: Snapshot; all: Moment[]; before: Stop; after: Stop; rerun: (m: Moment) => void; edit: () => void; close: () => void }) {
  const path = node.split("|"), name = path.at(-1)!, root = path.length === 1;
  const before = all.findLast((m) => m.current && m.state.next.includes(name));
  const tasks = snap.tasks.filter((t) => [...t.path, t.name].join("|") === node);
  const last = tasks.at(-1);
  return (
    <aside className="node-panel" aria-label={`Node ${name}`}>
      <header><h2>{path.join(" › ")}</h2><IconButton icon="x" label="Close" onClick={close} /></header>
      {last && <p className="hint">{tasks.length > 1 && `${tasks.length} times in this run · `}{last.ended ? `last took ${duration(last.ended - last.began)}` : "running"}</p>}
      {last?.error && <p className="field-problem">{last.error}</p>}
      {last?.result !== undefined && last.result !== null && <JsonView name="wrote" value={last.result} open={1} />}
      {root
        ? <div className="actions">
            <Button icon="pause" aria-pressed={stopBefore.on} onClick={stopBefore.toggle}>{stopBefore.on ? "Don't pause before" : "Pause before"}</Button>
            <Button icon="pause" aria-pressed={stopAfter.on} onClick={stopAfter.toggle}>{stopAfter.on ? "Don't pause after" : "Pause after"}</Button>
            {snap.state?.checkpoint && <Button icon="edit" disabled={snap.running} onClick={edit}>Edit state as {name}</Button>}
            {before && <Button icon="play" disabled={snap.running} onClick={() => rerun(before)}>Run again from here</Button>}
          </div>
        : <p className="hint">It belongs to a subgraph. The timeline shows its steps inside of {path[0]}; while the graph waits there, or has failed there, the state can be edited.</p>}
    </aside>
  );
}

function StatePane({ snap, at, edit }: { snap: Snapshot; at?: Moment; edit: () => void }) {
  const values = at ? at.state.values : (snap.values ?? snap.state?.values);
  if (!values || Object.keys(values).length === 0) return <Empty title="No state yet"><p>The first run writes it.</p></Empty>;
  const state = at?.state ?? snap.state;
  return (
    <div className="state">
      <div className="state-bar">
        <span className="hint">{at ? `At step ${stepOf(at) ?? "?"}` : snap.running ? "As the run goes" : "Newest"}{state && state.next.length > 0 && !snap.running && ` · then ${state.next.join(", ")}`}</span>
        <Button icon="edit" onClick={edit} disabled={snap.running}>{at ? "Edit and fork" : "Edit"}</Button>
      </div>
      {Object.entries(values as JsonObject).map(([k, v]) => <JsonView key={k + (at?.id ?? "")} name={k} value={v} open={1} />)}
      {!snap.running && state?.checkpoint && <p className="hint ids">checkpoint <code>{state.checkpoint.checkpoint_id}</code></p>}
    </div>
  );
}

function RunPane({ snap, forms, run, stop, edit, at, all, assistant, told, tell, nodes, seen, speaks }: {
  snap: Snapshot; forms: Schemas; run: (what: RunInput) => Promise<boolean>; stop: () => void; edit: Session["edit"]; at?: Moment; all: Moment[]; assistant: Assistant; told: Told; tell: (t: Told) => void; nodes: string[]; seen: boolean; speaks: boolean;
}) {
  const properties = fieldOf(forms.input, forms.input);
  const hasMessages = !!properties.properties?.some(([n]) => n === "messages");
  const state = at?.state ?? snap.state;
  const values = at ? at.state.values : (snap.values ?? snap.state?.values);
  const isChat = hasMessages || (isObject(values) && conversation(values).length > 0);
  const [input, setInput] = useState<JsonObject>({});
  const [bad, setBad] = useState<Record<string, boolean>>({});
  useEffect(() => { setInput({}); setBad({}); }, [assistant.assistant_id]);
  const wrong = Object.values(bad).some(Boolean);
  const open = questions(state); // while a run works: those that it answers
  const asked = snap.running ? [] : open;
  const paused = !snap.running && !at && asked.length === 0 && (snap.state?.next.length ?? 0) > 0;
  const messages = useMemo(() => [...conversation(values), ...(at ? [] : snap.said)], [values, snap.said, at]);
  const form = (hide: string[]) => properties.kind === "object"
    ? <Form schema={forms.input} value={input} onChange={(v) => setInput(isObject(v) ? v : {})} onError={(p, m) => setBad((b) => ({ ...b, [p]: !!m }))} hide={hide} />
    : <JsonInput aria-label="Input as JSON" rows={6} value={input} onChange={(v) => setInput(isObject(v) ? v : {})} onError={(m) => setBad({ "": !!m })} />;
  const human = (content: string, id: string = crypto.randomUUID()): Json => ({ type: "human", content, id });
  const send = (text: string) => run({ input: { ...input, messages: [human(text)] }, checkpoint: at?.state.checkpoint });
  const resend = useCallback((m: Message, text: string) => {
    // It is changed where it was said first, which makes a branch.
    const first = all.find((x) => x.current && conversation(x.state.values).some((o) => o.id === m.id));
    if (first) void edit({ messages: [human(text, m.id)] }, first.state.checkpoint).then((done) => { if (done) run({ input: null }); });
  }, [all, run, edit]);
  const options = (
    <details className="fields options">
      <summary>Options{countOf(told) > 0 && <span className="badge">{countOf(told)} set</span>}</summary>
      <RunFields key={assistant.assistant_id} told={told} tell={tell} nodes={nodes} schema={forms.config} onError={(what, problem) => setBad((b) => ({ ...b, ["told" + what]: problem }))} />
    </details>
  );
  const answers = open.length > 0 && speaks ? <Choices questions={asked} press={(byId) => run({ command: { resume: byId }, checkpoint: at?.state.checkpoint })} /> : open.length > 0 && (
    <Questions key={open.map((q) => q.id).join()} questions={open} busy={snap.running} past={!!at}
      answer={(byId) => run({ command: { resume: byId }, checkpoint: at?.state.checkpoint })} />
  );
  // A graph that sleeps or waits for an event has no run, and is woken by the server.
  const more = paused && snap.thread?.status === "busy" ? (
    <div className="paused is-asleep"><p><Icon name="clock" size={16} /> {snap.state!.next.join(", ")} waits for a time or an event, and goes on by itself.</p></div>
  ) : paused && (
    <div className="paused"><p><Icon name="pause" size={16} /> {snap.thread?.status === "error" ? "Stopped" : "Paused"} before {snap.state!.next.join(", ")}.</p><Button kind="primary" icon="play" onClick={() => run({ input: null })}>{snap.thread?.status === "error" ? "Try again" : "Go on"}</Button></div>
  );
  if (isChat) {
    return (
      <div className="run-chat">
        {messages.length === 0 && !snap.running ? <Empty title={assistant.name || assistant.graph_id}><p>{assistant.description ?? "Say something to begin."}</p></Empty>
          : <Chat messages={messages} tools={snap.tools} running={snap.running} stopping={snap.stopping} waits={asked.length > 0 && !speaks} resend={at ? undefined : resend} />}
        <Custom snap={snap} />
        {answers}{more}
        {asked.length > 0 && !speaks && <div className="run-foot">{options}</div>}
        {hasMessages && (asked.length === 0 || speaks) && (
          <div className="run-foot">
            {(properties.properties?.length ?? 0) > 1 && <details className="fields"><summary>Other fields{Object.keys(input).length > 0 && ` (${Object.keys(input).length} set)`}</summary>{form(["messages"])}</details>}
            {options}
            <Composer label={at ? "Say something at this point of the history" : "Say something"} send={send} running={snap.running} stopping={snap.stopping} stop={stop} disabled={wrong} />
          </div>
        )}
      </div>
    );
  }
  return (
    <div className="run-form">
      {answers}{more}
      <Live snap={snap} stop={stop} />
      <form onSubmit={(e) => { e.preventDefault(); run({ input, checkpoint: at?.state.checkpoint }); }}>
        <h2>{snap.threadId ? "New input" : "Input"}</h2>
        {assistant.description && !snap.threadId && <p className="hint">{assistant.description}</p>}
        {form([])}
        {options}
        <div className="actions">
          {!snap.running && <Button icon="play" kind={asked.length > 0 ? undefined : "primary"} type="submit" disabled={wrong}>Run</Button>}
        </div>
      </form>
      {seen && (!snap.running || (snap.elsewhere && snap.tasks.length === 0)) && values && Object.keys(values).length > 0 && (
        <section className="result"><h2>{at ? "State at this step" : "State"}</h2>{Object.entries(values as JsonObject).map(([k, v]) => <JsonView key={k} name={k} value={v} open={1} />)}</section>
      )}
    </div>
  );
}

// Choices are the buttons of what a dialogue asks. It takes any words as well.
function Choices({ questions, press }: { questions: { id: string; value: Json }[]; press: (answers: JsonObject) => void }) {
  const offers = questions.flatMap((q) => (isObject(q.value) && Array.isArray(q.value.options) ? q.value.options.filter(isObject).map((o) => ({ of: q.id, question: (q.value as JsonObject).id, o })) : []));
  if (offers.length === 0) return null;
  return (
    <div className="chips dialogue-choices" role="group" aria-label="Buttons">
      {offers.map(({ of, question, o }, i) => (
        <button key={i} type="button" className="chip" onClick={() => press({ [of]: { text: String(o.label ?? o.id), question: question ?? "", commands: Array.isArray(o.commands) && o.commands.length > 0 ? o.commands : [{ type: "select", option: o.id ?? "" }] } })}>{String(o.label ?? o.id)}</button>
      ))}
    </div>
  );
}

// Live shows a run of a graph that doesn't speak: its steps and what they wrote.
function Live({ snap, stop }: { snap: Snapshot; stop: () => void }) {
  if (!snap.running && snap.tasks.length === 0) return null;
  return (
    <section className="live" aria-label="This run" aria-live="polite">
      <h2>{snap.running ? <><span className="spin" aria-hidden="true" /> Running</> : "Last run"}{snap.running && <><span className="grow" /><Button icon="stop" kind="danger" disabled={snap.stopping} onClick={stop}>{snap.stopping ? "Stopping…" : "Stop"}</Button></>}</h2>
      <ol>
        {snap.tasks.slice(-12).map((t, i) => (
          <li key={t.id + i} className={t.error ? "is-failed" : t.ended ? "is-done" : "is-running"}>
            <span>{[...t.path, t.name].join(" › ")}</span> <span className="hint">{t.error ?? (t.ended ? duration(t.ended - t.began) : "…")}</span>
            {isObject(t.result) && !equal(t.result, {}) && <code className="wrote">{preview(t.result, 90)}</code>}
          </li>
        ))}
      </ol>
      {snap.said.length > 0 && <p className="prose">{textOf(snap.said.at(-1)!.content)}</p>}
      <Custom snap={snap} />
    </section>
  );
}

function Custom({ snap }: { snap: Snapshot }) {
  if (snap.custom.length === 0) return null;
  return (
    <details className="custom" key={snap.runId} open>
      <summary>{snap.custom.length} custom {snap.custom.length === 1 ? "event" : "events"}</summary>
      <ol>{snap.custom.slice(-8).map((e) => <li key={e.seq}>{e.event && <span className="hint">{e.event} </span>}<code>{preview(e.data, 160)}</code></li>)}</ol>
    </details>
  );
}
