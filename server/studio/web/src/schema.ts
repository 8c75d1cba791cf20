// What a form needs to know of a JSON Schema.
import { equal, isObject, type Json, type JsonObject } from "./json";

export type Schema = JsonObject;

// A Field says how a value is entered.
export type Field = {
  kind: "text" | "number" | "boolean" | "choice" | "list" | "object" | "json";
  title?: string;
  description?: string;
  nullable: boolean;
  integer?: boolean; // of a number
  minimum?: number;
  maximum?: number;
  format?: string; // of a text
  long?: boolean;
  options?: Json[]; // of a choice
  items?: Schema; // of a list
  properties?: [name: string, schema: Schema, required: boolean][]; // of an object
  fallback?: Json; // the default that the schema gives
};

function resolve(s: Json | undefined, root: Schema, depth = 0): Schema {
  if (!isObject(s)) return {};
  if (typeof s.$ref === "string" && s.$ref.startsWith("#/") && depth < 20) {
    let at: Json | undefined = root;
    for (const part of s.$ref.slice(2).split("/")) at = isObject(at) ? at[part.replaceAll("~1", "/").replaceAll("~0", "~")] : undefined;
    const { $ref: _, ...rest } = s;
    return { ...resolve(at, root, depth + 1), ...rest };
  }
  return s;
}

// overwritable reports whether a value of an update replaces a merging field when
// it is given as {"$overwrite": value}.
export function overwritable(s: Json | undefined): boolean {
  return isObject(s) && Array.isArray(s.anyOf) && s.anyOf.some(overwrites);
}

function overwrites(s: Json): boolean {
  return isObject(s) && isObject(s.properties) && "$overwrite" in s.properties;
}

// fieldOf reads a schema. What no control of its own fits is entered as JSON.
export function fieldOf(schema: Json | undefined, root: Schema): Field {
  let s = resolve(schema, root);
  let nullable = false;
  const choices = [s.anyOf, s.oneOf].find(Array.isArray) as Json[] | undefined;
  if (choices) {
    const real = choices.filter((c) => !overwrites(c) && !(isObject(c) && c.type === "null"));
    nullable = choices.some((c) => isObject(c) && c.type === "null");
    const { anyOf: _a, oneOf: _o, ...rest } = s;
    if (real.length === 1) s = { ...resolve(real[0], root), ...rest };
    else return { kind: "json", nullable, ...words(s) };
  }
  if (Array.isArray(s.allOf) && s.allOf.length === 1) s = { ...resolve(s.allOf[0], root), ...s };
  let type = s.type;
  if (Array.isArray(type)) {
    nullable ||= type.includes("null");
    const real = type.filter((t) => t !== "null");
    type = real.length === 1 ? real[0]! : undefined as never;
  }
  const base = { nullable, ...words(s) };
  if (Array.isArray(s.enum)) return { kind: "choice", options: s.enum, ...base };
  if ("const" in s) return { kind: "choice", options: [s.const!], ...base };
  const num = (v: Json | undefined) => (typeof v === "number" ? v : undefined);
  switch (type) {
    case "string":
      return { kind: "text", format: typeof s.format === "string" ? s.format : undefined, long: (num(s.maxLength) ?? 0) > 200, ...base };
    case "integer":
    case "number":
      return { kind: "number", integer: type === "integer", minimum: num(s.minimum), maximum: num(s.maximum), ...base };
    case "boolean":
      return { kind: "boolean", ...base };
    case "array":
      if (isObject(s.items)) return { kind: "list", items: s.items, ...base };
      return { kind: "json", ...base };
    case "object": {
      if (!isObject(s.properties) || Object.keys(s.properties).length === 0) return { kind: "json", ...base };
      const required = Array.isArray(s.required) ? s.required : [];
      return { kind: "object", properties: Object.entries(s.properties).map(([n, p]) => [n, isObject(p) ? p : {}, required.includes(n)]), ...base };
    }
    default:
      return { kind: "json", ...base };
  }
}

function words(s: Schema): Pick<Field, "title" | "description" | "fallback"> {
  return {
    title: typeof s.title === "string" ? s.title : undefined,
    description: typeof s.description === "string" ? s.description : undefined,
    fallback: s.default,
  };
}

// blank is the value with which a new element of a list begins.
export function blank(schema: Schema, root: Schema): Json {
  const f = fieldOf(schema, root);
  if (f.fallback !== undefined) return f.fallback;
  switch (f.kind) {
    case "text": return "";
    case "number": return 0;
    case "boolean": return false;
    case "choice": return f.options?.[0] ?? null;
    case "list": return [];
    case "object": return Object.fromEntries((f.properties ?? []).filter(([, , required]) => required).map(([n, s]) => [n, blank(s, root)]));
    case "json": return null;
  }
}

// update is what turns one state into another: the members that differ. Those
// that merge are replaced.
export function update(before: JsonObject, after: JsonObject, input: Schema): JsonObject {
  const properties = isObject(input.properties) ? input.properties : {};
  return Object.fromEntries(Object.entries(after).filter(([k, v]) => !equal(before[k], v)).map(([k, v]) => [k, overwritable(properties[k]) ? { $overwrite: v } : v]));
}
