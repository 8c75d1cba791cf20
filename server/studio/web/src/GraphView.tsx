// The graph, with what a run does in it.
import { BaseEdge, Controls, Handle, Position, ReactFlow, ReactFlowProvider, useReactFlow, useStore, type Edge, type EdgeProps, type Node, type NodeProps } from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { createContext, Fragment, use, useEffect, useMemo } from "react";
import { drawing, words, type Box, type Drawing, type Layout, type Route, type State } from "./api";
import { layered } from "./layout";
import { questions, type Moment } from "./history";
import type { Snapshot } from "./session";
import { Icon, Problem, Spinner, useAsync } from "./ui";

export type NodeStatus = "running" | "done" | "failed" | "interrupted" | "next" | "paused";
export type Activity = Map<string, { status: NodeStatus; visits: number }>;

// Inner is what happened in subgraphs, by their paths.
export type Inner = Map<string, Moment[]>;

export const keyOf = (path: string[] | undefined, name: string) => [...(path ?? []), name].join("|");

// activity is what happened in each node since the last input: on the way to the
// moment that is shown, and in the run that works.
export function activity(s: Snapshot, all: Moment[], at: Moment | undefined, inner: Inner): Activity {
  const out: Activity = new Map();
  const note = (key: string, status: NodeStatus) => out.set(key, { status, visits: (out.get(key)?.visits ?? 0) + (status === "next" || status === "interrupted" ? 0 : 1) });
  // A run whose starter didn't ask for its tasks shows by the history alone.
  const untold = s.running && !!s.elsewhere && s.tasks.length === 0;
  if (!(s.running && s.fresh) || untold) {
    const byId = new Map(all.map((m) => [m.id, m]));
    const seen = new Set<string>();
    for (let m = at ?? all.find((x) => x.head); m && !seen.has(m.id); m = m.parent && byId.get(m.parent.checkpoint?.checkpoint_id ?? "")) {
      seen.add(m.id);
      if ((m.state.metadata as { source?: string } | null)?.source === "input") break; // the turn began here
      for (const n of m.nodes) note(n, "done");
    }
  }
  if (!at) {
    // Steps of the graph itself stand in the history when the run has ended.
    const tasks = s.running ? s.tasks : s.tasks.filter((t) => (t.path.length > 0 && !inner.has(t.path.join("|"))) || t.error);
    for (const t of tasks) note(keyOf(t.path, t.name), t.error ? "failed" : t.ended ? "done" : "running");
    for (const t of tasks) if (!t.ended) out.set(keyOf(t.path, t.name), { ...out.get(keyOf(t.path, t.name))!, status: "running" });
  }
  if (untold && !at) for (const n of s.state?.next ?? []) out.set(n, { status: "running", visits: out.get(n)?.visits ?? 1 });
  if (s.running) return out;
  const state = at?.state ?? s.state;
  for (const t of state?.tasks ?? []) if (t.error) out.set(t.name, { status: "failed", visits: out.get(t.name)?.visits ?? 1 });
  for (const n of state?.next ?? []) if (out.get(n)?.status !== "failed") note(n, "next");
  for (const q of questions(state)) note(q.node, "interrupted");
  for (const [path, moments] of inner) {
    const key = (name: string) => path + "|" + name;
    for (const m of moments) if (m.current) for (const n of m.nodes) note(key(n), "done");
    waiting(moments.find((m) => m.head)?.state, key);
  }
  function waiting(state: State | undefined, key: (name: string) => string) {
    for (const n of state?.next ?? []) note(key(n), "next");
    for (const q of questions(state)) note(key(q.node), "interrupted");
    for (const t of state?.tasks ?? []) if (t.error) out.set(key(t.name), { status: "failed", visits: 1 });
  }
  return out;
}

type StepNode = Node<{ box: Box; key: string }, "step">;
type RouteEdge = Edge<{ route: Route; target: string }, "route">;

export type Shown = { activity: Activity; selected?: string; select: (key: string) => void; toggle: (key: string) => void; before: string[]; after: string[] };
const Context = createContext<Shown>({ activity: new Map(), select: () => {}, toggle: () => {}, before: [], after: [] });

const statusWord: Record<NodeStatus, string> = { running: "running", done: "done", failed: "failed", interrupted: "waits for an answer", next: "next", paused: "stands here, paused" };
const statusMark: Record<NodeStatus, string> = { running: "", done: "✓", failed: "✗", interrupted: "?", next: "▸", paused: "‖" };

function Step({ data: { box, key } }: NodeProps<StepNode>) {
  const { activity, selected, select, toggle, before, after } = use(Context);
  const a = activity.get(key);
  const edge = box.kind === "start" || box.kind === "end";
  const small = edge && box.w < 30;
  const name = box.lines.join(" ") || (edge ? box.kind! : box.id);
  const sub = box.kind === "subgraph";
  const about = [[name, (box.notes ?? []).join(", ")].filter(Boolean).join(" "), a && statusWord[a.status], a && a.visits > 1 && `${a.visits} times`, sub && (box.expanded ? "open subgraph" : "subgraph")].filter(Boolean).join(", ");
  const handles = <><Handle type="target" position={Position.Top} isConnectable={false} /><Handle type="source" position={Position.Bottom} isConnectable={false} /></>;
  if (box.expanded) {
    return (
      <div className={`frame ${a ? `is-${a.status}` : ""}`} style={{ width: box.w, height: box.h }}>
        {handles}
        <button type="button" className="frame-title nodrag nopan" aria-expanded="true" aria-label={`Close ${about}`} onClick={() => toggle(key)}><Icon name="down" size={14} />{name}</button>
      </div>
    );
  }
  return (
    <div className={`step kind-${box.kind ?? "plain"} ${a ? `is-${a.status}` : ""} ${selected === key ? "is-selected" : ""}`} style={{ width: box.w, height: box.h }} data-node={key} data-status={a?.status ?? ""}>
      {handles}
      {edge
        ? !small && <span className="step-name">{name}</span>
        : <button type="button" className="step-body nodrag nopan" aria-pressed={selected === key} aria-label={about} title={box.description} onClick={() => select(key)}>
            {edge || box.lines.length < 2 ? <span className="step-name">{name}</span> : box.lines.map((l, i) => <Fragment key={i}>{i > 0 && " "}<span className={i === 0 ? "step-name" : "step-line"}>{l}</span></Fragment>)}
            {box.notes?.length ? <>{" "}<span className="step-note">{box.notes.join(", ")}</span></> : null}
          </button>}
      {a && <span className="step-mark" aria-hidden="true">{a.status === "running" ? <span className="spin" /> : a.visits > 1 ? a.visits : statusMark[a.status]}</span>}
      {before.includes(key) && <span className="step-break" title="Pauses before this node" />}
      {after.includes(key) && <span className="step-break is-after" title="Pauses after this node" />}
      {sub && <button type="button" className="step-open nodrag nopan" aria-expanded="false" aria-label={`Open subgraph ${name}`} onClick={() => toggle(key)}><Icon name="right" size={14} /></button>}
    </div>
  );
}

function RouteLine({ data, markerEnd }: EdgeProps<RouteEdge>) {
  const { activity } = use(Context);
  const { route, target } = data!;
  const live = activity.get(target)?.status === "running";
  const r = route.label_rect;
  return (
    <g className={`route ${route.kind ?? "static"} ${live ? "is-live" : ""}`}>
      <BaseEdge path={route.path} markerEnd={markerEnd} />
      {r && route.label_lines && <>
        <rect className="route-ground" x={r.x} y={r.y} width={r.w} height={r.h} rx="4" />
        {route.label_lines.map((l, i) => <text key={i} className="route-label" x={r.x + r.w / 2} y={r.y + (r.h * (i + 0.5)) / route.label_lines!.length} dominantBaseline="central" textAnchor="middle">{l}</text>)}
      </>}
    </g>
  );
}

const nodeTypes = { step: Step };
const edgeTypes = { route: RouteLine };

function elements(l: Layout): { nodes: StepNode[]; edges: RouteEdge[] } {
  const keys = l.nodes.map((b) => keyOf(b.path, b.id));
  return {
    nodes: l.nodes.map((box, i) => ({
      id: String(i), type: "step", position: { x: box.x, y: box.y }, data: { box, key: keys[i]! }, width: box.w, height: box.h, measured: { width: box.w, height: box.h },
      zIndex: (box.expanded ? 0 : 10) + (box.path?.length ?? 0), draggable: false, selectable: false, focusable: false, connectable: false,
      handles: [{ type: "target", position: Position.Top, x: box.w / 2, y: 0, width: 1, height: 1 }, { type: "source", position: Position.Bottom, x: box.w / 2, y: box.h, width: 1, height: 1 }],
    })),
    edges: l.edges.map((route, i) => ({
      id: `e${i}`, type: "route", source: String(route.from_node), target: String(route.to_node), data: { route, target: keys[route.to_node]! }, zIndex: 5, focusable: false, selectable: false,
      markerEnd: { type: "arrowclosed" as never, markerUnits: "userSpaceOnUse", width: 20, height: 20, color: "var(--line-strong)" }, ariaLabel: `${route.from} to ${route.to}`,
    })),
  };
}

// legible is the zoom below which names are too small to be read: then a part is shown.
const legible = 0.75;

function Flow({ layout, dark, focus }: { layout: Layout; dark: boolean; focus?: string }) {
  const flow = useReactFlow();
  const { nodes, edges } = useMemo(() => elements(layout), [layout]);
  const fit = { padding: 0.12, maxZoom: 1.25 };
  const width = useStore((s) => s.width), height = useStore((s) => s.height); // 0 while it is hidden
  useEffect(() => {
    if (width === 0 || height === 0) return;
    const frame = requestAnimationFrame(() => void flow.fitView(fit).then(() => {
      const box = layout.nodes.find((b) => keyOf(b.path, b.id) === focus);
      if (box && flow.getZoom() < legible) void flow.setCenter(box.x + box.w / 2, box.y + box.h / 2, { zoom: legible });
    }));
    return () => cancelAnimationFrame(frame);
  }, [layout, width, height, focus]);
  return (
    <ReactFlow nodes={nodes} edges={edges} nodeTypes={nodeTypes} edgeTypes={edgeTypes} fitView fitViewOptions={fit} minZoom={0.1} maxZoom={2} colorMode={dark ? "dark" : "light"}
      nodesDraggable={false} nodesConnectable={false} nodesFocusable={false} edgesFocusable={false} elementsSelectable={false} zoomOnDoubleClick={false} preventScrolling>
      <Controls showInteractive={false} />
    </ReactFlow>
  );
}

export function GraphView({ assistant, activity, selected, select, before, after, dark, open, setOpen, drawn }: {
  assistant: string; activity: Activity; selected?: string; select: (key: string | undefined) => void; before: string[]; after: string[]; dark: boolean; open: string[]; setOpen: React.Dispatch<React.SetStateAction<string[]>>; drawn: (d: Drawing) => void;
}) {
  const { data, error, loading, reload } = useAsync((signal) => drawing(assistant, open, signal), [assistant, open]);
  const layout = useMemo(() => data && (data.layout ?? layered(data)), [data]);
  useEffect(() => { if (data) drawn(data); }, [data, drawn]);
  const shown = useMemo<Shown>(() => ({
    activity, selected, before, after,
    select: (key) => select(key === selected ? undefined : key),
    toggle: (key) => setOpen((o) => (o.includes(key) ? o.filter((k) => k !== key && !k.startsWith(key + "|")) : [...o, key])),
  }), [activity, selected, before, after, select, setOpen]);
  if (error && !data) return <Problem text={words(error)} retry={reload} />;
  if (!layout) return <div className="center">{loading && <Spinner label="Loading the graph" />}</div>;
  return <Drawn layout={layout} shown={shown} dark={dark} />;
}

// Drawn is a drawing, with what happens in it. Where it is too large, the node in focus is
// in the middle.
export function Drawn({ layout, shown, dark, focus }: { layout: Layout; shown: Shown; dark: boolean; focus?: string }) {
  return <Context value={shown}><ReactFlowProvider><Flow layout={layout} dark={dark} focus={focus} /></ReactFlowProvider></Context>;
}
