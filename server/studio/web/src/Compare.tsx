// Two points of a thread's history, side by side.
import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { sides } from "./compare";
import { changesOf, moments, stepOf, titleOf, usageOf, type Moment } from "./history";
import { diff, equal, isObject, preview, type Change, type Json } from "./json";
import { glimpse } from "./messages";
import { format, go } from "./route";
import type { Session } from "./session";
import { Tokens } from "./Timeline";
import { duration, Empty, IconButton, JsonView, Problem, Spinner, When } from "./ui";

export default function Compare({ session, assistant, thread, left, right }: { session: Session; assistant?: string; thread: string; left?: string; right?: string }) {
  const snap = useSyncExternalStore(session.subscribe, session.get);
  const all = useMemo(() => moments(snap.history, snap.state), [snap.history, snap.state]);
  const [everything, showEverything] = useState(false);
  const head = all.find((m) => m.head)?.id;
  const b = right ?? head;
  const a = left ?? all.findLast((m) => !m.current)?.id ?? all.find((m) => m.id === b)?.parent?.checkpoint?.checkpoint_id ?? undefined;
  const one = all.find((m) => m.id === a), other = all.find((m) => m.id === b);
  const missing = snap.history.length > 0 && (!one || !other);
  useEffect(() => { if (missing && snap.more && !snap.older) void session.older(); }, [session, missing, snap.more, snap.older]);
  const choose = (l: string | undefined, r: string | undefined) => go({ page: "compare", assistant, thread, left: l, right: r }, true);
  const { common, pairs } = useMemo(() => (one && other ? sides(all, one.id, other.id) : { common: [], pairs: [] }), [all, one, other]);
  const back = format({ page: "work", assistant, thread });
  const loading = snap.loading || (missing && (snap.more || snap.older));
  return (
    <section className="compare" aria-label="Comparison">
      <div className="compare-bar">
        <a className="back-link" href={back}>← Thread</a>
        <h1>Compare</h1>
        <span className="grow" />
        <label className="check"><input type="checkbox" checked={everything} onChange={(e) => showEverything(e.target.checked)} /> Show what is the same</label>
      </div>
      {snap.error && <Problem text={snap.error} retry={() => void session.refresh()} />}
      {loading ? <div className="center"><Spinner label="Loading the history" /></div>
        : all.length === 0 ? !snap.error && <Empty title="No history yet"><p>There is nothing to compare on this thread.</p></Empty>
        : <>
            <div className="sides compare-heads">
              <Choice label="Left" moments={all} value={a} choose={(id) => choose(id, b)} m={one} />
              <IconButton icon="swap" label="Change sides" onClick={() => choose(b, a)} />
              <Choice label="Right" moments={all} value={b} choose={(id) => choose(a, id)} m={other} />
            </div>
            {(!one || !other) ? <Empty title="Choose two checkpoints" /> : one.id === other.id ? <Empty title="Both are the same checkpoint" /> : <>
              <h2>Steps</h2>
              <p className="hint">{common.length === 0 ? "They have no step in common." : `${common.length} ${common.length === 1 ? "step" : "steps"} in common, the last of them ${titleOf(common.at(-1)!)}${stepOf(common.at(-1)!) === undefined ? "" : ` (step ${stepOf(common.at(-1)!)})`}.`}</p>
              <ol className="pairs" aria-label="Steps that differ">
                {everything && common.map((m) => <li key={m.id} className="sides is-same"><Cell m={m} /><span className="mark">=</span><Cell m={m} /></li>)}
                {pairs.filter((p) => everything || !p.same).map((p) => (
                  <li key={(p.left?.id ?? "") + p.right?.id} className={`sides ${p.same ? "is-same" : "is-different"}`}><Cell m={p.left} /><span className="mark" title={p.same ? "the same" : "different"}>{p.same ? "=" : "≠"}</span><Cell m={p.right} /></li>
                ))}
              </ol>
              <h2>State</h2>
              <States left={one} right={other} everything={everything} />
            </>}
          </>}
    </section>
  );
}

function Choice({ label, moments, value, choose, m }: { label: string; moments: Moment[]; value?: string; choose: (id: string) => void; m?: Moment }) {
  return (
    <div className="compare-choice">
      <select aria-label={label} value={m ? value : ""} onChange={(e) => choose(e.target.value)}>
        {!m && <option value="">choose a checkpoint</option>}
        {moments.toReversed().map((x) => <option key={x.id} value={x.id}>{`${titleOf(x)} · step ${stepOf(x) ?? "?"}${x.head ? " · now" : x.current ? "" : ` · branch ${x.lane}`}`}</option>)}
      </select>
      {m && <p className="hint">{m.state.next.length > 0 ? `then ${m.state.next.join(", ")}` : "end"} · <When at={m.state.created_at} /> · <code>{m.id.slice(-8)}</code></p>}
    </div>
  );
}

function Cell({ m }: { m?: Moment }) {
  if (!m) return <div className="cell is-nothing is-gap"><span className="hint">no step</span></div>;
  const changes = changesOf(m) ?? [], usage = usageOf(m);
  return (
    <div className="cell">
      <p><strong>{titleOf(m)}</strong> <span className="hint">{[stepOf(m) !== undefined && `step ${stepOf(m)}`, m.ms !== undefined && duration(m.ms)].filter(Boolean).join(" · ")}{usage && <> · <Tokens usage={usage} /></>}</span></p>
      {changes.slice(0, 4).map((c, i) => <p className="cell-change" key={i}><code className="path">{c.path.join(".") || "(all)"}</code> {c.after === undefined ? <em>removed</em> : glimpse(c.after, 90)}</p>)}
      {changes.length > 4 && <p className="hint">and {changes.length - 4} more</p>}
      {changes.length === 0 && <p className="hint">changed nothing</p>}
    </div>
  );
}

// States shows the members of two states. Of those that differ, each difference.
function States({ left, right, everything }: { left: Moment; right: Moment; everything: boolean }) {
  const a = left.state.values, b = right.state.values;
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  const different = names.filter((n) => !equal(a[n], b[n]));
  const shown = everything ? names : different;
  if (shown.length === 0) return <p className="hint">The states are the same.</p>;
  return (
    <ul className="fields-compared" aria-label="Fields of the state">
      {shown.map((n) => {
        const same = !different.includes(n);
        const changes = same ? [] : diff(a[n], b[n]);
        return (
          <li key={n} data-field={n} className={same ? "is-same" : "is-different"}>
            <h3><code>{n}</code> <span className="hint">{same ? "the same" : `${changes.length} ${changes.length === 1 ? "difference" : "differences"}`}</span></h3>
            {same || branchy(a[n]) || branchy(b[n])
              ? <><div className="sides"><Whole value={a[n]} /><span className="mark">{same ? "=" : "≠"}</span><Whole value={b[n]} /></div>{!same && <Differences changes={changes} />}</>
              : <div className="sides"><Part value={a[n]} kind="minus" /><span className="mark">≠</span><Part value={b[n]} kind="plus" /></div>}
          </li>
        );
      })}
    </ul>
  );
}

const branchy = (v: Json | undefined) => isObject(v) || Array.isArray(v);

function Whole({ value }: { value: Json | undefined }) {
  return <div className="cell">{value === undefined ? <span className="hint">not there</span> : <JsonView value={value} open={0} />}</div>;
}

function Part({ value, kind }: { value: Json | undefined; kind: "plus" | "minus" }) {
  return <div className={`cell ${value === undefined ? "is-nothing" : kind}`}>{value === undefined ? <span className="hint">not there</span> : branchy(value) ? <JsonView value={value} open={0} /> : <span className="side-text">{typeof value === "string" ? (value === "" ? "“”" : preview(value, 2000)) : String(value)}</span>}</div>;
}

function Differences({ changes }: { changes: Change[] }) {
  const [most, setMost] = useState(20);
  return (
    <ul className="differences">
      {changes.slice(0, most).map((c, i) => (
        <li key={i} className="sides">
          <div className="with-path"><code className="path">{c.path.join(".")}</code><Part value={c.before} kind="minus" /></div><span className="mark" aria-hidden="true" />
          <div className="with-path"><code className="path" aria-hidden="true">{c.path.join(".")}</code><Part value={c.after} kind="plus" /></div>
        </li>
      ))}
      {changes.length > most && <li><button type="button" className="link" onClick={() => setMost(most + 100)}>{changes.length - most} more</button></li>}
    </ul>
  );
}
