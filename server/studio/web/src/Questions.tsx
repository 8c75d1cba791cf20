// What a thread waits for, and how people answer.
import { useState } from "react";
import type { Interrupt } from "./api";
import { Form, JsonInput } from "./Form";
import { isObject, type Json, type JsonObject } from "./json";
import { fieldOf, type Schema } from "./schema";
import { Button, Members } from "./ui";

type Question = Interrupt & { node: string };

// Questions takes an answer to each, and gives all at once: by their IDs.
export function Questions({ questions, answer, busy, past }: { questions: Question[]; answer: (byId: JsonObject) => void; busy: boolean; past?: boolean }) {
  const [given, give] = useState<JsonObject>({});
  const open = questions.filter((q) => !(q.id in given));
  const take = (q: Question, value: Json) => {
    const all = { ...given, [q.id]: value };
    if (questions.every((o) => o.id in all)) answer(all);
    give(all);
  };
  return (
    <section className="questions" aria-label="Questions">
      {open.map((q) => (
        <article className="question" key={q.id}>
          <header><span className="badge">{past ? "Was asked" : "Waits for you"}</span><span className="hint">{q.node}{questions.length > 1 && ` · ${questions.length - open.length} of ${questions.length} answered`}</span></header>
          {isApproval(q.value) ? <Approval request={q.value} answer={(v) => take(q, v)} busy={busy} /> : <Open value={q.value} answer={(v) => take(q, v)} busy={busy} />}
        </article>
      ))}
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
  const reviews = request.action_requests.map((a, i) => request.review_configs?.find((r) => r.action_name === a.name) ?? request.review_configs?.[i]);
  const [decisions, decide] = useState<Decision[]>(() => request.action_requests.map((a, i) => ({ type: reviews[i]?.allowed_decisions?.[0] ?? "approve", message: "", args: a.args })));
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
  const one = only === undefined ? "Send decisions" : only === "edit" ? "Call it like this" : verbs[only] ?? only;
  const missing = decisions.some((d) => d.type === "respond" && !d.message);
  return (
    <>
      {request.action_requests.map((a, i) => {
        const d = decisions[i]!, review = reviews[i];
        const schema = review?.args_schema;
        return (
          <div className="action" key={i}>
            <p className="action-name">May <code>{a.name}</code> be called?</p>
            {a.description && <p className="hint">{a.description}</p>}
            <div className="choices" role="radiogroup" aria-label={`Decision about ${a.name}`}>
              {(review?.allowed_decisions?.length ? review.allowed_decisions : ["approve", "edit", "reject"]).map((t) => (
                <button type="button" role="radio" aria-checked={d.type === t} key={t} onClick={() => change(i, { type: t })}>{verbs[t] ?? t}</button>
              ))}
            </div>
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
    </>
  );
}

const headings = ["question", "message", "text", "prompt", "title"];

// An Open question may be answered with anything.
function Open({ value, answer, busy }: { value: Json; answer: (v: Json) => void; busy: boolean }) {
  const heading = typeof value === "string" ? value : isObject(value) ? headings.map((h) => value[h]).find((v) => typeof v === "string") : undefined;
  const rest = isObject(value) ? Object.fromEntries(Object.entries(value).filter(([k, v]) => !(headings.includes(k) && v === heading))) : value;
  const [kind, setKind] = useState<"yes" | "text" | "json">("yes");
  const [text, setText] = useState("");
  const [json, setJson] = useState<Json | undefined>(isObject(value) ? rest : undefined);
  const [bad, setBad] = useState(false);
  return (
    <>
      {typeof heading === "string" && <p className="question-text">{heading}</p>}
      {typeof value !== "string" && value !== null && (!isObject(rest) || Object.keys(rest).length > 0) && <Members value={rest} />}
      <div className="choices" role="radiogroup" aria-label="Kind of answer">
        {([["yes", "Yes or no"], ["text", "Text"], ["json", "Data"]] as const).map(([k, l]) => <button type="button" role="radio" aria-checked={kind === k} key={k} onClick={() => setKind(k)}>{l}</button>)}
      </div>
      {kind === "yes" && <div className="actions"><Button disabled={busy} onClick={() => answer(false)}>No</Button><Button kind="primary" disabled={busy} onClick={() => answer(true)}>Yes</Button></div>}
      {kind === "text" && <form onSubmit={(e) => { e.preventDefault(); answer(text); }}><textarea aria-label="Answer" rows={3} value={text} onChange={(e) => setText(e.target.value)} /><div className="actions"><Button kind="primary" type="submit" disabled={busy}>Answer</Button></div></form>}
      {kind === "json" && <form onSubmit={(e) => { e.preventDefault(); answer(json ?? null); }}><JsonInput aria-label="Answer as JSON" value={json} onChange={setJson} onError={(m) => setBad(!!m)} /><div className="actions"><Button kind="primary" type="submit" disabled={busy || bad}>Answer</Button></div></form>}
    </>
  );
}
