// JSON values, and how two of them differ.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export function isObject(v: unknown): v is JsonObject {
  return typeof v === "object" && v !== null && !Array.isArray(v);
}

export function equal(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((v, i) => equal(v, b[i]));
  if (isObject(a) && isObject(b)) {
    const keys = Object.keys(a);
    return keys.length === Object.keys(b).length && keys.every((k) => k in b && equal(a[k], b[k]));
  }
  return false;
}

// A Change is one difference: a value that was added, removed or replaced. The
// path has the names of members and the positions of elements.
export type Change = { path: string[]; kind: "added" | "removed" | "changed"; before?: Json; after?: Json };

function idOf(v: Json): string | undefined {
  return isObject(v) && typeof v.id === "string" ? v.id : undefined;
}

// diff returns the differences from one value to another, in the order of the
// newer one. Elements of lists that have an id are compared with the element of
// that id, others with the one in their place.
export function diff(before: Json | undefined, after: Json | undefined): Change[] {
  const out: Change[] = [];
  walk(before, after, [], out);
  return out;
}

function walk(a: Json | undefined, b: Json | undefined, path: string[], out: Change[]): void {
  if (a === undefined && b === undefined) return;
  if (a === undefined) return void out.push({ path, kind: "added", after: b });
  if (b === undefined) return void out.push({ path, kind: "removed", before: a });
  if (isObject(a) && isObject(b)) {
    for (const k of Object.keys(b)) walk(a[k], b[k], [...path, k], out);
    for (const k of Object.keys(a)) if (!(k in b)) walk(a[k], undefined, [...path, k], out);
    return;
  }
  if (Array.isArray(a) && Array.isArray(b)) return lists(a, b, path, out);
  if (!equal(a, b)) out.push({ path, kind: "changed", before: a, after: b });
}

function lists(a: Json[], b: Json[], path: string[], out: Change[]): void {
  const ids = new Map(a.flatMap((v, i) => { const id = idOf(v); return id === undefined ? [] : [[id, i] as const]; }));
  if (ids.size === a.length && a.length > 0 && b.every((v) => idOf(v) !== undefined)) {
    const left = new Set(ids.values());
    b.forEach((v, i) => {
      const at = ids.get(idOf(v)!);
      if (at !== undefined) left.delete(at);
      walk(at === undefined ? undefined : a[at], v, [...path, String(i)], out);
    });
    for (const i of left) walk(a[i], undefined, [...path, String(i)], out);
    return;
  }
  for (let i = 0; i < Math.max(a.length, b.length); i++) walk(a[i], b[i], [...path, String(i)], out);
}

// preview is a value in one line of at most some characters. It reads no more of
// the value than it shows.
export function preview(v: unknown, most = 80): string {
  const text = (typeof v === "string" ? v.slice(0, most * 4) : brief(v, most + 1)).replace(/\s+/g, " ");
  return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

function brief(v: unknown, most: number): string {
  if (typeof v === "string") return JSON.stringify(v.length > most ? v.slice(0, most) : v);
  if (v === undefined) return "";
  if (typeof v !== "object" || v === null) return JSON.stringify(v) ?? "";
  let out = Array.isArray(v) ? "[" : "{";
  let first = true;
  for (const k in v) {
    if (out.length > most) return out;
    out += (first ? "" : ",") + (Array.isArray(v) ? "" : JSON.stringify(k) + ":") + brief((v as Record<string, unknown>)[k], most - out.length + 1);
    first = false;
  }
  return out + (Array.isArray(v) ? "]" : "}");
}

// weigh is about how many characters a value has as JSON; beyond enough it counts
// no further.
export function weigh(v: unknown, enough = Infinity): number {
  if (typeof v === "string") return v.length + 2;
  if (typeof v !== "object" || v === null) return 5;
  let sum = 2;
  for (const k in v) {
    sum += k.length + 4 + weigh((v as Record<string, unknown>)[k], enough - sum);
    if (sum > enough) break;
  }
  return sum;
}
