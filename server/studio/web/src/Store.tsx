// What the long-term memory holds.
import { useState } from "react";
import { client, words } from "./api";
import { JsonInput } from "./Form";
import { isObject, preview, type Json } from "./json";
import { Button, Dialog, Empty, IconButton, Members, Problem, Spinner, useAsync, When } from "./ui";

type Item = { namespace: string[]; key: string; value: Json; created_at?: string; updated_at?: string; createdAt?: string; updatedAt?: string; score?: number };
const page = 50;

export default function Store() {
  const [namespace, choose] = useState<string[]>([]);
  const [query, setQuery] = useState("");
  const [asked, ask] = useState("");
  const [limit, setLimit] = useState(page);
  const [selected, select] = useState<Item>();
  const [editing, edit] = useState<Partial<Item>>();
  const [problem, setProblem] = useState<string>();
  const [removing, remove] = useState<Item>();
  const spaces = useAsync(() => client.store.listNamespaces({ limit: 1000 }), []);
  const items = useAsync(async () => (await client.store.searchItems(namespace, { limit: limit + 1, query: asked || undefined })).items as unknown as Item[], [namespace.join("\n"), asked, limit]);
  const same = (a: Item, b: Item | undefined) => a.key === b?.key && a.namespace.join("\n") === b.namespace.join("\n");
  const attempt = async (f: () => Promise<unknown>) => {
    try { await f(); setProblem(undefined); spaces.reload(); items.reload(); return true; } catch (e) { setProblem(words(e)); return false; }
  };
  const list = items.data ?? [];
  return (
    <div className={`split ${selected ? "has-detail" : ""}`}>
      <section className="pane" aria-label="Items">
        <div className="pane-bar"><h1>Store</h1><Button icon="plus" kind="primary" onClick={() => edit({ namespace, value: {} })}>New item</Button></div>
        <div className="filters">
          <select aria-label="Namespace" value={namespace.join("\n")} onChange={(e) => { choose(e.target.value ? e.target.value.split("\n") : []); setLimit(page); }}>
            <option value="">All namespaces</option>{spaces.data?.namespaces.map((n) => <option key={n.join("\n")} value={n.join("\n")}>{n.join(" › ")}</option>)}
          </select>
          <form className="search" onSubmit={(e) => { e.preventDefault(); ask(query); }}><input type="search" aria-label="Search items" placeholder="Search, then Enter" value={query} onChange={(e) => { setQuery(e.target.value); if (!e.target.value) ask(""); }} /></form>
          <IconButton icon="refresh" label="Load again" onClick={() => { spaces.reload(); items.reload(); }} />
        </div>
        {problem && <Problem text={problem} dismiss={() => setProblem(undefined)} />}
        {items.error !== undefined && <Problem text={words(items.error)} retry={items.reload} />}
        {!items.data && items.loading && <div className="center"><Spinner label="Loading items" /></div>}
        {items.data && list.length === 0 && <Empty title={asked ? "Nothing found" : "The store is empty"}>{!asked && <p>What graphs remember across threads is listed here.</p>}</Empty>}
        <ul className="rows">
          {list.slice(0, limit).map((i) => (
            <li key={[...i.namespace, i.key].join("\n")}>
              <button type="button" aria-pressed={same(i, selected)} onClick={() => select(i)}>
                <span className="thread-title">{i.key}</span><span className="hint">{i.namespace.join(" › ")} · {preview(i.value, 70)}</span>
              </button>
            </li>
          ))}
        </ul>
        {list.length > limit && <Button kind="quiet" onClick={() => setLimit(limit + page)}>More items</Button>}
      </section>
      <section className="pane" aria-label="Item">
        {selected ? (
          <div className="detail">
            <div className="pane-bar"><button type="button" className="link back" onClick={() => select(undefined)}>All items</button><h1>{selected.key}</h1><Button icon="edit" onClick={() => edit(selected)}>Edit</Button><IconButton icon="trash" label="Delete the item" onClick={() => remove(selected)} /></div>
            <p className="hint ids">{selected.namespace.join(" › ")} · <When at={selected.updatedAt ?? selected.updated_at} />{typeof selected.score === "number" && ` · score ${selected.score.toFixed(3)}`}</p>
            <Members value={selected.value} open={2} />
          </div>
        ) : <Empty title="Choose an item" />}
      </section>
      {editing && <EditItem item={editing} close={() => edit(undefined)} save={async (n, k, v) => {
        const done = await attempt(() => client.store.putItem(n, k, v));
        if (done) { edit(undefined); select({ namespace: n, key: k, value: v, updated_at: new Date().toISOString() }); }
        return done;
      }} problem={problem} />}
      {removing && (
        <Dialog title="Delete the item?" close={() => remove(undefined)}>
          <p>“{removing.key}” of {removing.namespace.join(" › ")} will be gone.</p>
          <div className="actions"><Button onClick={() => remove(undefined)}>Keep it</Button><Button kind="danger" icon="trash" onClick={() => void attempt(() => client.store.deleteItem(removing.namespace, removing.key)).then((done) => { remove(undefined); if (done) select(undefined); })}>Delete</Button></div>
        </Dialog>
      )}
    </div>
  );
}

function EditItem({ item, close, save, problem }: { item: Partial<Item>; close: () => void; save: (namespace: string[], key: string, value: Record<string, Json>) => Promise<boolean>; problem?: string }) {
  const known = item.key !== undefined;
  const [namespace, setNamespace] = useState((item.namespace ?? []).join("."));
  const [key, setKey] = useState(item.key ?? "");
  const [value, setValue] = useState<Json | undefined>(item.value ?? {});
  const [bad, setBad] = useState(false);
  return (
    <Dialog title={known ? "Edit the item" : "New item"} close={close}>
      <form onSubmit={(e) => { e.preventDefault(); if (isObject(value)) void save(namespace.split("."), key, value); }}>
        {problem && <Problem text={problem} />}
        <label className="field">Namespace <span className="hint">names joined by points</span><input required value={namespace} readOnly={known} onChange={(e) => setNamespace(e.target.value)} /></label>
        <label className="field">Key<input required value={key} readOnly={known} onChange={(e) => setKey(e.target.value)} /></label>
        <label className="field" htmlFor="item-value">Value <span className="hint">a JSON object</span></label>
        <JsonInput id="item-value" rows={6} value={value} onChange={setValue} onError={(m) => setBad(!!m)} />
        <div className="actions"><Button onClick={close}>Leave it</Button><Button kind="primary" type="submit" disabled={bad || !isObject(value)}>Save</Button></div>
      </form>
    </Dialog>
  );
}
