// A replay of a thread: where its graph, as it is now, parts from what was recorded.
import { useEffect, useRef, useState } from "react";
import { replayThread, words } from "./api";
import { kindOf, namesIn, outcomeOf, whereOf, type Replay } from "./replays";
import { Side } from "./Timeline";
import { Button, Dialog, Problem, Spinner } from "./ui";

export default function ReplayDialog({ thread, close, open }: { thread: string; close: () => void; open: (checkpoint: string) => void }) {
  const [take, setTake] = useState("");
  const [ignore, setIgnore] = useState("");
  const [found, setFound] = useState<Replay>();
  const [problem, setProblem] = useState<string>();
  const [busy, setBusy] = useState(false);
  const asking = useRef<AbortController>(undefined);
  useEffect(() => () => asking.current?.abort(), []);
  const replay = async () => {
    const abort = (asking.current = new AbortController());
    setBusy(true);
    setProblem(undefined);
    try {
      setFound(await replayThread(thread, { take_recorded: namesIn(take), ignore_fields: namesIn(ignore) }, abort.signal));
    } catch (e) {
      setFound(undefined);
      if (!abort.signal.aborted) setProblem(words(e));
    }
    setBusy(false);
  };
  return (
    <Dialog title="Replay" close={close} wide>
      <p className="hint">Runs the graph as it is now against what was recorded of this thread. Nothing is stored. What nodes do outside of Once they do again.</p>
      <form onSubmit={(e) => { e.preventDefault(); void replay(); }}>
        <label className="field">Take what was recorded of nodes <span className="hint">that call out by themselves, with commas between them</span><input value={take} placeholder="search, research/look" onChange={(e) => setTake(e.target.value)} /></label>
        <label className="field">Don't compare fields <input value={ignore} placeholder="updated_at" onChange={(e) => setIgnore(e.target.value)} /></label>
        <div className="actions">{busy && <Spinner label="Replaying" />}<Button type="submit" kind="primary" icon="play" disabled={busy}>{found || problem ? "Replay again" : "Replay"}</Button></div>
      </form>
      {problem && <Problem text={problem} />}
      {found && !busy && <>
        <p role="status"><strong>{outcomeOf(found)}</strong></p>
        {found.error && <Problem text={found.error.message} />}
        {found.differences.length > 0 && (
          <ol className="differences" aria-label="Differences">
            {found.differences.map((d, i) => (
              <li key={i}>
                <p><span className="badge">{d.kind}</span> <strong>{kindOf(d)}</strong> <span className="hint">{whereOf(d)}</span> <span className="grow" /><button type="button" className="link" onClick={() => open(d.checkpoint)}>Show in the timeline</button></p>
                <span className="sr">recorded</span><Side value={d.want} kind="minus" />
                <span className="sr">now</span><Side value={d.got} kind="plus" />
              </li>
            ))}
          </ol>
        )}
      </>}
    </Dialog>
  );
}
