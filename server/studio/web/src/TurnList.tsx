// A conversation with a dialogue, turn by turn: why it went as it did.
import { useEffect, useRef, useState } from "react";
import { testOf, words } from "./api";
import { began, linesOf, type Turn } from "./turns";
import { Button, Dialog, download, Empty, Problem, Spinner, useAsync } from "./ui";

export type Talk = { turns: Turn[]; more: boolean; loading: boolean; error?: unknown; reload: () => void; older: () => void };

export default function TurnList({ thread, talk, at, select, running }: { thread?: string; talk: Talk; at?: number; select: (turn: number | undefined) => void; running: boolean }) {
  const [testing, test] = useState(false);
  const end = useRef<HTMLDivElement>(null);
  const last = talk.turns.at(-1)?.turn;
  useEffect(() => { if (at === undefined) end.current?.scrollIntoView({ block: "end" }); }, [last, at]);
  if (talk.error !== undefined && talk.turns.length === 0) return <Problem text={words(talk.error)} retry={talk.reload} />;
  if (talk.turns.length === 0) return talk.loading && thread ? <div className="center"><Spinner label="Loading the turns" /></div> : <Empty title="No turns yet"><p>What is said, how it is understood and what follows from it is listed here.</p></Empty>;
  return (
    <div className="turns">
      <div className="turns-bar">
        <span className="hint">{last} {last === 1 ? "turn" : "turns"}</span>
        <span className="grow" />
        <Button icon="check" disabled={running || !talk.turns.some((t) => t.ended)} onClick={() => test(true)}>Make this conversation a test</Button>
      </div>
      {talk.more && <Button kind="quiet" onClick={talk.older}>Earlier turns</Button>}
      <ol>{talk.turns.map((t) => <TurnView key={t.turn} turn={t} selected={t.turn === at} select={() => select(t.turn === at ? undefined : t.turn)} />)}</ol>
      <div ref={end} />
      {testing && <TestDialog thread={thread!} close={() => test(false)} />}
    </div>
  );
}

function TurnView({ turn: t, selected, select }: { turn: Turn; selected: boolean; select: () => void }) {
  const lines = linesOf(t), by = began(t);
  const time = t.time && new Date(t.time);
  return (
    <li className={`turn ${selected ? "is-selected" : ""}`} data-turn={t.turn}>
      <button type="button" className="turn-head" aria-pressed={selected} title="Show the flow as it stood then" onClick={select}>
        <strong>Turn {t.turn}</strong>
        {time && <time className="hint" dateTime={t.time} title={time.toLocaleString()}>{time.toLocaleTimeString()}</time>}
        {by && <span className="badge quiet">{by}</span>}
        {t.understanding_asked && <span className="badge quiet" title="The words alone were no answer to the open question">understanding asked</span>}
        <span className="grow" />
        <span className="hint">{t.ended ? t.state.replaceAll("_", " ") : "under way"}</span>
      </button>
      {t.user.map((text, i) => <p key={i} className="turn-said">{text || "(nothing)"}</p>)}
      {lines.length > 0 && (
        <ul className="turn-lines">
          {lines.map((l, i) => (
            <li key={i} data-kind={l.kind} className={l.bad ? "is-bad" : ""}>
              <span className="turn-kind">{l.kind}</span>
              <span className="turn-what">{l.text}{l.value !== undefined && <> {l.kind === "flow" || l.kind === "branch" ? " " : l.kind === "action" ? "→ " : "= "}<span className="slot-value">{l.value === "" ? "“”" : l.value}</span></>}</span>
              {l.source && <span className={`badge quiet ${l.kind === "command" ? "is-source" : ""}`}>{l.source}</span>}
            </li>
          ))}
        </ul>
      )}
      {t.replies.map((r, i) => <p key={i} className="turn-reply">{r.role !== "assistant" && <span className="who">{r.role} </span>}{r.content}</p>)}
      {t.hidden && t.hidden.length > 0 && <p className="hint">Masked: parts of the {t.hidden.join(" and of the ")}.</p>}
    </li>
  );
}

// TestDialog shows a conversation as a test, to be kept with the assistant.
function TestDialog({ thread, close }: { thread: string; close: () => void }) {
  const { data, error, reload } = useAsync(() => testOf(thread), [thread]);
  const [copied, copy] = useState(false);
  const save = () => download(`${thread}.yaml`, data!, "application/yaml");
  const fails = data?.includes("# It doesn't hold:\n");
  return (
    <Dialog title="The conversation as a test" close={close} wide>
      <p>Keep it in the folder <code>tests</code> beside the assistant; <code>superstep dialogue test</code> runs it without a model and without its actions. Sensitive values are stand-ins.</p>
      {error !== undefined && <Problem text={words(error)} retry={reload} />}
      {!data && error === undefined && <div className="center"><Spinner label="Writing the test" /></div>}
      {data && <p className={fails ? "test-fails" : "test-holds"} role="status">{fails ? "It doesn't hold as it is: its first lines say why." : "It was run once, and holds."}</p>}
      {data && <pre className="code-block test-text" tabIndex={0} aria-label="The test">{data}</pre>}
      <div className="actions">
        <Button disabled={!data} icon="copy" onClick={() => void navigator.clipboard?.writeText(data!).then(() => copy(true), () => {})}>{copied ? "Copied" : "Copy"}</Button>
        <Button disabled={!data} kind="primary" icon="down" onClick={save}>Download</Button>
      </div>
    </Dialog>
  );
}
