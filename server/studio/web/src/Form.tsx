// Forms that follow from JSON Schemas.
import { useEffect, useId, useRef, useState } from "react";
import type { Json, JsonObject } from "./json";
import { blank, fieldOf, type Schema } from "./schema";
import { Button, IconButton } from "./ui";

type Props = { schema: Schema; root?: Schema; value: Json | undefined; onChange: (v: Json | undefined) => void; onError?: (path: string, message: string | undefined) => void; path?: string };

const mostElements = 100; // of a list; more would make a form slow

// A Form enters an object. Members that are not entered are left out.
export function Form({ schema, root = schema, value, onChange, onError, path = "", hide = [] }: Props & { hide?: string[] }) {
  const field = fieldOf(schema, root);
  const object = (typeof value === "object" && value !== null && !Array.isArray(value) ? value : {}) as JsonObject;
  const latest = useRef(object);
  latest.current = object;
  const properties = (field.properties ?? []).filter(([name]) => !hide.includes(name));
  return (
    <div className="form">
      {properties.map(([name, s, required]) => (
        <Control key={name} name={name} required={required} schema={s} root={root} path={`${path}/${name}`} value={object[name]} onError={onError}
          onChange={(v) => {
            const { [name]: _, ...rest } = latest.current;
            onChange(v === undefined ? rest : { ...latest.current, [name]: v });
          }} />
      ))}
    </div>
  );
}

export function Control({ name, required, schema, root = schema, value, onChange, onError, path = "" }: Props & { name: string; required?: boolean }) {
  const id = useId();
  const f = fieldOf(schema, root);
  const label = f.title ?? name;
  const about = f.description ? <p className="hint" id={id + "d"}>{f.description}</p> : null;
  const described = f.description ? id + "d" : undefined;
  const mark = required ? <span className="required" title="required"> *</span> : null;
  const common = { id, "aria-describedby": described, "aria-required": required || undefined };
  switch (f.kind) {
    case "object":
      return <fieldset><legend>{label}{mark}</legend>{about}<Form schema={schema} root={root} value={value} onChange={onChange} onError={onError} path={path} /></fieldset>;
    case "list": {
      const list = Array.isArray(value) ? value : [];
      return (
        <fieldset>
          <legend>{label}{mark}</legend>{about}
          {list.slice(0, mostElements).map((v, i) => (
            <div className="list-item" key={i}>
              <Control name={`${label} ${i + 1}`} schema={f.items!} root={root} path={`${path}/${i}`} value={v} onError={onError} onChange={(n) => onChange(list.map((o, j) => (j === i ? (n ?? null) : o)))} />
              <IconButton icon="x" label={`Remove ${label} ${i + 1}`} onClick={() => onChange(list.filter((_, j) => j !== i))} />
            </div>
          ))}
          {list.length > mostElements
            ? <p className="hint">and {list.length - mostElements} more, which are there as JSON.</p>
            : <Button icon="plus" kind="quiet" onClick={() => onChange([...list, blank(f.items!, root)])}>Add to {label}</Button>}
        </fieldset>
      );
    }
    case "boolean":
      return (
        <div className="field"><label htmlFor={id}>{label}{mark}</label>{about}
          <select {...common} value={value === undefined || value === null ? "" : String(value)} onChange={(e) => onChange(e.target.value === "" ? undefined : e.target.value === "true")}>
            <option value="">not set</option><option value="true">yes</option><option value="false">no</option>
          </select>
        </div>
      );
    case "choice":
      return (
        <div className="field"><label htmlFor={id}>{label}{mark}</label>{about}
          <select {...common} value={value === undefined ? "" : JSON.stringify(value)} onChange={(e) => onChange(e.target.value === "" ? undefined : JSON.parse(e.target.value) as Json)}>
            <option value="">not set</option>
            {f.options!.map((o) => <option key={JSON.stringify(o)} value={JSON.stringify(o)}>{String(o)}</option>)}
          </select>
        </div>
      );
    case "number":
      return <div className="field"><label htmlFor={id}>{label}{mark}</label>{about}<NumberInput {...common} value={typeof value === "number" ? value : undefined} integer={f.integer} min={f.minimum} max={f.maximum} onChange={onChange} /></div>;
    case "text": {
      const text = typeof value === "string" ? value : "";
      const type = ({ date: "date", "date-time": "text", email: "email", uri: "url", time: "time" } as Record<string, string>)[f.format ?? ""] ?? "text";
      return (
        <div className="field"><label htmlFor={id}>{label}{mark}</label>{about}
          {f.long || text.length > 60 || text.includes("\n")
            ? <textarea {...common} rows={3} value={text} onChange={(e) => onChange(e.target.value)} />
            : <input {...common} type={type} value={text} placeholder={f.fallback === undefined ? undefined : String(f.fallback)} onChange={(e) => onChange(e.target.value === "" && value === undefined ? undefined : e.target.value)} />}
        </div>
      );
    }
    case "json":
      return <div className="field"><label htmlFor={id}>{label}{mark} <span className="hint">JSON</span></label>{about}<JsonInput {...common} value={value} onChange={onChange} onError={(m) => onError?.(path, m)} /></div>;
  }
}

function NumberInput({ value, onChange, integer, ...rest }: { value: number | undefined; integer?: boolean; min?: number; max?: number; id: string; onChange: (v: number | undefined) => void }) {
  return <input {...rest} type="number" step={integer ? 1 : "any"} value={value ?? ""} onChange={(e) => onChange(e.target.value === "" || Number.isNaN(e.target.valueAsNumber) ? undefined : e.target.valueAsNumber)} />;
}

// A JsonInput enters any value. What cannot be read is told, and not passed on.
export function JsonInput({ value, onChange, onError, rows = 3, ...rest }: { value: Json | undefined; onChange: (v: Json | undefined) => void; onError?: (message: string | undefined) => void; rows?: number } & Omit<React.TextareaHTMLAttributes<HTMLTextAreaElement>, "value" | "onChange" | "onError">) {
  const [text, setText] = useState(() => (value === undefined ? "" : JSON.stringify(value, null, 2)));
  const [problem, setProblem] = useState<string>();
  const own = useRef(value);
  useEffect(() => { // set from outside
    if (own.current === value) return;
    own.current = value;
    setText(value === undefined ? "" : JSON.stringify(value, null, 2));
    setProblem(undefined);
  }, [value]);
  const tell = (m: string | undefined) => { setProblem(m); onError?.(m); };
  const id = useId();
  return (
    <>
      <textarea className="code" spellCheck={false} rows={Math.max(rows, Math.min(24, text.split("\n").length))} value={text} aria-invalid={!!problem} {...rest} aria-errormessage={problem ? id : undefined}
        onChange={(e) => {
          setText(e.target.value);
          if (e.target.value.trim() === "") { own.current = undefined; onChange(undefined); return tell(undefined); }
          try {
            const v = JSON.parse(e.target.value) as Json;
            own.current = v;
            onChange(v);
            tell(undefined);
          } catch (err) {
            tell(err instanceof Error ? err.message : "not JSON");
          }
        }} />
      {problem && <p className="field-problem" id={id} role="alert">{problem}</p>}
    </>
  );
}
