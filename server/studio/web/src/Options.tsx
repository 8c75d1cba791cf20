// What a run, an assistant or a cron is told besides its input.
import { useId } from "react";
import { Form, JsonInput } from "./Form";
import { isObject, type Json, type JsonObject } from "./json";
import { fieldOf, type Schema } from "./schema";

export type Told = { config?: JsonObject; metadata?: JsonObject; before: string[]; after: string[] };
export const nothingTold: Told = { before: [], after: [] };

// countOf is how many things are told.
export function countOf(t: Told): number {
  return Object.keys(t.config ?? {}).length + (Object.keys(t.metadata ?? {}).length > 0 ? 1 : 0) + (t.before.length > 0 ? 1 : 0) + (t.after.length > 0 ? 1 : 0);
}

const named = (s: Schema, name: string): Schema | undefined => {
  const p = isObject(s.properties) ? s.properties[name] : undefined;
  return isObject(p) && fieldOf(p, s).kind === "object" ? p : undefined;
};

// ConfigFields enter a configuration: what nodes read from it, the most supersteps
// and tags.
export function ConfigFields({ value, onChange, schema, onError }: { value: JsonObject; onChange: (v: JsonObject) => void; schema: Schema; onError: (what: string, problem: boolean) => void }) {
  const id = useId();
  const set = (name: string, v: Json | undefined) => {
    const { [name]: _, ...rest } = value;
    onChange(v === undefined ? rest : { ...rest, [name]: v });
  };
  const configurable = named(schema, "configurable") ?? (fieldOf(schema, schema).properties?.length && !named(schema, "configurable") ? schema : undefined);
  return (
    <>
      {configurable
        ? <fieldset><legend>Configurable</legend><Form schema={configurable} root={schema} value={value.configurable} onChange={(v) => set("configurable", isObject(v) && Object.keys(v).length > 0 ? v : undefined)} onError={(p, m) => onError("configurable" + p, !!m)} /></fieldset>
        : <div className="field"><label htmlFor={id + "c"}>Configurable <span className="hint">JSON: values that nodes read</span></label><JsonInput id={id + "c"} rows={2} placeholder='{"tone": "dry"}' value={value.configurable} onChange={(v) => set("configurable", v)} onError={(m) => onError("configurable", !!m)} /></div>}
      <div className="field-row">
        <label className="field">Recursion limit<input type="number" min={1} step={1} placeholder="the graph's own" value={typeof value.recursion_limit === "number" ? value.recursion_limit : ""} onChange={(e) => set("recursion_limit", Number.isNaN(e.target.valueAsNumber) ? undefined : e.target.valueAsNumber)} /></label>
        <label className="field">Tags<input placeholder="draft, test" defaultValue={Array.isArray(value.tags) ? value.tags.join(", ") : ""} onChange={(e) => { const tags = e.target.value.split(",").map((t) => t.trim()).filter(Boolean); set("tags", tags.length > 0 ? tags : undefined); }} /></label>
      </div>
    </>
  );
}

// RunFields enter what one run is told.
export function RunFields({ told, tell, nodes, schema, onError }: { told: Told; tell: (t: Told) => void; nodes: string[]; schema: Schema; onError: (what: string, problem: boolean) => void }) {
  const id = useId();
  return (
    <div className="form">
      <ConfigFields schema={schema} value={told.config ?? {}} onError={onError} onChange={(c) => tell({ ...told, config: Object.keys(c).length > 0 ? c : undefined })} />
      <Stops label="Pause before" nodes={nodes} chosen={told.before} choose={(before) => tell({ ...told, before })} />
      <Stops label="Pause after" nodes={nodes} chosen={told.after} choose={(after) => tell({ ...told, after })} />
      <div className="field"><label htmlFor={id + "m"}>Metadata <span className="hint">JSON: for finding the run</span></label><JsonInput id={id + "m"} rows={2} placeholder='{"user": "kim"}' value={told.metadata} onChange={(v) => tell({ ...told, metadata: isObject(v) ? v : undefined })} onError={(m) => onError("metadata", !!m)} /></div>
    </div>
  );
}

function Stops({ label, nodes, chosen, choose }: { label: string; nodes: string[]; chosen: string[]; choose: (c: string[]) => void }) {
  return (
    <div className="field" role="group" aria-label={label}>
      <span>{label}</span>
      <div className="chips">
        {nodes.map((n) => <button type="button" className="chip" key={n} aria-pressed={chosen.includes(n)} onClick={() => choose(chosen.includes(n) ? chosen.filter((c) => c !== n) : [...chosen, n])}>{n}</button>)}
      </div>
    </div>
  );
}
