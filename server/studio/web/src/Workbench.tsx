// One thread and its graph.
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { schemas, words, type Assistant } from "./api";
import { Chat, Composer } from "./Chat";
import { Form, JsonInput } from "./Form";
import { activity, GraphView } from "./GraphView";
import { moments, questions, type Moment } from "./history";
import { equal, isObject, preview, type Json, type JsonObject } from "./json";
import { conversation, textOf, type Message } from "./messages";
import { Questions } from "./Questions";
import { go } from "./route";
import { fieldOf, update } from "./schema";
import type { RunInput, Session, Snapshot } from "./session";
import { StateEditor } from "./StateEditor";
import { EventLog, Timeline } from "./Timeline";
import { Button, duration, Empty, Icon, IconButton, JsonView, Problem, Spinner, Status, useAsync } from "./ui";

export type Pane = "run" | "timeline" | "state" | "events";

export function Workbench({ session, assistant, assistants, dark, pane, setPane }: { session: Session; assistant: Assistant; assistants: Assistant[]; dark: boolean; pane: Pane; setPane: (p: Pane) => void }) {
  const snap = useSyncExternalStore(session.subscribe, session.get);
  const { data: forms, error: formError, reload } = useAsync(() => schemas(assistant.assistant_id), [assistant.assistant_id]);
  const [selected, selectMoment] = useState<string>();
  const [node, selectNode] = useState<string>();
  const [breaks, setBreaks] = useState<Set<string>>(new Set());
  const [editing, edit] = useState<{ at?: Moment; asNode?: string }>();
  const opened = useRef(snap.threadId);
  useEffect(() => {
    const made = opened.current === undefined && session.get().running; // by the run: what is chosen stays so
    opened.current = snap.threadId;
    if (made) return;
    selectMoment(undefined);
    selectNode(undefined);
    edit(undefined);
  }, [session, snap.threadId]);
  useEffect(() => { setBreaks(new Set()); selectNode(undefined); }, [assistant.assistant_id]);
  const all = useMemo(() => moments(snap.history, snap.state), [snap.history, snap.state]);
  const at = all.find((m) => m.id === selected);
  const shown = useMemo(() => activity(snap, all, at), [snap.tasks, snap.running, snap.state, all, at]);
  const run = useCallback((what: RunInput) => {
    selectMoment(undefined);
    void session.run(assistant.assistant_id, { ...what, before: [...breaks] }, (id) => go({ page: "work", assistant: assistant.assistant_id, thread: id }, true));
  }, [session, assistant.assistant_id, breaks]);
  const rerun = (m: Moment) => { setPane("run"); run({ input: null, checkpoint: m.state.checkpoint }); };
  const select = useCallback((k: string | undefined) => selectNode(k), []);
  const nodes = [...new Set([...all.flatMap((m) => m.state.next), ...(node && !node.includes("|") ? [node] : []), ...all.flatMap((m) => m.nodes)])];
  const editState = (editing ? editing.at : at)?.state ?? snap.state;
  const panes: [Pane, string][] = [["run", "Run"], ["timeline", "Timeline"], ["state", "State"], ["events", "Events"]];
  return (
    <>
      <section className="pane pane-graph" aria-label="Graph">
        <div className="graph-head">
          <select aria-label="Assistant" value={assistant.assistant_id} disabled={snap.running} onChange={(e) => go({ page: "work", assistant: e.target.value, thread: undefined })}>
            {assistants.map((a) => <option key={a.assistant_id} value={a.assistant_id}>{a.name || a.graph_id}</option>)}
          </select>
          {snap.running ? <Status status="busy" /> : snap.thread && <Status status={snap.thread.status} />}
          <Clock snap={snap} />
          {at && <span className="badge">at step {String((at.state.metadata as { step?: number } | null)?.step ?? "?")} <button type="button" className="link" onClick={() => selectMoment(undefined)}>back to now</button></span>}
        </div>
        <div className="graph">
          <GraphView assistant={assistant.assistant_id} activity={shown} selected={node} select={select} breaks={breaks} dark={dark} />
        </div>
        {node && <NodePanel node={node} snap={snap} all={all} breaks={breaks.has(node)} toggleBreak={() => setBreaks((b) => { const n = new Set(b); if (!n.delete(node)) n.add(node); return n; })}
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
        </div>
        <div className="tab-body" role="tabpanel" id="tabpanel" aria-labelledby={"tab-" + pane} tabIndex={-1}>
          {formError !== undefined && <Problem text={words(formError)} retry={reload} />}
          {snap.error && <Problem text={snap.error} dismiss={session.clearError} />}
          {pane === "run" && (snap.loading ? <div className="center"><Spinner label="Loading the thread" /></div> : forms && !snap.notFound && <RunPane snap={snap} forms={forms} run={run} stop={session.stop} edit={session.edit} at={at} all={all} assistant={assistant} />)}
          {pane === "timeline" && <Timeline snap={snap} moments={all} selected={selected} select={selectMoment} rerun={rerun} edit={(m) => edit({ at: m })} older={() => void session.older()} />}
          {pane === "state" && <StatePane snap={snap} at={at} edit={() => edit({ at })} />}
          {pane === "events" && <EventLog snap={snap} />}
        </div>
      </section>
      {editing && forms && editState && (
        <StateEditor title={editing.at ? "Edit and fork" : "Edit the state"} values={editState.values ?? {}} next={editState.next} nodes={nodes} asNode={editing.asNode ?? writerOf(editing.at ?? all.find((m) => m.head))} asks={questions(editState).length > 0}
          state={forms.state} close={() => edit(undefined)}
          save={async (values, asNode, runToo) => {
            const m = editing.at ?? all.find((x) => x.head);
            // What the node before a question wrote is written otherwise, where it wrote it.
            const base = m?.parent && asNode && m.nodes.join() === asNode && questions(m.state).length > 0 ? m.parent : editState;
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

function NodePanel({ node, snap, all, breaks, toggleBreak, rerun, edit, close }: { node: string; snap: Snapshot; all: Moment[]; breaks: boolean; toggleBreak: () => void; rerun: (m: Moment) => void; edit: () => void; close: () => void }) {
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
            <Button icon="pause" aria-pressed={breaks} onClick={toggleBreak}>{breaks ? "Don't pause before" : "Pause before"}</Button>
            {snap.state?.checkpoint && <Button icon="edit" disabled={snap.running} onClick={edit}>Edit state as {name}</Button>}
            {before && <Button icon="play" disabled={snap.running} onClick={() => rerun(before)}>Run again from here</Button>}
          </div>
        : <p className="hint">It belongs to a subgraph: go on from the step of {path[0]}.</p>}
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
        <span className="hint">{at ? `At step ${String((at.state.metadata as { step?: number } | null)?.step)}` : snap.running ? "As the run goes" : "Newest"}{state && state.next.length > 0 && !snap.running && ` · then ${state.next.join(", ")}`}</span>
        <Button icon="edit" onClick={edit} disabled={snap.running}>{at ? "Edit and fork" : "Edit"}</Button>
      </div>
      {Object.entries(values as JsonObject).map(([k, v]) => <JsonView key={k + (at?.id ?? "")} name={k} value={v} open={1} />)}
      {!snap.running && state?.checkpoint && <p className="hint ids">checkpoint <code>{state.checkpoint.checkpoint_id}</code></p>}
    </div>
  );
}

type Forms = { input: JsonObject; state: JsonObject };

function RunPane({ snap, forms, run, stop, edit, at, all, assistant }: { snap: Snapshot; forms: Forms; run: (what: RunInput) => void; stop: () => void; edit: Session["edit"]; at?: Moment; all: Moment[]; assistant: Assistant }) {
  const properties = fieldOf(forms.input, forms.input);
  const hasMessages = !!properties.properties?.some(([n]) => n === "messages");
  const state = at?.state ?? snap.state;
  const values = at ? at.state.values : (snap.values ?? snap.state?.values);
  const isChat = hasMessages || (isObject(values) && conversation(values).length > 0);
  const [input, setInput] = useState<JsonObject>({});
  const [bad, setBad] = useState<Record<string, boolean>>({});
  useEffect(() => { setInput({}); setBad({}); }, [assistant.assistant_id]);
  const wrong = Object.values(bad).some(Boolean);
  const asked = snap.running ? [] : questions(state);
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
  const answers = asked.length > 0 && (
    <Questions key={asked.map((q) => q.id).join()} questions={asked} busy={snap.running} past={!!at}
      answer={(byId) => run({ command: { resume: byId }, checkpoint: at?.state.checkpoint })} />
  );
  const more = paused && (
    <div className="paused"><p><Icon name="pause" size={16} /> {snap.thread?.status === "error" ? "Stopped" : "Paused"} before {snap.state!.next.join(", ")}.</p><Button kind="primary" icon="play" onClick={() => run({ input: null })}>{snap.thread?.status === "error" ? "Try again" : "Go on"}</Button></div>
  );
  if (isChat) {
    return (
      <div className="run-chat">
        {messages.length === 0 && !snap.running ? <Empty title={assistant.name || assistant.graph_id}><p>{assistant.description ?? "Say something to begin."}</p></Empty>
          : <Chat messages={messages} tools={snap.tools} running={snap.running} resend={at ? undefined : resend} />}
        <Custom snap={snap} />
        {answers}{more}
        {hasMessages && asked.length === 0 && (
          <div className="run-foot">
            {(properties.properties?.length ?? 0) > 1 && <details className="fields"><summary>Other fields{Object.keys(input).length > 0 && ` (${Object.keys(input).length} set)`}</summary>{form(["messages"])}</details>}
            <Composer label={at ? "Say something at this point of the history" : "Say something"} send={send} running={snap.running} stop={stop} disabled={wrong} />
          </div>
        )}
      </div>
    );
  }
  return (
    <div className="run-form">
      {answers}{more}
      <Live snap={snap} />
      <form onSubmit={(e) => { e.preventDefault(); run({ input, checkpoint: at?.state.checkpoint }); }}>
        <h2>{snap.threadId ? "New input" : "Input"}</h2>
        {assistant.description && !snap.threadId && <p className="hint">{assistant.description}</p>}
        {form([])}
        <div className="actions">
          {snap.running ? <Button icon="stop" kind="danger" onClick={stop}>Stop</Button> : <Button icon="play" kind={asked.length > 0 ? undefined : "primary"} type="submit" disabled={wrong}>Run</Button>}
        </div>
      </form>
      {!snap.running && values && Object.keys(values).length > 0 && (
        <section className="result"><h2>{at ? "State at this step" : "State"}</h2>{Object.entries(values as JsonObject).map(([k, v]) => <JsonView key={k} name={k} value={v} open={1} />)}</section>
      )}
    </div>
  );
}

// Live shows a run of a graph that doesn't speak: its steps and what they wrote.
function Live({ snap }: { snap: Snapshot }) {
  if (!snap.running && snap.tasks.length === 0) return null;
  return (
    <section className="live" aria-label="This run" aria-live="polite">
      <h2>{snap.running ? <><span className="spin" aria-hidden="true" /> Running</> : "Last run"}</h2>
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
    <details className="custom" open={snap.running}>
      <summary>{snap.custom.length} custom {snap.custom.length === 1 ? "event" : "events"}</summary>
      <ol>{snap.custom.slice(-8).map((e) => <li key={e.seq}>{e.event && <span className="hint">{e.event} </span>}<code>{preview(e.data, 160)}</code></li>)}</ol>
    </details>
  );
}
