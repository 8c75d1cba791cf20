// The history of a thread: what each step changed, and ways to go on from it.
import { useMemo, useState } from "react";
import { diff, preview, type Change, type Json } from "./json";
import { questions, type Moment } from "./history";
import type { Snapshot } from "./session";
import { Button, duration, Empty, Icon, JsonView, Spinner, When } from "./ui";

const sources: Record<string, string> = { input: "Input", update: "Edited", fork: "Forked", loop: "Step" };

export function Timeline({ snap, moments, selected, select, rerun, edit, older }: {
  snap: Snapshot; moments: Moment[]; selected?: string; select: (id: string | undefined) => void; rerun: (m: Moment) => void; edit: (m: Moment) => void; older: () => void;
}) {
  const [others, showOthers] = useState(true);
  const shown = others ? moments : moments.filter((m) => m.current);
  const branches = moments.some((m) => !m.current);
  const live = snap.running ? snap.tasks.filter((t) => t.path.length === 0) : [];
  if (moments.length === 0 && live.length === 0) return snap.loading ? <div className="center"><Spinner /></div> : <Empty title="No history yet"><p>Each step of a run becomes a checkpoint here.</p></Empty>;
  return (
    <div className="timeline">
      <div className="timeline-bar">
        {snap.more && <Button kind="quiet" onClick={older}>Older checkpoints</Button>}
        {branches && <label className="check"><input type="checkbox" checked={others} onChange={(e) => showOthers(e.target.checked)} /> Other branches</label>}
      </div>
      <ol>
        {shown.map((m) => <Entry key={m.id} m={m} selected={selected === m.id} busy={snap.running}
          select={() => select(selected === m.id ? undefined : m.id)} rerun={() => rerun(m)} edit={() => edit(m)} />)}
        {live.map((t, i) => (
          <li className={`moment is-live ${t.error ? "is-failed" : t.ended ? "" : "is-running"}`} key={"live" + i}>
            <div className="moment-head"><span className="dot" aria-hidden="true" /><span className="moment-title">{t.name}</span><span className="hint">{t.ended ? duration(t.ended - t.began) : "running…"}</span></div>
          </li>
        ))}
      </ol>
    </div>
  );
}

function Entry({ m, selected, busy, select, rerun, edit }: { m: Moment; selected: boolean; busy: boolean; select: () => void; rerun: () => void; edit: () => void }) {
  const source = String((m.state.metadata as Record<string, Json> | null)?.source ?? "loop");
  const step = (m.state.metadata as Record<string, Json> | null)?.step;
  const changes = useMemo(() => diff((m.parent?.values ?? {}) as Json, (m.state.values ?? {}) as Json), [m.state, m.parent]);
  const asks = questions(m.state).length > 0;
  const failed = m.state.tasks.find((t) => t.error);
  const title = m.nodes.length > 0 ? m.nodes.join(", ") : source === "loop" ? "Planned" : sources[source] ?? source;
  const [open, setOpen] = useState(false);
  return (
    <li className={`moment ${m.current ? "" : "is-other"} ${selected ? "is-selected" : ""} ${failed ? "is-failed" : asks ? "is-asking" : ""}`} style={{ "--lane": m.lane } as React.CSSProperties} data-step={String(step)} data-source={source}>
      <button type="button" className="moment-head" aria-expanded={selected} onClick={select}>
        <span className="dot" aria-hidden="true" />
        <span className="moment-title">{title}</span>
        {m.head && <span className="badge">now</span>}
        {!m.current && <span className="badge quiet">other branch</span>}
        <span className="hint">{step !== undefined && `step ${String(step)}`}{m.ms !== undefined && ` · ${duration(m.ms)}`}</span>
      </button>
      <p className="moment-line">
        {asks ? "waits for an answer" : failed ? `failed: ${failed.error}` : m.state.next.length > 0 ? `then ${m.state.next.join(", ")}` : "end"} · <When at={m.state.created_at} />
        {changes.length > 0 && <button type="button" className="link" aria-expanded={open} onClick={() => setOpen(!open)}>{changes.length} {changes.length === 1 ? "change" : "changes"}</button>}
      </p>
      {open && <Changes changes={changes} />}
      {selected && (
        <div className="actions">
          <Button icon="edit" onClick={edit} disabled={busy}>Edit and fork</Button>
          {m.state.next.length > 0 && <Button icon="play" onClick={rerun} disabled={busy}>Run from here</Button>}
        </div>
      )}
    </li>
  );
}

export function Changes({ changes }: { changes: Change[] }) {
  const [all, showAll] = useState(false);
  const shown = all ? changes : changes.slice(0, 30);
  return (
    <ul className="changes">
      {shown.map((c, i) => (
        <li key={i}>
          <code className="path">{c.path.join(".") || "(all)"}</code> <span className="sr">{c.kind}</span>
          {c.before !== undefined && <Side value={c.before} kind="minus" />}
          {c.after !== undefined && <Side value={c.after} kind="plus" />}
        </li>
      ))}
      {shown.length < changes.length && <li><Button kind="quiet" onClick={() => showAll(true)}>{changes.length - shown.length} more</Button></li>}
    </ul>
  );
}

function Side({ value, kind }: { value: Json; kind: "plus" | "minus" }) {
  const long = typeof value === "object" && value !== null;
  return <div className={`side ${kind}`}><span aria-hidden="true">{kind === "plus" ? "+" : "−"}</span>{long ? <JsonView value={value} open={0} /> : <span className="side-text">{typeof value === "string" ? value : preview(value, 400)}</span>}</div>;
}

export function EventLog({ snap }: { snap: Snapshot }) {
  const [kind, setKind] = useState("");
  const kinds = [...new Set(snap.log.map((e) => e.event.split("|")[0]!))];
  const shown = snap.log.filter((e) => !kind || e.event.split("|")[0] === kind);
  const began = snap.began ?? snap.log[0]?.at ?? 0;
  if (snap.log.length === 0) return <Empty title="No events yet"><p>What a run streams while this page is open is listed here.</p></Empty>;
  return (
    <div className="events">
      <label className="field inline">Show <select value={kind} onChange={(e) => setKind(e.target.value)}><option value="">everything</option>{kinds.map((k) => <option key={k}>{k}</option>)}</select></label>
      <ol>
        {shown.slice(-400).map((e) => (
          <li key={e.seq}><span className="event-time">{((e.at - began) / 1000).toFixed(2)} s</span><span className="event-kind"><Icon name="right" size={12} />{e.event.replaceAll("|", " › ")}</span><JsonView value={e.data} open={0} /></li>
        ))}
      </ol>
    </div>
  );
}
