// The language of the search for threads.
import type { Json, JsonObject } from "./json";

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
// wanted is what the words of a search ask the server for: name=value asks for
// values of the state, meta.name=value for metadata, an ID for a thread. All else
// is looked for in what is listed.
export function wanted(text: string): { ids?: string[]; values?: JsonObject; metadata?: JsonObject; rest: string } {
  const out: ReturnType<typeof wanted> = { rest: "" };
  const rest: string[] = [];
  for (const word of text.trim().split(/\s+/).filter(Boolean)) {
    const at = word.indexOf("=");
    if (uuid.test(word)) out.ids = [...(out.ids ?? []), word.toLowerCase()];
    else if (at > 0) {
      const name = word.slice(0, at);
      let value: Json = word.slice(at + 1);
      if (/^(true|false|null|-?\d+(\.\d+)?)$/.test(value)) value = JSON.parse(value) as Json;
      if (name.startsWith("meta.")) out.metadata = { ...out.metadata, [name.slice(5)]: value };
      else out.values = { ...out.values, [name]: value };
    } else rest.push(word.toLowerCase());
  }
  out.rest = rest.join(" ");
  return out;
}
