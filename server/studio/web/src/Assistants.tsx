// Assistants: graphs with a configuration.
import { useEffect, useState } from "react";
import { client, schemas, words, type Assistant } from "./api";
import { Form, JsonInput } from "./Form";
import { isObject, type Json, type JsonObject } from "./json";
import { ConfigFields } from "./Options";
import { format, go } from "./route";
import { fieldOf, type Schema } from "./schema";
import { Button, Dialog, Empty, IconButton, Members, Problem, useAsync, When } from "./ui";

export default function Assistants({ assistants, chosen, reload }: { assistants: Assistant[]; chosen?: string; reload: () => void }) {
  const [making, make] = useState(false);
  const assistant = assistants.find((a) => a.assistant_id === chosen);
  return (
    <div className={`split ${assistant ? "has-detail" : ""}`}>
      <section className="pane" aria-label="Assistants">
        <div className="pane-bar"><h1>Assistants</h1><Button icon="plus" kind="primary" onClick={() => make(true)}>New assistant</Button></div>
        <ul className="rows">
          {assistants.map((a) => (
            <li key={a.assistant_id}>
              <a href={format({ page: "assistants", assistant: a.assistant_id })} aria-current={a.assistant_id === chosen ? "page" : undefined}>
                <span className="thread-title">{a.name || a.graph_id}</span>
                <span className="hint">{a.graph_id} · version {a.version}{a.description && ` · ${a.description}`}</span>
              </a>
            </li>
          ))}
        </ul>
      </section>
      <section className="pane" aria-label="Assistant">
        {assistant ? <Detail key={assistant.assistant_id + assistant.version} assistant={assistant} reload={reload} /> : <Empty title="Choose an assistant"><p>An assistant is a graph with a configuration of its own.</p></Empty>}
      </section>
      {making && <Create graphs={[...new Set(assistants.map((a) => a.graph_id))]} close={() => make(false)} made={(a) => { make(false); reload(); go({ page: "assistants", assistant: a.assistant_id }); }} />}
    </div>
  );
}

function Create({ graphs, close, made }: { graphs: string[]; close: () => void; made: (a: Assistant) => void }) {
  const [graph, setGraph] = useState(graphs[0] ?? "");
  const [name, setName] = useState("");
  const [problem, setProblem] = useState<string>();
  return (
    <Dialog title="New assistant" close={close}>
      <form onSubmit={async (e) => {
        e.preventDefault();
        try { made(await client.assistants.create({ graphId: graph, name: name || undefined })); } catch (err) { setProblem(words(err)); }
      }}>
        {problem && <Problem text={problem} />}
        <label className="field">Graph<select value={graph} onChange={(e) => setGraph(e.target.value)}>{graphs.map((g) => <option key={g}>{g}</option>)}</select></label>
        <label className="field">Name<input value={name} onChange={(e) => setName(e.target.value)} required /></label>
        <div className="actions"><Button onClick={close}>Leave it</Button><Button kind="primary" type="submit">Create</Button></div>
      </form>
    </Dialog>
  );
}

function Detail({ assistant: a, reload }: { assistant: Assistant; reload: () => void }) {
  const system = (a.metadata as JsonObject | null)?.created_by === "system";
  const [name, setName] = useState(a.name ?? "");
  const [about, setAbout] = useState(a.description ?? "");
  const [config, setConfig] = useState<JsonObject>((a.config ?? {}) as unknown as JsonObject);
  const [shown, show] = useState<number>();
  const [context, setContext] = useState<Json | undefined>((a.context ?? {}) as Json);
  const [metadata, setMetadata] = useState<Json | undefined>((a.metadata ?? {}) as Json);
  const [bad, setBad] = useState<Record<string, boolean>>({});
  const [problem, setProblem] = useState<string>();
  const [saved, setSaved] = useState(false);
  const [removing, remove] = useState(false);
  const [andThreads, setAndThreads] = useState(false);
  const forms = useAsync(() => schemas(a.assistant_id), [a.assistant_id]);
  const versions = useAsync(() => client.assistants.getVersions(a.assistant_id, { limit: 50 }), [a.assistant_id, a.version]);
  useEffect(() => { if (saved) { const t = setTimeout(() => setSaved(false), 2500); return () => clearTimeout(t); } }, [saved]);
  const note = (what: string) => (m: string | undefined) => setBad((b) => ({ ...b, [what]: !!m }));
  const attempt = async (f: () => Promise<unknown>) => {
    try { await f(); setProblem(undefined); reload(); return true; } catch (e) { setProblem(words(e)); return false; }
  };
  const formOf = (s: Schema | undefined) => (s && fieldOf(s, s).kind === "object" ? s : undefined);
  const contextForm = formOf(forms.data?.context);
  return (
    <form className="detail" onSubmit={(e) => {
      e.preventDefault();
      void attempt(() => client.assistants.update(a.assistant_id, { name, description: about, config: config as never, context: isObject(context) ? context : {}, metadata: isObject(metadata) ? metadata : {} })).then(setSaved);
    }}>
      <div className="pane-bar">
        <a className="back" href={format({ page: "assistants" })}>All assistants</a>
        <h1>{a.name || a.graph_id}</h1>
        <Button icon="play" onClick={() => go({ page: "work", assistant: a.assistant_id })}>Run</Button>
        {!system && <IconButton icon="trash" label="Delete the assistant" onClick={() => remove(true)} />}
      </div>
      <p className="hint ids">graph <code>{a.graph_id}</code> · version {a.version} · <When at={a.updated_at} /> · <code>{a.assistant_id}</code></p>
      {problem && <Problem text={problem} />}
      <label className="field">Name<input value={name} onChange={(e) => setName(e.target.value)} /></label>
      <label className="field">Description<textarea rows={2} value={about} onChange={(e) => setAbout(e.target.value)} /></label>
      <fieldset><legend>Configuration</legend><ConfigFields schema={forms.data?.config ?? {}} value={config} onChange={setConfig} onError={(what, p) => setBad((b) => ({ ...b, ["config" + what]: p }))} /></fieldset>
      {contextForm
        ? <fieldset><legend>Context</legend><Form schema={contextForm} value={context} onChange={setContext} onError={(p, m) => note("context" + p)(m)} /></fieldset>
        : <><label className="field" htmlFor="context">Context <span className="hint">JSON</span></label><JsonInput id="context" rows={2} value={context} onChange={setContext} onError={note("context")} /></>}
      <label className="field" htmlFor="metadata">Metadata <span className="hint">JSON, added to what is there</span></label>
      <JsonInput id="metadata" rows={2} value={metadata} onChange={setMetadata} onError={note("metadata")} />
      <div className="actions"><span role="status">{saved && "Saved as a new version."}</span><Button kind="primary" type="submit" disabled={Object.values(bad).some(Boolean)}>Save as a new version</Button></div>
      <h2>Versions</h2>
      {versions.error !== undefined && <Problem text={words(versions.error)} retry={versions.reload} />}
      <ul className="rows">
        {versions.data?.map((v) => (
          <li key={v.version} className="version">
            <div className="version-line"><span>Version {v.version}{v.version === a.version && <span className="badge">in use</span>}</span><span className="hint"><When at={v.created_at} /> · {v.name}</span>
              <button type="button" className="link" aria-expanded={shown === v.version} onClick={() => show(shown === v.version ? undefined : v.version)}>Configuration</button>
              {v.version !== a.version && <Button onClick={() => void attempt(() => client.assistants.setLatest(a.assistant_id, v.version))}>Use it</Button>}
            </div>
            {shown === v.version && <div className="card"><Members value={{ ...(v.config as unknown as JsonObject), ...(isObject(v.context as Json) && Object.keys(v.context as object).length > 0 ? { context: v.context as Json } : {}) }} open={2} /></div>}
          </li>
        ))}
      </ul>
      {removing && (
        <Dialog title="Delete the assistant?" close={() => remove(false)}>
          <p>“{a.name}” and all its versions will be gone.</p>
          <label className="check"><input type="checkbox" checked={andThreads} onChange={(e) => setAndThreads(e.target.checked)} /> Its threads too</label>
          <div className="actions"><Button onClick={() => remove(false)}>Keep it</Button><Button kind="danger" icon="trash" onClick={() => void attempt(() => client.assistants.delete(a.assistant_id, { deleteThreads: andThreads })).then((done) => { if (done) go({ page: "assistants" }); else remove(false); })}>Delete</Button></div>
        </Dialog>
      )}
    </form>
  );
}
