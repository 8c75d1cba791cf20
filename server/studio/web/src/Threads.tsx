// The list of threads, with a search.
import { useEffect, useRef, useState, type RefObject } from "react";
import { assistantOf, client, searchThreads, words, type Assistant, type ThreadInfo } from "./api";
import { preview } from "./json";
import { textOf } from "./messages";
import { format } from "./route";
import { wanted } from "./search";
import { Button, Dialog, Empty, Icon, IconButton, Problem, Spinner, Status, useAsync, When } from "./ui";

const page = 30;

function titleOf(t: ThreadInfo): string {
  const first = t.extracted?.first;
  return (first === undefined || first === null ? "" : preview(textOf(first), 70)) || (typeof t.metadata?.title === "string" ? t.metadata.title : "");
}

export function Threads({ assistants, current, turn, search, fresh, deleted }: {
  assistants: Assistant[]; current?: string; turn: number; search: RefObject<HTMLInputElement | null>; fresh: () => void; deleted: (id: string) => void;
}) {
  const [text, setText] = useState("");
  const [settled, settle] = useState("");
  const [status, setStatus] = useState("");
  const [graph, setGraph] = useState("");
  const [limit, setLimit] = useState(page);
  const [removing, remove] = useState<ThreadInfo>();
  const [removeProblem, setRemoveProblem] = useState<string>();
  useEffect(() => { const t = setTimeout(() => settle(text), 200); return () => clearTimeout(t); }, [text]);
  const q = wanted(settled);
  const { data, error, loading, reload } = useAsync((signal) => {
    return searchThreads({
      limit: limit + 1, status: status || undefined, ids: q.ids, values: q.values,
      metadata: { ...q.metadata, ...(graph ? { assistant_id: graph } : {}) },
      select: ["thread_id", "created_at", "updated_at", "metadata", "status"], extract: { first: "values.messages[0].content", last: "values.messages[-1].content" },
      sort_by: "updated_at", sort_order: "desc",
    }, signal);
  }, [settled, status, graph, limit, turn]);
  const busy = data?.some((t) => t.status === "busy");
  const again = useRef(reload);
  again.current = reload;
  useEffect(() => {
    if (!busy) return;
    const t = setInterval(() => { if (!document.hidden) again.current(); }, 2000);
    return () => clearInterval(t);
  }, [busy]);
  const names = new Map(assistants.map((a) => [a.assistant_id, a.name || a.graph_id]));
  const nameOf = (t: ThreadInfo) => names.get(assistantOf(t) ?? "") ?? String(t.metadata?.graph_id ?? "no graph yet");
  const shown = (data ?? []).slice(0, limit).filter((t) => !q.rest || [titleOf(t), preview(t.extracted?.last ?? "", 2000), nameOf(t), t.thread_id, t.status, JSON.stringify(t.metadata ?? {})].join(" ").toLowerCase().includes(q.rest));
  return (
    <div className="threads">
      <Button icon="plus" kind="primary" onClick={fresh}>New thread</Button>
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
      {error !== undefined && <Problem text={words(error)} retry={reload} />}
      {!data && loading && <div className="center"><Spinner label="Loading threads" /></div>}
      {data && shown.length === 0 && <Empty title={settled || status || graph ? "Nothing found" : "No threads yet"}>{!settled && !status && !graph && <p>Run a graph, and its thread is listed here.</p>}</Empty>}
      <ul className="thread-list" aria-label="Threads">
        {shown.map((t) => (
          <li key={t.thread_id}>
            <a href={format({ page: "work", assistant: assistantOf(t), thread: t.thread_id })} aria-current={t.thread_id === current ? "page" : undefined}>
              <span className="thread-title">{titleOf(t) || nameOf(t)}</span>
              <span className="thread-line"><Status status={t.status} /><span className="hint">{titleOf(t) ? nameOf(t) : t.thread_id.slice(-12)} · <When at={t.updated_at} /></span></span>
            </a>
            <IconButton icon="trash" label={`Delete thread ${titleOf(t) || t.thread_id.slice(-12)}`} onClick={() => remove(t)} />
          </li>
        ))}
      </ul>
      {(data?.length ?? 0) > limit && <Button kind="quiet" onClick={() => setLimit(limit + page)}>More threads</Button>}
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
              reload();
            } catch (e) { setRemoveProblem(words(e)); }
          }}>Delete</Button></div>
        </Dialog>
      )}
    </div>
  );
}
