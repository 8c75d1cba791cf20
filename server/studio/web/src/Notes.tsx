// What people think of a thread and its runs.
import { useState } from "react";
import { feedbackOn, giveFeedback, removeFeedback, words } from "./api";
import { Button, Empty, IconButton, Problem, Spinner, useAsync, When } from "./ui";

export default function Notes({ thread, run }: { thread: string; run?: string }) {
  const { data, error, reload } = useAsync((signal) => feedbackOn(thread, signal), [thread]);
  const [key, setKey] = useState("");
  const [score, setScore] = useState("");
  const [comment, setComment] = useState("");
  const [ofRun, setOfRun] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  const act = async (what: Promise<unknown>, then?: () => void) => {
    setBusy(true);
    try {
      await what;
      setProblem(undefined);
      then?.();
      reload();
    } catch (e) { setProblem(words(e)); }
    setBusy(false);
  };
  const give = () => act(
    giveFeedback(thread, { comment, ...(key.trim() ? { key: key.trim() } : {}), ...(score.trim() ? { score: Number(score) } : {}), ...(ofRun && run ? { run_id: run } : {}) }),
    () => { setScore(""); setComment(""); },
  );
  return (
    <div className="notes">
      <form className="notes-form" aria-label="A note" onSubmit={(e) => { e.preventDefault(); void give(); }}>
        <label>What do you think? <textarea rows={3} value={comment} onChange={(e) => setComment(e.target.value)} /></label>
        <div className="notes-score">
          <label>Score of <input value={key} placeholder="correctness" onChange={(e) => setKey(e.target.value)} /></label>
          <label>Score <input type="number" step="any" value={score} onChange={(e) => setScore(e.target.value)} /></label>
          {run && <label className="check"><input type="checkbox" checked={ofRun} onChange={(e) => setOfRun(e.target.checked)} /> of the last run alone</label>}
          <Button type="submit" kind="primary" disabled={busy || !comment.trim() && !score.trim()}>Add</Button>
        </div>
        {problem && <Problem text={problem} dismiss={() => setProblem(undefined)} />}
      </form>
      {error !== undefined && !data && <Problem text={words(error)} retry={reload} />}
      {!data && error === undefined && <div className="center"><Spinner label="Loading the notes" /></div>}
      {data?.length === 0 && <Empty title="No notes yet"><p>Notes and scores stay with the thread, for all who see it.</p></Empty>}
      {data && data.length > 0 && (
        <ul className="notes-list" aria-label="Notes, the newest first">
          {data.map((f) => (
            <li key={f.feedback_id}>
              <div>
                {f.score !== null && <p><b>{f.key}: {f.score}</b></p>}
                {f.comment && <p className="call-text">{f.score === null && f.key && <b>{f.key}: </b>}{f.comment}</p>}
                <p className="hint">{f.user_id && `${f.user_id} · `}<When at={f.created_at} />{f.run_id && ` · of the run ${f.run_id.slice(-8)}`}</p>
              </div>
              <IconButton icon="trash" label={`Remove the note ${f.key || f.comment.slice(0, 30)}`} disabled={busy} onClick={() => void act(removeFeedback(thread, f.feedback_id))} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
