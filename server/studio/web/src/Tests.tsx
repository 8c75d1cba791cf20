// Data sets, evaluations with them and their comparison.
import { Fragment, useCallback, useEffect, useRef, useState } from "react";
import { feedbackOn, words, type Assistant } from "./api";
import { dollars } from "./calls";
import { casesIn, checksOf, compared, failuresOf, linesOf, passed, rateOf, reportIn, reportOf, sumOf, tokensOf, type Case, type CaseReport, type Evaluation, type Row, type RunReport, type Sum } from "./evals";
import { addReport, advance, begin, begunLess, casesOf, dataSets, evaluationsOf, graderGraph, putCase, putCases, removeCase, removeEvaluation, resultsOf, wrongIn } from "./evaluate";
import { ExampleForm, nameHint, namePattern } from "./Example";
import type { Json } from "./json";
import { glimpse } from "./messages";
import { format, go } from "./route";
import { Button, Dialog, download, duration, Empty, IconButton, Members, Problem, Spinner, useAsync, When } from "./ui";
import { poll } from "./watch";

type Held = { e: Evaluation; results: CaseReport[]; missing: number };
const some = 20; // evaluations whose results are read at once

export default function Tests({ assistants, set, shown }: { assistants: Assistant[]; set?: string; shown: string[] }) {
  const sets = useAsync(() => dataSets(), []);
  const [making, make] = useState<{ name: string; cases?: Case[] }>();
  const [turn, again] = useState(0); // in which the open data set may have got more
  const [problem, setProblem] = useState<string>();
  const file = useRef<HTMLInputElement>(null);
  const graded = assistants.some((a) => a.graph_id === graderGraph);
  const known = sets.data ?? [];
  const take = async (f: File) => {
    try {
      make({ name: f.name.replace(/\.[^.]*$/, "").replaceAll(".", "-"), cases: casesIn(await f.text()) });
      setProblem(undefined);
    } catch (e) { setProblem(`${f.name}: ${words(e)}`); }
  };
  if (set && shown.length) return <Evaluations key={set + shown.join()} set={set} ids={shown} graded={graded} />;
  return (
    <div className={`split tests ${set ? "has-detail" : ""}`}>
      <section className="pane" aria-label="Data sets">
        <div className="pane-bar"><h1>Tests</h1><Button icon="plus" kind={known.length || set ? undefined : "primary"} onClick={() => make({ name: "" })}>New data set</Button><Button onClick={() => file.current?.click()}>Import</Button></div>
        <input ref={file} type="file" hidden accept=".jsonl,application/x-ndjson,.json" aria-label="Data set to import" onChange={(e) => { const [one] = e.target.files ?? []; e.target.value = ""; if (one) void take(one); }} />
        {problem && <Problem text={problem} dismiss={() => setProblem(undefined)} />}
        {sets.error !== undefined && <Problem text={words(sets.error)} retry={sets.reload} />}
        {!sets.data && sets.loading && <div className="center"><Spinner label="Loading the data sets" /></div>}
        {sets.data && known.length === 0 && <Empty title="No data sets yet"><p>A data set has examples: what a graph is given, and what is expected of it. Make one here, import a file that <code>superstep eval</code> reads, or save a thread: <b>Save as test</b> is on its timeline.</p></Empty>}
        <ul className="rows" aria-label="Data sets">{known.map((n) => <li key={n}><a href={format({ page: "tests", set: n, shown: [] })} aria-current={n === set ? "page" : undefined}><span className="thread-title">{n}</span></a></li>)}</ul>
      </section>
      <section className="pane" aria-label="Data set">
        {set ? <DataSet key={set + turn} set={set} assistants={assistants} graded={graded} changed={sets.reload} /> : sets.data && known.length > 0 && <Empty title="Choose a data set"><p>Its examples are run by an assistant, and what came of them is judged and compared.</p></Empty>}
      </section>
      {making && <NewSet given={making} known={known} close={() => make(undefined)} made={(name) => { make(undefined); sets.reload(); again((n) => n + 1); go({ page: "tests", set: name, shown: [] }); }} />}
    </div>
  );
}

// NewSet asks for the name of a data set, and for its first example if no file has any.
function NewSet({ given, known, close, made }: { given: { name: string; cases?: Case[] }; known: string[]; close: () => void; made: (name: string) => void }) {
  const [name, setName] = useState(given.name);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  const save = async (cases: Case[]) => {
    setBusy(true);
    try {
      await putCases(name.trim(), cases);
      made(name.trim());
    } catch (e) { setProblem(words(e)); setBusy(false); }
  };
  const field = <label className="field">Name of the data set<input required autoFocus pattern={namePattern} title={nameHint} value={name} onChange={(e) => setName(e.target.value)} /></label>;
  return (
    <Dialog title={given.cases ? "Import a data set" : "New data set"} close={close} wide={!given.cases}>
      {problem && <Problem text={problem} />}
      {given.cases ? (
        <form onSubmit={(e) => { e.preventDefault(); void save(given.cases!); }}>
          {field}
          <p className="hint">{given.cases.length} {given.cases.length === 1 ? "example" : "examples"}: {glimpse(given.cases.map((c) => c.name).join(", "), 160)}{known.includes(name.trim()) && ". Those whose names the data set has already are replaced."}</p>
          <div className="actions"><Button onClick={close}>Leave it</Button><Button kind="primary" type="submit" disabled={busy}>Import</Button></div>
        </form>
      ) : <ExampleForm above={field} example={undefined} busy={busy} close={close} save={(c) => void save([c])} />}
    </Dialog>
  );
}

// useHeld holds evaluations with what came of them, and has those go on that are open.
function useHeld(load: () => Promise<Evaluation[]>, graded: boolean, deps: unknown[]) {
  const [held, hold] = useState<Held[]>();
  const [error, setError] = useState<unknown>();
  const [turn, again] = useState(0);
  useEffect(() => {
    let over = false;
    (async () => {
      const all = await Promise.all((await load()).map(async (e) => ({ e, results: await resultsOf(e.id), missing: 0 })));
      if (!over) { hold(all); setError(undefined); }
    })().catch((e: unknown) => { if (!over) setError(e); });
    return () => { over = true; };
  }, [...deps, turn]);
  const working = useRef(false);
  const open = !!held?.some((h) => isOpen(h));
  useEffect(() => (open ? poll(async () => {
    if (working.current) return true;
    working.current = true;
    try {
      const next = await Promise.all(held!.map(async (h) => (isOpen(h) ? { ...h, missing: (await advance(h.e, h.results, graded)).missing } : h)));
      setError(undefined);
      hold(next);
    } catch (e) { setError(e); }
    working.current = false;
    return true;
  }, 700, 5000) : undefined), [open, held, graded]);
  return { held, error, reload: useCallback(() => again((n) => n + 1), []) };
}

const isOpen = (h: Held) => !!h.e.assistant_id && h.results.some((c) => c.runs.length === 0);

function DataSet({ set, assistants, graded, changed }: { set: string; assistants: Assistant[]; graded: boolean; changed: () => void }) {
  const cases = useAsync(() => casesOf(set), [set]);
  const [limit, setLimit] = useState(some);
  const [total, setTotal] = useState(0);
  const { held, error, reload } = useHeld(async () => { const all = await evaluationsOf(set); setTotal(all.length); return all.slice(0, limit); }, graded, [set, limit]);
  const [chosen, choose] = useState<string[]>([]);
  const [editing, edit] = useState<{ example?: Case }>();
  const [asking, ask] = useState(false);
  const [removing, remove] = useState<Evaluation | "set">();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  const file = useRef<HTMLInputElement>(null);
  const list = cases.data ?? [];
  const leave = () => { edit(undefined); remove(undefined); setProblem(undefined); };
  const attempt = async (f: () => Promise<unknown>) => {
    setBusy(true);
    try { await f(); setProblem(undefined); return true; } catch (e) { setProblem(words(e)); return false; } finally { setBusy(false); }
  };
  const ids = chosen.filter((id) => held?.some((h) => h.e.id === id));
  const oldFirst = held ? held.map((h) => h.e.id).filter((id) => ids.includes(id)).reverse() : [];
  return (
    <div className="data-set">
      <div className="pane-bar">
        <a className="link back" href={format({ page: "tests", shown: [] })}>All data sets</a><h1>{set}</h1>
        <Button icon="plus" onClick={() => edit({})}>New example</Button>
        <Button disabled={!list.length} title="A file that superstep eval run reads" onClick={() => download(`${set}.jsonl`, linesOf(list), "application/jsonl")}>Export</Button>
        <Button kind="primary" icon="play" disabled={!list.length} onClick={() => ask(true)}>Evaluate</Button>
        <IconButton icon="trash" label={`Delete the data set ${set}`} disabled={busy} onClick={() => remove("set")} />
      </div>
      {problem && !editing && !removing && <Problem text={problem} dismiss={() => setProblem(undefined)} />}
      <section>
        <div className="section-bar"><h2>Evaluations</h2><span className="grow" />
          {ids.length > 1 && <Button kind="primary" icon="compare" onClick={() => go({ page: "tests", set, shown: oldFirst })}>Compare {ids.length}</Button>}
          <Button kind="quiet" title="A report of superstep eval run --output" onClick={() => file.current?.click()}>Add a report</Button>
          <input ref={file} type="file" hidden accept=".json,application/json" aria-label="Report to add" onChange={(e) => { const [one] = e.target.files ?? []; e.target.value = ""; if (one) void attempt(async () => addReport(set, reportIn(await one.text()))).then(reload); }} />
        </div>
        {error !== undefined && <Problem text={words(error)} retry={reload} />}
        {!held && error === undefined && <div className="center"><Spinner label="Loading the evaluations" /></div>}
        {held?.length === 0 && <p className="hint none-yet">None yet. An evaluation runs every example with an assistant, on threads of their own.</p>}
        {held && held.length > 0 && (
          <div className="runs-box" role="region" aria-label="Evaluations" tabIndex={0}>
            <table>
              <thead><tr><th scope="col"><span className="sr">Choose</span></th>{["Passed", "Evaluation of", "Began", "Median time", "Tokens", "Cost"].map((h) => <th scope="col" key={h}>{h}</th>)}<th scope="col"><span className="sr">Do</span></th></tr></thead>
              <tbody>
                {held.map((h) => {
                  const s = sumOf(h.results), what = `the evaluation of ${h.e.target} of ${new Date(h.e.started_at).toLocaleString()}`;
                  return (
                    <tr key={h.e.id}>
                      <td><input type="checkbox" aria-label={`Choose ${what}`} checked={ids.includes(h.e.id)} onChange={(e) => choose(e.target.checked ? [...chosen, h.e.id] : chosen.filter((c) => c !== h.e.id))} /></td>
                      <td><Progress h={h} s={s} again={() => void attempt(() => begunLess(h.e, h.results)).then(reload)} /></td>
                      <td><a href={format({ page: "tests", set, shown: [h.e.id] })}>{h.e.target}</a>{h.e.version > 0 && <span className="hint"> version {h.e.version}</span>}{h.e.repeat > 1 && <span className="hint"> × {h.e.repeat}</span>}</td>
                      <td><When at={h.e.started_at} /></td>
                      <td className="number">{s.latency !== undefined && duration(s.latency)}</td>
                      <td className="number">{s.tokens > 0 && s.tokens.toLocaleString()}</td>
                      <td className="number"><Price s={s} /></td>
                      <td className="actions"><IconButton icon="trash" label={`Delete ${what}`} disabled={busy} onClick={() => remove(h.e)} /></td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </div>
        )}
        {held && total > held.length && <Button kind="quiet" onClick={() => setLimit(limit + some)}>Older evaluations</Button>}
      </section>
      <section>
        <div className="section-bar"><h2>{cases.data ? `${list.length.toLocaleString()} ${list.length === 1 ? "example" : "examples"}` : "Examples"}</h2></div>
        {cases.error !== undefined && <Problem text={words(cases.error)} retry={cases.reload} />}
        {!cases.data && cases.loading && <div className="center"><Spinner label="Loading the examples" /></div>}
        {cases.data && list.length === 0 && <p className="hint none-yet">The data set is empty. A thread becomes an example by <b>Save as test</b> on its timeline.</p>}
        {list.length > 0 && (
          <div className="runs-box" role="region" aria-label="Examples" tabIndex={0}>
            <table>
              <thead><tr>{["Name", "Input", "Expected", "Checked by"].map((h) => <th scope="col" key={h}>{h}</th>)}</tr></thead>
              <tbody>
                {list.slice(0, 500).map((c) => (
                  <tr key={c.name}>
                    <td><button type="button" className="link" onClick={() => edit({ example: c })}>{c.name}</button>{c.tags?.map((t) => <span key={t} className="badge quiet">{t}</span>)}</td>
                    <td className="says">{glimpse(c.input, 120)}</td>
                    <td className="says">{c.output !== undefined && glimpse(c.output, 120)}</td>
                    <td>{checksOf(c).join(", ") || <span className="hint">people</span>}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
        {list.length > 500 && <p className="hint">The first 500 are listed; Export has all.</p>}
      </section>
      {editing && (
        <Dialog title={editing.example ? `Example ${editing.example.name}` : "New example"} close={leave} wide>
          {problem && <Problem text={problem} />}
          <ExampleForm example={editing.example} busy={busy} close={leave}
            taken={list.map((c) => c.name).filter((n) => n !== editing.example?.name)}
            save={(c) => void attempt(async () => {
              if (graded) { const wrong = await wrongIn([c]); if (wrong.length) throw new Error(wrong[0]); }
              await putCase(set, c);
              if (editing.example && editing.example.name !== c.name) await removeCase(set, editing.example.name);
            }).then((done) => { if (done) { edit(undefined); cases.reload(); } })}
            remove={editing.example && (() => void attempt(() => removeCase(set, editing.example!.name)).then((done) => { if (done) { edit(undefined); cases.reload(); } }))} />
        </Dialog>
      )}
      {asking && <Evaluate set={set} cases={list} assistants={assistants} graded={graded} close={() => ask(false)} begun={() => { ask(false); reload(); }} />}
      {removing && (
        <Dialog title={removing === "set" ? "Delete the data set?" : "Delete the evaluation?"} close={leave}>
          <p>{removing === "set" ? `All examples of “${set}” will be gone, and its evaluations with their threads.` : "What came of it will be gone, and the threads of its runs."}</p>
          {problem && <Problem text={problem} />}
          <div className="actions"><Button onClick={leave}>Keep it</Button><Button kind="danger" icon="trash" disabled={busy} onClick={() => void attempt(async () => {
            if (removing !== "set") return removeEvaluation(removing);
            for (const e of await evaluationsOf(set)) await removeEvaluation(e);
            for (const c of list) await removeCase(set, c.name);
          }).then((done) => { if (!done) return; remove(undefined); if (removing === "set") { changed(); go({ page: "tests", shown: [] }); } else reload(); })}>Delete</Button></div>
        </Dialog>
      )}
    </div>
  );
}

// Progress is how much of an evaluation passed, or how far it is.
function Progress({ h, s, again }: { h: Held; s: Sum; again?: () => void }) {
  if (isOpen(h)) {
    const done = h.results.filter((c) => c.runs.length > 0).length;
    return <span className="progress"><Spinner label="The evaluation runs" /> {done} of {s.cases} done{h.missing > 0 && again && <> <Button title={`${h.missing} runs were never begun`} onClick={again}>Go on</Button></>}</span>;
  }
  if (s.judged === 0) return <span className="hint">not judged</span>;
  return <span className="rate"><meter aria-label="Passed" min={0} max={s.cases} low={s.cases * 0.99} optimum={s.cases} value={s.passed} /> {s.passed} of {s.cases}</span>;
}

function Price({ s }: { s: Sum }) {
  if (s.unknown) return <span className="hint" title="What it cost isn't known in full">{s.cost > 0 ? `${dollars(s.cost)} ` : ""}?<span className="sr"> not known in full</span></span>;
  return s.cost > 0 ? <>{dollars(s.cost)}</> : null;
}

// Evaluate asks what a data set is to be evaluated with.
function Evaluate({ set, cases, assistants, graded, close, begun }: { set: string; cases: Case[]; assistants: Assistant[]; graded: boolean; close: () => void; begun: () => void }) {
  const offered = assistants.filter((a) => a.graph_id !== graderGraph);
  const from = cases.find((c) => c.metadata?.graph)?.metadata?.graph;
  const [id, setID] = useState((offered.find((a) => a.graph_id === from) ?? offered[0])?.assistant_id ?? "");
  const [repeat, setRepeat] = useState("1");
  const [judge, setJudge] = useState("");
  const [rubric, setRubric] = useState("");
  const [progress, setProgress] = useState<string>();
  const [problem, setProblem] = useState<string>();
  const start = async () => {
    setProblem(undefined);
    setProgress("Checking the examples…");
    try {
      if (graded) {
        const wrong = await wrongIn(cases);
        if (wrong.length) throw new Error(`Nothing was run: ${wrong.slice(0, 10).join("; ")}${wrong.length > 10 ? `; and ${wrong.length - 10} more` : ""}`);
      }
      const n = Number(repeat), all = cases.length * n;
      await begin(set, cases, offered.find((a) => a.assistant_id === id)!, n, judge ? { assistant_id: judge, rubric: rubric.trim(), min: 0.7 } : undefined, (done) => setProgress(`${done} of ${all} runs begun`));
      begun();
    } catch (e) { setProblem(words(e)); setProgress(undefined); }
  };
  const options = offered.map((a) => <option key={a.assistant_id} value={a.assistant_id}>{a.name || a.graph_id}</option>);
  return (
    <Dialog title={`Evaluate ${set}`} close={close}>
      <form onSubmit={(e) => { e.preventDefault(); void start(); }}>
        <label className="field">Assistant <span className="hint">its newest version, with its configuration</span><select required value={id} onChange={(e) => setID(e.target.value)}>{options}</select></label>
        <label className="field">Runs of each example <span className="hint">models don't say the same each time</span><input type="number" required min={1} max={20} value={repeat} onChange={(e) => setRepeat(e.target.value)} /></label>
        <label className="field">Judged by <span className="hint">beside what the examples say</span><select value={judge} onChange={(e) => setJudge(e.target.value)}><option value="">nobody else</option>{options}</select></label>
        {judge && <label className="field">Rubric <span className="hint">what a good answer does; 0.7 of 1 is enough</span><textarea required rows={2} value={rubric} placeholder="It names the city and is polite." onChange={(e) => setRubric(e.target.value)} /></label>}
        {!graded && <p className="hint">This server doesn't serve the graph <code>grader</code> (<code>eval.Grader</code>): what the examples expect is not checked, and outputs are compared alone.</p>}
        <p className="hint">{cases.length} {cases.length === 1 ? "example" : "examples"}, each on a thread of its own. The runs go on when you leave; they are judged when somebody looks.</p>
        {problem && <Problem text={problem} />}
        <div className="actions">{progress && <span role="status" className="hint">{progress}</span>}<Button onClick={close}>Leave it</Button><Button kind="primary" icon="play" type="submit" disabled={!!progress || !id}>Evaluate</Button></div>
      </form>
    </Dialog>
  );
}

const verdicts: Record<Row["verdict"], [text: string, kind: string]> = {
  worse: ["worse", "error"], better: ["better", "success"], "other output": ["other output", "interrupted"], reworded: ["example changed", "idle"], "not run": ["not in both", "idle"], same: ["same", "idle"],
};

// Evaluations shows one evaluation, or several side by side.
function Evaluations({ set, ids, graded }: { set: string; ids: string[]; graded: boolean }) {
  const { held, error, reload } = useHeld(async () => {
    const all = new Map((await evaluationsOf(set)).map((e) => [e.id, e]));
    return ids.flatMap((id) => all.get(id) ?? []);
  }, graded, [set, ids.join()]);
  const [everything, showEverything] = useState(ids.length < 2);
  const [opened, open] = useState<Set<string>>(new Set());
  const rows = held ? compared(held.map((h) => h.results)) : [];
  const one = held?.length === 1;
  const differ = rows.filter((r) => r.verdict !== "same");
  const shown = everything ? rows : differ;
  const sums = held?.map((h) => sumOf(h.results)) ?? [];
  const count = (v: Row["verdict"]) => rows.filter((r) => r.verdict === v).length;
  const toggle = (name: string) => open((o) => { const n = new Set(o); if (!n.delete(name)) n.add(name); return n; });
  return (
    <section className="compare tests-compare" aria-label="Evaluations">
      <div className="compare-bar">
        <a className="back-link" href={format({ page: "tests", set, shown: [] })}>← {set}</a>
        <h1>{held && (one ? held[0]!.e.target : `${held.length} evaluations`)}</h1>
        {held && held.length > 1 && <p className="hint" role="status">{[[count("worse"), "worse"], [count("better"), "better"], [count("other output"), "with another output"]].map(([n, what]) => `${n} ${what}`).join(", ")}</p>}
        <span className="grow" />
        <label className="check"><input type="checkbox" checked={everything} onChange={(e) => showEverything(e.target.checked)} /> {one ? "Show what passed" : "Show what is the same"}</label>
      </div>
      {error !== undefined && <Problem text={words(error)} retry={reload} />}
      {!held && error === undefined && <div className="center"><Spinner label="Loading the evaluations" /></div>}
      {held?.length === 0 && <Empty title="No such evaluation"><p>It may have been deleted. <a href={format({ page: "tests", set, shown: [] })}>Show the data set</a></p></Empty>}
      {held && held.length > 0 && (
        <div className="runs-box" role="region" aria-label="Examples side by side" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">Example</th>
                {held.map((h, i) => (
                  <th scope="col" key={h.e.id} className="evaluation-head">
                    <span className="evaluation-name">{!one && <span className="badge quiet">{i + 1}</span>} {h.e.target}{h.e.version > 0 && <span className="hint"> version {h.e.version}</span>}<Button kind="quiet" aria-label={`Save the report of ${h.e.target}, for superstep eval compare`} onClick={() => download(`${set}-${h.e.id}.json`, JSON.stringify(reportOf(h.e, h.results), null, 2), "application/json")}>Report</Button></span>
                    <span className="evaluation-sum"><Progress h={h} s={sums[i]!} /><span className="hint"><When at={h.e.started_at} />{sums[i]!.latency !== undefined && ` · ${duration(sums[i]!.latency!)}`}{sums[i]!.tokens > 0 && ` · ${sums[i]!.tokens.toLocaleString()} tokens`} <Price s={sums[i]!} /></span></span>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {shown.map((r) => (
                <Fragment key={r.name}>
                  <tr className={`verdict-${r.verdict.replace(" ", "-")}`} data-verdict={r.verdict}>
                    <th scope="row"><button type="button" className="link" aria-expanded={opened.has(r.name)} onClick={() => toggle(r.name)}>{r.name}</button>{!one && r.verdict !== "same" && <span className={`status status-${verdicts[r.verdict][1]}`}>{verdicts[r.verdict][0]}</span>}</th>
                    {r.cells.map((c, i) => <td key={i}><Outcome c={c} open={held[i] && isOpen(held[i])} /></td>)}
                  </tr>
                  {opened.has(r.name) && <tr className="opened"><td colSpan={held.length + 1}><Opened r={r} held={held} /></td></tr>}
                </Fragment>
              ))}
            </tbody>
          </table>
          {shown.length === 0 && <p className="hint none-yet">{one ? "All examples passed." : "They came to the same."} <button type="button" className="link" onClick={() => showEverything(true)}>Show all {rows.length}</button></p>}
        </div>
      )}
    </section>
  );
}

// Outcome is what came of a case in an evaluation, in short.
function Outcome({ c, open }: { c?: CaseReport; open?: boolean }) {
  if (!c) return <span className="hint">not in this one</span>;
  if (c.runs.length === 0) return <span className="hint">{open ? "runs…" : "not run"}</span>;
  const rate = rateOf(c)!, worst = c.runs.find((r) => !passed(r)) ?? c.runs[0]!, judged = c.runs.some((r) => r.error || r.scores?.length);
  const latency = c.runs.reduce((n, r) => n + r.result.latency_ns, 0) / c.runs.length / 1e6, cost = c.runs.reduce((n, r) => n + r.result.cost.known, 0), tokens = c.runs.reduce((n, r) => n + tokensOf(r), 0);
  return (
    <div className="outcome">
      <p><Verdict pass={judged ? rate === 1 : undefined} text={c.runs.length > 1 ? `${Math.round(rate * c.runs.length)} of ${c.runs.length}` : undefined} /> <span className="outcome-output">{worst.error ?? glimpse(worst.result.output, 140)}</span></p>
      <p className="hint">{[duration(latency), tokens > 0 && `${tokens.toLocaleString()} tokens`, cost > 0 && dollars(cost), ...(worst.scores ?? []).map((s) => `${s.name} ${Number(s.value.toFixed(2))}`)].filter(Boolean).join(" · ")}</p>
    </div>
  );
}

function Verdict({ pass, text }: { pass?: boolean; text?: string }) {
  if (pass === undefined) return <span className="status">not judged</span>;
  return <span className={`status status-${pass ? "success" : "error"}`}>{text ?? (pass ? "passed" : "failed")}</span>;
}

// Opened shows a case in full: what it was given, what was expected, and every run.
function Opened({ r, held }: { r: Row; held: Held[] }) {
  const c = (r.cells.findLast((x) => x) as CaseReport).case;
  return (
    <div className="opened-body">
      <div className="opened-case">
        <div><h3>Input</h3><Value value={c.input} /></div>
        {c.output !== undefined && <div><h3>Expected</h3><Value value={c.output} /></div>}
      </div>
      <div className="opened-runs" style={{ "--columns": r.cells.length } as React.CSSProperties}>
        {r.cells.map((x, i) => (
          <div key={i}>
            <h3>{held.length > 1 ? `${i + 1} · ` : ""}{held[i]!.e.target}</h3>
            {!x?.runs.length && <p className="hint">not run</p>}
            {x?.runs.map((run, n) => <RunOf key={n} run={run} number={x.runs.length > 1 ? n + 1 : undefined} assistant={held[i]!.e.assistant_id} />)}
          </div>
        ))}
      </div>
    </div>
  );
}

function RunOf({ run, number, assistant }: { run: RunReport; number?: number; assistant: string }) {
  const { thread } = run.result;
  const { data: notes } = useAsync(async (signal) => (thread && assistant ? await feedbackOn(thread, signal).catch(() => []) : []), [thread]);
  return (
    <div className="run-of">
      <p>{number !== undefined && <span className="hint">run {number} </span>}<Verdict pass={run.error || run.scores?.length ? passed(run) : undefined} />{thread && assistant && <> <a href={format({ page: "work", assistant, thread })}>Thread {thread.slice(-8)}</a></>}</p>
      {failuresOf(run).map((f, i) => <p key={i} className="failure">{f}</p>)}
      {run.result.output !== undefined && <Value value={run.result.output} />}
      {(run.scores ?? []).filter((s) => s.pass && s.reason).map((s) => <p key={s.name} className="hint">{s.name} {s.value}: {s.reason}</p>)}
      {notes?.map((f) => <p key={f.feedback_id} className="hint">{f.score !== null ? `${f.key} ${f.score}` : f.key}{f.comment && ` “${f.comment}”`}{f.user_id && ` · ${f.user_id}`}</p>)}
    </div>
  );
}

function Value({ value }: { value: Json }) {
  return <div className="cell value">{typeof value === "string" ? <span className="side-text">{value || "“”"}</span> : <Members value={value} open={2} />}</div>;
}

