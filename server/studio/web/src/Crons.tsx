// Crons: runs that are started at times.
import { useState } from "react";
import { ask, client, schemas, words, type Assistant, type Cron } from "./api";
import { Form, JsonInput } from "./Form";
import { isObject, type Json, type JsonObject } from "./json";
import { ConfigFields } from "./Options";
import { format, go } from "./route";
import { fieldOf } from "./schema";
import { Button, Dialog, Empty, Icon, IconButton, Members, Problem, Spinner, Status, useAsync, When } from "./ui";

const page = 50;

export default function Crons({ assistants, chosen }: { assistants: Assistant[]; chosen?: string }) {
  const [limit, setLimit] = useState(page);
  const [editing, edit] = useState<Partial<Cron>>();
  const [removing, remove] = useState<Cron>();
  const [problem, setProblem] = useState<string>();
  const list = useAsync((signal) => ask<Cron[]>("/runs/crons/search", { limit: limit + 1, sort_by: "created_at", sort_order: "desc" }, signal), [limit]);
  const shown = (list.data ?? []).slice(0, limit);
  const cron = shown.find((c) => c.cron_id === chosen);
  const nameOf = (id: string) => { const a = assistants.find((x) => x.assistant_id === id); return a ? a.name || a.graph_id : id; };
  const attempt = async (f: () => Promise<unknown>) => {
    try { await f(); setProblem(undefined); list.reload(); return true; } catch (e) { setProblem(words(e)); return false; }
  };
  return (
    <div className={`split ${cron ? "has-detail" : ""}`}>
      <section className="pane" aria-label="Crons">
        <div className="pane-bar"><h1>Crons</h1><Button icon="plus" kind="primary" onClick={() => edit({})}>New cron</Button></div>
        {problem && !editing && <Problem text={problem} dismiss={() => setProblem(undefined)} />}
        {list.error !== undefined && <Problem text={words(list.error)} retry={list.reload} />}
        {!list.data && list.loading && <div className="center"><Spinner label="Loading crons" /></div>}
        {list.data && shown.length === 0 && <Empty title="No crons yet"><p>A cron starts a run whenever its schedule says so.</p></Empty>}
        <ul className="rows">
          {shown.map((c) => (
            <li key={c.cron_id}>
              <a href={format({ page: "crons", cron: c.cron_id })} aria-current={c.cron_id === chosen ? "page" : undefined}>
                <span className="row-top"><span className="thread-title">{nameOf(c.assistant_id)}</span><Status status={c.enabled ? "on" : "paused"} /></span>
                <span className="hint"><code>{c.schedule}</code> {c.timezone || "UTC"}{c.next_run_date && <> · next {new Date(c.next_run_date).toLocaleString()}</>}</span>
              </a>
            </li>
          ))}
        </ul>
        {(list.data?.length ?? 0) > limit && <Button kind="quiet" onClick={() => setLimit(limit + page)}>More crons</Button>}
      </section>
      <section className="pane" aria-label="Cron">
        {cron ? (
          <div className="detail">
            <div className="pane-bar">
              <a className="back" href={format({ page: "crons" })}>All crons</a>
              <h1>{nameOf(cron.assistant_id)}</h1>
              <Button icon={cron.enabled ? "pause" : "play"} onClick={() => void attempt(() => client.crons.update(cron.cron_id, { enabled: !cron.enabled }))}>{cron.enabled ? "Pause" : "Resume"}</Button>
              <Button icon="edit" onClick={() => edit(cron)}>Edit</Button>
              <IconButton icon="trash" label="Delete the cron" onClick={() => remove(cron)} />
            </div>
            <dl className="facts">
              <div><dt>Schedule</dt><dd><code>{cron.schedule}</code> in {cron.timezone || "UTC"}</dd></div>
              <div><dt>Next run</dt><dd>{cron.enabled ? cron.next_run_date ? <><Icon name="clock" size={14} /> {new Date(cron.next_run_date).toLocaleString()}</> : "never" : "paused"}</dd></div>
              {cron.end_time && <div><dt>Until</dt><dd>{new Date(cron.end_time).toLocaleString()}</dd></div>}
              <div><dt>Runs on</dt><dd>{cron.thread_id ? <a href={format({ page: "work", assistant: cron.assistant_id, thread: cron.thread_id })}>thread {cron.thread_id.slice(-12)}</a> : cron.on_run_completed === "keep" ? "a thread of its own each time, which stays" : "a thread of its own each time, which goes at the end"}</dd></div>
              <div><dt>Changed</dt><dd><When at={cron.updated_at} /></dd></div>
            </dl>
            <h2>Input</h2>
            <div className="card">{isObject(cron.payload.input) ? <Members value={cron.payload.input} open={2} /> : <p className="hint">none</p>}</div>
            {isObject(cron.payload.config) && Object.keys(cron.payload.config).length > 0 && <><h2>Configuration</h2><div className="card"><Members value={cron.payload.config} open={2} /></div></>}
            <p className="hint ids"><code>{cron.cron_id}</code></p>
          </div>
        ) : chosen && list.data ? <Empty title="No such cron"><p>It may have been deleted.</p></Empty> : <Empty title="Choose a cron"><p>Its schedule, its input and when it is due are shown here.</p></Empty>}
      </section>
      {editing && <Edit cron={editing} assistants={assistants} problem={problem} close={() => { edit(undefined); setProblem(undefined); }} save={async (body, thread) => {
        let id = editing.cron_id;
        const done = await attempt(async () => { id = (await ask<Cron>(id ? `/runs/crons/${id}` : thread ? `/threads/${encodeURIComponent(thread)}/runs/crons` : "/runs/crons", body, undefined, id ? "PATCH" : "POST")).cron_id; });
        if (done) { edit(undefined); go({ page: "crons", cron: id }); }
      }} />}
      {removing && (
        <Dialog title="Delete the cron?" close={() => remove(undefined)}>
          <p>It starts no more runs of {nameOf(removing.assistant_id)}. Those that it has started stay.</p>
          <div className="actions"><Button onClick={() => remove(undefined)}>Keep it</Button><Button kind="danger" icon="trash" onClick={() => void attempt(() => client.crons.delete(removing.cron_id)).then((done) => { remove(undefined); if (done) go({ page: "crons" }); })}>Delete</Button></div>
        </Dialog>
      )}
    </div>
  );
}

const examples: [string, string][] = [["*/15 * * * *", "Every 15 minutes"], ["0 * * * *", "Every hour"], ["0 9 * * *", "Every day at 9"], ["0 9 * * 1-5", "On workdays at 9"], ["0 9 * * 1", "On Mondays at 9"]];

function Edit({ cron, assistants, problem, close, save }: { cron: Partial<Cron>; assistants: Assistant[]; problem?: string; close: () => void; save: (body: JsonObject, thread: string) => Promise<void> }) {
  const known = cron.cron_id !== undefined;
  const [assistant, setAssistant] = useState(cron.assistant_id ?? assistants[0]?.assistant_id ?? "");
  const [schedule, setSchedule] = useState(cron.schedule ?? "0 9 * * 1-5");
  const [timezone, setTimezone] = useState(cron.timezone ?? (known ? "" : Intl.DateTimeFormat().resolvedOptions().timeZone));
  const [thread, setThread] = useState(cron.thread_id ?? "");
  const [keep, setKeep] = useState(cron.on_run_completed === "keep");
  const [input, setInput] = useState<Json | undefined>(cron.payload?.input ?? {});
  const [config, setConfig] = useState<JsonObject>(isObject(cron.payload?.config) ? cron.payload.config : {});
  const [bad, setBad] = useState<Record<string, boolean>>({});
  const [busy, setBusy] = useState(false);
  const forms = useAsync(() => schemas(assistant), [assistant]);
  const form = forms.data && fieldOf(forms.data.input, forms.data.input).kind === "object" ? forms.data.input : undefined;
  return (
    <Dialog title={known ? "Edit the cron" : "New cron"} close={close} wide>
      <form onSubmit={(e) => {
        e.preventDefault();
        setBusy(true);
        void save({ ...(known ? {} : { assistant_id: assistant }), schedule: schedule.trim(), timezone: timezone.trim(), input: input ?? null, config, ...(thread ? {} : { on_run_completed: keep ? "keep" : "delete" }) }, thread.trim()).finally(() => setBusy(false));
      }}>
        <label className="field">Assistant<select value={assistant} disabled={known} onChange={(e) => { setAssistant(e.target.value); setInput({}); }}>{assistants.map((a) => <option key={a.assistant_id} value={a.assistant_id}>{a.name || a.graph_id}</option>)}</select></label>
        <div className="field-row">
          <label className="field">Schedule <span className="hint">minute hour day month weekday</span><input required className="code" value={schedule} onChange={(e) => setSchedule(e.target.value)} /></label>
          <label className="field">Time zone <span className="hint">UTC if there is none</span><input value={timezone} placeholder="Europe/Berlin" onChange={(e) => setTimezone(e.target.value)} /></label>
        </div>
        <div className="chips" role="group" aria-label="Usual schedules">{examples.map(([s, l]) => <button type="button" className="chip" key={s} aria-pressed={schedule === s} onClick={() => setSchedule(s)}>{l}</button>)}</div>
        {!known && <label className="field">Thread <span className="hint">its ID; without one, each run gets a thread of its own</span><input value={thread} onChange={(e) => setThread(e.target.value)} /></label>}
        {!thread && <label className="check"><input type="checkbox" checked={keep} onChange={(e) => setKeep(e.target.checked)} /> Keep the threads of the runs</label>}
        <fieldset>
          <legend>Input</legend>
          {form ? <Form key={assistant} schema={form} value={input} onChange={setInput} onError={(p, m) => setBad((b) => ({ ...b, [p]: !!m }))} />
            : <JsonInput aria-label="Input as JSON" value={input} onChange={setInput} onError={(m) => setBad((b) => ({ ...b, "": !!m }))} />}
        </fieldset>
        <details className="fields"><summary>Configuration</summary><div className="form"><ConfigFields schema={forms.data?.config ?? {}} value={config} onChange={setConfig} onError={(what, p) => setBad((b) => ({ ...b, ["config" + what]: p }))} /></div></details>
        {problem && <Problem text={problem} />}
        <div className="actions"><Button onClick={close}>Leave it</Button><Button kind="primary" type="submit" disabled={busy || Object.values(bad).some(Boolean)}>{known ? "Save" : "Create"}</Button></div>
      </form>
    </Dialog>
  );
}
