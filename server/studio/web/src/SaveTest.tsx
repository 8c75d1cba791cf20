// A thread becomes a test: an example of a data set, or a recording with the test that replays it.
import { useState } from "react";
import { recordingOf, words } from "./api";
import { goTest, outputOf, type Call, type Case } from "./evals";
import { dataSets, putCase, casesOf } from "./evaluate";
import { ExampleForm, nameHint, namePattern } from "./Example";
import type { Moment } from "./history";
import { isObject, type Json, type JsonObject } from "./json";
import { conversation } from "./messages";
import { format } from "./route";
import { Button, Dialog, download, Problem, useAsync } from "./ui";

// turnOf is the last turn of a thread as a case: the state with which it began is the input,
// and what came of it is expected.
export function turnOf(line: Moment[], thread: string, graph: string, title: string): Case {
  const source = (m: Moment) => (m.state.metadata as { source?: string } | null)?.source;
  const began = line.findLast((m) => source(m) === "input") ?? line[0], end = line.at(-1);
  // What is as a state has it at first need not be said.
  const given = Object.fromEntries(Object.entries((began?.state.values ?? {}) as JsonObject).filter(([k, v]) => k !== "model_usage" && !blank(v)));
  const values = (end?.state.values ?? {}) as JsonObject;
  const known = new Set(conversation(given).map((m) => m.id));
  const made = conversation(values).filter((m) => !known.has(m.id));
  const said = conversation(given), only = said.length === 1 && said[0]!.type === "human" && typeof said[0]!.content === "string" && Object.keys(given).length === 1;
  const calls: Call[] = made.flatMap((m) => m.toolCalls.map((c) => ({ tool: c.name, args: c.args })));
  const structured = isObject(values.structured_response) ? values.structured_response : undefined;
  return {
    name: title || thread, input: only ? (said[0]!.content as string) : (given as Json), output: structured ?? outputOf(values),
    ...(conversation(values).length ? { trajectory: calls } : {}), metadata: { graph, thread },
  };
}

const blank = (v: Json) => v === null || v === "" || v === 0 || v === false || Array.isArray(v) && v.length === 0 || isObject(v) && Object.keys(v).length === 0;

export default function SaveTest({ thread, graph, title, line, close }: { thread: string; graph: string; title: string; line: Moment[]; close: () => void }) {
  const [as, setAs] = useState<"example" | "recording">("example");
  const [set, setSet] = useState("");
  const [saved, setSaved] = useState<{ set: string; name: string }>();
  const [problem, setProblem] = useState<string>();
  const [busy, setBusy] = useState(false);
  const [example] = useState(() => turnOf(line, thread, graph, title));
  const sets = useAsync(() => dataSets(), []);
  const answered = line.some((m) => m.parent?.tasks.some((t) => t.interrupts.length > 0));
  const save = async (c: Case) => {
    setBusy(true);
    try {
      if ((await casesOf(set.trim())).some((x) => x.name === c.name)) throw new Error(`The data set has an example ${c.name} already: give this one another name.`);
      await putCase(set.trim(), c);
      setSaved({ set: set.trim(), name: c.name });
      setProblem(undefined);
    } catch (e) { setProblem(words(e)); }
    setBusy(false);
  };
  const record = () => recordingOf(thread).then((text) => { download(`${thread}.jsonl`, text, "application/jsonl"); setProblem(undefined); }, (e: unknown) => setProblem(words(e)));
  const code = goTest(`${thread}.jsonl`, graph);
  return (
    <Dialog title="Save as test" close={close} wide>
      <div className="choices" role="radiogroup" aria-label="Save as">
        {(["example", "recording"] as const).map((k) => <button key={k} type="button" role="radio" aria-checked={as === k} onClick={() => setAs(k)}>{k === "example" ? "Example of a data set" : "Recording"}</button>)}
      </div>
      {problem && <Problem text={problem} dismiss={() => setProblem(undefined)} />}
      {saved ? <>
        <p role="status">Saved as {saved.name} in <a href={format({ page: "tests", set: saved.set, shown: [] })}>{saved.set}</a>.</p>
        <div className="actions"><Button kind="primary" onClick={close}>Close</Button></div>
      </> : as === "example" ? <>
        <p className="hint">The last turn: what it began with is the input, what came of it is expected. Evaluations run it with any assistant.{answered && " Questions were answered in it: a file of the data set can have the “answers”, in their order."}</p>
        <ExampleForm example={example} busy={busy} close={close} save={(c) => void save(c)} saveLabel="Save" above={
          <label className="field">Data set <span className="hint">one that there is, or a new one</span><input required autoFocus list="data-sets" pattern={namePattern} title={nameHint} value={set} onChange={(e) => setSet(e.target.value)} /><datalist id="data-sets">{sets.data?.map((n) => <option key={n} value={n} />)}</datalist></label>
        } />
      </> : <>
        <p className="hint">All checkpoints, with what was noted of calls. A replay runs your program against them, calls no model, and names the first difference. Put the file in <code>testdata</code> beside a test:</p>
        <pre className="test-text" tabIndex={0}><code>{code}</code></pre>
        <div className="actions"><Button icon="copy" onClick={() => void navigator.clipboard.writeText(code)}>Copy the test</Button><Button kind="primary" onClick={() => void record()}>Save the recording</Button></div>
      </>}
    </Dialog>
  );
}
