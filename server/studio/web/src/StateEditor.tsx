// Editing a state, which makes a checkpoint of its own.
import { useState } from "react";
import { Form, JsonInput } from "./Form";
import { diff, isObject, weigh, type Json, type JsonObject } from "./json";
import { fieldOf, type Schema } from "./schema";
import { Choices } from "./Questions";
import { Changes } from "./Timeline";
import { Button, Dialog, Problem } from "./ui";

const mostForm = 100_000; // characters; a larger state is faster to edit as JSON

export function StateEditor({ title, values, next, nodes, state, asNode = "", asks, runs = true, saves = "Save as a fork", problem, close, save }: {
  title: string; values: JsonObject; next: string[]; nodes: string[]; state: Schema; asNode?: string; asks: boolean; runs?: boolean; saves?: string; problem?: string; close: () => void;
  save: (values: JsonObject, asNode: string, run: boolean) => Promise<boolean>;
}) {
  const formable = fieldOf(state, state).kind === "object";
  const [how, setHow] = useState<"form" | "json">(formable && weigh(values, mostForm) < mostForm ? "form" : "json");
  const [draft, setDraft] = useState<Json | undefined>(values);
  const [node, setNode] = useState(asNode);
  const [bad, setBad] = useState<Record<string, boolean>>({});
  const [busy, setBusy] = useState(false);
  const [old] = useState(problem); // of the run, not of saving
  const object = isObject(draft) ? draft : undefined;
  const changes = object ? diff(values, object) : [];
  const gone = object ? Object.keys(values).filter((k) => !(k in object)) : [];
  const wrong = !object || Object.values(bad).some(Boolean);
  const send = async (run: boolean) => {
    setBusy(true);
    const done = await save(object!, node, run);
    setBusy(false);
    if (done) close();
  };
  return (
    <Dialog title={title} close={close} wide>
      {formable && (
        <Choices label="How to edit" options={[["form", "Form"], ["json", "JSON"]]} chosen={how} choose={setHow} />
      )}
      {how === "form"
        ? <Form schema={state} value={draft} onChange={setDraft} onError={(p, m) => setBad((b) => ({ ...b, [p]: !!m }))} />
        : <JsonInput aria-label="State as JSON" rows={12} value={draft} onChange={setDraft} onError={(m) => setBad((b) => ({ ...b, "": !!m }))} />}
      {nodes.length > 0 && <label className="field">As if written by
        <select value={node} onChange={(e) => setNode(e.target.value)}>
          <option value="">nobody: {next.length > 0 ? `${next.join(", ")} still to come` : "nothing follows"}</option>
          {nodes.map((n) => <option key={n} value={n}>{n}, so that what follows it comes next</option>)}
        </select>
      </label>}
      {asks && !node && <p className="hint">The question that waits stays as it was asked.</p>}
      {gone.length > 0 && <p className="hint">What is left out keeps its value: {gone.join(", ")}.</p>}
      {changes.length > 0 && <details className="review"><summary>{changes.length} {changes.length === 1 ? "change" : "changes"}</summary><Changes changes={changes} /></details>}
      {problem && problem !== old && <Problem text={problem} />}
      <div className="actions">
        <Button kind={runs ? undefined : "primary"} onClick={() => void send(false)} disabled={wrong || busy || (changes.length === 0 && !node)}>{saves}</Button>
        {runs && <Button kind="primary" icon="play" onClick={() => void send(true)} disabled={wrong || busy}>Save and run</Button>}
      </div>
    </Dialog>
  );
}
