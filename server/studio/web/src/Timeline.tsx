// The history of a thread: what each step changed, and ways to go on from it.
import { useVirtualizer } from "@tanstack/react-virtual";
import { lazy, Suspense, useEffect, useMemo, useRef, useState } from "react";
import { historyIn, recordingOf, toolsOf, words, type ThreadInfo } from "./api";
import type { Call } from "./calls";
import { changesOf, lineOf, moments as momentsOf, questions, rails, stepOf, titleOf, total, usageOf, waterfall, type Moment, type Rail, type Usage } from "./history";
import { editingOf, placesOf, type Place } from "./inside";
import type { InsideEdit } from "./InsideEditor";
import { isObject, preview, type Change, type Json } from "./json";
import type { Snapshot, Task } from "./session";
import { Waterfall } from "./Waterfall";
import { Button, download, duration, Empty, Icon, JsonView, Problem, Spinner, useAsync, When } from "./ui";

const ReplayDialog = lazy(() => import("./ReplayDialog"));
const SaveTest = lazy(() => import("./SaveTest"));

export type TimelineActions = { select: (id: string | undefined) => void; rerun: (m: Moment) => void; edit: (m: Moment) => void; editInside: (e: InsideEdit) => void; compare: (left: Moment, right: Moment) => void };

const someTools = 200;

type Row = { key: string; live: Task } | { key: string; live?: undefined; m: Moment; rail: Rail };

// The newest is on top, as in the history of a repository, so that what is older
// is loaded when somebody comes to it.
export function Timeline({ snap, moments, calls, selected, older, ...act }: { snap: Snapshot; moments: Moment[]; calls: Call[]; selected?: string; older: () => void } & TimelineActions) {
  const [others, showOthers] = useState(true);
  const [inTime, showInTime] = useState(false);
  const [opened, setOpened] = useState<Set<string>>(new Set());
  const top = useRef<HTMLDivElement>(null);
  const rows = useMemo<Row[]>(() => {
    const shown = (others ? moments : moments.filter((m) => m.current)).toReversed();
    const beside = rails(shown);
    const live = snap.running ? snap.tasks.filter((t) => t.path.length === 0).toReversed() : [];
    return [...live.map((t, i) => ({ key: "live" + (live.length - i), live: t })), ...shown.map((m, i) => ({ key: m.id, m, rail: beside[i]! }))];
  }, [moments, others, snap.running, snap.tasks]);
  const head = moments.find((m) => m.head);
  const leaf = moments.findLast((m) => !m.current);
  const line = useMemo(() => lineOf(moments, head?.id), [moments, head]);
  const spent = useMemo(() => total(line.map(usageOf)), [line]);
  const timed = line.some((m) => m.ran.length > 0);
  const { data: tools, error: toolsError } = useAsync(async (signal) => (inTime && snap.threadId ? await toolsOf(snap.threadId, someTools, signal) : []), [inTime, snap.threadId, head?.id]);
  const [unsaved, setUnsaved] = useState<unknown>();
  const save = (thread: string) => recordingOf(thread).then((text) => { download(`${thread}.jsonl`, text, "application/jsonl"); setUnsaved(undefined); }, setUnsaved);
  const lanes = Math.min(8, 1 + Math.max(0, ...rows.map((r) => (r.live ? 0 : r.m.lane))));
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => top.current?.closest<HTMLElement>(".tab-body") ?? null, estimateSize: () => 60, overscan: 6, getItemKey: (i) => rows[i]!.key, scrollMargin: 44 });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? -1;
  useEffect(() => { if (snap.more && !snap.older && last >= rows.length - 1 && rows.length > 0) older(); }, [last, rows.length, snap.more, snap.older, older]);
  const [replaying, replay] = useState(false);
  const [keeping, keep] = useState(false);
  const [sought, seek] = useState<string>(); // a checkpoint that is to be shown, however old it is
  useEffect(() => {
    if (!sought) return;
    const at = rows.findIndex((r) => r.key === sought);
    if (at < 0 && snap.more) {
      if (!snap.older) older();
      return;
    }
    seek(undefined);
    if (at >= 0) virtual.scrollToIndex(at, { align: "center" });
  }, [sought, rows, snap.more, snap.older, older, virtual]);
  if (rows.length === 0) return snap.loading ? <div className="center"><Spinner /></div> : <Empty title="No history yet"><p>Each step of a run becomes a checkpoint here.</p></Empty>;
  const toggle = (id: string) => setOpened((o) => { const n = new Set(o); if (!n.delete(id)) n.add(id); return n; });
  return (
    <div className="timeline" ref={top} style={{ "--lanes": lanes } as React.CSSProperties}>
      <div className="timeline-bar">
        <span className="hint">{moments.length}{snap.more && "+"} {moments.length === 1 ? "checkpoint" : "checkpoints"}{spent && <> · <Tokens usage={spent} /></>}</span>
        <span className="grow" />
        {timed && <label className="check"><input type="checkbox" checked={inTime} onChange={(e) => showInTime(e.target.checked)} /> Waterfall</label>}
        {leaf && !inTime && <label className="check"><input type="checkbox" checked={others} onChange={(e) => showOthers(e.target.checked)} /> Other branches</label>}
        {leaf && head && <Button icon="compare" onClick={() => act.compare(leaf, head)}>Compare</Button>}
        {snap.threadId && <span className="timeline-actions">
          <Button kind="quiet" disabled={snap.running} onClick={() => replay(true)}>Replay</Button>
          <Button kind="quiet" onClick={() => save(snap.threadId!)}>Export</Button>
          <Button kind="quiet" disabled={snap.running} onClick={() => keep(true)}>Save as test</Button>
        </span>}
      </div>
      {replaying && snap.threadId && <Suspense><ReplayDialog thread={snap.threadId} close={() => replay(false)} open={(id) => { replay(false); showInTime(false); showOthers(true); act.select(id); seek(id); }} /></Suspense>}
      {keeping && snap.thread && <Suspense><SaveTest thread={snap.thread.thread_id} graph={String(snap.thread.metadata?.graph_id ?? "")} title={(snap.thread as ThreadInfo).title ?? ""} line={line} close={() => keep(false)} /></Suspense>}
      {unsaved !== undefined && <Problem text={words(unsaved)} />}
      {inTime && timed ? <>{toolsError !== undefined && <Problem text={words(toolsError)} />}<Waterfall bars={waterfall(line, [...calls, ...(tools ?? [])])} /></> : <>
      <ol style={{ height: virtual.getTotalSize() }}>
        {items.map((v) => {
          const row = rows[v.index]!;
          const place = { "data-index": v.index, ref: virtual.measureElement, "aria-setsize": snap.more ? -1 : rows.length, "aria-posinset": v.index + 1, style: { transform: `translateY(${v.start - virtual.options.scrollMargin}px)` } };
          return row.live
            ? <li key={v.key} {...place} className={`moment is-live ${row.live.error ? "is-failed" : row.live.ended ? "" : "is-running"}`}>
                <span className="rail" aria-hidden="true"><span className="dot" /></span>
                <div className="moment-head"><span className="moment-title">{row.live.name}</span><span className="hint">{row.live.ended ? duration(row.live.ended - row.live.began) : "running…"}</span></div>
              </li>
            : <Entry key={v.key} place={place} m={row.m} rail={row.rail} head={head} snap={snap} selected={selected === row.m.id} open={opened.has(row.m.id)} toggle={() => toggle(row.m.id)} {...act} />;
        })}
      </ol>
      {snap.more && (snap.older ? <div className="center"><Spinner label="Loading older checkpoints" /></div> : <Button kind="quiet" onClick={older}>Older checkpoints</Button>)}
      </>}
    </div>
  );
}

export function Tokens({ usage }: { usage: Usage }) {
  const n = (x: number) => (x < 10_000 ? String(x) : `${(x / 1000).toFixed(1)}k`);
  return <span className="tokens" title={`${usage.input} tokens read, ${usage.output} written`}>{n(usage.input)} → {n(usage.output)} tokens</span>;
}

const laneX = (lane: number) => 8 + Math.min(lane, 7) * 14;

function RailView({ rail, lane }: { rail: Rail; lane: number }) {
  const x = laneX(lane);
  return (
    <span className="rail" aria-hidden="true">
      {rail.passing.filter((l) => l !== lane).map((l) => <span key={l} className={`rail-line ${l > 0 ? "is-branch" : ""}`} style={{ left: laneX(l) }} />)}
      {rail.above && <span className={`rail-line is-above ${lane > 0 ? "is-branch" : ""}`} style={{ left: x }} />}
      {rail.below && <span className={`rail-line is-below ${lane > 0 ? "is-branch" : ""}`} style={{ left: x }} />}
      {rail.joining.length > 0 && <svg className="rail-bend" width="120" height="16">{rail.joining.map((l) => <path key={l} d={`M${laneX(l)} 0C${laneX(l)} 11 ${x} 5 ${x} 16`} />)}</svg>}
      <span className="dot" style={{ left: x }} />
    </span>
  );
}

function Entry({ m, rail, head, snap, selected, open, toggle, place, select, rerun, edit, editInside, compare }: {
  m: Moment; rail: Rail; head?: Moment; snap: Snapshot; selected: boolean; open: boolean; toggle: () => void; place: object;
} & TimelineActions) {
  const source = String((m.state.metadata as Record<string, Json> | null)?.source ?? "loop");
  const step = stepOf(m), busy = snap.running;
  const changes = useMemo(() => changesOf(m), [m]);
  const usage = useMemo(() => usageOf(m), [m]);
  const asks = questions(m.state).length > 0;
  const failed = m.state.tasks.find((t) => t.error);
  const places = placesOf(m);
  return (
    <li {...place} className={`moment ${m.current ? "" : "is-other"} ${selected ? "is-selected" : ""} ${failed ? "is-failed" : asks ? "is-asking" : ""}`} data-step={String(step)} data-source={source} data-checkpoint={m.id}>
      <RailView rail={rail} lane={m.lane} />
      <button type="button" className="moment-head" aria-expanded={selected} onClick={() => select(selected ? undefined : m.id)}>
        <span className="moment-title">{titleOf(m)}</span>
        {m.head && <span className="badge">now</span>}
        {!m.current && <span className="badge quiet">other branch</span>}
        <span className="grow" />
        <span className="hint">{[step !== undefined && `step ${step}`, m.ms !== undefined && duration(m.ms)].filter(Boolean).join(" · ")}{usage && <> · <Tokens usage={usage} /></>}</span>
      </button>
      <p className="moment-line">
        <span>{asks ? "waits for an answer" : failed ? `failed: ${failed.error}` : m.state.next.length > 0 ? `then ${m.state.next.join(", ")}` : "end"}</span> · <When at={m.state.created_at} />
        {changes && changes.length > 0 && <button type="button" className="link" aria-expanded={open} onClick={toggle}>{changes.length} {changes.length === 1 ? "change" : "changes"}</button>}
      </p>
      {open && changes && <Changes changes={changes} />}
      {selected && (
        <div className="moment-actions">
          {m.state.next.length > 0 && <Button icon="play" onClick={() => rerun(m)} disabled={busy}>Run from here</Button>}
          <Button icon="edit" onClick={() => edit(m)} disabled={busy}>Edit and fork</Button>
          {head && !m.head && <Button icon="compare" onClick={() => compare(m, head)}>Compare with now</Button>}
        </div>
      )}
      {places.map((p) => <Inside key={p.ns} place={p} snap={snap} edit={editInside} />)}
    </li>
  );
}

type InsideProps = { place: Place; snap: Snapshot; edit: (e: InsideEdit) => void };

// Inside is the history of a subgraph's run, which is loaded when it is opened.
function Inside(props: InsideProps) {
  const [open, setOpen] = useState(false);
  return (
    <div className="inside">
      <button type="button" className="link inside-open" aria-expanded={open} onClick={() => setOpen(!open)}><Icon name={open ? "down" : "right"} size={14} />Inside {props.place.name}</button>
      {open && <InsideSteps {...props} />}
    </div>
  );
}

function InsideSteps({ place, snap, edit }: InsideProps) {
  const { data, error, reload } = useAsync((signal) => historyIn(snap.threadId!, place.ns, signal), [snap.threadId, place.ns, snap.state]);
  const [shown, show] = useState<string>();
  const steps = useMemo(() => (data ? momentsOf(data, data[0]).toReversed() : []), [data]);
  if (error !== undefined) return <Problem text={words(error)} retry={reload} />;
  if (!data) return <Spinner label={`Loading the history of ${place.name}`} />;
  if (steps.length === 0) return <p className="hint">Nothing has happened in it, or its history was not kept.</p>;
  const head = steps.find((m) => m.head);
  return (
    <ol className="inside-steps" aria-label={`Steps inside ${place.name}`}>
      {steps.map((m) => {
        const changes = changesOf(m);
        const failed = m.head && place.open ? m.state.tasks.find((t) => t.error) : undefined;
        const editing = editingOf(place, m, head);
        return (
          <li key={m.id} data-inner={titleOf(m)} className={m.current ? "" : "is-other"}>
            <p className="inside-head"><strong>{titleOf(m)}</strong> {!m.current && <span className="badge quiet">other branch</span>} <span className="hint">{m.head && questions(m.state).length > 0 ? "waits for an answer · " : failed ? `${failed.name} failed · ` : ""}step {stepOf(m)}{m.ms !== undefined && ` · ${duration(m.ms)}`}</span>
              <span className="grow" /><button type="button" className="link" aria-expanded={shown === m.id} onClick={() => show(shown === m.id ? undefined : m.id)}>{shown === m.id ? "Hide state" : "State"}</button></p>
            {shown === m.id
              ? <div className="inside-state">
                  {Object.entries(m.state.values).map(([k, v]) => <JsonView key={k} name={k} value={v} open={1} />)}
                  {editing.why !== undefined ? <p className="hint inside-why">{editing.why}</p> : <div className="actions"><Button icon="edit" disabled={snap.running} onClick={() => edit({ place, all: steps, moment: m, ...editing })}>Edit inside {place.name}</Button></div>}
                </div>
              : changes && changes.length > 0 && <Changes changes={changes} />}
            {placesOf(m, place).map((p) => <Inside key={p.ns} place={p} snap={snap} edit={edit} />)}
          </li>
        );
      })}
    </ol>
  );
}

export function Changes({ changes }: { changes: Change[] }) {
  const [all, showAll] = useState(false);
  const shown = changes.slice(0, all ? 1000 : 20);
  return (
    <ul className="changes">
      {shown.map((c, i) => (
        <li key={i}>
          <code className="path">{c.path.join(".") || "(all)"}</code> <span className="sr">{c.kind}</span>
          {c.before !== undefined && <Side value={c.before} kind="minus" />}
          {c.after !== undefined && <Side value={c.after} kind="plus" />}
        </li>
      ))}
      {!all && shown.length < changes.length && <li><Button kind="quiet" onClick={() => showAll(true)}>{changes.length - shown.length} more</Button></li>}
      {all && shown.length < changes.length && <li className="hint">and {changes.length - shown.length} more</li>}
    </ul>
  );
}

export function Side({ value, kind }: { value: Json; kind: "plus" | "minus" }) {
  const long = typeof value === "object" && value !== null;
  return <div className={`side ${kind}`}><span aria-hidden="true">{kind === "plus" ? "+" : "−"}</span>{long ? <JsonView value={value} open={isObject(value) ? 1 : 0} /> : <span className="side-text">{value === "" ? "“”" : typeof value === "string" ? preview(value, 2000) : preview(value, 400)}</span>}</div>;
}

export function EventLog({ snap }: { snap: Snapshot }) {
  const [kind, setKind] = useState("");
  const top = useRef<HTMLDivElement>(null);
  const kinds = [...new Set(snap.log.map((e) => e.event.split("|")[0]!))];
  const shown = snap.log.filter((e) => !kind || e.event.split("|")[0] === kind);
  const began = snap.began ?? snap.log[0]?.at ?? 0;
  const virtual = useVirtualizer({ count: shown.length, getScrollElement: () => top.current?.closest<HTMLElement>(".tab-body") ?? null, estimateSize: () => 52, overscan: 6, getItemKey: (i) => shown[i]!.seq, scrollMargin: 60 });
  if (snap.log.length === 0) return <Empty title="No events yet"><p>What a run streams while this page is open is listed here.</p></Empty>;
  return (
    <div className="events" ref={top}>
      <label className="field inline">Show <select value={kind} onChange={(e) => setKind(e.target.value)}><option value="">everything</option>{kinds.map((k) => <option key={k}>{k}</option>)}</select> <span className="hint">{shown.length} {shown.length === 1 ? "event" : "events"}</span></label>
      <ol style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((v) => {
          const e = shown[v.index]!;
          return (
            <li key={v.key} data-index={v.index} ref={virtual.measureElement} aria-setsize={shown.length} aria-posinset={v.index + 1} style={{ transform: `translateY(${v.start - virtual.options.scrollMargin}px)` }}>
              <span className="event-time">{((e.at - began) / 1000).toFixed(2)} s</span><span className="event-kind" data-kind={e.event.split("|")[0]}>{e.event.replaceAll("|", " › ")}</span><JsonView value={e.data} open={0} />
            </li>
          );
        })}
      </ol>
    </div>
  );
}
