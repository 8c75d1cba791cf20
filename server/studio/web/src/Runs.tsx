// Runs of all threads: how many, how long, what waits for people and what has failed.
import { useEffect, useRef, useState } from "react";
import { ask, assistantOf, client, figuresOf, searchRuns, searchThreads, words, type Assistant, type Run, type ThreadInfo } from "./api";
import { dollars } from "./calls";
import { glimpse } from "./messages";
import { headingOf, Questions } from "./Questions";
import { format, go } from "./route";
import { alike, answersFor, asked, filled, questionsOf, spans, statuses, type Asking, type Figures, type RunFilter } from "./runs";
import { Tokens } from "./Timeline";
import { Button, Dialog, duration, Empty, Icon, Problem, Spinner, Status, useAsync, When } from "./ui";
import { poll } from "./watch";

const page = 50, most = 1000;
const overdue = 60_000; // for how long nobody has taken a thread that is due

export default function Runs({ assistants, filter }: { assistants: Assistant[]; filter: RunFilter }) {
  const key = JSON.stringify(filter);
  const [limit, setLimit] = useState({ key, n: page });
  const n = limit.key === key ? limit.n : page;
  const [turn, again] = useState(0);
  const [chosen, choose] = useState<Set<string>>(new Set()); // threads
  const [answering, answer] = useState<Asking[]>();
  const [done, setDone] = useState("");
  const [problem, setProblem] = useState<string>();
  const [busy, setBusy] = useState(false);
  const set = (change: RunFilter) => go({ page: "runs", filter: Object.fromEntries(Object.entries({ ...filter, ...change }).filter(([, v]) => v)) }, true);

  const charts = useAsync(async (signal) => {
    const now = Date.now(), { body, from, width } = asked(filter, assistants, now);
    return filled(await figuresOf({ ...body, bucket_seconds: width }, signal), from, width, now);
  }, [key, turn]);
  // With the runs come their threads, as far as something can be done about them.
  const list = useAsync(async (signal) => {
    const runs = await searchRuns({ ...asked(filter, assistants, Date.now()).body, limit: n }, signal);
    const of = (...s: string[]) => [...new Set(runs.filter((r) => s.includes(r.status)).map((r) => r.thread_id))];
    const threads = (ids: string[], status: string, ...select: string[]) => (ids.length ? searchThreads({ ids, status, limit: ids.length, select: ["thread_id", ...select] }, signal) : []);
    const [waiting, failed] = await Promise.all([threads(of("interrupted"), "interrupted", "interrupts"), threads(of("error", "timeout"), "error")]);
    const questions = new Map(waiting.map((t) => [t.thread_id, questionsOf(t.interrupts as Parameters<typeof questionsOf>[0])]));
    const stuck = new Set(failed.map((t) => t.thread_id)), seen = new Set<string>();
    return runs.map((run) => {
      const newest = !seen.has(run.thread_id), asks = questions.get(run.thread_id);
      seen.add(run.thread_id);
      const asking: Asking | undefined = newest && asks?.length ? { thread: run.thread_id, assistant: run.assistant_id, graph: run.graph_id ?? "", questions: asks } : undefined;
      return { run, asking, retry: newest && stuck.has(run.thread_id) };
    });
  }, [key, n, turn]);
  // Those whose time has come, and whom nobody has taken. Not every store can tell.
  const late = useAsync((signal) => searchThreads({ due_before: new Date(Date.now() - overdue).toISOString(), limit: 100, select: ["thread_id", "metadata", "title", "due_at"] }, signal).catch(() => []), [turn]);
  const open = !!list.data?.some(({ run }) => run.status === "pending" || run.status === "running");
  const loading = useRef(false);
  loading.current = list.loading || charts.loading;
  useEffect(() => poll(async () => { if (!loading.current) again((t) => t + 1); return open; }, open ? 3000 : 10_000, 60_000), [open, key]);

  const rows = list.data ?? [];
  const asking = rows.flatMap((r) => (r.asking && chosen.has(r.run.thread_id) ? [r.asking] : []));
  const failed = rows.filter((r) => r.retry && chosen.has(r.run.thread_id)).map((r) => r.run);
  const users = rows.some((r) => r.run.user_id);
  const can = rows.filter((r) => r.asking || r.retry).map((r) => r.run.thread_id);
  // each does something to several threads, and says how often it worked.
  const each = async <T,>(of: T[], what: string, f: (t: T) => Promise<unknown>) => {
    setBusy(true);
    const errors: string[] = [];
    for (const t of of) await f(t).catch((e: unknown) => errors.push(words(e)));
    setBusy(false);
    setProblem(errors.length ? `${errors.length} of ${of.length}: ${[...new Set(errors)].join(" ")}` : undefined);
    setDone(`${of.length - errors.length} ${what}`);
    choose(new Set());
    again((t) => t + 1);
  };
  const start = (thread: string, assistant: string, body: object) => ask(`/threads/${thread}/runs`, { assistant_id: assistant, multitask_strategy: "reject", ...body });
  const retry = (runs: Run[]) => each(runs, runs.length === 1 ? "run was tried again" : "runs were tried again", (r) => start(r.thread_id, r.assistant_id, { input: null }));
  const wake = (threads: ThreadInfo[]) => each(threads, threads.length === 1 ? "thread was tried again" : "threads were tried again", (t) => start(t.thread_id, assistantOf(t)!, { input: null }));
  const nameOf = (r: Run) => { const a = assistants.find((x) => x.assistant_id === r.assistant_id); return a ? a.name || a.graph_id : r.graph_id || r.assistant_id; };
  const graphs = [...new Set(assistants.map((a) => a.graph_id))];
  const own = assistants.filter((a) => a.metadata?.created_by !== "system");
  const chosenStatus = filter.status?.split(",") ?? [];
  return (
    <div className="runs">
      <div className="pane-bar">
        <h1>Runs</h1>
        <p className="hint" role="status">{done}</p>
        {asking.length > 0 && <Button kind="primary" disabled={busy} onClick={() => answer(asking)}>Answer {asking.length} {asking.length === 1 ? "thread" : "threads"}</Button>}
        {failed.length > 0 && <Button icon="retry" disabled={busy} onClick={() => void retry(failed)}>Try {failed.length} again</Button>}
        <Button icon="refresh" onClick={() => again((t) => t + 1)}>Reload</Button>
      </div>
      <div className="runs-filters" role="search" aria-label="Which runs">
        <div className="chips" role="group" aria-label="Status">
          {statuses.map((s) => <button type="button" className="chip" key={s} aria-pressed={chosenStatus.includes(s)} onClick={() => set({ status: statuses.filter((o) => (o === s) !== chosenStatus.includes(o)).join(",") })}>{s}</button>)}
        </div>
        <select aria-label="Since" value={filter.since ?? ""} onChange={(e) => set({ since: e.target.value })}>{Object.entries(spans).map(([k, [, label]]) => <option key={k} value={k}>{label}</option>)}</select>
        <select aria-label="Graph or assistant" value={filter.of ?? ""} onChange={(e) => set({ of: e.target.value })}>
          <option value="">All graphs</option>
          {graphs.map((g) => <option key={g}>{g}</option>)}
          {own.length > 0 && <optgroup label="Assistants">{own.map((a) => <option key={a.assistant_id} value={a.assistant_id}>{a.name || a.graph_id}</option>)}</optgroup>}
        </select>
        <Typed label="Error" value={filter.error} set={(error) => set({ error })} />
        <Typed label="User" value={filter.user} set={(user) => set({ user })} />
        <select aria-label="Cost" value={filter.cost ?? ""} onChange={(e) => set({ cost: e.target.value })}>
          <option value="">Any cost</option>{[...new Set(["0.01", "0.1", "1", "10", ...(filter.cost ? [filter.cost] : [])])].map((c) => <option key={c} value={c}>${c} or more</option>)}
        </select>
      </div>
      {charts.error !== undefined && <Problem text={words(charts.error)} retry={charts.reload} />}
      {charts.data && <Charts figures={charts.data} />}
      {problem && <Problem text={problem} dismiss={() => setProblem(undefined)} />}
      {!!late.data?.length && (
        <section className="overdue" aria-label="Overdue threads">
          <div className="section-bar"><h2><Icon name="clock" size={16} /> {late.data.length}{late.data.length === 100 && "+"} overdue {late.data.length === 1 ? "thread" : "threads"}</h2><p className="hint">Due for more than a minute, and no run has taken {late.data.length === 1 ? "it" : "them"}.</p><span className="grow" />
            {late.data.length > 1 && <Button icon="retry" disabled={busy} onClick={() => void wake(late.data!)}>Try all again</Button>}</div>
          <ul className="rows">
            {late.data.map((t) => (
              <li key={t.thread_id}>
                <a href={format({ page: "work", assistant: assistantOf(t), thread: t.thread_id })}><span className="thread-title">{t.title || t.thread_id.slice(-12)}</span> <span className="hint">{String(t.metadata?.graph_id ?? "")} · due <When at={t.due_at} /></span></a>
                <Button icon="retry" disabled={busy} aria-label={`Try again: thread ${t.thread_id.slice(-12)}`} onClick={() => void wake([t])}>Try again</Button>
              </li>
            ))}
          </ul>
        </section>
      )}
      {list.error !== undefined && <Problem text={words(list.error)} retry={list.reload} />}
      {!list.data && list.loading && <div className="center"><Spinner label="Loading runs" /></div>}
      {list.data && rows.length === 0 && <Empty title={Object.keys(filter).length ? "Nothing found" : "No runs yet"}>{key !== "{}" && <p><button type="button" className="link" onClick={() => go({ page: "runs", filter: {} })}>Show all runs</button></p>}</Empty>}
      {rows.length > 0 && (
        <div className="runs-box" role="region" aria-label="Runs" tabIndex={0}>
          <table>
            <thead><tr>
              <th scope="col"><input type="checkbox" aria-label="Choose all that wait or have failed" disabled={can.length === 0} checked={can.length > 0 && can.every((t) => chosen.has(t))} onChange={(e) => choose(new Set(e.target.checked ? can : []))} /></th>
              {["Status", "Run of", "Began", "Took", "Tokens", "Cost", ...(users ? ["User"] : []), "What it says"].map((h) => <th scope="col" key={h}>{h}</th>)}<th scope="col"><span className="sr">Do</span></th>
            </tr></thead>
            <tbody>
              {rows.map(({ run, asking, retry: stuck }) => {
                const what = `${nameOf(run)} on thread ${run.thread_id.slice(-12)}`;
                return (
                  <tr key={run.run_id} data-run={run.status}>
                    <td>{(asking || stuck) && <input type="checkbox" aria-label={`Choose ${what}`} checked={chosen.has(run.thread_id)} onChange={(e) => { const next = new Set(chosen); if (e.target.checked) next.add(run.thread_id); else next.delete(run.thread_id); choose(next); }} />}</td>
                    <td><Status status={run.status} /></td>
                    <td><a href={format({ page: "work", assistant: run.assistant_id, thread: run.thread_id })}>{nameOf(run)} <span className="hint">{run.thread_id.slice(-8)}</span></a></td>
                    <td><When at={run.run_started_at ?? run.created_at} /></td>
                    <td className="number">{run.run_started_at && duration((run.run_ended_at ? Date.parse(run.run_ended_at) : Date.now()) - Date.parse(run.run_started_at))}</td>
                    <td className="number">{run.usage ? run.usage.input_tokens + run.usage.output_tokens > 0 && <Tokens usage={{ input: run.usage.input_tokens, output: run.usage.output_tokens }} /> : run.run_ended_at && <Unknown what="What its models used" />}</td>
                    <td className="number">{run.cost !== null ? run.cost > 0 && dollars(run.cost) : run.run_ended_at && <Unknown what="What it cost" />}</td>
                    {users && <td>{run.user_id}</td>}
                    <td className="says">{run.error ? <><b>{run.error.error}</b> {run.error.message}</> : asking && asking.questions.map((q) => headingOf(q.value) ?? glimpse(q.value, 100)).join(" · ")}</td>
                    <td className="actions">
                      {asking && <Button disabled={busy} aria-label={`Answer ${what}`} onClick={() => answer([asking])}>Answer</Button>}
                      {stuck && <Button icon="retry" disabled={busy} aria-label={`Try again: ${what}`} onClick={() => void retry([run])}>Try again</Button>}
                      {(run.status === "pending" || run.status === "running") && <Button icon="stop" disabled={busy} aria-label={`Stop ${what}`} onClick={() => void each([run], "run was stopped", (r) => client.runs.cancel(r.thread_id, r.run_id))}>Stop</Button>}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      {rows.length >= n && (n < most ? <Button kind="quiet" disabled={list.loading} onClick={() => setLimit({ key, n: Math.min(most, n + page) })}>Older runs</Button> : <p className="hint center">Only the newest {most.toLocaleString()} are listed.</p>)}
      {answering && (
        <Dialog title={answering.length === 1 ? "Answer the thread" : `Answer ${answering.length} threads`} close={() => answer(undefined)} wide>
          {alike(answering).map((group) => (
            <section key={group[0]!.thread} aria-label={`Questions of ${group[0]!.graph}`}>
              {group.length > 1 && <><p>One answer goes to {group.length} threads that are asked the same:</p>
                <ul className="asked">{group.map((t) => <li key={t.thread}><a href={format({ page: "work", assistant: t.assistant, thread: t.thread })}>{t.thread.slice(-8)}</a> {t.questions.map((q) => glimpse(q.value, 160)).join(" · ")}</li>)}</ul></>}
              <Questions questions={group[0]!.questions.map((q) => ({ ...q, node: q.key ?? "" }))} busy={busy} answer={(given) => {
                const rest = answering.filter((t) => !group.includes(t));
                answer(rest.length ? rest : undefined);
                void each(group, group.length === 1 ? "thread was answered" : "threads were answered", (t) => start(t.thread, t.assistant, { command: { resume: answersFor(t, group[0]!, given) } }));
              }} />
            </section>
          ))}
        </Dialog>
      )}
    </div>
  );
}

// Unknown stands for a figure that nobody has noted: of a version that didn't, or of a model without a price.
const Unknown = ({ what }: { what: string }) => <span className="hint" title={`${what} isn't known`}>?<span className="sr"> {what} isn't known</span></span>;

// Typed is a field that counts once somebody has stopped typing.
function Typed({ label, value = "", set }: { label: string; value?: string; set: (v: string) => void }) {
  const [text, setText] = useState(value);
  useEffect(() => { setText((t) => (t.trim() === value ? t : value)); }, [value]);
  useEffect(() => { const t = setTimeout(() => { if (text.trim() !== value) set(text.trim()); }, 300); return () => clearTimeout(t); }, [text]);
  return <div className="search"><Icon name="search" size={16} /><input type="search" aria-label={label} placeholder={label} value={text} onChange={(e) => setText(e.target.value)} /></div>;
}

function Charts({ figures }: { figures: Figures[] }) {
  const sum = (of: (f: Figures) => number) => figures.reduce((s, f) => s + of(f), 0);
  const tokens = sum((f) => (f.input_tokens ?? 0) + (f.output_tokens ?? 0)), cost = sum((f) => f.cost ?? 0);
  const runs = sum((f) => f.runs), errors = sum((f) => f.errors), slowest = Math.max(...figures.map((f) => f.p95 ?? 0));
  return (
    <div className="charts">
      <Chart title={`${runs.toLocaleString()} ${runs === 1 ? "run" : "runs"}, ${errors.toLocaleString()} failed`} unit={(v) => v.toLocaleString()} figures={figures}
        bars={(f) => [f.runs - f.errors, f.errors]} kinds={["good", "bad"]} tell={(f) => `${f.runs} runs, ${f.errors} failed`} />
      <Chart title={slowest ? `How long they took: half of them, and 95 in 100` : "How long they took: none has ended"} unit={(v) => duration(v * 1000)} figures={figures}
        bars={(f) => [f.p50 ?? 0, (f.p95 ?? 0) - (f.p50 ?? 0)]} kinds={["half", "most"]} tell={(f) => (f.p50 === null ? "none has ended" : `half within ${duration(f.p50 * 1000)}, 95 in 100 within ${duration(f.p95! * 1000)}`)} />
      {tokens > 0 && <Chart title={`${tokens.toLocaleString()} tokens: of requests, and of answers`} unit={(v) => v.toLocaleString()} figures={figures}
        bars={(f) => [f.input_tokens ?? 0, f.output_tokens ?? 0]} kinds={["half", "most"]} tell={(f) => (f.input_tokens === null ? "not known" : `${f.input_tokens.toLocaleString()} of requests, ${f.output_tokens!.toLocaleString()} of answers`)} />}
      {cost > 0 && <Chart title={`${dollars(cost)}, as far as it is known`} unit={dollars} figures={figures} bars={(f) => [f.cost ?? 0]} kinds={["half"]} tell={(f) => (f.cost === null ? "not known" : dollars(f.cost))} />}
    </div>
  );
}

// A Chart has a bar for each time, with one part upon the other.
function Chart({ title, figures, bars, kinds, unit, tell }: { title: string; figures: Figures[]; bars: (f: Figures) => number[]; kinds: string[]; unit: (v: number) => string; tell: (f: Figures) => string }) {
  const top = Math.max(...figures.map((f) => bars(f).reduce((a, b) => a + b, 0)));
  const at = (f: Figures) => new Date(f.from).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
  return (
    <figure className="chart">
      <figcaption><b>{title}</b><span className="hint">{top > 0 && `up to ${unit(top)}`}</span></figcaption>
      <svg role="img" aria-label={`${title}. ${figures.filter((f) => f.runs).slice(-10).map((f) => `${at(f)}: ${tell(f)}`).join(". ")}`} viewBox={`0 0 ${figures.length} 100`} preserveAspectRatio="none">
        {top > 0 && figures.map((f, i) => {
          let y = 100;
          return f.runs > 0 && (
            <g key={f.from}><title>{`${at(f)}: ${tell(f)}`}</title>
              {bars(f).map((v, j) => { const h = (100 * v) / top; y -= h; return <rect key={j} className={`bar-${kinds[j]}`} x={i + 0.08} width={0.84} y={y} height={h} />; })}
            </g>
          );
        })}
      </svg>
      <p className="hint chart-ends"><span>{figures[0] && at(figures[0])}</span><span>now</span></p>
    </figure>
  );
}
