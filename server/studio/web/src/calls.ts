// Calls of models, as the server has recorded them.
import { diff, isObject, type Change, type Json, type JsonObject } from "./json";
import { messageOf, type Message } from "./messages";

// What was called, where and when; took is in seconds.
type Made = {
  call_id: string; node: string; checkpoint_ns: string; checkpoint_id: string | null; run_id: string | null; step: number; task: number; attempt: number;
  began_at: string; took: number;
};

export type Call = Made & {
  provider: string; model: string; first_token: number | null; finish: string;
  usage: { input_tokens: number; output_tokens: number; cache_read_tokens: number; cache_write_tokens: number; reasoning_tokens: number } | null;
  cost: number | null; cached: boolean; error: string | null; error_kind: string;
  request?: JsonObject; answer?: JsonObject;
};

// A ToolCall is when a tool ran that a model had called.
export type ToolCall = Made & { tool: string; tool_call_id: string; failed: boolean };

// labelOf says what was called.
export const labelOf = (c: Call | ToolCall) => ("tool" in c ? c.tool : c.model || "model");

// pathOf names the node of a call, with those around it.
export const pathOf = (c: Made): string[] => [...c.checkpoint_ns.split("|").filter((s) => s !== "").map((s) => decodeURIComponent(s.split(/[#:]/)[0]!)), c.node];

// sent is what a call has sent: the messages, and the rest.
export function sent(c: Call): { messages: Message[]; tools: JsonObject[]; settings: JsonObject } {
  const { messages, tools, config, ...rest } = c.request ?? {};
  const list = (v: Json | undefined) => (Array.isArray(v) ? v.filter(isObject) : []);
  return { messages: list(messages).flatMap((m, i) => messageOf(m, i) ?? []), tools: list(tools), settings: { ...(isObject(config) ? config : {}), ...rest } };
}

// differences are those of what was sent, and of the answers.
export function differences(a: Call, b: Call): Change[] {
  const of = (c: Call): JsonObject => {
    const { messages, ...rest } = c.request ?? {};
    return { ...rest, messages: (Array.isArray(messages) ? messages : []).map(plain), answer: c.answer ? plain(c.answer) : null, error: c.error };
  };
  return diff(of(a), of(b));
}

// plain is a message without what differs each time.
function plain(m: Json): Json {
  if (!isObject(m)) return m;
  const { id: _, usage: __, usage_metadata: ___, ...rest } = m;
  return rest;
}

// beginOf is when a call began, in milliseconds with their parts.
export const beginOf = (c: Made) => Date.parse(c.began_at) + Number(/\.\d{3}(\d{3})/.exec(c.began_at)?.[1] ?? 0) / 1000;

// spent is what calls have used together; the cost is undefined if one's isn't known.
export function spent(calls: Call[]): { input: number; output: number; cost: number | undefined } {
  const used = calls.filter((c) => c.usage);
  return {
    input: used.reduce((n, c) => n + c.usage!.input_tokens, 0), output: used.reduce((n, c) => n + c.usage!.output_tokens, 0),
    cost: used.length > 0 && used.every((c) => c.cost !== null) ? used.reduce((n, c) => n + c.cost!, 0) : undefined,
  };
}

export const dollars = (n: number) => (n === 0 ? "$0" : `$${n.toPrecision(n < 0.01 ? 1 : 3)}`);
