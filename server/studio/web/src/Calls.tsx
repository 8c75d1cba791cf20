// The calls of models that a thread's nodes have made: what was sent, and what was answered.
import { useEffect, useMemo, useRef, useState } from "react";
import { askAgain, asksAgain, callOf, words } from "./api";
import { differences, dollars, pathOf, sent, spent, type Call } from "./calls";
import { JsonInput } from "./Form";
import { isObject, type Json } from "./json";
import { messageOf, textOf, type Message } from "./messages";
import { Changes, Tokens } from "./Timeline";
import { Button, duration, Empty, Members, Problem, Spinner, useAsync, When } from "./ui";

export type Recorded = { calls: Call[]; more: boolean; older: () => void; loading: boolean; error?: unknown; reload: () => void };

export default function Calls({ thread, recorded }: { thread: string; recorded: Recorded }) {
  const [open, setOpen] = useState<string>();
  const [against, compare] = useState<string>();
  const sum = useMemo(() => spent(recorded.calls), [recorded.calls]);
  if (recorded.error !== undefined) return <Problem text={words(recorded.error)} retry={recorded.reload} />;
  if (recorded.calls.length === 0) return recorded.loading ? <div className="center"><Spinner label="Loading the calls of models" /></div> : <Empty title="No calls of models"><p>What nodes ask models, and what these answer, is shown here. A graph that was compiled with calls.Off records none.</p></Empty>;
  const one = recorded.calls.find((c) => c.call_id === open), other = recorded.calls.find((c) => c.call_id === against);
  return (
    <div className="calls">
      <p className="hint calls-sum">{recorded.calls.length}{recorded.more && "+"} {recorded.calls.length === 1 ? "call" : "calls"} · <Tokens usage={sum} />{sum.cost !== undefined && <> · {dollars(sum.cost)}</>}</p>
      <ol className="call-list" aria-label="Calls of models, the newest first">
        {recorded.calls.map((c) => (
          <li key={c.call_id} className={c.error ? "is-failed" : ""}>
            <button type="button" className="call-head" aria-expanded={c.call_id === open} onClick={() => { setOpen(c.call_id === open ? undefined : c.call_id); compare(undefined); }}>
              <span className="call-name">{pathOf(c).join(" › ")} <span className="hint">step {c.step}{c.attempt > 1 && `, attempt ${c.attempt}`}</span></span>
              <span className="hint">{c.model || "a model without a name"}</span>
              <span className="call-figures hint">{c.usage && <Tokens usage={{ input: c.usage.input_tokens, output: c.usage.output_tokens }} />} {c.cost !== null && dollars(c.cost)} <span title={c.first_token === null ? undefined : `the first token after ${duration(c.first_token * 1000)}`}>{duration(c.took * 1000)}</span>{c.cached && " · from a cache"}</span>
              {c.error && <span className="field-problem call-error">{c.error}</span>}
            </button>
            {c.call_id === open && one && <Whole thread={thread} call={one} others={recorded.calls} against={other} compare={compare} />}
          </li>
        ))}
      </ol>
      {recorded.more && <Button kind="quiet" onClick={recorded.older}>Older calls</Button>}
    </div>
  );
}

function Whole({ thread, call, others, against, compare }: { thread: string; call: Call; others: Call[]; against?: Call; compare: (id: string | undefined) => void }) {
  const { data, error, reload } = useAsync(async (signal) => {
    const [one, other] = await Promise.all([callOf(thread, call.call_id, signal), against && callOf(thread, against.call_id, signal)]);
    return { one, other };
  }, [thread, call.call_id, against?.call_id]);
  if (error !== undefined && !data) return <Problem text={words(error)} retry={reload} />;
  if (!data) return <div className="center"><Spinner label="Loading the call" /></div>;
  const { messages, tools, settings } = sent(data.one);
  const answer = messageOf(data.one.answer);
  const u = data.one.usage;
  return (
    <div className="call-body">
      <p className="hint"><When at={call.began_at} />{call.provider && ` · ${call.provider}`}{call.first_token !== null && ` · first token after ${duration(call.first_token * 1000)}`}{call.finish && ` · ended by ${call.finish}`}{u && u.cache_read_tokens > 0 && ` · ${u.cache_read_tokens} tokens from the provider's cache`}{u && u.reasoning_tokens > 0 && ` · ${u.reasoning_tokens} tokens of reasoning`}</p>
      {others.length > 1 && <label className="call-compare">Compare with <select value={against?.call_id ?? ""} onChange={(e) => compare(e.target.value || undefined)}>
        <option value="">no other</option>
        {others.filter((o) => o.call_id !== call.call_id).map((o) => <option key={o.call_id} value={o.call_id}>{pathOf(o).join(" › ")}, step {o.step}, {new Date(o.began_at).toLocaleTimeString()}</option>)}
      </select></label>}
      {against && data.other
        ? <section aria-label="Differences"><h3>What differs from that call to this</h3>{differences(data.other, data.one).length === 0 ? <p className="hint">Nothing but IDs and figures.</p> : <Changes changes={differences(data.other, data.one)} />}</section>
        : <>
          <section aria-label="Sent"><h3>Sent</h3>{messages.map((m, i) => <Said key={i} m={m} />)}</section>
          {tools.length > 0 && <details><summary>{tools.length} {tools.length === 1 ? "tool" : "tools"}: {tools.map((t) => String(t.name)).join(", ")}</summary>{tools.map((t, i) => <Members key={i} value={t} open={1} />)}</details>}
          {Object.keys(settings).length > 0 && <details><summary>Settings</summary><Members value={settings} open={1} /></details>}
          <section aria-label="Answered"><h3>Answered</h3>{answer ? <Said m={answer} /> : <p className="field-problem">{call.error ?? "nothing"}</p>}</section>
          <Again thread={thread} call={data.one} />
        </>}
    </div>
  );
}

// Again asks the model of a call once more, in other words, where the server does that.
function Again({ thread, call }: { thread: string; call: Call }) {
  const { data: may } = useAsync(asksAgain, []);
  const [request, setRequest] = useState<Json>();
  const [unread, setUnread] = useState<string>();
  const [problem, setProblem] = useState<string>();
  const [answered, setAnswered] = useState<Call>();
  const asking = useRef<AbortController>(undefined);
  const [busy, setBusy] = useState(false);
  useEffect(() => () => asking.current?.abort(), []);
  if (!may) return null;
  if (request === undefined) return <Button icon="retry" onClick={() => setRequest(call.request ?? {})}>Edit and ask again</Button>;
  const send = () => {
    asking.current = new AbortController();
    setBusy(true);
    setAnswered(undefined);
    setProblem(undefined);
    askAgain(thread, call.call_id, request, asking.current.signal).then(
      (c) => setAnswered({ ...c, request: isObject(request) ? request : undefined }), (e: unknown) => setProblem(words(e)),
    ).finally(() => setBusy(false));
  };
  const answer = answered && messageOf(answered.answer);
  return (
    <section aria-label="Ask again"><h3>Ask again</h3>
      <p className="hint">The model of this call is asked what stands here. The thread stays as it is, and nothing of it is recorded.</p>
      <JsonInput aria-label="What to ask" value={request} onChange={(v) => setRequest(v ?? {})} onError={setUnread} rows={8} />
      {problem && <p className="field-problem" role="alert">{problem}</p>}
      <div className="actions"><Button kind="primary" disabled={busy || unread !== undefined} onClick={send}>Ask</Button><Button kind="quiet" onClick={() => { asking.current?.abort(); setRequest(undefined); setUnread(undefined); setProblem(undefined); setAnswered(undefined); }}>Close</Button>{busy && <Spinner label="The model is asked" />}</div>
      {answered && <>
        <p className="hint">{answered.model || "a model without a name"} · {answered.usage && <Tokens usage={{ input: answered.usage.input_tokens, output: answered.usage.output_tokens }} />} {answered.cost !== null && dollars(answered.cost)} · {duration(answered.took * 1000)}</p>
        {answer ? <Said m={answer} /> : <p className="field-problem" role="alert">{answered.error ?? "nothing"}</p>}
        {differences(call, answered).length > 0 && <details><summary>What differs from the call</summary><Changes changes={differences(call, answered)} /></details>}
      </>}
    </section>
  );
}

const speakers = { human: "User", ai: "Model", tool: "Tool", system: "System" };

function Said({ m }: { m: Message }) {
  const text = textOf(m.content);
  const parts: Json[] = Array.isArray(m.content) ? m.content.filter((p) => isObject(p) && p.type !== "text") : [];
  return (
    <div className={`call-said said-${m.type}`}>
      <h4>{speakers[m.type]}{m.name && ` · ${m.name}`}</h4>
      {text && <p className="call-text">{text}</p>}
      {parts.map((p, i) => <Members key={i} value={p} open={0} />)}
      {m.toolCalls.map((t, i) => <div key={i} className="call-tool"><strong>{t.name}</strong><Members value={t.args} open={1} /></div>)}
    </div>
  );
}
