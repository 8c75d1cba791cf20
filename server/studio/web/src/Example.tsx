// An example of a data set, to be written or changed.
import { useState, type ReactNode } from "react";
import type { Case, Check } from "./evals";
import { JsonInput } from "./Form";
import type { Json } from "./json";
import { Button } from "./ui";

// A namespace of the store takes no points.
export const namePattern = "[^.]*[^.\\s][^.]*";
export const nameHint = "a name without points";

// How an example is checked that says so in one way; what says more is written as JSON.
const ways: Record<string, [label: string, check?: Check[]]> = {
  expected: ["The output is the expected one"],
  part: ["The output has the expected members, and maybe more", [{ type: "exact", subset: true }]],
  contains: ["The output contains the expected text", ["contains"]],
  none: ["Only that it ends; people judge", []],
  own: ["As written…"],
};

const wayOf = (c: Case | undefined) => (!c || c.evaluators === undefined ? "expected" : Object.entries(ways).find(([, [, check]]) => check && JSON.stringify(check) === JSON.stringify(c.evaluators))?.[0] ?? "own");

export function ExampleForm({ example, above, busy, taken = [], save, remove, close, saveLabel = "Save" }: {
  example?: Case; above?: ReactNode; busy: boolean; taken?: string[]; save: (c: Case) => void; remove?: () => void; close: () => void; saveLabel?: string;
}) {
  const [name, setName] = useState(example?.name ?? "");
  const [input, setInput] = useState<Json | undefined>(example?.input ?? {});
  const [output, setOutput] = useState<Json | undefined>(example?.output);
  const [way, setWay] = useState(wayOf(example));
  const [own, setOwn] = useState<Json | undefined>((example?.evaluators ?? ["exact"]) as Json);
  const [tags, setTags] = useState(example?.tags?.join(", ") ?? "");
  const [bad, setBad] = useState<Record<string, boolean>>({});
  const double = taken.includes(name.trim());
  const needs = way === "part" || way === "contains" ? output === undefined : way === "own" && !Array.isArray(own);
  const submit = () => {
    const { evaluators: _, tags: __, output: ___, ...rest } = example ?? ({} as Case);
    const checks = way === "own" ? (own as Check[]) : ways[way]![1];
    const words = tags.split(",").map((t) => t.trim()).filter(Boolean);
    save({ ...rest, name: name.trim(), input: input!, ...(output !== undefined ? { output } : {}), ...(checks ? { evaluators: checks } : {}), ...(words.length ? { tags: words } : {}) });
  };
  return (
    <form className="example-form" onSubmit={(e) => { e.preventDefault(); submit(); }}>
      {above}
      <label className="field">Name of the example<input required value={name} aria-invalid={double} onChange={(e) => setName(e.target.value)} /></label>
      {double && <p className="field-problem" role="alert">The data set has an example of this name.</p>}
      <label className="field" htmlFor="example-input">Input <span className="hint">of the graph, in JSON; a text is what a user says</span></label>
      <JsonInput id="example-input" rows={4} required value={input} onChange={setInput} onError={(m) => setBad((b) => ({ ...b, input: !!m }))} />
      <label className="field" htmlFor="example-output">Expected output <span className="hint">in JSON; a text stands in quotation marks</span></label>
      <JsonInput id="example-output" rows={3} value={output} onChange={setOutput} onError={(m) => setBad((b) => ({ ...b, output: !!m }))} />
      <div className="field-row">
        <label className="field">Checked by<select value={way} onChange={(e) => setWay(e.target.value)}>{Object.entries(ways).map(([k, [label]]) => <option key={k} value={k}>{label}</option>)}</select></label>
        <label className="field">Tags <span className="hint">with commas between</span><input value={tags} onChange={(e) => setTags(e.target.value)} /></label>
      </div>
      {way === "own" && <>
        <label className="field" htmlFor="example-checks">Evaluators <span className="hint">a list, such as {'["exact", {"type": "trajectory", "mode": "superset"}]'}</span></label>
        <JsonInput id="example-checks" rows={3} value={own} onChange={setOwn} onError={(m) => setBad((b) => ({ ...b, own: !!m }))} />
      </>}
      <div className="actions">{remove && <Button kind="danger" icon="trash" disabled={busy} onClick={remove}>Remove</Button>}<span className="grow" /><Button onClick={close}>Leave it</Button><Button kind="primary" type="submit" disabled={busy || double || needs || input === undefined || Object.values(bad).some(Boolean)}>{saveLabel}</Button></div>
    </form>
  );
}
