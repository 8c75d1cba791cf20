// The list of threads, with a search.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState, type RefObject } from "react";
import { ask, assistantOf, client, importThread, searchThreads, words, type Assistant, type ThreadInfo } from "./api";
import { preview } from "./json";
import { lengthened, renewed, wants, without, type Held } from "./pages";
import { format, go } from "./route";
import { wanted } from "./search";
import { Button, Dialog, Empty, Icon, IconButton, Problem, Spinner, Status, When } from "./ui";
import { poll } from "./watch";

const page = 40;

// none is held until the first page has come.
const none: Held<ThreadInfo> = { query: "", items: [], loaded: 0, more: false };

const titleOf = (t: ThreadInfo) => preview(t.title ?? "", 70);

export function Threads({ assistants, current, turn, search, fresh, deleted }: {
  assistants: Assistant[]; current?: string; turn: number; search: RefObject<HTMLInputElement | null>; fresh: () => void; deleted: (id: string) => void;
}) {
  const [text, setText] = useState("");
  const [settled, settle] = useState("");
  const [status, setStatus] = useState("");
  const [graph, setGraph] = useState("");
  const [held, hold] = useState<Held<ThreadInfo>>();
  const [count, setCount] = useState<number>();
  const [error, setError] = useState<unknown>();
  const [again, setAgain] = useState(0);
  const [removing, remove] = useState<ThreadInfo>();
  const [removeProblem, setRemoveProblem] = useState<string>();
  useEffect(() => { const t = setTimeout(() => settle(text), 200); return () => clearTimeout(t); }, [text]);
  const q = wanted(settled);
  const filter = { query: q.rest || undefined, status: status || undefined, values: q.values, metadata: { ...q.metadata, ...(graph ? { assistant_id: graph } : {}) } };
  const load = (offset: number, limit: number, signal?: AbortSignal) => searchThreads({
    limit, offset, ids: q.ids, ...filter,
    select: ["thread_id", "created_at", "updated_at", "metadata", "status", "title"],
    sort_by: "updated_at", sort_order: "desc",
  }, signal);
  // Another search begins anew; a change elsewhere is seen on the first page.
  const query = [settled, status, graph].join("\n");
  const list = held?.query === query ? held.items : undefined, more = list !== undefined && held!.more;
  const renewing = useRef(false);
  useEffect(() => {
    const abort = new AbortController();
    renewing.current = true;
    void (async () => {
      try {
        const [first, n] = await Promise.all([load(0, page, abort.signal), q.ids ? undefined : ask<number>("/threads/count", filter, abort.signal)]);
        if (abort.signal.aborted) return;
        hold((h) => renewed(h, query, first, page));
        setCount(n);
        setError(undefined);
      } catch (e) {
        if (!abort.signal.aborted) setError(e);
      } finally {
        if (!abort.signal.aborted) renewing.current = false;
      }
    })();
    return () => abort.abort();
  }, [query, turn, again]);
  // What others do shows after a while: soon if something works or has changed.
  const marks = useRef("");
  marks.current = (list ?? []).slice(0, page).map((t) => t.thread_id + t.status + t.updated_at).join();
  const reading = useRef(load);
  reading.current = load;
  const busy = !!list?.some((t) => t.status === "busy");
  useEffect(() => poll(async () => {
    if (renewing.current) return true; // else what takes long is begun anew again and again
    const first = await reading.current(0, page);
    const changed = first.map((t) => t.thread_id + t.status + t.updated_at).join() !== marks.current;
    if (changed && !renewing.current) setAgain((n) => n + 1);
    return changed;
  }, busy ? 2000 : 4000, busy ? 10_000 : 30_000), [busy, query, turn]);
  const names = new Map(assistants.map((a) => [a.assistant_id, a.name || a.graph_id]));
  const nameOf = (t: ThreadInfo) => names.get(assistantOf(t) ?? "") ?? String(t.metadata?.graph_id ?? "no graph yet");
  const shown = list ?? [];
  const next = (loaded: number) => {
    const abort = new AbortController();
    load(loaded, page, abort.signal).then(
      (old) => { if (!abort.signal.aborted) hold((h) => lengthened(h, query, loaded, old, page)); },
      (e: unknown) => { if (!abort.signal.aborted) setError(e); },
    );
    return () => abort.abort();
  };
  const filtered = !!(settled || status || graph);
  const file = useRef<HTMLInputElement>(null);
  const [importing, setImporting] = useState(false);
  const [unread, setUnread] = useState<string>();
  const take = async (recording: File) => {
    setImporting(true);
    try {
      const t = await importThread(recording);
      setUnread(undefined);
      setAgain((n) => n + 1);
      go({ page: "work", assistant: assistantOf(t), thread: t.thread_id });
    } catch (e) { setUnread(words(e)); }
    setImporting(false);
  };
  return (
    <div className="threads">
      <div className="threads-new">
        <Button icon="plus" kind="primary" onClick={fresh}>New thread</Button>
        <Button disabled={importing} title="A thread from a file that Export has saved" onClick={() => file.current?.click()}>{importing ? "Importing…" : "Import"}</Button>
        <input ref={file} type="file" hidden accept=".jsonl,application/x-ndjson" aria-label="Recording to import" onChange={(e) => {
          const [one] = e.target.files ?? [];
          e.target.value = ""; // the same file may be chosen again
          if (one) void take(one);
        }} />
      </div>
      {unread && <Problem text={unread} dismiss={() => setUnread(undefined)} />}
      <div className="search">
        <Icon name="search" size={16} />
        <input ref={search} type="search" aria-label="Search threads" placeholder="Search, city=Bonn, meta.user=kim" value={text} onChange={(e) => setText(e.target.value)} />
      </div>
      <div className="filters">
        <select aria-label="Status" value={status} onChange={(e) => setStatus(e.target.value)}>
          <option value="">Any status</option>{["idle", "busy", "interrupted", "error"].map((s) => <option key={s}>{s}</option>)}
        </select>
        <select aria-label="Assistant of the threads" value={graph} onChange={(e) => setGraph(e.target.value)}>
          <option value="">All assistants</option>{assistants.map((a) => <option key={a.assistant_id} value={a.assistant_id}>{a.name || a.graph_id}</option>)}
        </select>
      </div>
      {error !== undefined && <Problem text={words(error)} retry={() => { setError(undefined); setAgain((n) => n + 1); }} />}
      {!list && error === undefined && <div className="center"><Spinner label="Loading threads" /></div>}
      {list && shown.length === 0 && !more && <Empty title={filtered ? "Nothing found" : "No threads yet"}>{filtered ? <p><button type="button" className="link" onClick={() => { setText(""); settle(""); setStatus(""); setGraph(""); }}>Show all threads</button></p> : <p>Run a graph, and its thread is listed here.</p>}</Empty>}
      <Rows key={query} held={list ? held! : none} halted={error !== undefined} next={next} current={current} nameOf={nameOf} remove={remove} />
      {list && shown.length > 0 && <p className="hint thread-count" role="status">{filtered ? `${(count ?? shown.length).toLocaleString()} found` : `${(count ?? shown.length).toLocaleString()} ${(count ?? shown.length) === 1 ? "thread" : "threads"}`}</p>}
      {removing && (
        <Dialog title="Delete the thread?" close={() => remove(undefined)}>
          <p>“{titleOf(removing) || removing.thread_id}” and its whole history will be gone.</p>
          {removeProblem && <Problem text={removeProblem} />}
          <div className="actions"><Button onClick={() => remove(undefined)}>Keep it</Button><Button kind="danger" icon="trash" onClick={async () => {
            try {
              await client.threads.delete(removing.thread_id);
              setRemoveProblem(undefined);
              remove(undefined);
              deleted(removing.thread_id);
              hold((h) => without(h, removing.thread_id));
              setAgain((n) => n + 1);
            } catch (e) { setRemoveProblem(words(e)); }
          }}>Delete</Button></div>
        </Dialog>
      )}
    </div>
  );
}

// Rows is the list of what a search has found, from its beginning. Another search has a list of its
// own: this one knows how far it is scrolled.
function Rows({ held, halted, next, current, nameOf, remove }: {
  held: Held<ThreadInfo>; halted: boolean; next: (loaded: number) => () => void; current?: string; nameOf: (t: ThreadInfo) => string; remove: (t: ThreadInfo) => void;
}) {
  const shown = held.items;
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: shown.length, getScrollElement: () => box.current, estimateSize: () => 54, overscan: 8, getItemKey: (i) => shown[i]!.thread_id });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? -1;
  // One page is asked for at a time, by where the list ends. What fails is asked for
  // again when somebody says so.
  const wanting = !halted && wants(held, last >= shown.length - 4);
  useEffect(() => (wanting ? next(held.loaded) : undefined), [wanting, held.loaded]);
  return (
    <div className="thread-box" ref={box} hidden={shown.length === 0}>
      <ul className="thread-list" aria-label="Threads" style={{ height: virtual.getTotalSize() }}>
        {items.map((v) => {
          const t = shown[v.index]!;
          return (
            <li key={v.key} data-index={v.index} ref={virtual.measureElement} aria-setsize={held.more ? -1 : shown.length} aria-posinset={v.index + 1} style={{ transform: `translateY(${v.start}px)` }}>
              <a href={format({ page: "work", assistant: assistantOf(t), thread: t.thread_id })} aria-current={t.thread_id === current ? "page" : undefined}>
                <span className="thread-title">{titleOf(t) || nameOf(t)}</span>
                <span className="thread-line"><Status status={t.status} /><span className="hint">{titleOf(t) ? nameOf(t) : t.thread_id.slice(-8)} · <When at={t.updated_at} /></span></span>
              </a>
              <IconButton icon="trash" label={`Delete thread ${titleOf(t) || t.thread_id.slice(-12)}`} onClick={() => remove(t)} />
            </li>
          );
        })}
      </ul>
    </div>
  );
}
