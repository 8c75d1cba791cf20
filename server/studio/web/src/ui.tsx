// The pieces that pages are made of.
import { useEffect, useId, useRef, useState, type ReactNode } from "react";
import { isObject, type Json } from "./json";
import { glimpse } from "./messages";

const icons = {
  plus: "M12 5v14M5 12h14", search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14ZM20 20l-4-4", play: "M7 5l12 7-12 7z", stop: "M7 7h10v10H7z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8ZM12 2v2M12 20v2M4 12H2M22 12h-2M5 5l1.5 1.5M17.5 17.5 19 19M5 19l1.5-1.5M17.5 6.5 19 5",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5Z", x: "M6 6l12 12M18 6 6 18", edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4", fork: "M7 4v16M7 9c0 5 10 2 10 8v3M17 17v3",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13", help: "M9 9a3 3 0 1 1 4 2.8c-.8.4-1 1-1 2.2M12 17.5v.1", copy: "M9 9h11v11H9zM5 15H4V4h11v1", down: "M6 9l6 6 6-6", right: "M9 6l6 6-6 6",
  send: "M4 12 20 4l-5 16-4-7z", check: "M5 12l5 5L20 7", retry: "M4 12a8 8 0 1 1 3 6M4 19v-5h5", refresh: "M20 12a8 8 0 1 1-3-6M20 4v5h-5", tool: "M20 7.5a5 5 0 0 1-6.6 5.9L7 19.8a2 2 0 0 1-2.8-2.8l6.4-6.4A5 5 0 0 1 16.5 4l-3 3 .6 2.9 2.9.6z", pause: "M8 5v14M16 5v14",
  compare: "M12 4v16M9 7H4v10h5M15 7h5v10h-5", swap: "M4 9h15l-4-4M20 15H5l4 4", clock: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16ZM12 8v4l3 2",
};
export type IconName = keyof typeof icons;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg className="icon" width={size} height={size} viewBox="0 0 24 24" fill="none" stroke="currentColor" strokeWidth="2" strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
      <path d={icons[name]} />
    </svg>
  );
}

export function IconButton({ icon, label, ...rest }: { icon: IconName; label: string } & React.ButtonHTMLAttributes<HTMLButtonElement>) {
  return <button type="button" className="icon-button" aria-label={label} title={label} {...rest}><Icon name={icon} /></button>;
}

export function Button({ icon, kind, children, ...rest }: { icon?: IconName; kind?: "primary" | "danger" | "quiet" } & React.ButtonHTMLAttributes<HTMLButtonElement>) {
  return <button type="button" className={`button ${kind ?? ""}`} {...rest}>{icon && <Icon name={icon} size={16} />}{children}</button>;
}

export function Spinner({ label = "Loading" }: { label?: string }) {
  return <span className="spinner" role="status"><span className="spin" aria-hidden="true" /><span className="sr">{label}</span></span>;
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return <div className="empty"><p className="empty-title">{title}</p>{children}</div>;
}

export function Problem({ text, retry, dismiss }: { text: string; retry?: () => void; dismiss?: () => void }) {
  return (
    <div className="problem" role="alert">
      <p>{text}</p>
      {retry && <Button icon="retry" onClick={retry}>Try again</Button>}
      {dismiss && <IconButton icon="x" label="Dismiss" onClick={dismiss} />}
    </div>
  );
}

export function Dialog({ title, close, children, wide }: { title: string; close: () => void; children: ReactNode; wide?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const d = ref.current;
    if (d && !d.open) d.showModal();
    return () => d?.close();
  }, []);
  return (
    <dialog ref={ref} className={wide ? "wide" : ""} aria-labelledby={id} onCancel={(e) => { e.preventDefault(); close(); }} onClick={(e) => e.target === ref.current && close()}>
      <div className="dialog-body">
        <header><h2 id={id}>{title}</h2><IconButton icon="x" label="Close" onClick={close} /></header>
        {children}
      </div>
    </dialog>
  );
}

export function Status({ status }: { status: string }) {
  return <span className={`status status-${status}`}>{status}</span>;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export function When({ at }: { at: string | null | undefined }) {
  if (!at) return null;
  const d = new Date(at);
  const ago = (Date.now() - d.getTime()) / 1000;
  const text = ago < 60 ? "just now" : ago < 3600 ? `${Math.floor(ago / 60)} min ago` : ago < 86400 ? `${Math.floor(ago / 3600)} h ago` : d.toLocaleDateString();
  return <time dateTime={at} title={d.toLocaleString()}>{text}</time>;
}

// A JsonView shows a value as a tree whose branches open.
export function JsonView({ value, name, open = 1 }: { value: Json | undefined; name?: string; open?: number }) {
  const label = name === undefined ? <span className="sr">Value</span> : <span className="json-key">{name}</span>;
  const branch = isObject(value) || Array.isArray(value);
  const entries: [string, Json][] = !branch ? [] : Array.isArray(value) ? value.map((v, i) => [String(i), v]) : Object.entries(value);
  const [shown, show] = useState(100);
  const [expanded, expand] = useState(open > 0);
  if (!branch) return <div className="json-leaf">{label}<Scalar value={value} /></div>;
  if (entries.length === 0) return <div className="json-leaf">{label}<span className="json-null">{Array.isArray(value) ? "[ ]" : "{ }"}</span></div>;
  return (
    <details className="json" open={expanded} onToggle={(e) => { e.stopPropagation(); expand(e.currentTarget.open); }}>
      <summary>{label}<span className="json-hint">{Array.isArray(value) ? `${entries.length} items` : glimpse(value, 60)}</span></summary>
      {expanded && <div className="json-body">
        {entries.slice(0, shown).map(([k, v]) => <JsonView key={k} name={k} value={v} open={open - 1} />)}
        {entries.length > shown && <Button kind="quiet" onClick={() => show(shown + 200)}>{entries.length - shown} more</Button>}
      </div>}
    </details>
  );
}

// Members shows what an object holds, each in a tree of its own.
export function Members({ value, open = 1 }: { value: Json | undefined; open?: number }) {
  if (!isObject(value) || Object.keys(value).length === 0) return <JsonView value={value} open={open} />;
  return <div>{Object.entries(value).map(([k, v]) => <JsonView key={k} name={k} value={v} open={open} />)}</div>;
}

function Scalar({ value }: { value: Json | undefined }) {
  if (value === null || value === undefined) return <span className="json-null">null</span>;
  if (typeof value === "string") return <Text value={value} />;
  return <span className="json-scalar">{String(value)}</span>;
}

const mostText = 3000; // characters that are shown at once

function Text({ value }: { value: string }) {
  const [whole, show] = useState(false);
  if (value.length <= mostText || whole) return <span className="json-string">{value === "" ? "“”" : value}</span>;
  return <span className="json-string">{value.slice(0, mostText)}… <button type="button" className="link" onClick={() => show(true)}>all {value.length.toLocaleString()} characters</button></span>;
}

// useAsync loads something; again when a dependency changes or reload is called.
export function useAsync<T>(load: (signal: AbortSignal) => Promise<T>, deps: unknown[]): { data?: T; error?: unknown; loading: boolean; reload: () => void } {
  const [state, set] = useState<{ data?: T; error?: unknown; loading: boolean }>({ loading: true });
  const [turn, again] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    set((s) => ({ ...s, loading: true }));
    load(abort.signal).then(
      (data) => { if (!abort.signal.aborted) set({ data, loading: false }); },
      (error: unknown) => { if (!abort.signal.aborted) set((s) => ({ data: s.data, error, loading: false })); },
    );
    return () => abort.abort();
  }, [...deps, turn]);
  return { ...state, reload: () => again((n) => n + 1) };
}

// download saves a text as a file.
export function download(name: string, text: string, type: string) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  URL.revokeObjectURL(url);
}
