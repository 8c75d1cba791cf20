// Messages as they are streamed and shown.
import { isObject, preview, type Json, type JsonObject } from "./json";

export type ToolCall = { id?: string; name: string; args: Json };
export type Message = {
  id: string;
  type: "human" | "ai" | "tool" | "system";
  content: Json;
  name?: string;
  toolCalls: ToolCall[];
  toolCallId?: string;
  failed?: boolean;
  usage?: { input: number; output: number };
  reasoning?: string;
  node?: string; // that is saying it
  streaming?: boolean;
  partial?: Record<number, { id?: string; name: string; args: string }>; // calls whose arguments are still to come
};

function typeOf(t: Json | undefined): Message["type"] | undefined {
  switch (t) {
    case "human": case "user": return "human";
    case "ai": case "assistant": case "AIMessageChunk": return "ai";
    case "tool": case "ToolMessage": case "ToolMessageChunk": return "tool";
    case "system": case "developer": return "system";
    default: return undefined;
  }
}

// messageOf reads a message; undefined if it is none.
export function messageOf(v: Json | undefined, place = 0): Message | undefined {
  if (!isObject(v)) return undefined;
  const type = typeOf(v.type ?? v.role);
  if (!type || v.content === undefined) return undefined;
  const calls = Array.isArray(v.tool_calls) ? v.tool_calls : [];
  const usage = isObject(v.usage_metadata) ? v.usage_metadata : undefined;
  return {
    id: typeof v.id === "string" ? v.id : `#${place}`,
    type, content: v.content,
    name: typeof v.name === "string" ? v.name : undefined,
    toolCalls: calls.filter(isObject).map((c) => ({ id: typeof c.id === "string" ? c.id : undefined, name: String(c.name ?? ""), args: c.args ?? {} })),
    toolCallId: typeof v.tool_call_id === "string" ? v.tool_call_id : undefined,
    failed: v.status === "error",
    usage: usage && { input: Number(usage.input_tokens ?? 0), output: Number(usage.output_tokens ?? 0) },
  };
}

// conversation reads the messages of a state.
export function conversation(values: JsonObject | null | undefined, key = "messages"): Message[] {
  const list = values?.[key];
  return Array.isArray(list) ? list.flatMap((m, i) => messageOf(m, i) ?? []) : [];
}

// append adds a chunk to what has been said of a message.
export function append(sum: Message | undefined, chunk: JsonObject, node?: string): Message | undefined {
  const next = messageOf(chunk);
  if (!next || typeof chunk.id !== "string") return sum;
  const partial = { ...sum?.partial };
  for (const c of Array.isArray(chunk.tool_call_chunks) ? chunk.tool_call_chunks.filter(isObject) : []) {
    const at = Number(c.index ?? 0);
    const old = partial[at];
    partial[at] = { id: typeof c.id === "string" ? c.id : old?.id, name: (old?.name ?? "") + String(c.name ?? ""), args: (old?.args ?? "") + String(c.args ?? "") };
  }
  const streaming = String(chunk.type).endsWith("Chunk");
  const content = sum && streaming ? joined(sum.content, next.content) : next.content;
  const toolCalls = next.toolCalls.length > 0 ? next.toolCalls : Object.values(partial).map((c) => ({ id: c.id, name: c.name, args: parsed(c.args) }));
  return { ...next, content, toolCalls, partial, node: node ?? sum?.node, streaming, usage: next.usage ?? sum?.usage };
}

function parsed(text: string): Json {
  try {
    return JSON.parse(text || "{}") as Json;
  } catch {
    return text;
  }
}

function joined(a: Json, b: Json): Json {
  if (typeof a === "string" && typeof b === "string") return a + b;
  const list = [...blocks(a), ...blocks(b)];
  const out: JsonObject[] = [];
  for (const block of list) {
    const last = out.at(-1);
    const key = block.type === "text" ? "text" : block.type === "reasoning" ? "reasoning" : block.type === "thinking" ? "thinking" : "";
    if (last && key && last.type === block.type) last[key] = String(last[key] ?? "") + String(block[key] ?? "");
    else out.push({ ...block });
  }
  return out;
}

// blocks returns the content of a message as blocks.
export function blocks(content: Json): JsonObject[] {
  if (typeof content === "string") return content ? [{ type: "text", text: content }] : [];
  if (Array.isArray(content)) return content.flatMap((b) => (typeof b === "string" ? [{ type: "text", text: b }] : isObject(b) ? [b] : []));
  return content === null ? [] : [{ type: "text", text: JSON.stringify(content) }];
}

// textOf is what a message says, without pictures and the like.
export function textOf(content: Json): string {
  return blocks(content).flatMap((b) => (typeof b.text === "string" ? [b.text] : [])).join("");
}

// glimpse is a value in one line: of a message, who says what.
export function glimpse(v: Json | undefined, most = 80): string {
  const m = isObject(v) && typeof v.id === "string" ? messageOf(v) : undefined;
  if (!m) return preview(v, most);
  const calls = m.toolCalls.map((c) => `${c.name}(${preview(c.args, 40)})`).join(", ");
  return preview(`${m.type === "tool" && m.name ? m.name : m.type}: ${[textOf(m.content), calls].filter(Boolean).join(" ")}`, most);
}
