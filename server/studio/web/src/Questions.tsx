// What a thread waits for, and how people answer.
import { useEffect, useId, useState, type ReactNode } from "react";
import type { Interrupt } from "./api";
import { Control, Form, JsonInput } from "./Form";
import { isObject, type Json, type JsonObject } from "./json";
import { fieldOf, type Schema } from "./schema";
import { Button, Members } from "./ui";

type Question = Interrupt & { node: string };

// Questions takes an answer to each, and gives all at once: by their IDs. It is
// kept while they are on their way, so that nothing typed is lost if the server
// doesn't take them.
export function Questions({ questions, answer, busy, past }: { questions: Question[]; answer: (byId: JsonObject) => void; busy: boolean; past?: boolean }) {
  const [given, give] = useState<JsonObject>({});
  useEffect(() => { if (!busy) give((g) => (questions.every((q) => q.id in g) ? {} : g)); }, [busy]); // they were not taken
  const take = (q: Question, value: Json) => {
    const all = { ...given, [q.id]: value };
    give(all);
    if (questions.every((o) => o.id in all)) answer(all);
  };
  return (
    <section className="questions" aria-label="Questions" hidden={busy}>
      {questions.map((q) => {
        const done = q.id in given;
        return (
          <article className={`question ${done ? "is-answered" : ""}`} key={q.id} data-question={q.node}>
            <header><span className="badge">{past ? "Was asked" : done ? "Answered" : "Waits for you"}</span><span className="hint">{q.node}{questions.length > 1 && ` · ${questions.filter((o) => o.id in given).length} of ${questions.length} answered`}</span>
              {done && <><span className="grow" /><button type="button" className="link" onClick={() => give(({ [q.id]: _, ...rest }) => rest)}>Change</button></>}</header>
            <div hidden={done}>
              {isApproval(q.value) ? <Approval request={q.value} answer={(v) => take(q, v)} busy={busy} /> : <Open value={q.value} schema={q.schema} answer={(v) => take(q, v)} busy={busy} />}
            </div>
          </article>
        );
      })}
    </section>
  );
}

type Action = { name: string; args: Json; description?: string };
type Review = { action_name: string; allowed_decisions: string[]; args_schema?: Schema };
type Request = { action_requests: Action[]; review_configs?: Review[] };

function isApproval(v: Json): v is Request & JsonObject {
  return isObject(v) && Array.isArray(v.action_requests) && v.action_requests.length > 0 && v.action_requests.every((a) => isObject(a) && typeof a.name === "string");
}

type Decision = { type: string; message: string; args: Json };
const verbs: Record<string, string> = { approve: "Approve", edit: "Edit", reject: "Reject", respond: "Respond" };

function Approval({ request, answer, busy }: { request: Request; answer: (v: Json) => void; busy: boolean }) {
  const reviews = request.action_requests.map((a, i) => (request.review_configs?.[i]?.action_name === a.name ? request.review_configs[i] : request.review_configs?.find((r) => r.action_name === a.name)));
  const allowed = (i: number) => (reviews[i]?.allowed_decisions?.length ? reviews[i].allowed_decisions : ["approve", "edit", "reject"]);
  const [decisions, decide] = useState<Decision[]>(() => request.action_requests.map((a, i) => ({ type: allowed(i)[0]!, message: "", args: a.args })));
  const [bad, setBad] = useState<Record<string, boolean>>({});
  const change = (i: number, d: Partial<Decision>) => decide((all) => all.map((o, j) => (j === i ? { ...o, ...d } : o)));
  const send = () => answer({
    decisions: decisions.map((d, i): Json => {
      switch (d.type) {
        case "edit": return { type: "edit", edited_action: { name: request.action_requests[i]!.name, args: d.args } };
        case "approve": return { type: "approve" };
        default: return d.message ? { type: d.type, message: d.message } : { type: d.type };
      }
    }),
  });
  const only = decisions.length === 1 ? decisions[0]!.type : undefined;
  const one = only === undefined ? `Send ${decisions.length} decisions` : only === "edit" ? "Call it like this" : verbs[only] ?? only;
  const missing = decisions.some((d) => d.type === "respond" && !d.message.trim());
  return (
    <div className="answer">
      {request.action_requests.map((a, i) => {
        const d = decisions[i]!, schema = reviews[i]?.args_schema;
        return (
          <div className="action" key={i} role="group" aria-label={`Call of ${a.name}`}>
            <p className="action-name">May <code>{a.name}</code> be called?</p>
            {a.description && <p className="hint">{a.description}</p>}
            <Choices label={`Decision about ${a.name}`} options={allowed(i).map((t) => [t, verbs[t] ?? t])} chosen={d.type} choose={(type) => change(i, { type })} />
            {d.type === "edit"
              ? schema && fieldOf(schema, schema).kind === "object"
                ? <Form schema={schema} value={d.args} onChange={(v) => change(i, { args: v ?? {} })} onError={(p, m) => setBad((b) => ({ ...b, [i + p]: !!m }))} />
                : <JsonInput aria-label={`Arguments of ${a.name}`} value={d.args} onChange={(v) => change(i, { args: v ?? {} })} onError={(m) => setBad((b) => ({ ...b, [i]: !!m }))} />
              : <Members value={a.args} />}
            {(d.type === "reject" || d.type === "respond") && (
              <label className="field">{d.type === "reject" ? "Why (optional)" : "What to say instead of calling it"}
                <textarea rows={2} value={d.message} onChange={(e) => change(i, { message: e.target.value })} />
              </label>
            )}
          </div>
        );
      })}
      <div className="actions"><Button kind={decisions.every((d) => d.type === "reject") ? "danger" : "primary"} disabled={busy || missing || Object.values(bad).some(Boolean)} onClick={send}>{one}</Button></div>
    </div>
  );
}

// Choices are few things of which one is chosen, with the arrow keys too.
export function Choices<T extends string>({ label, options, chosen, choose }: { label: string; options: [T, string][]; chosen: T; choose: (t: T) => void }) {
  return (
    <div className="choices" role="radiogroup" aria-label={label} onKeyDown={(e) => {
      const step = e.key === "ArrowRight" || e.key === "ArrowDown" ? 1 : e.key === "ArrowLeft" || e.key === "ArrowUp" ? -1 : 0;
      if (!step) return;
      e.preventDefault();
      const i = options.findIndex(([t]) => t === chosen), next = (i + step + options.length) % options.length;
      choose(options[next]![0]);
      (e.currentTarget.children[next] as HTMLElement).focus();
    }}>
      {options.map(([t, l]) => <button type="button" role="radio" aria-checked={chosen === t} tabIndex={chosen === t ? 0 : -1} key={t} onClick={() => choose(t)}>{l}</button>)}
    </div>
  );
}

const headings = ["question", "message", "text", "prompt", "title"];

// headingOf is what a question says in words, if it does.
export function headingOf(value: Json): string | undefined {
  if (typeof value === "string") return value;
  return isObject(value) ? headings.map((h) => value[h]).find((v) => typeof v === "string") : undefined;
}

// An Open question is answered as its schema says, or with anything.
function Open({ value, schema, answer, busy }: { value: Json; schema?: Schema; answer: (v: Json) => void; busy: boolean }) {
  const heading = headingOf(value);
  const rest = isObject(value) ? Object.fromEntries(Object.entries(value).filter(([k, v]) => !(headings.includes(k) && v === heading))) : value;
  const kind = schema ? fieldOf(schema, schema).kind : "json";
  return (
    <div className="answer">
      {heading !== undefined && <p className="question-text">{heading}</p>}
      {typeof value !== "string" && value !== null && (!isObject(rest) || Object.keys(rest).length > 0) && <Members value={rest} />}
      {schema && kind !== "json" ? <Fitting schema={schema} answer={answer} busy={busy} /> : <Anything start={isObject(value) && Object.keys(rest as JsonObject).length > 0 ? rest : undefined} schema={schema} answer={answer} busy={busy} />}
    </div>
  );
}

// Fitting takes an answer that has a schema: in a form, or as JSON.
function Fitting({ schema, answer, busy }: { schema: Schema; answer: (v: Json) => void; busy: boolean }) {
  const f = fieldOf(schema, schema);
  const [how, setHow] = useState<"form" | "json">("form");
  const [draft, setDraft] = useState<Json | undefined>(f.fallback ?? (f.kind === "object" ? {} : undefined));
  const [bad, setBad] = useState<Record<string, boolean>>({});
  const wrong = Object.values(bad).some(Boolean);
  const id = useId();
  const yes = how === "form" && f.kind === "boolean";
  let control: ReactNode;
  if (yes) control = <div className="actions"><Button disabled={busy} onClick={() => answer(false)}>No</Button><Button kind="primary" disabled={busy} onClick={() => answer(true)}>Yes</Button></div>;
  else if (how === "json") control = <JsonInput aria-label="Answer as JSON" value={draft} onChange={setDraft} onError={(m) => setBad({ json: !!m })} />;
  else if (f.kind === "object") control = <Form schema={schema} value={draft} onChange={setDraft} onError={(p, m) => setBad((b) => ({ ...b, [p]: !!m }))} />;
  else if (f.kind === "text" && !f.format) control = <><label className="sr" htmlFor={id}>Answer</label><textarea id={id} rows={2} value={typeof draft === "string" ? draft : ""} onChange={(e) => setDraft(e.target.value)} /></>;
  else control = <Control name="Answer" schema={schema} value={draft} onChange={setDraft} onError={(p, m) => setBad((b) => ({ ...b, [p]: !!m }))} />;
  return (
    <form noValidate onSubmit={(e) => { e.preventDefault(); if (!wrong) answer(draft ?? (f.kind === "text" ? "" : f.kind === "list" ? [] : null)); }}>
      {control}
      <div className="actions">
        <button type="button" className="link" onClick={() => { setHow(how === "form" ? "json" : "form"); setBad({}); }}>{how === "form" ? "As JSON" : "As a form"}</button><span className="grow" />
        {!yes && <Button kind="primary" type="submit" disabled={busy || wrong}>Answer</Button>}
      </div>
    </form>
  );
}

function Anything({ start, schema, answer, busy }: { start?: Json; schema?: Schema; answer: (v: Json) => void; busy: boolean }) {
  const typed = schema && Object.keys(schema).length > 0; // it says something that no form fits
  const [kind, setKind] = useState<"yes" | "text" | "json">(typed ? "json" : "yes");
  const [text, setText] = useState("");
  const [json, setJson] = useState<Json | undefined>(start);
  const [bad, setBad] = useState(false);
  return (
    <>
      {!typed && <Choices label="Kind of answer" options={[["yes", "Yes or no"], ["text", "Text"], ["json", "JSON"]]} chosen={kind} choose={setKind} />}
      {kind === "yes" && <div className="actions"><Button disabled={busy} onClick={() => answer(false)}>No</Button><Button kind="primary" disabled={busy} onClick={() => answer(true)}>Yes</Button></div>}
      {kind === "text" && <form onSubmit={(e) => { e.preventDefault(); answer(text); }}><textarea aria-label="Answer" rows={3} value={text} onChange={(e) => setText(e.target.value)} /><div className="actions"><Button kind="primary" type="submit" disabled={busy}>Answer</Button></div></form>}
      {kind === "json" && <form onSubmit={(e) => { e.preventDefault(); if (!bad) answer(json ?? null); }}><JsonInput aria-label="Answer as JSON" value={json} onChange={setJson} onError={(m) => setBad(!!m)} /><div className="actions"><Button kind="primary" type="submit" disabled={busy || bad}>Answer</Button></div></form>}
    </>
  );
}
