// The flows of a dialogue, with where a conversation stands in them and what its slots
// held.
import { useMemo, useState } from "react";
import { flowOf, flowsOf, words, type Assistant } from "./api";
import { Drawn, type Activity, type Shown } from "./GraphView";
import { layered } from "./layout";
import { slotsOf, stepsOf, upTo, type Frame, type Turn } from "./turns";
import { Empty, Icon, IconButton, Problem, Spinner, useAsync } from "./ui";

const all = "";
const nobody: Shown["before"] = [];

export default function FlowView({ assistant, turns, at, dark, select }: { assistant: Assistant; turns: Turn[]; at?: number; dark: boolean; select: (turn: number) => void }) {
  const id = assistant.assistant_id;
  const { data: flows, error, reload } = useAsync((signal) => flowsOf(id, signal), [id]);
  const seen = useMemo(() => upTo(turns, at), [turns, at]);
  const stack = seen.at(-1)?.stack ?? [];
  const [chosen, choose] = useState<string>(); // else the flow that is active
  const [step, selectStep] = useState<string>();
  const top = stack.findLast((f) => f.role !== "pattern") ?? stack.at(-1);
  const name = chosen ?? top?.flow ?? all;
  const frame = stack.findLast((f) => f.flow === name);
  const drawn = useAsync(async (signal) => ({ of: name, drawing: name === all ? undefined : await flowOf(id, name, frame?.version, signal) }), [id, name, frame?.version]);
  const shownFlow = drawn.data?.of === name ? drawn.data.drawing : undefined;
  const drawing = name === all ? flows?.graph : shownFlow;
  const layout = useMemo(() => drawing && (drawing.layout ?? layered(drawing)), [drawing]);
  const shown = useMemo<Shown>(() => ({
    activity: name === all ? flowActivity(seen, stack) : stepActivity(seen, name, frame, top),
    selected: step, before: nobody, after: nobody,
    select: (key) => (name === all ? go(key) : selectStep((s) => (s === key ? undefined : key))),
    toggle: go,
  }), [name, seen, stack, frame, top, step]);
  function go(flow: string | undefined) {
    choose(flow);
    selectStep(undefined);
  }
  const failed = error ?? drawn.error;
  if (failed !== undefined && !layout) return <Problem text={words(failed)} retry={() => { reload(); drawn.reload(); }} />;
  const about = flows?.flows.find((f) => f.name === name)?.description;
  return (
    <div className="flow">
      <div className="flow-bar">
        <label className="sr" htmlFor="flow-choice">Flow</label>
        <select id="flow-choice" value={name} onChange={(e) => go(e.target.value)}>
          <option value={all}>All flows</option>
          {flows?.flows.map((f) => <option key={f.name} value={f.name}>{f.name}</option>)}
          {name !== all && !flows?.flows.some((f) => f.name === name) && <option value={name}>{name}</option>}
        </select>
        {chosen !== undefined && <button type="button" className="link" onClick={() => go(undefined)}>follow the conversation</button>}
        {about && <span className="hint flow-about">{about}</span>}
      </div>
      {stack.length > 0 && (
        <ol className="stack" aria-label="Stack of flows, the active one last">
          {stack.map((f, i) => (
            <li key={f.flow_id}>
              {i > 0 && <Icon name="right" size={14} />}
              <button type="button" className={`frame-chip is-${f.waits ? "active" : f.state}`} aria-pressed={f.flow === name} onClick={() => go(f.flow)}>
                <strong>{f.flow}</strong> <span>{standing(f, i === stack.length - 1)}</span>
              </button>
            </li>
          ))}
        </ol>
      )}
      <div className="graph">
        {layout ? <Drawn key={name} layout={layout} shown={shown} dark={dark} focus={name === all ? top?.flow : frame?.step} /> : <div className="center"><Spinner label="Loading the flow" /></div>}
      </div>
      {step && name !== all && <StepPanel flow={name} step={step} turns={seen} close={() => selectStep(undefined)} select={select} />}
      <Slots turns={seen} select={select} />
    </div>
  );
}

function standing(f: Frame, top: boolean): string {
  const where = f.step ? ` at ${f.step}` : "";
  return top ? `${f.waits ? "waits" : "works"}${where}` : `paused${where}`;
}

// stepActivity is what a conversation did in a flow, and where it stands there.
function stepActivity(turns: Turn[], flow: string, frame: Frame | undefined, top: Frame | undefined): Activity {
  const out: Activity = new Map();
  for (const [step, visits] of stepsOf(turns, flow, !!frame)) out.set(step, { status: "done", visits });
  if (frame?.step) {
    const visits = out.get(frame.step)?.visits ?? 1;
    out.set(frame.step, { status: frame !== top ? "paused" : frame.waits ? "interrupted" : "running", visits });
  }
  return out;
}

// flowActivity is which flows a conversation went through.
function flowActivity(turns: Turn[], stack: Frame[]): Activity {
  const out: Activity = new Map();
  for (const t of turns) for (const e of t.trace) {
    if (!e.flow || !e.kind.startsWith("flow_")) continue;
    const known = out.get(e.flow)?.visits ?? 0;
    if (e.kind === "flow_completed" || e.kind === "flow_cancelled" || e.kind === "flow_abandoned") out.set(e.flow, { status: "done", visits: known + 1 });
    if (e.kind === "flow_error") out.set(e.flow, { status: "failed", visits: known + 1 });
  }
  stack.forEach((f, i) => out.set(f.flow, { status: i < stack.length - 1 ? "paused" : f.waits ? "interrupted" : "running", visits: 1 }));
  return out;
}

function StepPanel({ flow, step, turns, close, select }: { flow: string; step: string; turns: Turn[]; close: () => void; select: (turn: number) => void }) {
  const taken = [...new Set(turns.flatMap((t) => t.trace).filter((e) => e.kind === "step" && e.flow === flow && e.step === step).map((e) => e.turn))];
  return (
    <aside className="node-panel" aria-label={`Step ${step}`}>
      <header><h2>{step}</h2><IconButton icon="x" label="Close" onClick={close} /></header>
      <p className="hint">{taken.length === 0 ? "Not taken so far." : <>Taken in turn {taken.map((n) => <button key={n} type="button" className="link" onClick={() => select(n)}>{n}</button>)}</>}</p>
    </aside>
  );
}

function Slots({ turns, select }: { turns: Turn[]; select: (turn: number) => void }) {
  const slots = useMemo(() => slotsOf(turns), [turns]);
  const [open, setOpen] = useState(true);
  const [more, showMore] = useState(false);
  if (slots.length === 0) return turns.length > 0 ? null : <div className="slots-none"><Empty title="Nothing was said yet"><p>Say something: the way through the flows, the slots and their history show here.</p></Empty></div>;
  const current = slots.filter((s) => s.open), shown = more || current.length === 0 ? slots : current;
  return (
    <section className="slots" aria-label="Slots">
      <button type="button" className="slots-head" aria-expanded={open} onClick={() => setOpen(!open)}><Icon name={open ? "down" : "right"} size={14} />Slots <span className="hint">{current.length > 0 ? `${current.length} of the flows on the stack` : `${slots.length} of flows that have ended`}</span></button>
      {open && (
        <div className="slots-body" tabIndex={0} role="group" aria-label="Values of slots">
          <table>
            <thead><tr><th scope="col">Slot</th><th scope="col">Value</th><th scope="col">From</th><th scope="col">Before</th></tr></thead>
            <tbody>
              {shown.map((s, i) => {
                const now = s.past.at(-1)!;
                return (
                  <tr key={s.flow + s.name} className={s.open ? "" : "is-over"}>
                    <th scope="row">{s.name}{s.flow !== shown[i - 1]?.flow && <span className="hint"> {s.flow}</span>}</th>
                    <td>{now.value === undefined ? <span className="json-null">empty</span> : <span className="slot-value">{now.value || "“”"}</span>}</td>
                    <td><span className="badge quiet">{now.source ?? "emptied"}</span> <button type="button" className="link" onClick={() => select(now.turn)}>turn {now.turn}</button></td>
                    <td>{s.past.slice(0, -1).toReversed().map((p, j) => <span key={j} className="slot-past"><span className="slot-value">{p.value ?? "empty"}</span> <span className="hint">{p.source ?? "emptied"}, turn {p.turn}</span></span>)}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
          {shown.length < slots.length && <button type="button" className="link" onClick={() => showMore(true)}>{slots.length - shown.length} of flows that have ended</button>}
        </div>
      )}
    </section>
  );
}
